//! Faults in user code or user data end the round with one error that tells everything, and the master goes on.

use crate::Engine;
use crate::support::{Folder, Gate, wait_until};
use qjam::job::FaultKind;
use qjam::{
    Ctx, DataSet, DecodeError, Decoder, Dense, Encoder, Error, List, Master, Nothing, Reduce, Sum, Wire,
};
use serde::{Deserialize, Deserializer, Serialize};

#[qjam::map]
fn rows(_: &(), x: &Dense<f64>) -> u64 {
    x.rows() as u64
}

#[qjam::map]
fn rows_of_nothing(_: &(), _: &Nothing) -> u64 {
    1
}

/// The master is as good as before.
fn is_well(m: &Master, after: &str) {
    let x = DataSet::dense(vec![0.5; 300], 3).unwrap().partitions(20).unwrap();
    assert_eq!(m.run(rows, &(), &x).map_err(|e| e.to_string()), Ok(100), "after {after}");
}

#[inline(never)]
fn look_up(table: &[u32], at: usize) -> u32 {
    table[at]
}

#[qjam::map]
fn bad_index(bad: &u32, x: &Dense<f64>, ctx: &Ctx) -> u64 {
    let at = if ctx.chunk() == *bad { 70 } else { 0 };
    u64::from(look_up(&[x.rows() as u32], at))
}

pub(crate) fn a_panic_tells_message_line_chunk_worker_and_the_users_frames(e: &Engine) {
    let x = DataSet::dense((0..640).map(f64::from).collect(), 10).unwrap().partitions(64).unwrap();
    for engine in e.few() {
        let m = e.connect(Master::builder(), engine);
        for _ in 0..2 {
            let error = m.run(bad_index, &17, &x).unwrap_err();
            // Asked afterwards: workers may come and go.
            let names: Vec<String> = m.workers().into_iter().map(|w| w.name).collect();
            let text = error.to_string();
            let fault = error.fault().unwrap_or_else(|| panic!("{engine}: {text}"));
            assert_eq!((fault.fault.kind, fault.fault.chunk), (FaultKind::Panic, Some(17)), "{engine}");
            assert_eq!(fault.fault.message, "index out of bounds: the len is 1 but the index is 70");
            let location = fault.fault.location.clone().unwrap();
            let (file, line) = (location.split(':').next().unwrap(), location.split(':').nth(1).unwrap());
            assert!(file.ends_with("promises/faults.rs"), "{engine}: {location}");
            let here = include_str!("faults.rs").lines().position(|l| l == "    table[at]").unwrap();
            assert_eq!(line.parse::<usize>().unwrap(), here + 1);
            assert!(names.contains(fault.worker.as_ref().unwrap()), "{engine}: {text}");
            assert_eq!(fault.function, concat!(module_path!(), "::bad_index"));
            let backtrace = fault.fault.backtrace.as_deref().unwrap();
            for frame in ["look_up", "bad_index"] {
                assert!(backtrace.contains(frame), "{engine}: {backtrace}");
            }
            assert!(!backtrace.contains("qjam/src/"), "{engine}: frames of ours\n{backtrace}");
            // The name of the chunk is that of its content.
            let only = x.chunk(17).unwrap();
            let alone = DataSet::dense(only.as_slice().to_vec(), 10).unwrap();
            let id = fault.chunk_id.unwrap();
            let again = m.run(bad_index, &0, &alone).unwrap_err();
            assert_eq!(again.fault().unwrap().chunk_id, Some(id), "{engine}");
            assert!(text.contains("chunk 17") && text.contains(&id.to_string()), "{engine}: {text}");
            is_well(&m, "a panic");
        }
    }
}

