//! Completions, manual pages, configuration files, and what is said of this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A private home and working folder that go with the test.
struct Home(PathBuf);

impl Home {
    fn new() -> Home {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("qjam-habits-{}-{n}", std::process::id()));
        for folder in [path.clone(), path.join("here")] {
            fs::create_dir_all(&folder).expect("a folder");
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("its mode");
        }
        Home(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
        path
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_qjam"));
        self.at_home(command.args(args));
        command
    }

    fn at_home(&self, command: &mut Command) {
        command.current_dir(self.0.join("here")).env("HOME", &self.0).env("NO_COLOR", "1");
        for name in ["QJAM_CONFIG", "QJAM_SSH", "QJAM_RUNS", "QJAM_PYTHON", "SPARK_HOME"] {
            command.env_remove(name);
        }
        for name in ["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
            command.env_remove(name);
        }
    }

    fn qjam(&self, args: &[&str]) -> (i32, String, String) {
        told(&self.command(args).output().expect("the command starts"))
    }

    /// A small file of rows.
    fn rows(&self) {
        let rows: Vec<String> = (0..40).map(|n| format!("{},{}", n % 7, (n * n) % 11)).collect();
        self.write("here/x.csv", &format!("a,b\n{}\n", rows.join("\n")));
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

const FIT: &[&str] = &["fit", "kmeans", "x.csv", "--k", "2", "--out", "x.model", "--json"];

/// Whether a program is installed. Shells that are not are passed over, but bash is everywhere.
fn is_there(program: &str) -> bool {
    Command::new(program).arg("-c").arg("true").output().is_ok()
}

#[test]
fn completions_know_commands_learners_and_options_in_every_shell() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, err) = home.qjam(&["completions", shell]);
        assert_eq!((code, err.as_str()), (0, ""));
        for word in ["kmeans", "doctor", "memory-limit", "completions"] {
            assert!(script.contains(word), "{word} is missing for {shell}");
        }
        let path = home.write(&format!("qjam.{shell}"), &script);
        if shell == "bash" || is_there(shell) {
            let checked = Command::new(shell).arg("-n").arg(&path).output().expect("the shell starts");
            assert!(checked.status.success(), "{shell}: {}", told(&checked).2);
        }
    }
    let (code, _, err) = home.qjam(&["completions", "tcsh"]);
    assert!(code == 2 && err.contains("bash"), "{err}");
}

#[test]
fn bash_completes_the_words_of_a_command() {
    let home = Home::new();
    let script = home.write("qjam.bash", &home.qjam(&["completions", "bash"]).1);
    let completed = |words: &[&str]| {
        let line = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                    _qjam qjam \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; echo \"${COMPREPLY[@]}\"";
        let output = Command::new("bash").args(["-c", line, "bash"]).arg(&script).args(words).output();
        told(&output.expect("bash starts")).1
    };
    assert_eq!(completed(&["qjam", "doc"]).trim(), "doctor");
    assert_eq!(completed(&["qjam", "fit", "kmea"]).trim(), "kmeans");
    assert!(completed(&["qjam", "fit", "kmeans", "--worke"]).contains("--workers"));
}

