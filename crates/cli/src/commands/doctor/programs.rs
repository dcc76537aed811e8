//! Programs: this one, and those that some engines and functions need.

use super::ask::{Answer, ask, first};
use super::{Finding, State};
use crate::output;

/// This executable.
pub(super) fn this() -> Finding {
    const NAME: &str = "qjam";
    let built = [("mpi", cfg!(feature = "mpi")), ("clouds", cfg!(feature = "cloud"))];
    let with: Vec<&str> = built.iter().filter(|(_, is_in)| *is_in).map(|(name, _)| *name).collect();
    let with = if with.is_empty() { String::new() } else { format!(", with {}", with.join(" and ")) };
    let version = env!("CARGO_PKG_VERSION");
    match qjam::hosts::executable() {
        Ok(sent) => {
            let kind =
                if sent.is_dynamic { "needs the host's C library" } else { "runs on any Linux of its kind" };
            let found =
                format!("{version}{with}; {} for {}, which {kind}", output::bytes(sent.bytes), sent.machine);
            let finding = Finding::works(NAME, found)
                .fact("version", version)
                .fact("path", sent.path.display().to_string())
                .fact("is_dynamic", sent.is_dynamic)
                .fact("mpi", cfg!(feature = "mpi"))
                .fact("clouds", cfg!(feature = "cloud"));
            match sent.warnings.is_empty() {
                true => finding,
                false => finding.but(sent.warnings.join("; ")),
            }
        }
        Err(e) => {
            Finding::new(NAME, State::Warning, format!("{version}{with}; it cannot be sent to hosts: {e}"))
                .remedy("QJAM_WORKER names another executable to send")
        }
    }
}

/// The ssh command, which hosts are reached by.
pub(super) fn ssh() -> Finding {
    const NAME: &str = "ssh";
    let remedy = "workers on other machines need OpenSSH's client 6.8 or later: apt-get install openssh-client, dnf install \
                  openssh-clients; QJAM_SSH or `qjam config set ssh` name another";
    if let Ok(config) = qjam_config::Config::load()
        && let Some(ssh) = config.get("ssh")
    {
        qjam::hosts::use_ssh(&ssh.value);
    }
    let command = qjam::hosts::ssh_command();
    let mut words: Vec<&str> = command.split_whitespace().collect();
    words.push("-V");
    match ask(words[0], &words[1..]) {
        Answer::Said(said) => Finding::works(NAME, first(&said)).fact("command", command.clone()),
        Answer::NotThere => Finding::missing(NAME, format!("`{command}` is not there"), remedy),
        Answer::Fails(why) => Finding::missing(NAME, format!("`{command}` does not work: {why}"), remedy),
    }
}

/// The interpreter that a terminal finds.
pub(super) fn python() -> Finding {
    const NAME: &str = "python";
    let remedy = "learners and functions in Rust do without; functions in Python need 3.9 or later: apt-get install python3, dnf \
                  install python3";
    let python = interpreter();
    match ask_python(&python, "print('%d.%d.%d' % sys.version_info[:3], sys.executable)") {
        Answer::Said(said) => {
            let said = first(&said);
            let (version, path) = said.split_once(' ').unwrap_or((&said, ""));
            let finding = Finding::works(NAME, format!("{version}, {path}"));
            let finding = finding.fact("version", version).fact("path", path);
            let mut numbers = version.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
            match (numbers.next(), numbers.next()) {
                (Some(3), Some(minor)) if minor >= 9 => finding,
                _ => finding.but("functions in Python need 3.9 or later"),
            }
        }
        Answer::NotThere => Finding::missing(NAME, format!("`{python}` is not there"), remedy),
        Answer::Fails(why) => Finding::missing(NAME, format!("`{python}` does not work: {why}"), remedy),
    }
}

/// NumPy and the package qjam, in that interpreter.
pub(super) fn numpy() -> Finding {
    const NAME: &str = "numpy";
    const QUESTION: &str =
        "import importlib.util as u, numpy; print(numpy.__version__, u.find_spec('qjam') is not None)";
    let python = interpreter();
    let remedy = format!("functions in Python need it: {python} -m pip install numpy");
    match ask_python(&python, QUESTION) {
        Answer::Said(said) => {
            let said = first(&said);
            let (version, has_qjam) = said.split_once(' ').unwrap_or((&said, ""));
            let has_qjam = has_qjam == "True";
            let package = if has_qjam { "with" } else { "without" };
            Finding::works(NAME, format!("{version}, {package} the package qjam beside it"))
                .fact("version", version)
                .fact("qjam", has_qjam)
        }
        Answer::NotThere => Finding::missing(NAME, "no Python to look in", remedy),
        Answer::Fails(why) => Finding::missing(NAME, format!("`import numpy` does not work: {why}"), remedy),
    }
}

