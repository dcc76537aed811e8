//! What a master can be asked works on ranks, or is refused with what to use instead.

use qjam::job::FaultKind;
use qjam::{Ctx, DataSet, Dense, Error, LogLine, Master, Nothing};
use qjam_conformance::{Engine, Promise};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What ranks promise besides.
pub(crate) const OWN: &[Promise] = &[
    Promise {
        name: "surface::every_rank_computes_and_rank_0_too",
        needs: &[],
        check: every_rank_computes_and_rank_0_too,
    },
    Promise {
        name: "surface::the_report_says_where_time_and_bytes_went",
        needs: &[],
        check: the_report_says_where_time_and_bytes_went,
    },
    Promise {
        name: "surface::the_library_may_add_where_the_order_does_not_matter",
        needs: &[],
        check: the_library_may_add_where_the_order_does_not_matter,
    },
    Promise {
        name: "surface::rounds_are_cancelled_and_time_out_and_the_ranks_go_on",
        needs: &[],
        check: rounds_are_cancelled_and_time_out_and_the_ranks_go_on,
    },
    Promise {
        name: "surface::what_other_ranks_print_arrives_under_their_names",
        needs: &[],
        check: what_other_ranks_print_arrives_under_their_names,
    },
    Promise { name: "surface::data_is_passed_on_once", needs: &[], check: data_is_passed_on_once },
    Promise {
        name: "surface::what_ranks_cannot_do_is_refused_with_what_to_use_instead",
        needs: &[],
        check: what_ranks_cannot_do_is_refused_with_what_to_use_instead,
    },
];

/// What several ranks promise besides.
pub(crate) const OF_SEVERAL: &[Promise] = &[Promise {
    name: "surface::a_fault_on_one_rank_has_the_others_stop",
    needs: &[],
    check: a_fault_on_one_rank_has_the_others_stop,
}];

/// How many ranks there are.
pub(crate) fn ranks() -> usize {
    std::env::var("OMPI_COMM_WORLD_SIZE").unwrap().parse().unwrap()
}

#[qjam::map]
fn joined(_: &(), _: &Nothing) -> Pids {
    Pids(vec![u64::from(std::process::id())])
}

#[derive(qjam::Wire)]
struct Pids(Vec<u64>);

impl qjam::Reduce for Pids {
    fn merge(&mut self, right: Self) {
        self.0.extend(right.0);
    }
}

fn every_rank_computes_and_rank_0_too(_: &Engine) {
    let m = Master::connect("mpi").unwrap();
    let workers = m.workers();
    assert_eq!(workers.len(), ranks());
    assert!(
        workers.iter().enumerate().all(|(n, w)| w.name.starts_with(&format!("mpi:{n}@")) && w.slots == 1)
    );
    let there: Vec<u64> = workers.iter().map(|w| u64::from(w.pid.unwrap())).collect();
    assert_eq!(there[0], u64::from(std::process::id()));
    assert_eq!(m.run_each(joined, &()).unwrap().0, there, "in the order of the ranks");
}

#[qjam::map]
fn echo(v: &[f64], _: &Nothing) -> Vec<f64> {
    v.to_vec()
}

fn the_report_says_where_time_and_bytes_went(_: &Engine) {
    let m = Master::connect("mpi").unwrap();
    let v = vec![1.5; 200_000];
    let value = m.run_each(echo, &v[..]).unwrap();
    assert!(value.iter().all(|x| *x == 1.5 * ranks() as f64));
    let report = m.last_round().unwrap();
    let moved = (ranks() as u64 - 1) * 8 * v.len() as u64;
    assert!(report.bytes_out >= moved && report.bytes_in >= moved, "{report:?}");
    assert_eq!(report.worker_us + report.master_us + report.overhead_us, report.total_us, "{report:?}");
    assert!(report.worker_us > 0 && report.total_us > 0);
}

