//! Orders of rounds: any bytes.
//!
//! What is understood must give the same bytes again and can be asked about. What it costs is bounded by the input: a chunk takes
//! at least 34 bytes of it and under 512 bytes of memory, and the parameters are copied once.

use super::bounded;
use qjam::engine::Order;
use qjam_core::chunk::{ChunkId, Header};
use qjam_core::ids::{DataSetId, HoldId, RoundId, Version};
use qjam_core::order::{HeldTask, MailTask, OrderHead};
use qjam_core::reduce::Cut;

/// Bytes of memory for each byte of an order, and for the table of functions and an error's text.
const FACTOR: usize = 64;
const SLACK_BYTES: usize = 64 << 10;

/// A function for orders to name.
#[qjam::map]
fn f(_: &(), x: &qjam::Dense<f64>) -> f64 {
    x.as_slice().iter().sum()
}

/// Inputs to begin from: orders of a round over a few chunks, with and without states.
pub fn seeds() -> Vec<Vec<u8>> {
    let order = |chunks: u32, held: bool| {
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
        };
        let header = Header { kind: "dense".into(), dtype: "f64".into(), shape: vec![3, 2], bytes: 48 };
        let chunks: Vec<(ChunkId, Header)> =
            (0..chunks).map(|n| (ChunkId([n as u8; 32]), header.clone())).collect();
        // The parameters follow.
        let mut bytes = postcard::to_stdvec(&(head, chunks)).expect("names and numbers can be encoded");
        bytes.extend([0; 16]);
        bytes
    };
    let seeds = vec![order(1, false), order(5, false), order(8, true)];
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
