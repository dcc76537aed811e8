//! The targets: for everything that parses bytes from outside, a function that tries one input and panics if it finds something.
//!
//! libFuzzer runs them by the executables in `fuzz_targets`; the tests of the command run them on mutated files, without a
//! fuzzing library.

pub mod csv;
pub mod edges;
pub mod frames;
pub mod idx;
pub mod kept;
pub mod libsvm;
pub mod messages;
pub mod model_file;
pub mod npy;
pub mod npz;
pub mod order;
pub mod pack;
pub mod pickle_names;
pub mod picture;
pub mod run_file;
pub mod sound;
pub mod state;
pub mod table;
pub mod worker_string;

use super::bounded;
use std::path::{Path, PathBuf};

/// What tries an input, and what makes inputs to begin from.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Tries an input.
    pub run: fn(&[u8]),
    /// Inputs to begin from: valid ones, if that takes more than chance.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const ALL: &[Target] = &[
    Target { name: "csv", run: csv::target, seeds: texts },
    Target { name: "edges", run: edges::target, seeds: texts },
    Target { name: "frames", run: frames::target, seeds: frames::seeds },
    Target { name: "idx", run: idx::target, seeds: idx_headers },
    Target { name: "kept", run: kept::target, seeds: kept::seeds },
    Target { name: "libsvm", run: libsvm::target, seeds: texts },
    Target { name: "messages", run: messages::target, seeds: messages::seeds },
    Target { name: "model_file", run: model_file::target, seeds: texts },
    Target { name: "npy", run: npy::target, seeds: npy_headers },
    Target { name: "npz", run: npz::target, seeds: npz::seeds },
    Target { name: "order", run: order::target, seeds: order::seeds },
    Target { name: "pack", run: pack::target, seeds: pack::seeds },
    Target { name: "pickle_names", run: pickle_names::target, seeds: pickle_names::seeds },
    Target { name: "picture", run: picture::target, seeds: picture::seeds },
    Target { name: "run_file", run: run_file::target, seeds: run_file::seeds },
    Target { name: "sound", run: sound::target, seeds: sound::seeds },
    Target { name: "state", run: state::target, seeds: state::seeds },
    Target { name: "table", run: table::target, seeds: table::seeds },
    Target { name: "worker_string", run: worker_string::target, seeds: texts },
];

fn texts() -> Vec<Vec<u8>> {
    let texts = [
        "\u{1}1,2.5\n-3e7,\"4\"\n# no\n,NA\n",
        "1 1:0.5 3:2 # no\n-1 qid:3 2:1e-3\n",
        "\u{1}{\"__metadata__\":{\"kind\":\"kmeans\"},\"centres\":{\"dtype\":\"F64\",\"shape\":[2,4],\"data_offsets\":[0,64]}}",
        "# from to\n30\t1412\n5,6\r\n18446744073709551615 0\n",
        "proc:2*4,ann@lab3:2222*8,@hosts\0big*2\nsmall",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn idx_headers() -> Vec<Vec<u8>> {
    vec![vec![0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 2], npz::seeds().pop().unwrap_or_default()]
}

fn npy_headers() -> Vec<Vec<u8>> {
    vec![b"\x01{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }\n".to_vec()]
}

/// A folder of this process.
fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("qjam-fuzz-{}-{name}", std::process::id()))
}

/// A file with these bytes that only this user can write.
fn temporary(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder(name);
    write(&path, bytes);
    path
}

/// Writes a file anew: some file systems wait for the disk when one is written over.
fn write(path: &Path, bytes: &[u8]) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let _ = std::fs::remove_file(path);
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(bytes))
        .expect("the folder for temporary files can be written to");
}

/// Removes what the targets have left in the folder for temporary files.
pub fn tidy() {
    let own = format!("qjam-fuzz-{}-", std::process::id());
    let model = format!("qjam-fuzz-model-{}", std::process::id());
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&own) || name == model {
            let _ = std::fs::remove_file(entry.path());
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// CRC-32 as the format has it, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 },
        )
    })
}