pub(crate) fn a_panic_on_every_chunk_is_one_error(e: &Engine) {
    let x = DataSet::dense(vec![1.0; 640], 10).unwrap().partitions(64).unwrap();
    #[qjam::map]
    fn always(_: &(), _: &Dense<f64>, ctx: &Ctx) -> u64 {
        std::panic::panic_any(ctx.chunk())
    }
    for engine in e.few() {
        let m = e.connect(Master::builder(), engine);
        for _ in 0..5 {
            let error = m.run(always, &(), &x).unwrap_err();
            assert_eq!(error.fault().unwrap().fault.message, "a panic without a message", "{engine}");
        }
        is_well(&m, "panics");
    }
}

pub(crate) fn a_function_that_is_not_registered_is_told_with_those_that_look_like_it(e: &Engine) {
    fn bad_indes(_: &u32, x: &Dense<f64>) -> u64 {
        x.rows() as u64
    }
    let x = DataSet::dense(vec![1.0; 10], 1).unwrap();
    // Also on threads, which have the function itself: what runs there runs anywhere.
    for engine in e.few() {
        let m = e.connect(Master::builder(), engine);
        let error = m.run(bad_indes, &0, &x).unwrap_err();
        assert!(matches!(error, Error::UnknownFunction(_)), "{engine}: {error}");
        let text = error.to_string();
        assert!(text.contains(concat!(module_path!(), "::bad_index")), "{text}");
        assert!(text.contains("#[qjam::map]"), "a remedy: {text}");
        is_well(&m, "an unknown function");
    }
}

#[derive(Wire, Sum, Debug)]
struct Ragged {
    grad: Vec<f64>,
}

pub(crate) fn results_that_do_not_go_together_say_which_field(e: &Engine) {
    #[qjam::map]
    fn ragged(odd: &u32, _: &Nothing, ctx: &Ctx) -> Ragged {
        Ragged { grad: vec![0.0; 3 + usize::from(ctx.chunk() == *odd)] }
    }
    #[qjam::map]
    fn full(_: &(), _: &Nothing) -> (f64, u8) {
        (0.5, 100)
    }
    let tasks = DataSet::nothing(33).unwrap();
    for engine in e.few() {
        let m = e.connect(Master::builder(), engine);
        // The first, the last, and one in the middle: found by a worker or by the master, as it happens.
        for odd in [0, 7, 16, 32] {
            let error = m.run(ragged, &odd, &tasks).unwrap_err();
            assert_eq!(error.fault().unwrap().fault.kind, FaultKind::Merge, "{engine}");
            let text = error.to_string();
            assert!(text.contains("`grad`") && text.contains('3') && text.contains('4'), "{engine}: {text}");
        }
        let text = m.run(full, &(), &tasks).unwrap_err().to_string();
        assert!(text.contains("overflow u8") && text.contains("`1`"), "{engine}: {text}");
        is_well(&m, "failed merges");
    }
}

pub(crate) fn text_that_is_no_text_is_told_with_its_line(e: &Engine) {
    let folder = Folder::new();
    let path = folder.file("text");
    std::fs::write(&path, b"good line\nbad \xff line\n").unwrap();
    #[qjam::map]
    fn count(_: &(), lines: &qjam::Lines) -> u64 {
        lines.len() as u64
    }
    for engine in e.few() {
        let m = e.connect(Master::builder(), engine);
        let error = m.run(count, &(), &DataSet::lines(&path).unwrap()).unwrap_err();
        assert_eq!(error.fault().unwrap().fault.kind, FaultKind::Chunk, "{engine}: {error}");
        assert!(error.to_string().contains("UTF-8"), "{engine}: {error}");
        is_well(&m, "a bad chunk");
    }
}

/// A record whose author did not think of everything.
#[derive(Serialize)]
struct Hasty(u8);

impl<'de> Deserialize<'de> for Hasty {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let value = u8::deserialize(input)?;
        assert!(value != 7, "did not think of {value}");
        Ok(Hasty(value))
    }
}

/// A result that does not go quietly.
#[derive(Wire)]
struct Loud(u64);

impl Reduce for Loud {
    fn merge(&mut self, right: Self) {
        // Not dropped: it is dropped when the user has it.
        self.0 += std::mem::ManuallyDrop::new(right).0;
    }
}

