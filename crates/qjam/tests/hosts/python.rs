//! Python functions on hosts: interpreters are found there, what is missing is told in one table before anything moves,
//! and results are the same wherever they run and whoever is killed.

use crate::hosts::{Host, Kind, claim, python_here, python_version, within};
use crate::program::{self, Programs, say};
use bytes::Bytes;
use qjam::python::{Body, Call, Code, Leaf, Pickled, Raw, Setup, call, set_up};
use qjam::{DataSet, Error, Master, Rng};
use qjam_conformance::HANG;
use qjam_conformance::support::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Looking for an interpreter takes no longer, also on a busy machine.
const FOUND_WITHIN: Duration = HANG;

fn master(workers: &str) -> Master {
    builder().connect(workers).unwrap()
}

fn builder() -> qjam::Builder {
    Master::builder().on_log(|_| {}).python_support(Bytes::new(), python_version())
}

fn needs(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A call of the `mapfunc` in this source, without parameters.
fn source(text: &str) -> Call {
    set_up(Setup { executable: python_here().into(), ..Setup::default() });
    let none = Pickled { stream: Bytes::from_static(b"N."), buffers: Vec::new() };
    Call::new(Code::new(Bytes::from(format!("src\n{text}"))), none, python_version())
}

/// Sums whose bits depend on the order of everything, and a pause so that there is time to kill somebody.
const SUMS: &str = "
import time, numpy
def mapfunc(params, x):
    time.sleep(0.01)
    return [numpy.tanh(x).sum(axis=0), float((x @ x.T).sum()), len(x)]
";

fn numbers() -> DataSet<Raw> {
    let values = (0..40_000).map(|n| (f64::from(n) * 0.37).sin()).collect();
    DataSet::dense(values, 4).unwrap().partitions(67).unwrap().untyped()
}

fn bits(m: &Master, data: &DataSet<Raw>) -> Vec<u64> {
    let value = m.run(call, &source(SUMS), data).unwrap_or_else(|e| panic!("{e}"));
    let Body::Numbers { leaves, .. } = value.body else { panic!("{value:?}") };
    let of = |leaf: &Leaf| match leaf {
        Leaf::F64(numbers) => numbers.iter().map(|n| n.to_bits()).collect(),
        Leaf::Int(number) => vec![*number as u64],
        other => panic!("{other:?}"),
    };
    leaves.iter().flat_map(of).collect()
}

/// Kills somebody of a kind: an interpreter, an executor or a supervisor.
fn kill_one(hosts: &[Host], kind: Kind, rng: &mut Rng) -> Option<()> {
    let host = &hosts[rng.below(hosts.len() as u64) as usize];
    let those: Vec<_> = host.processes().into_iter().filter(|p| p.kind == kind).collect();
    let victim = those.get(rng.below(those.len().max(1) as u64) as usize)?;
    kill_process(Pid::from_raw(victim.pid as i32)?, Signal::KILL).ok()
}

pub(crate) const PROGRAMS: Programs = &[("python", |workers| {
    let m = builder().connect(workers).unwrap();
    bits(&m, &numbers());
    say("warm");
    let endless = source("import time\ndef mapfunc(params, x):\n    time.sleep(1000)\n");
    let _ = m.run(call, &endless, &numbers());
})];

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
    assert!(m.python_ready(&[], Duration::ZERO).unwrap(), "what is known is not asked for again");
}

