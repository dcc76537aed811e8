//! Checkpoints of states: any bytes, and any bytes behind a right hash.

use super::bounded;

const FACTOR: usize = 64;
const SLACK_BYTES: usize = 4096;

/// Tries an input.
pub fn target(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    let bytes_max = FACTOR * rest.len() + SLACK_BYTES;
    if let Some(bytes) = bounded(bytes_max, || qjam::runs::parse_state(rest, kind % 2 == 1)) {
        assert!(bytes <= rest.len() as u64, "{bytes} bytes of states in {}", rest.len());
    }
}

/// Inputs to begin from: a head with two states, and these.
pub fn seeds() -> Vec<Vec<u8>> {
    let head = [&[9; 32][..], &[5, 2, 3, 4]].concat();
    let body = [&(head.len() as u64).to_le_bytes()[..], &head, &[1; 7]].concat();
    vec![[&[1][..], &body].concat()]
}