#[qjam::map]
fn spread(width: &u64, x: &Dense<f64>, ctx: &Ctx) -> Vec<f64> {
    assert!(*width != 13, "as it was told");
    let width = if *width == 7 && ctx.chunk() == 5 { 8 } else { *width };
    (0..width).map(|n| x.as_slice().iter().map(|v| (v + n as f64).sin()).sum()).collect()
}

fn the_library_may_add_where_the_order_does_not_matter(_: &Engine) {
    let x = DataSet::dense((0..600).map(f64::from).collect(), 3).unwrap().partitions(24).unwrap();
    let (ordered, any) =
        (Master::connect("mpi").unwrap(), Master::builder().any_order(true).connect("mpi").unwrap());
    for width in [1, 40, 5_000] {
        let (a, b) = (ordered.run(spread, &width, &x).unwrap(), any.run(spread, &width, &x).unwrap());
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * (1.0 + a.abs());
        assert!(a.len() == b.len() && a.iter().zip(&b).all(close), "{width}");
    }
    // With fewer blocks than ranks some have nothing to add; other results go the usual way; what fails, fails.
    let few = x.partitions(2).unwrap();
    assert_eq!(any.run(spread, &3, &few).unwrap().len(), 3);
    assert_eq!(any.run(rows, &(), &x).unwrap(), 200);
    assert_eq!(any.run(spread, &13, &x).unwrap_err().fault().unwrap().fault.kind, FaultKind::Panic);
    assert_eq!(any.run(spread, &7, &x).unwrap_err().fault().unwrap().fault.kind, FaultKind::Merge);
    assert_eq!(any.run(rows, &(), &x).unwrap(), 200);
    any.submit(patient, &(), &DataSet::nothing(8).unwrap()).unwrap().cancel();
    assert_eq!(any.run(rows, &(), &x).unwrap(), 200);
}

/// Whether `patient` has begun in this process.
static INSIDE: AtomicBool = AtomicBool::new(false);

#[qjam::map]
fn patient(_: &(), _: &Nothing, ctx: &Ctx) -> u64 {
    INSIDE.store(true, Relaxed);
    while !ctx.cancelled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    1
}

#[qjam::map]
fn one(_: &(), _: &Nothing) -> u64 {
    1
}

fn rounds_are_cancelled_and_time_out_and_the_ranks_go_on(_: &Engine) {
    let tasks = DataSet::nothing(2 * ranks()).unwrap();
    let m = Master::builder().round_timeout(Duration::from_millis(150)).connect("mpi").unwrap();
    for _ in 0..2 {
        let error = m.run(patient, &(), &tasks).unwrap_err();
        let Error::TimedOut { waiting_for, .. } = &error else { panic!("{error}") };
        assert!(waiting_for.contains("mpi:"), "{error}");
    }
    // Without a limit: a round may take its time.
    let m = Master::connect("mpi").unwrap();
    assert_eq!(m.run(one, &(), &tasks).map_err(|e| e.to_string()), Ok(tasks.len() as u64));
    for _ in 0..2 {
        m.submit(patient, &(), &tasks).unwrap().cancel();
        assert_eq!(m.run(one, &(), &tasks).map_err(|e| e.to_string()), Ok(tasks.len() as u64));
    }
    // Called off once somebody is inside: rank 0 is in this process.
    INSIDE.store(false, Relaxed);
    let called_off = Arc::new(|| INSIDE.load(Relaxed));
    let error = m.run_while(patient, &(), &tasks, Duration::from_millis(10), |_| false, called_off);
    assert!(matches!(error, Err(Error::Cancelled)), "{:?}", error.map(|(v, _)| v));
    assert_eq!(m.run(one, &(), &tasks).unwrap(), tasks.len() as u64);
}