impl Drop for Loud {
    fn drop(&mut self) {
        assert!(self.0 < 1_000_000, "dropped with noise");
    }
}

pub(crate) fn records_that_panic_when_they_are_read_and_results_when_they_are_dropped_are_faults(e: &Engine) {
    #[qjam::map]
    fn sum(_: &(), x: &List<Hasty>) -> u64 {
        x.iter().map(|h| u64::from(h.0)).sum()
    }
    #[qjam::map]
    fn loud(_: &(), _: &Nothing, ctx: &Ctx) -> Loud {
        let before = Loud(if ctx.chunk() == 5 { 1_000_000 } else { 1 });
        Loud(before.0)
    }
    for engine in e.few() {
        let m = e.connect(Master::builder(), engine);
        let good = DataSet::list((10..50).map(Hasty)).unwrap().partitions(10).unwrap();
        let bad = DataSet::list((0..40).map(Hasty)).unwrap().partitions(10).unwrap();
        let error = m.run(sum, &(), &bad).unwrap_err();
        let fault = error.fault().unwrap_or_else(|| panic!("{engine}: {error}"));
        assert_eq!(
            (fault.fault.message.as_str(), fault.fault.chunk),
            ("did not think of 7", Some(1)),
            "{engine}"
        );
        assert_eq!(m.run(sum, &(), &good).unwrap(), (10..50).sum::<u64>(), "{engine}");
        let error = m.run(loud, &(), &DataSet::nothing(9).unwrap()).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("dropped with noise"), "{engine}: {error}");
        is_well(&m, "noise");
    }
}

/// Panics, or refuses, at one point of its way.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spiteful(FailurePoint);

#[derive(Debug, Clone, Copy, PartialEq, Wire)]
enum FailurePoint {
    Nowhere,
    EncodingThere,
    DecodingOnMaster,
    Merging,
    RefusedByMaster,
}

impl Wire for Spiteful {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        assert!(self.0 != FailurePoint::EncodingThere, "spite while encoding");
        self.0.encode(out);
    }
    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let point = FailurePoint::decode(input)?;
        assert!(point != FailurePoint::DecodingOnMaster, "spite while decoding");
        if point == FailurePoint::RefusedByMaster {
            return Err(DecodeError::Serde { kind: "Spiteful", step: "read", reason: "spite".into() });
        }
        Ok(Spiteful(point))
    }
}

impl Reduce for Spiteful {
    fn merge(&mut self, _: Self) {
        assert!(self.0 != FailurePoint::Merging, "spite while merging");
    }
}

#[qjam::map]
fn spiteful(point: &FailurePoint, _: &Nothing) -> Spiteful {
    Spiteful(*point)
}

#[qjam::map]
fn spited(_: &Spiteful, _: &Nothing) -> u64 {
    1
}

pub(crate) fn user_code_that_panics_while_encoding_decoding_or_merging_is_a_fault_too(e: &Engine) {
    let tasks = DataSet::nothing(12).unwrap();
    for engine in e.few() {
        let m = e.connect(Master::builder(), engine);
        assert_eq!(m.run(spiteful, &FailurePoint::Nowhere, &tasks).unwrap(), Spiteful(FailurePoint::Nowhere));
        for point in [
            FailurePoint::EncodingThere,
            FailurePoint::DecodingOnMaster,
            FailurePoint::Merging,
            FailurePoint::RefusedByMaster,
        ] {
            match m.run(spiteful, &point, &tasks) {
                Err(Error::Fault(fault)) => assert!(fault.fault.message.contains("spite"), "{fault:?}"),
                Ok(_) if e.hands_over && point != FailurePoint::Merging => {}
                other => panic!("{engine}, {point:?}: {other:?}"),
            }
            is_well(&m, &format!("{point:?} on {engine}"));
        }
        for point in [FailurePoint::DecodingOnMaster, FailurePoint::RefusedByMaster] {
            let error = m.run(spited, &Spiteful(point), &tasks).unwrap_err();
            let fault = error.fault().unwrap_or_else(|| panic!("{engine}: {error}"));
            assert!(fault.fault.message.contains("spite"), "{engine}: {fault:?}");
            is_well(&m, &format!("parameters, {point:?} on {engine}"));
        }
    }
}