#[test]
fn the_bits_are_those_of_one_interpreter_here_whoever_is_killed() {
    let hosts = claim(["py", "py2"]);
    let data = numbers();
    let wanted = bits(&Master::connect("local:1").unwrap(), &data);
    for workers in ["py*1", "py*2,py2*1", "py*1,proc:1,local:1"] {
        let m = builder().python_interpreter(python_here(), Vec::new()).connect(workers).unwrap();
        assert_eq!(bits(&m, &data), wanted, "{workers}");
        assert_eq!(bits(&m, &data), wanted, "{workers}, the second time");
        // Where there are several, a fast one may take over blocks of a slow one, with their chunks.
        let sent = m.last_round().unwrap().chunks_sent;
        assert!(workers != "py*1" || sent == 0, "{sent} chunks that were there were sent again");
    }
    let m = builder().connect("py*2,py2*2").unwrap();
    // One in every round: three in one block would be the block's fault.
    for round in 0..9 {
        let kind = [Kind::Other, Kind::Executor, Kind::Supervisor][round % 3];
        let mut rng = Rng::keyed(5, round as u64, 0);
        let (found, killed) = std::thread::scope(|scope| {
            let killer = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(rng.below(300)));
                within(HANG, || kill_one(&hosts, kind, &mut rng).is_some())
            });
            (bits(&m, &data), killer.join().unwrap())
        });
        assert_eq!(found, wanted, "round {round}, {kind:?} killed");
        assert!(killed, "round {round}: there was no {kind:?} to kill");
    }
    drop(m);
    hosts.iter().for_each(Host::must_be_quiet);
}

#[test]
fn interpreters_end_with_the_master_also_inside_of_a_call() {
    let hosts = claim(["py", "py2"]);
    let interpreters = |host: &Host| host.processes().iter().filter(|p| p.kind == Kind::Other).count();
    for signal in [Signal::KILL, Signal::INT] {
        let mut program = program::start("python", "py*2,py2*1");
        assert_eq!(program.hear().as_deref(), Some("warm"));
        assert!(
            within(HANG, || interpreters(&hosts[0]) == 2 && interpreters(&hosts[1]) == 1),
            "{:?}",
            hosts.each_ref().map(Host::processes)
        );
        std::thread::sleep(Duration::from_millis(200));
        kill_process(Pid::from_raw(program.pid() as i32).unwrap(), signal).unwrap();
        program.finish();
        hosts.iter().for_each(Host::must_be_quiet);
        program.leaves_nothing("python");
    }
}

#[test]
fn an_exception_on_a_host_says_where_and_the_master_goes_on() {
    let [py] = claim(["py"]);
    let m = builder().connect("py*1").unwrap();
    let wrong = source("def mapfunc(params, x):\n    print('looking')\n    return 1 / (len(x) - len(x))\n");
    let said = m.run(call, &wrong, &numbers()).unwrap_err().to_string();
    assert!(said.contains("on py, chunk 0") && said.contains("ZeroDivisionError"), "{said}");
    assert!(said.contains("return 1 / (len(x) - len(x))"), "{said}");
    assert_eq!(bits(&m, &numbers()).len(), 6);
    drop(m);
    py.must_be_quiet();
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
fn a_host_whose_interpreter_takes_long_is_named() {
    let [py] = claim(["py"]);
    let slow = format!("{}/slow-python", py.home_there());
    let waits = "while ! [ -e \"$0.go\" ]; do sleep 0.05; done";
    py.sh(&format!("printf '%s\\n' '#!/bin/sh' '{waits}' 'exec python3 \"$@\"' > {slow}; chmod 755 {slow}"));
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let hears = told.clone();
    let builder =
        builder().remote_python(&slow).on_wait(move |wait| hears.lock().unwrap().push(wait.to_string()));
    let m = builder.connect("py*1").unwrap();
    assert!(!m.python_ready(&[], Duration::from_millis(50)).unwrap(), "the caller is not kept");
    let is_it = |line: &String| {
        line.starts_with("waiting for py since ") && line.ends_with(" s: its Python is being looked for")
    };
    wait_until("a word about the wait", || {
        let _ = m.python_ready(&[], Duration::from_millis(50));
        told.lock().unwrap().iter().any(is_it)
    });
    py.sh(&format!("touch {slow}.go"));
    assert!(m.python_ready(&[], FOUND_WITHIN).unwrap());
    py.sh(&format!("rm {slow} {slow}.go"));
}

#[test]
fn masters_without_python_functions_ask_nobody() {
    let [d] = claim(["d"]);
    let m = Master::connect("d*1").unwrap();
    assert!(m.python_ready(&needs(&["scipy"]), Duration::ZERO).unwrap());
    drop(m);
    d.must_be_quiet();
}