fn a_fault_on_one_rank_has_the_others_stop(_: &Engine) {
    let m = Master::connect("mpi").unwrap();
    let tasks = DataSet::nothing(2 * ranks()).unwrap();
    #[qjam::map]
    fn last_fails(_: &(), _: &Nothing, ctx: &Ctx) -> u64 {
        let (n, ranks) = (ctx.chunk() as usize, ranks());
        assert!(n < 2 * ranks - 2, "on the last rank");
        // Without an end, had the others to go on.
        while !ctx.cancelled() {
            std::thread::sleep(Duration::from_millis(1));
        }
        1
    }
    let error = m.run(last_fails, &(), &tasks).unwrap_err();
    let fault = error.fault().unwrap();
    assert_eq!(fault.fault.kind, FaultKind::Panic);
    assert!(fault.worker.as_ref().unwrap().starts_with(&format!("mpi:{}@", ranks() - 1)), "{error}");
}

#[qjam::map]
fn chatty(_: &(), _: &Nothing, ctx: &Ctx) -> u64 {
    println!("chunk {} in round {}", ctx.chunk(), ctx.round());
    eprint!("and without an end");
    1
}

fn what_other_ranks_print_arrives_under_their_names(_: &Engine) {
    let kept: Arc<Mutex<Vec<LogLine>>> = Arc::default();
    let keep = kept.clone();
    let m =
        Master::builder().on_log(move |line| keep.lock().unwrap().push(line.clone())).connect("mpi").unwrap();
    for round in 0..3 {
        m.run_each(chatty, &()).unwrap();
        let lines = std::mem::take(&mut *kept.lock().unwrap());
        // Rank 0 is this process, and prints where it is.
        for n in 1..ranks() {
            let own: Vec<&LogLine> =
                lines.iter().filter(|l| l.worker.starts_with(&format!("mpi:{n}@"))).collect();
            assert_eq!(own.len(), 2, "{lines:?}");
            assert_eq!(
                (own[0].text.as_str(), own[0].is_error),
                (&*format!("chunk {n} in round {round}"), false)
            );
            assert_eq!((own[1].text.as_str(), own[1].is_error), ("and without an end", true));
        }
    }
}

#[qjam::map]
fn rows(_: &(), x: &Dense<f64>) -> u64 {
    x.rows() as u64
}

fn data_is_passed_on_once(_: &Engine) {
    let m = Master::connect("mpi").unwrap();
    let x = DataSet::dense((0..40_000).map(f64::from).collect(), 4).unwrap().partitions(64).unwrap();
    let shipped = |n: usize| {
        assert_eq!(m.run(rows, &(), &x).unwrap(), 10_000, "round {n}");
        m.last_round().unwrap().bytes_out
    };
    let first = shipped(0);
    assert!(ranks() == 1 || shipped(1) < first, "what is known is not told again");
}

fn what_ranks_cannot_do_is_refused_with_what_to_use_instead(_: &Engine) {
    let text = |result: qjam::Result<Master>| result.map(|_| ()).unwrap_err().to_string();
    for (workers, expected) in [
        ("mpi,proc:2", "ranks do each round together, and with nobody else"),
        ("auto:mpi", "all ranks take part in every round"),
        ("mpi:4", "the number of ranks is the launcher's"),
        ("mpi*4", "the number of ranks is the launcher's"),
    ] {
        let said = text(Master::connect(workers));
        assert!(said.contains(expected) && said.contains("mpirun -n 4"), "{workers}: {said}");
    }
    let said = text(Master::builder().memory_limit(1 << 30).connect("mpi"));
    assert!(said.contains("ulimit -v"), "{said}");
    let m = Master::connect("mpi").unwrap();
    for more in ["proc:1", "mpi"] {
        let said = m.add_workers(more).unwrap_err().to_string();
        assert!(said.contains("mpirun -n"), "{more}: {said}");
    }
    assert!(!m.remove_worker(&m.workers()[0].name), "ranks stay");
    assert_eq!(m.run_each(one, &()).unwrap(), ranks() as u64);
}
