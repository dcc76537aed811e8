//! Model files: any bytes, or any header with its right length before it and some numbers behind.
//!
//! What is accepted has centres of one width, what is refused comes with a message that names the file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use qjam_algos::clustering::kmeans::Model;
use qjam_algos::models;
use std::path::PathBuf;
use std::sync::LazyLock;

/// Strings and trees of JSON, twice; and the file itself.
const FACTOR: usize = 256;
const SLACK_BYTES: usize = 64 << 10;
/// Numbers behind a header.
const NUMBERS: [u8; 64] = [0x3f; 64];

static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("qjam-fuzz-model-{}", std::process::id())));

fuzz_target!(|input: &[u8]| {
    let bytes = match input.split_first() {
        Some((0, rest)) => rest.to_vec(),
        Some((_, header)) => [&(header.len() as u64).to_le_bytes()[..], header, &NUMBERS].concat(),
        None => Vec::new(),
    };
    std::fs::write(&*FILE, &bytes).expect("the folder for temporary files can be written to");
    let bytes_max = FACTOR * bytes.len() + SLACK_BYTES;
    if let Err(error) = qjam_fuzz::bounded(bytes_max, || models::inspect(&FILE)) {
        assert!(error.to_string().contains("qjam-fuzz-model"), "{error}");
    }
    match qjam_fuzz::bounded(bytes_max, || Model::<f64>::load(&*FILE)) {
        Ok(model) => {
            let centres = model.centres();
            assert_eq!(centres.values().len(), centres.len() * centres.dims());
        }
        Err(error) => assert!(error.to_string().contains("qjam-fuzz-model"), "{error}"),
    }
});
