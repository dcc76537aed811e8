//! Python functions on hosts: interpreters are found there, what is missing is told in one table before anything moves,
//! and results are the same wherever they run and whoever is killed.

use crate::hosts::{claim, python_version};
use bytes::Bytes;
use qjam::{Error, Master};
use std::time::{Duration, Instant};

/// Looking for an interpreter takes no longer, also on a busy machine.
const FOUND_WITHIN: Duration = Duration::from_secs(30);

fn master(workers: &str) -> Master {
    builder().connect(workers).unwrap()
}

fn builder() -> qjam::Builder {
    Master::builder().on_log(|_| {}).python_support(Bytes::new(), python_version())
}

fn needs(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn table(m: &Master, names: &[&str]) -> qjam::python::Table {
    match m.python_ready(&needs(names), FOUND_WITHIN) {
        Err(Error::PythonMissing(table)) => *table,
        other => panic!("{other:?} instead of a table"),
    }
}

#[test]
fn hosts_with_python_and_numpy_are_ready() {
    let [_py, _py2] = claim(["py", "py2"]);
    let m = master("py*2,py2*1,proc:1,local:1");
    assert!(m.python_ready(&needs(&["numpy", "json"]), FOUND_WITHIN).unwrap());
    let asked = Instant::now();
    assert!(m.python_ready(&[], Duration::ZERO).unwrap());
    assert!(asked.elapsed() < Duration::from_millis(50), "what is known is not asked for again");
}

#[test]
fn what_hosts_lack_is_told_in_one_table() {
    let [d, nonp, py] = claim(["d", "nonp", "py"]);
    let m = master("py*1,nonp*1,d*1");
    let table = table(&m, &["scipy"]);
    let text = table.to_string();
    println!("{text}");
    let (major, minor) = python_version();
    assert!(text.starts_with(&format!(
        "3 of 3 hosts cannot run this function, which needs Python {major}.{minor} and numpy, scipy:"
    )));
    let [with, without, bare] = &table.lines[..] else { panic!("{text}") };
    assert_eq!((with.host.as_str(), with.missing.join(" ").as_str()), ("py", "scipy"));
    assert!(with.numpy.is_some() && with.version.is_some_and(|v| (v.0, v.1) == (major, minor)));
    assert!(with.remedy.contains("/usr/bin/python3"), "{text}");
    assert!(with.remedy.contains("-m pip install scipy"), "{text}");
    assert_eq!((without.host.as_str(), without.missing.join(" ").as_str()), ("nonp", "numpy scipy"));
    assert_eq!(without.numpy, None);
    assert_eq!((bare.host.as_str(), &bare.interpreter), ("d", &None));
    assert!(bare.remedy.starts_with(&format!("no Python {major}.{minor}: there is no python")), "{text}");
    assert!(bare.remedy.contains("QJAM_REMOTE_PYTHON"), "{text}");
    drop(m);
    [d, nonp, py].iter().for_each(|host| host.must_be_quiet());
}

#[test]
fn what_was_installed_meanwhile_is_seen() {
    let [py] = claim(["py"]);
    let folder = format!(
        "{}/.local/lib/python{}.{}/site-packages",
        py.home_there(),
        { python_version().0 },
        python_version().1
    );
    py.sh(&format!("rm -f {folder}/meanwhile.py"));
    let m = master("py*1");
    assert_eq!(table(&m, &["meanwhile"]).lines[0].missing, ["meanwhile"]);
    py.sh(&format!("touch {folder}/meanwhile.py"));
    std::thread::sleep(Duration::from_millis(1_100)); // what was found a moment ago is believed
    let ready = m.python_ready(&needs(&["meanwhile"]), FOUND_WITHIN);
    py.sh(&format!("rm -f {folder}/meanwhile.py"));
    assert!(ready.unwrap());
}

#[test]
fn an_interpreter_that_was_named_and_is_not_there_is_told() {
    let [_py] = claim(["py"]);
    let m = builder().remote_python("/opt/no/python").connect("py*1").unwrap();
    let line = table(&m, &[]).lines.remove(0);
    assert!(
        line.remedy.starts_with("QJAM_REMOTE_PYTHON says /opt/no/python, which is not there: "),
        "{line:?}"
    );
    drop(m);
    let m = builder().remote_python("/usr/bin/python3").connect("py*1").unwrap();
    assert!(m.python_ready(&[], FOUND_WITHIN).unwrap());
}

#[test]
fn masters_without_python_functions_ask_nobody() {
    let [d] = claim(["d"]);
    let m = Master::connect("d*1").unwrap();
    assert!(m.python_ready(&needs(&["scipy"]), Duration::ZERO).unwrap());
    drop(m);
    d.must_be_quiet();
}
