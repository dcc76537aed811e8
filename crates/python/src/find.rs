//! Finding the interpreter that runs Python functions on a machine.
//!
//! On the master's machine that is the master's own, which the welcome names. On a host nobody knows, and an ssh
//! connection gives a short PATH. So the likely places are looked through, each interpreter found is asked what it is,
//! and the first of the master's version that has NumPy is taken; of those without NumPy, the first, so that a user is
//! told what is missing from the one that would be used. If the user names one, no other is tried.

use super::numerics;
use super::runtime::InterpreterFacts;
use super::welcomed;
use qjam_system::data_limit::with_room;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Names an interpreter on the machine where it is set.
const HERE: &str = "QJAM_PYTHON";
/// The same for all hosts, where the master is.
pub(super) const THERE: &str = "QJAM_REMOTE_PYTHON";
/// Folders besides PATH, which is short where nobody logs in. A name that begins with `~` is below the home.
const FOLDERS: [&str; 7] = [
    "~/.local/bin",
    "/usr/local/bin",
    "/usr/bin",
    "/opt/conda/bin",
    "~/miniconda3/bin",
    "~/miniforge3/bin",
    "~/.pyenv/shims",
];
/// An interpreter that takes longer to say what it is, is none.
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);
/// More is no answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// So many are asked.
const CANDIDATES_MAX: usize = 10;

/// Has an interpreter say what it is, and end if whoever asked ends. Lines that do not begin with the mark are somebody else's.
const QUESTION: &str = r#"
import sys
try:
    import ctypes
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
except Exception:
    pass
sys.path[:] = [p for p in sys.path if p]
def kernels():
    # Only OpenBLAS tells which kernels it has chosen.
    try:
        with open("/proc/self/maps") as maps:
            paths = sorted({line.split(None, 5)[5].strip() for line in maps if "openblas" in line})
        for library in map(ctypes.CDLL, paths):
            for form in ("scipy_%s64_", "scipy_%s", "%s64_", "%s"):
                function = getattr(library, form % "openblas_get_corename", None)
                if function is not None:
                    function.restype = ctypes.c_char_p
                    return " with kernels for " + function().decode()
    except Exception:
        pass
    return ""
say = sys.stdout.write
say("\n@qjam version %d.%d.%d\n" % tuple(sys.version_info[:3]))
say("@qjam executable %s\n" % sys.executable)
try:
    import numpy
    say("@qjam numpy %s\n" % numpy.__version__)
    try:
        blas = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]
        say("@qjam blas %s %s%s\n" % (blas["name"], blas["version"], kernels()))
    except Exception:
        pass
    try:
        try:
            from numpy._core._multiarray_umath import __cpu_features__ as features
        except ImportError:
            from numpy.core._multiarray_umath import __cpu_features__ as features
        say("@qjam cpu %s\n" % " ".join(sorted(name for name, has in features.items() if has)))
    except Exception:
        pass
except BaseException as e:
    say("@qjam no-numpy %s: %s\n" % (type(e).__name__, (str(e).strip().splitlines() or [""])[0]))
import pkgutil
names = set(sys.builtin_module_names) | set(getattr(sys, "stdlib_module_names", ()))
names.update(m[1] for m in pkgutil.iter_modules())
say("@qjam modules %s\n@qjam end\n" % " ".join(sorted(n for n in names if n.isidentifier())))
"#;

/// An interpreter to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interpreter {
    /// Its path.
    pub(crate) executable: PathBuf,
    /// Where it should look for modules, besides its own places.
    pub(crate) path: Vec<String>,
}

/// What was asked for.
type InterpreterRequest = ((u8, u8), Option<String>);
/// What came of it, of the latest searches.
static KNOWN: Mutex<Vec<(InterpreterRequest, Result<InterpreterFacts, String>)>> = Mutex::new(Vec::new());

