//! However a master ends, nothing of it is left on a host.

use crate::hosts::{GONE_WITHIN, Host, Kind, Process, claim, within};
use crate::program::{self, Programs, say};
use crate::work::{compute_with, data};
use qjam::{DataSet, Master, Nothing, Rng};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::time::{Duration, Instant};

/// What is measured: hosts are to be empty in this time, and when the cable is pulled at the same time, so that a host must
/// find out by itself, in that.
const SOON: Duration = Duration::from_secs(5);
const LATER: Duration = Duration::from_secs(16);

#[qjam::map]
fn bytes(_: &(), x: &qjam::Dense<u8>) -> u64 {
    x.as_slice().iter().step_by(64).map(|b| u64::from(*b)).sum()
}

/// Starts programs that go on by themselves, one of them with no environment and in a group of its own.
#[qjam::map]
#[expect(clippy::zombie_processes, reason = "that it is left to itself is the point")]
fn leave_a_child(_: &(), _: &Nothing) -> u64 {
    use std::os::unix::process::CommandExt;
    std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    std::process::Command::new("/bin/sleep").arg("2000").env_clear().process_group(0).spawn().unwrap();
    1
}

pub(crate) const PROGRAMS: Programs = &[
    ("children", |workers| {
        let m = Master::builder().on_log(|_| {}).connect(workers).unwrap();
        m.run(leave_a_child, &(), &DataSet::nothing(4).unwrap()).unwrap();
        say("started");
        std::thread::sleep(Duration::from_secs(600));
    }),
    ("run", |how| {
        say("starting");
        let (workers, how) = how.split_once(' ').unwrap();
        let m = Master::builder().on_log(|_| {}).connect(workers).unwrap();
        say("transfer");
        // New in every run, so that it must be sent.
        let mut fresh = vec![1_u8; 16 << 20];
        fresh.iter_mut().step_by(4096).for_each(|byte| *byte = std::process::id() as u8);
        fresh[..4].copy_from_slice(&std::process::id().to_le_bytes());
        m.run(bytes, &(), &DataSet::dense(fresh, 1024).unwrap()).unwrap();
        let rounds = if how == "return" { 3 } else { 1_000 };
        compute_with(&m, &data(5), rounds, 2, |round| {
            say("round");
            match (round, how) {
                (2, "panic") => panic!("as it was asked to"),
                (2, "exit") => std::process::exit(7),
                _ => {}
            }
        })
        .unwrap();
    }),
];

