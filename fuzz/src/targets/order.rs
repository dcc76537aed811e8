//! Orders of rounds: any bytes.
//!
//! What is understood must give the same bytes again and can be asked about. What it costs is bounded by the input: a chunk takes
//! at least 34 bytes of it and under 512 bytes of memory, and the parameters are copied once.

use super::bounded;
use qjam::engine::Order;

/// Bytes of memory for each byte of an order, and for the table of functions and an error's text.
const FACTOR: usize = 64;
const SLACK_BYTES: usize = 64 << 10;

/// A function for orders to name.
#[qjam::map]
fn f(_: &(), x: &qjam::Dense<f64>) -> f64 {
    x.as_slice().iter().sum()
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
