//! Orders of rounds: any bytes.
//!
//! What is understood must give the same bytes again and can be asked about. What it costs is bounded by the input: a chunk takes
//! at least 34 bytes of it and under 512 bytes of memory, and the parameters are copied once.

use super::bounded;
use qjam::engine::Order;
use qjam_core::chunk::{ChunkId, Header};
use qjam_core::ids::{DataSetId, HoldId, RoundId, Version};
use qjam_core::lineage::{Lineage, Operation, OperationKind, Stretch};
use qjam_core::order::{HeldTask, MailTask, OrderHead};
use qjam_core::records::RecordCounts;
use qjam_core::reduce::Cut;

/// Bytes of memory for each byte of an order, and for the table of functions and an error's text.
const FACTOR: usize = 64;
const SLACK_BYTES: usize = 64 << 10;

/// A function for orders to name.
#[qjam::map]
fn f(_: &(), x: &qjam::Dense<f64>) -> f64 {
    x.as_slice().iter().sum()
}

/// Operations on the records of so many chunks.
pub(super) fn lineage(chunks: u32) -> Lineage {
    let kinds = [
        OperationKind::FlatMap,
        OperationKind::Sample { fraction: 1 << 52, seed: 7 },
        OperationKind::Rows { cols: 2 },
        OperationKind::Persist,
    ];
    let operation =
        |kind| Operation { kind, function: concat!(module_path!(), "::f").into(), params: vec![0; 3] };
    let stretch =
        |chunks| Stretch { chunks, source: "lines".into(), operations: kinds.map(operation).into() };
    Lineage { stretches: vec![stretch(chunks - 1), stretch(1)] }
}

/// Inputs to begin from: orders of a round over a few chunks, with and without states and of derived data.
pub fn seeds() -> Vec<Vec<u8>> {
    let order = |chunks: u32, held: bool, derived: bool| {
        let head = OrderHead {
            round: RoundId(7),
            function: concat!(module_path!(), "::f").into(),
            seed: 3,
            dataset: DataSetId([9; 32]),
            cut: Cut::new(chunks, 0),
            held: held.then_some(HeldTask {
                hold: HoldId(1),
                base: Version::after(RoundId(6)),
                mail: MailTask::Letters,
            }),
            slots_max: Some(4),
            records: derived.then(|| RecordCounts::of((0..u64::from(chunks)).map(|n| 3 + n / 2))),
            lineage: derived.then(|| lineage(chunks).into()),
        };
        let header = Header { kind: "dense".into(), dtype: "f64".into(), shape: vec![3, 2], bytes: 48 };
        let chunks: Vec<(ChunkId, Header)> =
            (0..chunks).map(|n| (ChunkId([n as u8; 32]), header.clone())).collect();
        // The parameters follow.
        let mut bytes = postcard::to_stdvec(&(head, chunks)).expect("names and numbers can be encoded");
        bytes.extend([0; 16]);
        bytes
    };
    let seeds = vec![
        order(1, false, false),
        order(5, false, false),
        order(8, true, false),
        order(4, false, true),
        order(9, true, true),
    ];
    assert!(seeds.iter().all(|seed| Order::from_bytes(seed).is_ok()), "an order is none any more");
    seeds
}

/// Tries an input.
pub fn target(input: &[u8]) {
    let read = bounded(FACTOR * input.len() + SLACK_BYTES, || Order::from_bytes(input));
    let Ok(mut order) = read else { return };
    let blocks = order.blocks();
    assert!(order.chunks_of(0..blocks).end >= blocks);
    let again = order.to_bytes();
    assert!(Order::from_bytes(&again).is_ok_and(|copy| copy.to_bytes() == again));
    // What is no chunk of it is refused.
    let _ = order.put_chunk(0, input);
}