/// How a master is ended.
#[derive(Clone, Copy, Debug)]
enum End {
    /// By itself.
    Itself(&'static str),
    /// By a signal, this long after it began with something.
    Signal { signal: Signal, group: bool, at: &'static str, ms: u64, cut: bool },
}

fn draw(rng: &mut Rng, cut: bool) -> End {
    let at = ["starting", "transfer", "round"][rng.below(3) as usize];
    let ms = rng.below(match at {
        "starting" => 600,
        "transfer" => 200,
        _ => 300,
    });
    let killed = End::Signal { signal: Signal::KILL, group: false, at, ms, cut };
    let interrupted = End::Signal { signal: Signal::INT, group: true, at, ms, cut };
    match rng.below(10) {
        _ if cut => killed,
        0 => End::Itself("panic"),
        1 => End::Itself("exit"),
        2 => End::Itself("return"),
        3..6 => interrupted,
        _ => killed,
    }
}

/// Runs a program, ends it, and says how long hosts took to be empty after that.
fn end(how: End, hosts: [&Host; 2]) -> Result<Duration, String> {
    let by_itself = if let End::Itself(how) = how { how } else { "" };
    let workers = hosts.map(|host| format!("{}*2", host.name)).join(",");
    let mut program = program::start("run", &format!("{workers} {by_itself}"));
    let mut was_cut = false;
    if let End::Signal { signal, group, at, ms, cut } = how {
        while program.hear().is_some_and(|said| said != at) {}
        std::thread::sleep(Duration::from_millis(ms));
        if cut {
            hosts[0].cut();
            was_cut = true;
        }
        let pid = Pid::from_raw(program.pid() as i32).unwrap();
        let _ = if group { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
    }
    let (_, status) = program.finish();
    let ended = Instant::now();
    // With the cable pulled, the server's own process for the connection cannot know; that one is not ours.
    let counts = |process: &Process| !was_cut || process.is_ours();
    let gone = within(GONE_WITHIN, || hosts.iter().all(|host| !host.processes().iter().any(counts)));
    let took = ended.elapsed();
    hosts[0].restore();
    if !gone {
        let left: Vec<_> = hosts.iter().flat_map(|host| host.processes()).collect();
        return Err(format!("{how:?}, which ended with {status}, left {left:?}"));
    }
    if !within(GONE_WITHIN, || program.others().is_empty()) {
        return Err(format!("{how:?} left processes here: {:?}", program.others()));
    }
    Ok(took)
}

/// Ends many; gives the longest times that hosts took to be empty, with a cable and without.
fn many(runs: u64, cuts: u64, hosts: [&Host; 2]) -> [Duration; 2] {
    let mut slowest = Duration::ZERO;
    let mut with_cable = Duration::ZERO;
    for run in 0..runs + cuts {
        let how = draw(&mut Rng::keyed(1, run, 0), run >= runs);
        match end(how, hosts) {
            Ok(took) => slowest = slowest.max(took),
            Err(why) => panic!("run {run}: {why}"),
        }
        println!("{run}: {how:?}, gone after at most {slowest:.0?}");
        if run + 1 == runs {
            println!("{runs} ends: gone within {slowest:.0?}");
            with_cable = std::mem::take(&mut slowest);
        }
    }
    if cuts > 0 {
        println!("{cuts} ends without a cable: gone within {slowest:.1?}");
    }
    [with_cable, slowest]
}

#[test]
fn however_a_master_ends_its_hosts_are_left_empty() {
    let [a, b] = claim(["a", "b"]);
    for how in ["panic", "exit", "return"] {
        end(End::Itself(how), [&a, &b]).unwrap();
    }
    let group = true;
    for at in ["starting", "round"] {
        end(End::Signal { signal: Signal::INT, group, at, ms: 50, cut: false }, [&a, &b]).unwrap();
    }
    many(5, 0, [&a, &b]);
}

#[test]
fn what_user_code_started_ends_with_the_master() {
    let [a, b] = claim(["a", "b"]);
    for n in 0..4 {
        let mut program = program::start("children", "a*1,b*1");
        assert_eq!(program.hear().as_deref(), Some("started"));
        for (host, child) in [(&a, "sleep 1000"), (&a, "/bin/sleep 2000"), (&b, "/bin/sleep 2000")] {
            assert!(host.processes().iter().any(|p| p.command == child), "{:?}", host.processes());
        }
        let pid = Pid::from_raw(program.pid() as i32).unwrap();
        kill_process(pid, if n % 2 == 0 { Signal::KILL } else { Signal::INT }).unwrap();
        program.finish();
        a.must_be_quiet();
        b.must_be_quiet();
    }
}

#[test]
fn what_user_code_started_ends_with_its_executor_and_with_its_supervisor() {
    let [a, b] = claim(["a", "b"]);
    for kind in [Kind::Executor, Kind::Supervisor] {
        let mut program = program::start("children", "a*1,b*1");
        assert_eq!(program.hear().as_deref(), Some("started"));
        let left = || {
            a.processes()
                .into_iter()
                .filter(|p| p.command.ends_with("sleep 1000") || p.command.ends_with("sleep 2000"))
                .collect::<Vec<_>>()
        };
        assert!(left().len() >= 2, "{:?}", a.processes());
        assert_eq!(a.signal(kind, "KILL"), 1, "{kind:?}");
        assert!(within(GONE_WITHIN, || left().is_empty()), "{kind:?}: {:?}", left());
        let pid = Pid::from_raw(program.pid() as i32).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        program.finish();
        a.must_be_quiet();
        b.must_be_quiet();
    }
}

#[test]
#[ignore = "a measurement, of minutes"]
fn a_hundred_ends_leave_nothing_for_long() {
    let [a, b] = claim(["a", "b"]);
    let [with_cable, without] = many(100, 10, [&a, &b]);
    assert!(with_cable < SOON && without < LATER, "{with_cable:?}, without a cable {without:?}");
}

#[test]
fn a_master_that_ends_while_the_cable_is_pulled_is_noticed() {
    let [c, d] = claim(["c", "d"]);
    let how = End::Signal { signal: Signal::KILL, group: false, at: "round", ms: 100, cut: true };
    let took = end(how, [&c, &d]).unwrap();
    println!("gone after {took:.1?}");
}