#[test]
fn manual_pages_are_printed_and_written_for_every_command() {
    let home = Home::new();
    let (code, page, _) = home.qjam(&["man"]);
    assert!(code == 0 && page.contains(".TH qjam 1") && page.contains("store:URL"), "{page}");
    let (code, _, err) = home.qjam(&["man", "--out", "pages/man1"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for name in ["qjam", "qjam-fit", "qjam-fit-kmeans", "qjam-config-set", "qjam-store-serve"] {
        let page = fs::read_to_string(home.0.join(format!("here/pages/man1/{name}.1"))).expect(name);
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
    }
    let (code, _, err) = home.qjam(&["man", "--out", "/proc/nowhere"]);
    assert!(code == 1 && err.contains("/proc/nowhere"), "{err}");
}

#[test]
fn defaults_of_files_are_used_and_told_with_file_and_line() {
    let home = Home::new();
    home.rows();
    let (code, _, err) = home.qjam(FIT);
    assert_eq!((code, err.as_str()), (0, ""));
    home.write(".config/qjam/config.toml", "workers = \"two\"\n\n[clusters]\ntwo = \"proc:1, local:1\"\n");
    home.write("qjam.toml", "memory-limit = \"2G\"\n");
    let (code, out, err) = home.qjam(FIT);
    assert_eq!(code, 0, "{err}");
    let from_files = serde_json::from_str::<serde_json::Value>(&out).expect("JSON")["hash"].clone();
    for words in [
        "--workers two (~/.config/qjam/config.toml, line 1)",
        "two is proc:1, local:1 (~/.config/qjam/config.toml, line 4)",
        "--memory-limit 2G (~/qjam.toml, line 1)",
    ] {
        assert!(err.contains(words), "{words:?} is missing from:\n{err}");
    }
    // What is typed comes first, and then nothing is told of a file.
    let typed = [FIT, &["--workers", "local:2", "--memory-limit", "1G"]].concat();
    let (code, out, err) = home.qjam(&typed);
    assert!(code == 0 && !err.contains("toml"), "{err}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&out).expect("JSON")["hash"], from_files);
    let output = home.command(FIT).env("QJAM_CONFIG", "off").output().expect("the command starts");
    let (code, _, err) = told(&output);
    assert_eq!((code, err.as_str()), (0, ""));
    // The help shows what would be taken.
    let (_, out, _) = home.qjam(&["fit", "kmeans", "--help"]);
    assert!(out.contains("[default: two]") && out.contains("[default: 2G]"), "{out}");
}

#[test]
fn a_wrong_file_stops_commands_that_use_it_and_not_those_that_mend_it() {
    let home = Home::new();
    home.rows();
    let file = home.write(".config/qjam/config.toml", "# mine\nworker = \"proc:2\"\n");
    let (code, out, err) = home.qjam(FIT);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("~/.config/qjam/config.toml, line 2: there is no key `worker`"), "{err}");
    for args in [
        &["config", "path"][..],
        &["completions", "bash"],
        &["man"],
        &["--version"],
        &["fit", "kmeans", "--help"],
    ] {
        assert_eq!(home.qjam(args).0, 0, "{args:?}");
    }
    let (code, out, _) = home.qjam(&["config", "check"]);
    assert!(code == 1 && out.contains("line 2"), "{out}");
    let (code, out, _) = home.qjam(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, check(&report, "configuration")["state"].as_str()), (1, Some("broken")));
    fs::write(file, "").expect("a file");
    assert_eq!(home.qjam(&["config", "check"]).0, 0);
}

#[test]
fn what_others_can_write_is_not_believed_and_told() {
    let home = Home::new();
    home.rows();
    let project = home.write("here/qjam.toml", "workers = \"proc:3\"\n");
    fs::set_permissions(&project, fs::Permissions::from_mode(0o666)).expect("its mode");
    let (code, _, err) = home.qjam(FIT);
    assert!(code == 0 && err.contains("is not used: others can write to"), "{err}");
    assert!(!err.contains("--workers"), "{err}");
    assert_eq!(home.qjam(&["config", "check"]).0, 1);
    fs::set_permissions(&project, fs::Permissions::from_mode(0o644)).expect("its mode");
    // It is the user's, but may have come with somebody's files.
    for (text, words) in [
        ("ssh = \"touch taken\"\n", "have any command started"),
        ("workers = \"far\"\n", "send your data there"),
    ] {
        fs::write(&project, text).expect("a file");
        let (code, _, err) = home.qjam(&[FIT, &["--workers", "far"]].concat());
        assert!(code == 1 && err.contains(words) && err.contains("qjam.toml, line 1"), "{err}");
    }
    assert!(!home.0.join("here/taken").exists());
    let own = home.write(".config/qjam/config.toml", "ssh = \"touch taken\"\n");
    fs::remove_file(&project).expect("it is there");
    fs::set_permissions(&own, fs::Permissions::from_mode(0o620)).expect("its mode");
    let (code, _, err) = home.qjam(&["check", "far"]);
    assert!(code == 1 && err.contains("chmod go-w"), "{err}");
    assert!(!home.0.join("here/taken").exists());
}

#[test]
fn the_ssh_of_the_own_file_is_used_and_the_variable_comes_first() {
    let home = Home::new();
    home.write(".config/qjam/config.toml", "ssh = \"false\"\n[clusters]\nlab = \"big, small\"\n");
    let (code, out, err) = home.qjam(&["check", "lab"]);
    assert!(code == 1 && err.contains("lab is big, small"), "{err}");
    assert!(out.contains("\nbig\n") && out.contains("\nsmall\n") && out.contains("0 of 2 hosts"), "{out}");
    let ssh = home.write("here/ssh", "#!/bin/sh\necho by the variable >&2\nexit 255\n");
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o700)).expect("its mode");
    let output = home.command(&["check", "lab"]).env("QJAM_SSH", &ssh).output().expect("the command starts");
    assert!(told(&output).1.contains("by the variable"), "{}", told(&output).1);
    let (code, _, err) = home.qjam(&["check", "lab*4"]);
    assert!(code == 1 && err.contains("ssh://lab*4"), "{err}");
}