/// So long that the master has others help to merge it. A right neighbour that begins with 13 cannot be merged.
#[derive(Wire)]
struct Touchy(Vec<f64>);

impl Reduce for Touchy {
    fn merge(&mut self, right: Self) {
        assert!(right.0[0] != 13.0, "spite");
        self.0.iter_mut().zip(right.0).for_each(|(left, right)| *left += right);
    }
}

#[qjam::map]
fn touchy(odd: &u32, _: &Nothing, ctx: &Ctx) -> Touchy {
    Touchy(vec![if ctx.chunk() == *odd { 13.0 } else { 1.0 }; 100_000])
}

#[qjam::map]
fn long_and_ragged(odd: &u32, _: &Nothing, ctx: &Ctx) -> Vec<f64> {
    vec![1.0; 100_000 + usize::from(ctx.chunk() == *odd)]
}

pub(crate) fn long_results_that_cannot_be_merged_are_one_error(e: &Engine) {
    let tasks = DataSet::nothing(12).unwrap();
    for engine in e.few() {
        let m = e.connect(Master::builder(), engine);
        for odd in [1, 5, 11] {
            let error = m.run(touchy, &odd, &tasks).map(|value| value.0[0]).unwrap_err();
            let fault = error.fault().unwrap_or_else(|| panic!("{engine}: {error}"));
            assert_eq!((fault.fault.kind, &fault.fault.message[..]), (FaultKind::Panic, "spite"), "{engine}");
            let error = m.run(long_and_ragged, &odd, &tasks).map(|value| value[0]).unwrap_err();
            let fault = error.fault().unwrap_or_else(|| panic!("{engine}: {error}"));
            assert_eq!(fault.fault.kind, FaultKind::Merge, "{engine}: {error}");
            is_well(&m, "long results");
        }
        assert_eq!(m.run(touchy, &99, &tasks).unwrap().0, vec![12.0; 100_000], "{engine}");
    }
}

pub(crate) fn rounds_under_way_do_not_suffer_from_one_that_fails(e: &Engine) {
    #[qjam::map]
    fn slow(gate: &str, _: &Nothing, ctx: &Ctx) -> u64 {
        Gate::pass(gate, ctx.chunk());
        1
    }
    let x = DataSet::dense(vec![1.0; 640], 10).unwrap().partitions(64).unwrap();
    let tasks = DataSet::nothing(40).unwrap();
    for engine in e.few() {
        let m = e.connect(Master::builder(), engine);
        // It stays under way until the others have failed, in one slot of two or more.
        let gate = Gate::new();
        let alone = DataSet::nothing(1).unwrap();
        let good = m.submit(slow, gate.path().as_str(), &alone).unwrap();
        let is_narrow = m.workers().iter().map(|w| w.slots).sum::<u32>() < 2;
        if is_narrow || e.chooses {
            gate.open();
        } else {
            gate.wait_for(1);
        }
        let bad: Vec<_> = (0..5).map(|n| m.submit(bad_index, &(n * 13), &x).unwrap()).collect();
        let also_good = m.submit(rows_of_nothing, &(), &tasks).unwrap();
        for (n, bad) in bad.into_iter().enumerate() {
            assert_eq!(bad.wait().unwrap_err().fault().unwrap().fault.chunk, Some(n as u32 * 13), "{engine}");
        }
        wait_until("the end of a good round", || also_good.is_done());
        gate.open();
        assert_eq!((good.wait().unwrap(), also_good.wait().unwrap()), (1, 40), "{engine}");
    }
}