/// Asks an interpreter. With `-c`, Python looks for modules in the working folder first, where a checkout of somebody else may have a
/// `numpy.py`: that folder is taken out before anything is imported.
fn ask_python(python: &str, question: &str) -> Answer {
    ask(python, &["-c", &format!("import sys; sys.path[:] = [p for p in sys.path if p]; {question}")])
}

fn interpreter() -> String {
    let named = std::env::var("QJAM_PYTHON").ok().filter(|named| !named.trim().is_empty());
    named.unwrap_or_else(|| "python3".into())
}

/// MPI: the launcher, and whether this program knows the library.
pub(super) fn mpi() -> Finding {
    const NAME: &str = "mpi";
    let install = "apt-get install openmpi-bin libopenmpi-dev libclang-dev";
    let build = "cargo build --release --features mpi";
    match (ask("mpirun", &["--version"]), cfg!(feature = "mpi")) {
        (Answer::Said(said), true) => Finding::works(NAME, first(&said)),
        (Answer::Said(said), false) => Finding::missing(
            NAME,
            format!("{}, but this program was built without it", first(&said)),
            format!("workers `mpi` need another build: {build}"),
        ),
        (Answer::NotThere, true) => Finding::missing(
            NAME,
            "`mpirun` is not there",
            format!("workers `mpi` are started by it: {install}"),
        ),
        (Answer::NotThere, false) => Finding::missing(
            NAME,
            "`mpirun` is not there, and this program was built without MPI",
            format!("only workers `mpi` need them: {install}; {build}"),
        ),
        (Answer::Fails(why), _) => Finding::missing(NAME, format!("`mpirun` does not work: {why}"), install),
    }
}

/// Java, for Spark.
pub(super) fn java() -> Finding {
    const NAME: &str = "java";
    let remedy = "only Spark needs it: apt-get install default-jre-headless";
    match ask("java", &["-version"]) {
        Answer::Said(said) => Finding::works(NAME, first(&said)),
        Answer::NotThere => Finding::missing(NAME, "`java` is not there", remedy),
        Answer::Fails(why) => Finding::missing(NAME, format!("`java` does not work: {why}"), remedy),
    }
}

/// Spark: in `SPARK_HOME`, on the path, or as a package of Python.
pub(super) fn spark() -> Finding {
    const NAME: &str = "spark";
    if let Some(home) = std::env::var_os("SPARK_HOME").map(std::path::PathBuf::from) {
        return match home.join("bin/spark-submit").exists() {
            true => Finding::works(NAME, format!("in SPARK_HOME, {}", home.display())),
            false => Finding::missing(
                NAME,
                format!("SPARK_HOME is {}, where there is no bin/spark-submit", home.display()),
                "set it to the folder of a Spark, or unset it",
            ),
        };
    }
    let question = "import importlib.metadata as m; print('pyspark', m.version('pyspark'))";
    match ask_python(&interpreter(), question) {
        Answer::Said(said) => Finding::works(NAME, first(&said)),
        _ => Finding::missing(
            NAME,
            "neither SPARK_HOME is set nor pyspark installed",
            "only `Master(spark=…)` in Python needs it: python3 -m pip install pyspark",
        ),
    }
}

/// Accelerators. Nothing of qjam needs one.
pub(super) fn gpu() -> Finding {
    const NAME: &str = "gpu";
    let has_driver = std::path::Path::new("/proc/driver/nvidia").exists();
    match ask("nvidia-smi", &["--query-gpu=name,memory.total", "--format=csv,noheader"]) {
        Answer::Said(said) => {
            Finding::works(NAME, format!("{}; learners compute on the processor", first(&said)))
        }
        Answer::Fails(why) => Finding::missing(
            NAME,
            format!("`nvidia-smi` does not work: {why}"),
            "learners compute on the processor, and need none",
        ),
        Answer::NotThere if has_driver => Finding::missing(
            NAME,
            "there is a driver, but no `nvidia-smi`",
            "learners compute on the processor, and need none",
        ),
        Answer::NotThere => {
            Finding::missing(NAME, "none was found", "learners compute on the processor, and need none")
        }
    }
}