#[test]
fn values_are_set_shown_and_removed() {
    let home = Home::new();
    let (code, path, _) = home.qjam(&["config", "path"]);
    assert_eq!((code, path.trim()), (0, home.0.join(".config/qjam/config.toml").to_str().expect("UTF-8")));
    for args in [["clusters.lab", "big*8, small"], ["workers", "auto:lab"]] {
        assert_eq!(home.qjam(&[&["config", "set"][..], &args].concat()).0, 0);
    }
    assert_eq!(home.qjam(&["config", "set", "--project", "tuning", "clock"]).0, 0);
    let (_, out, err) = home.qjam(&["config", "show", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).expect(&err);
    let values = report["values"].as_array().expect("a list");
    let shown: Vec<_> =
        values.iter().map(|v| (v["key"].as_str(), v["value"].as_str(), v["line"].as_u64())).collect();
    assert_eq!(
        shown,
        [
            (Some("tuning"), Some("clock"), Some(1)),
            (Some("workers"), Some("auto:lab"), Some(1)),
            (Some("clusters.lab"), Some("big*8, small"), Some(3)),
        ]
    );
    let (_, out, _) = home.qjam(&["config", "show"]);
    for words in ["~/.config/qjam/config.toml, line 3", "~/here/qjam.toml, line 1", "built in"] {
        assert!(out.contains(words), "{words:?} is missing from:\n{out}");
    }
    for (args, words) in [
        (&["ssh", "x", "--project"][..], "leave out --project"),
        (&["workers", "far", "--project"], "send your data there"),
        (&["colour", "red"], "clusters.NAME"),
        (&["cache", "much"], "20G"),
        (&["ssh", "--unset"], "does not have the key"),
    ] {
        let (code, _, err) = home.qjam(&[&["config", "set"], args].concat());
        assert!(code == 1 && err.contains(words), "{args:?}: {err}");
    }
    assert_eq!(home.qjam(&["config", "set", "--unset", "workers"]).0, 0);
    assert!(!home.qjam(&["config", "show"]).1.contains("auto:lab"));
}

/// One check of a report.
fn check<'a>(report: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let checks = report["checks"].as_array().expect("a list");
    checks
        .iter()
        .find(|check| check["name"] == name)
        .unwrap_or_else(|| panic!("{name} is missing from {report}"))
}

fn doctor(command: &mut Command) -> (i32, serde_json::Value) {
    let (code, out, err) = told(&command.output().expect("it starts"));
    (code, serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}")))
}

