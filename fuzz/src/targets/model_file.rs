//! Model files: any bytes, or any header with its right length before it and some numbers behind.
//!
//! What is accepted is a model of a learner in the registry, whose tensors have as many numbers as their shapes say; what is
//! refused comes with a message that names the file.

use super::{bounded, write};
use qjam_algos::{models, registry};
use std::path::PathBuf;
use std::sync::LazyLock;

/// Strings and trees of JSON, twice; and the file itself.
const FACTOR: usize = 256;
const SLACK_BYTES: usize = 64 << 10;
/// Numbers behind a header.
const NUMBERS: [u8; 64] = [0x3f; 64];

static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("qjam-fuzz-model-{}", std::process::id())));

/// Tries an input.
pub fn target(input: &[u8]) {
    let bytes = match input.split_first() {
        Some((0, rest)) => rest.to_vec(),
        Some((_, header)) => [&(header.len() as u64).to_le_bytes()[..], header, &NUMBERS].concat(),
        None => Vec::new(),
    };
    write(&FILE, &bytes);
    let bytes_max = FACTOR * bytes.len() + SLACK_BYTES;
    if let Err(error) = bounded(bytes_max, || models::inspect(&FILE)) {
        assert!(error.to_string().contains("qjam-fuzz-model"), "{error}");
    }
    match bounded(bytes_max, || registry::load(&FILE)) {
        Ok((model, contents)) => {
            let parts = model.parts();
            assert_eq!(parts.kind, contents.kind);
            for tensor in &parts.tensors {
                assert_eq!(tensor.values.len(), tensor.shape.iter().product::<usize>(), "{}", tensor.name);
            }
        }
        Err(error) => assert!(error.to_string().contains("qjam-fuzz-model"), "{error}"),
    }
}