/// The interpreter for code of this version, where `wanted` is what the user wants on other hosts. The first call may
/// take a second.
pub(crate) fn interpreter(version: (u8, u8), wanted: Option<&str>) -> Result<Interpreter, String> {
    if let Some(here) = welcomed::welcomed()
        && let Some(interpreter) = &here.interpreter
    {
        return Ok(Interpreter { executable: interpreter.into(), path: here.path.clone() });
    }
    // Whoever comes second waits here for the first, and has its answer.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (version, wanted.map(str::to_owned));
    let facts = match known.iter().find(|(k, found)| *k == key && found.is_ok()) {
        Some((_, found)) => found.clone(),
        None => {
            let found = search(version, wanted);
            known.retain(|(k, _)| *k != key);
            known.push((key, found.clone()));
            found
        }
    };
    Ok(Interpreter { executable: facts?.interpreter.into(), path: Vec::new() })
}

/// What the interpreter is like that this process would use by its welcome; looked for anew.
pub fn facts() -> Result<InterpreterFacts, String> {
    let welcomed = welcomed::welcomed().ok_or("the master has no Python functions")?;
    let wanted = welcomed.remote_python.as_deref();
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = search(welcomed.version, wanted);
    let key = (welcomed.version, wanted.map(str::to_owned));
    known.retain(|(k, _)| *k != key);
    known.push((key, found.clone()));
    found
}

/// What an interpreter at this path is like.
pub fn facts_of(interpreter: &Path) -> Result<InterpreterFacts, String> {
    ask(interpreter)
}

/// Looks for it.
fn search(version: (u8, u8), wanted: Option<&str>) -> Result<InterpreterFacts, String> {
    let here = std::env::var(HERE).ok().filter(|name| !name.is_empty());
    let asked_for = match (&here, wanted.filter(|name| !name.is_empty())) {
        (Some(name), _) => Some((HERE, name.as_str())),
        (None, Some(name)) => Some((THERE, name)),
        (None, None) => None,
    };
    if let Some((variable, name)) = asked_for {
        let said = |what: String| format!("{variable} says {name}, {what}");
        let found = candidates(&[name.to_owned()]);
        let Some(first) = found.first() else { return Err(said("which is not there".into())) };
        let facts = ask(first).map_err(|why| said(format!("which {why}")))?;
        return if is_of(&facts, version) {
            Ok(facts)
        } else {
            Err(said(format!(
                "which is {}; code of Python {} needs that version",
                number(&facts),
                of(version)
            )))
        };
    }
    let names = [format!("python{}", of(version)), "python3".to_owned()];
    let mut tried = Vec::new();
    let mut without_numpy = None;
    for path in candidates(&names) {
        match ask(&path) {
            Ok(facts) if !is_of(&facts, version) => {
                tried.push(format!("{} is {}", path.display(), number(&facts)));
            }
            Ok(facts) if facts.numpy.is_ok() => return Ok(facts),
            Ok(facts) => {
                without_numpy.get_or_insert(facts);
            }
            Err(why) => tried.push(format!("{} {why}", path.display())),
        }
    }
    without_numpy.ok_or_else(|| {
        let tried = if tried.is_empty() {
            format!("there is no {} on PATH or in {}", names.join(" or "), FOLDERS.join(", "))
        } else {
            tried.join("; ")
        };
        format!("no Python {}: {tried}", of(version))
    })
}

fn of((major, minor): (u8, u8)) -> String {
    format!("{major}.{minor}")
}

fn number(facts: &InterpreterFacts) -> String {
    let (major, minor, patch) = facts.version;
    format!("{major}.{minor}.{patch}")
}

fn is_of(facts: &InterpreterFacts, version: (u8, u8)) -> bool {
    (facts.version.0, facts.version.1) == version
}