#[test]
fn the_doctor_says_what_works_what_is_missing_and_how_to_get_it() {
    let home = Home::new();
    let (code, report) = doctor(&mut home.command(&["doctor", "--json"]));
    assert_eq!((code, &report["ok"]), (0, &true.into()), "{report}");
    for name in ["cores", "memory", "shared memory", "processes", "run files", "cache", "configuration"] {
        let check = check(&report, name);
        assert!(["works", "warning"].iter().any(|state| check["state"] == *state), "{check}");
    }
    assert!(check(&report, "cores")["facts"]["usable"].as_u64().expect("a number") > 0);
    for check in report["checks"].as_array().expect("a list") {
        assert_eq!(check["state"] == "works", check["remedy"].is_null(), "{check}");
    }
    let left: Vec<_> =
        fs::read_dir(&home.0).expect("the home").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["here"], "it leaves nothing behind");
    let (code, out, err) = home.qjam(&["doctor"]);
    assert!(
        code == 0 && err.is_empty() && out.contains("worker processes run on this machine"),
        "{out}{err}"
    );
}

#[test]
fn the_doctor_misses_python_mpi_ssh_and_java_where_there_are_none() {
    let home = Home::new();
    let (code, report) = doctor(home.command(&["doctor", "--json"]).env("PATH", home.0.join("here")));
    assert_eq!(code, 0, "none of these is needed by every run: {report}");
    for (name, words) in [
        ("python", "apt-get install python3"),
        ("numpy", "pip install numpy"),
        ("mpi", "openmpi"),
        ("ssh", "openssh-client"),
        ("java", "default-jre"),
        ("spark", "pyspark"),
        ("gpu", "need none"),
    ] {
        let check = check(&report, name);
        assert_eq!(check["state"], "missing", "{check}");
        assert!(check["remedy"].as_str().expect("a remedy").contains(words), "{check}");
    }
    // An interpreter without NumPy, and one that does not work.
    let python = home.write(
        "here/python3",
        "#!/bin/sh\ncase \"$2\" in *numpy*) echo 'No module named numpy' >&2; exit 1;; esac\necho 3.8.1 /x\n",
    );
    fs::set_permissions(&python, fs::Permissions::from_mode(0o700)).expect("its mode");
    let (_, report) = doctor(home.command(&["doctor", "--json"]).env("QJAM_PYTHON", &python));
    assert!(check(&report, "python")["remedy"].as_str().expect("a remedy").contains("3.9"));
    assert!(check(&report, "numpy")["found"].as_str().expect("words").contains("No module named numpy"));
}

#[test]
fn the_doctor_imports_nothing_of_the_working_folder() {
    let home = Home::new();
    let mark = home.0.join("mark");
    let hostile = format!("open({:?}, 'a').write(__name__ + ' ')\n", mark.display().to_string());
    for module in ["numpy", "csv", "importlib", "zipfile", "email"] {
        home.write(&format!("here/{module}.py"), &hostile);
    }
    let (_, report) = doctor(&mut home.command(&["doctor", "--json"]));
    assert_eq!(check(&report, "python")["state"], "works", "{report}");
    assert!(!mark.exists(), "imported: {}", fs::read_to_string(&mark).unwrap_or_default());
}

#[test]
fn the_doctor_tells_of_folders_that_cannot_be_written() {
    let home = Home::new();
    let file = home.write("here/file", "");
    let mut command = home.command(&["doctor", "--json"]);
    let (code, report) = doctor(command.env("QJAM_RUNS", "/proc/runs").env("XDG_CACHE_HOME", file));
    assert_eq!(code, 0, "runs go on without: {report}");
    for (name, words) in [("run files", "QJAM_RUNS"), ("cache", "XDG_CACHE_HOME")] {
        let check = check(&report, name);
        assert!(
            check["state"] == "warning" && check["remedy"].as_str().expect("a remedy").contains(words),
            "{check}"
        );
    }
}

mod groups {
    //! A control group for a test, inside the one that the test is in.

    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    pub(crate) struct Group(PathBuf, pub(crate) bool);