/// Executables of these names, the first name first; a name with a slash is a path.
fn candidates(names: &[String]) -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let in_home = |path: &str| match path.strip_prefix("~/") {
        Some(rest) => home.as_ref().map(|home| home.join(rest)),
        None => Some(PathBuf::from(path)),
    };
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    let folders: Vec<PathBuf> = std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .chain(FOLDERS.iter().filter_map(|folder| in_home(folder)))
        .collect();
    let mut found: Vec<PathBuf> = Vec::new();
    let mut files = BTreeSet::new();
    for name in names {
        let places: Vec<PathBuf> = if name.contains('/') {
            in_home(name).into_iter().collect()
        } else {
            folders.iter().map(|folder| folder.join(name)).collect()
        };
        for place in places {
            // Folders may be one and the same, as /bin and /usr/bin; the name counts, since environments are links.
            let real = place.parent().and_then(|folder| folder.canonicalize().ok()).map(|f| f.join(name));
            if is_executable(&place) && files.insert(real) && found.len() < CANDIDATES_MAX {
                found.push(place);
            }
        }
    }
    found
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Asks an interpreter what it is. An error continues a sentence that begins with its name.
fn ask(interpreter: &Path) -> Result<InterpreterFacts, String> {
    let io = |e: std::io::Error| format!("cannot be started: {e}");
    let (ours, theirs) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|e| io(e.into()))?;
    let mut command = Command::new(interpreter);
    command
        .args(["-c", QUESTION])
        // One answer does not need threads for all cores.
        .env("OPENBLAS_NUM_THREADS", "1")
        .env("OMP_NUM_THREADS", "1")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::from(theirs.try_clone().map_err(io)?))
        .stderr(Stdio::from(theirs));
    // As interpreters will be started: the kernels that they choose are part of the answer.
    numerics::set(&mut command, welcomed::welcomed().map_or(&[], |welcomed| &welcomed.numerics));
    // It takes what it takes; the limit of this process is for user code.
    let mut child = with_room(|| command.spawn()).map_err(io)?;
    drop(command); // it has the other end of the pipe, too
    let answer = read_within(ours, ANSWERS_WITHIN);
    if answer.is_none() {
        let _ = child.kill();
    }
    let status = child.wait().map_err(io)?;
    let answer = answer.ok_or_else(|| format!("said nothing for {} s", ANSWERS_WITHIN.as_secs()))?;
    let answer = String::from_utf8_lossy(&answer);
    understand(&answer).ok_or_else(|| {
        let last = answer.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        let last: String = last.trim().chars().take(200).collect();
        match status.signal() {
            Some(signal) => format!("was ended by signal {signal}; it said: {last}"),
            None => format!("is no Python 3 that works; it said: {last}"),
        }
    })
}

/// All that comes, if its end comes in time.
fn read_within(from: OwnedFd, limit: Duration) -> Option<Vec<u8>> {
    let end = Instant::now() + limit;
    let mut from = File::from(from);
    let (mut all, mut buffer) = (Vec::new(), [0; 16 << 10]);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || all.len() > ANSWER_BYTES_MAX {
            return None;
        }
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut fds = [PollFd::new(&from, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return None,
        }
        match from.read(&mut buffer) {
            Ok(0) => return Some(all),
            Ok(bytes) => all.extend_from_slice(&buffer[..bytes]),
            Err(_) => return None,
        }
    }
}