    impl Group {
        pub(crate) fn new(controller: &str) -> Result<Group, String> {
            let (mine, is_unified) = mine(controller).ok_or("no control groups are mounted")?;
            if is_unified {
                let given = fs::read_to_string(mine.join("cgroup.subtree_control")).unwrap_or_default();
                if !given.split_whitespace().any(|c| c == controller) {
                    return Err(format!("{} does not hand {controller} on", mine.display()));
                }
            }
            let folder = mine.join(format!("qjam-doctor-{controller}-{}", std::process::id()));
            fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
            Ok(Group(folder, is_unified))
        }

        pub(crate) fn set(&self, name: &str, value: &str) {
            fs::write(self.0.join(name), value).unwrap_or_else(|e| panic!("{name}: {e}"));
        }

        pub(crate) fn command(&self, program: &Path) -> Command {
            let mut command = Command::new("sh");
            let script = "echo $$ > \"$0\"/cgroup.procs && exec \"$@\"";
            command.args(["-c", script]).arg(&self.0).arg(program);
            command
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            // Whoever has ended in it may take a moment to leave.
            for _ in 0..100 {
                if fs::remove_dir(&self.0).is_ok() {
                    return;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }

    fn mine(controller: &str) -> Option<(PathBuf, bool)> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        for line in groups.lines() {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            if controllers.split(',').any(|c| c == controller) {
                let all = Path::new("/sys/fs/cgroup");
                let folder = [controller, controllers].map(|name| all.join(name));
                let folder = folder.into_iter().find(|folder| folder.is_dir())?;
                return Some((folder.join(path.trim_start_matches('/')), false));
            }
        }
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        let all = Path::new("/sys/fs/cgroup");
        all.join("cgroup.controllers").exists().then(|| (all.join(path.trim_start_matches('/')), true))
    }
}

fn group(controller: &str) -> groups::Group {
    groups::Group::new(controller)
        .unwrap_or_else(|why| panic!("NOT TESTED: a control group for {controller} is needed: {why}"))
}

#[test]
fn the_doctor_sees_a_quota_of_one_core() {
    let (home, group) = (Home::new(), group("cpu"));
    if group.1 {
        group.set("cpu.max", "100000 100000");
    } else {
        group.set("cpu.cfs_period_us", "100000");
        group.set("cpu.cfs_quota_us", "100000");
    }
    let mut command = group.command(Path::new(env!("CARGO_BIN_EXE_qjam")));
    home.at_home(command.args(["doctor", "--json"]));
    let (code, report) = doctor(&mut command);
    let cores = check(&report, "cores");
    assert_eq!(
        (code, &cores["facts"]["usable"], &cores["facts"]["quota"]),
        (0, &1.into(), &1.0.into()),
        "{cores}"
    );
    assert!(cores["found"].as_str().expect("words").contains("a quota gives the time of 1.00"), "{cores}");
    // Half a core is less than one worker could use.
    group.set(
        if group.1 { "cpu.max" } else { "cpu.cfs_quota_us" },
        if group.1 { "50000 100000" } else { "50000" },
    );
    let mut command = group.command(Path::new(env!("CARGO_BIN_EXE_qjam")));
    home.at_home(command.args(["doctor", "--json"]));
    let (_, report) = doctor(&mut command);
    let cores = check(&report, "cores");
    assert!(
        cores["state"] == "warning" && cores["remedy"].as_str().expect("a remedy").contains("quota"),
        "{cores}"
    );
}

#[test]
fn the_doctor_works_with_256_mebibytes_and_says_that_it_is_little() {
    let (home, group) = (Home::new(), group("memory"));
    group.set(if group.1 { "memory.max" } else { "memory.limit_in_bytes" }, &(256 << 20).to_string());
    let mut command = group.command(Path::new(env!("CARGO_BIN_EXE_qjam")));
    home.at_home(command.args(["doctor", "--json"]));
    let (code, report) = doctor(&mut command);
    assert_eq!(code, 0, "{report}");
    let memory = check(&report, "memory");
    assert_eq!((&memory["state"], &memory["facts"]["limit_bytes"]), (&"warning".into(), &(256 << 20).into()));
    assert!(memory["remedy"].as_str().expect("a remedy").contains("--memory-limit 128M"), "{memory}");
    assert_eq!(check(&report, "processes")["state"], "works", "{report}");
}

/// The page of the book that says what these tests hold.
fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/command.md");
    fs::read_to_string(path).expect("the page on the command")
}

#[test]
fn the_page_on_the_command_names_every_command_key_and_variable() {
    let (home, page) = (Home::new(), page());
    let (_, help, _) = home.qjam(&["--help"]);
    let commands = help.split("Commands:").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a list");
    let names: Vec<&str> = commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("`qjam {name}`")), "{name} is not in the page");
    }
    let (_, out, _) = home.qjam(&["config", "show", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    for key in report["defaults"].as_array().expect("a list") {
        let row = format!("| `{}` |", key["key"].as_str().expect("a key"));
        assert!(page.contains(&row), "{row} is not in the page");
    }
    // Whatever the help names as a variable.
    for args in [
        &["--help"][..],
        &["check", "--help"],
        &["runs", "--help"],
        &["config", "--help"],
        &["store", "--help"],
    ] {
        let (_, help, _) = home.qjam(args);
        let words = help.split(|c: char| !(c.is_ascii_uppercase() || c == '_'));
        for variable in words.filter(|word| word.starts_with("QJAM_")) {
            assert!(page.contains(&format!("`{variable}`")), "{variable} is not in the page");
        }
    }
}

#[test]
fn exit_codes_are_those_of_the_page() {
    let (home, page) = (Home::new(), page());
    for (args, code) in [
        (&["--version"][..], 0),
        (&["fit", "kmeans", "--help"], 0),
        (&["fit", "kmeans", "nowhere.csv", "--k", "2", "--out", "x.model"], 1),
        (&["show", "nowhere"], 1),
        (&["fit", "kmeans", "x.csv", "--k", "2", "--no-such-option"], 2),
        (&["nothing"], 2),
        (&[], 2),
    ] {
        let (found, out, err) = home.qjam(args);
        assert_eq!(found, code, "{args:?}: {out}{err}");
        assert!(page.contains(&format!("\n| {code} |")), "{code} is not in the page");
        assert_eq!(code == 0, err.is_empty(), "{args:?}: {err}");
    }
}

#[test]
fn colours_appear_on_a_terminal_alone_and_no_color_turns_them_off() {
    let home = Home::new();
    let on_terminal = |name: &str, value: &str| {
        let mut command = Command::new("script");
        home.at_home(
            command
                .args(["-qec"])
                .arg(format!("'{}' config check", env!("CARGO_BIN_EXE_qjam")))
                .arg("/dev/null"),
        );
        command.env_remove("NO_COLOR").env("TERM", "xterm").env(name, value);
        told(&command.output().expect("`script` of util-linux starts")).1
    };
    assert!(on_terminal("LANG", "C").contains("\x1b[32m✓"), "{:?}", on_terminal("LANG", "C"));
    assert!(!on_terminal("NO_COLOR", "1").contains('\x1b'));
    assert!(!on_terminal("TERM", "dumb").contains('\x1b'));
    let output =
        home.command(&["config", "check"]).env_remove("NO_COLOR").output().expect("the command starts");
    assert!(!told(&output).1.contains('\x1b'), "it is no terminal");
    let width = |columns: &str| {
        let output =
            home.command(&["cache", "--help"]).env("COLUMNS", columns).output().expect("the command starts");
        told(&output)
            .1
            .lines()
            .filter(|line| !line.contains("qjam cache"))
            .map(|line| line.chars().count())
            .max()
    };
    assert!(width("60") <= Some(60) && width("140") > Some(100), "{:?} {:?}", width("60"), width("140"));
}