/// Reads an answer; `None` if it is not whole.
fn understand(answer: &str) -> Option<InterpreterFacts> {
    let line = |key: &str| {
        let begin = format!("@qjam {key}");
        let rest = answer.lines().filter_map(|line| line.strip_prefix(begin.as_str()));
        rest.filter(|rest| rest.is_empty() || rest.starts_with(' ')).map(str::trim).next_back()
    };
    line("end")?;
    let mut numbers = line("version")?.split('.').map(|n| n.parse::<u8>().ok());
    let version = (numbers.next()??, numbers.next()??, numbers.next()??);
    let numpy = match line("numpy") {
        Some(version) => Ok(version.to_owned()),
        None => Err(line("no-numpy")?.to_owned()),
    };
    Some(InterpreterFacts {
        interpreter: line("executable").filter(|path| !path.is_empty())?.to_owned(),
        version,
        numpy,
        blas: line("blas").unwrap_or_default().to_owned(),
        cpu: line("cpu").unwrap_or_default().to_owned(),
        modules: line("modules")?.split_whitespace().map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::OpenOptionsExt;

    /// A folder that is gone afterwards.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("qjam-find-{name}-{}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Scratch(path)
        }

        /// A program that prints this.
        fn program(&self, name: &str, script: &str) -> PathBuf {
            let path = self.0.join(name);
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o755).open(&path).unwrap();
            std::io::Write::write_all(&mut file, format!("#!/bin/sh\n{script}\n").as_bytes()).unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn answer(version: &str, numpy: &str) -> String {
        format!(
            "noise\n@qjam version {version}\n@qjam executable /opt/python\n@qjam {numpy}\n@qjam modules a b c\n@qjam end\n"
        )
    }

    #[test]
    fn an_answer_is_understood_among_noise() {
        let facts = understand(&answer("3.11.7", "numpy 1.26.4")).unwrap();
        assert_eq!((facts.version, facts.numpy.as_deref()), ((3, 11, 7), Ok("1.26.4")));
        assert_eq!((facts.interpreter.as_str(), facts.modules.len()), ("/opt/python", 3));
        let facts = understand(&answer("3.9.1", "no-numpy ImportError: broken")).unwrap();
        assert_eq!(facts.numpy, Err("ImportError: broken".into()));
        for wrong in ["", "@qjam end", "Python 2.7", &answer("3.x.1", "numpy 1"), &answer("3.9.1", "nothing")]
        {
            assert_eq!(understand(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_interpreter_with_numpy_says_what_it_computes_with() {
        let python =
            std::env::var_os("QJAM_TEST_PYTHON").expect("QJAM_TEST_PYTHON names a Python with NumPy");
        let facts = facts_of(Path::new(&python)).unwrap();
        assert!(facts.numpy.is_ok() && facts.blas.contains(' ') && !facts.cpu.is_empty(), "{facts:?}");
        let facts = understand(&answer("3.9.1", "numpy 1.21.0")).unwrap();
        assert_eq!((facts.blas.as_str(), facts.cpu.as_str()), ("", ""), "old versions do not say");
    }

    #[test]
    fn what_is_no_python_says_so_in_one_sentence() {
        let scratch = Scratch::new("ask");
        let wrong = scratch.program("wrong", "echo no such option: -c >&2; exit 2");
        assert_eq!(
            ask(&wrong).unwrap_err(),
            "is no Python 3 that works; it said: no such option: -c",
            "what it said is passed on"
        );
        let killed = scratch.program("killed", "kill -9 $$");
        assert!(ask(&killed).unwrap_err().contains("signal 9"));
        assert!(ask(Path::new("/nowhere/python3")).unwrap_err().starts_with("cannot be started"));
        let good = scratch.program("good", &format!("cat <<'END'\n{}END", answer("3.12.1", "numpy 2.0.0")));
        assert_eq!(ask(&good).unwrap().version, (3, 12, 1));
    }

    #[test]
    fn one_that_was_named_and_is_wrong_is_not_replaced_by_another() {
        let scratch = Scratch::new("named");
        let old = scratch.program("python", &format!("cat <<'END'\n{}END", answer("3.8.2", "numpy 1.0.0")));
        let name = old.to_str().unwrap();
        let why = search((3, 11), Some(name)).unwrap_err();
        assert!(why.starts_with(&format!("QJAM_REMOTE_PYTHON says {name}, which is 3.8.2;")), "{why}");
        let why = search((3, 11), Some("/nowhere/python")).unwrap_err();
        assert_eq!(why, "QJAM_REMOTE_PYTHON says /nowhere/python, which is not there");
        assert_eq!(search((3, 8), Some(name)).unwrap().numpy, Ok("1.0.0".into()));
    }

    #[test]
    fn a_version_that_nobody_has_is_told_with_what_was_tried() {
        let why = search((9, 99), None).unwrap_err();
        assert!(why.starts_with("no Python 9.99: "), "{why}");
    }
}
