//! Files of a few megabytes that unpack to gigabytes: the command says that they do not fit, or fits them within its limits. It is
//! never killed, and fills no disk.

#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

use super::{Temporary, text};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MIB: u64 = 1 << 20;

/// A piece of content that is repeated, compressed so that its bytes can be repeated, too, and its checksum.
struct Piece {
    bytes: u64,
    packed: Vec<u8>,
    crc: crc32fast::Hasher,
}

impl Piece {
    fn new(content: &[u8]) -> Piece {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        // To the next whole byte.
        encoder.flush().unwrap();
        let packed = encoder.get_ref().clone();
        let mut crc = crc32fast::Hasher::new();
        crc.update(content);
        Piece { bytes: content.len() as u64, packed, crc }
    }
}

/// A deflated stream of these pieces, each so often; gives its length, the length of its content, and its checksum.
fn deflate(out: &mut impl Write, pieces: &[(&Piece, u64)]) -> (u64, u64, u32) {
    let (mut packed, mut bytes, mut crc) = (0, 0, crc32fast::Hasher::new());
    for (piece, times) in pieces {
        for _ in 0..*times {
            out.write_all(&piece.packed).unwrap();
            packed += piece.packed.len() as u64;
            bytes += piece.bytes;
            crc.combine(&piece.crc);
        }
    }
    let last = [1, 0, 0, 0xff, 0xff];
    out.write_all(&last).unwrap();
    (packed + last.len() as u64, bytes, crc.finalize())
}

/// An archive with one array of zeros, in rows of eight.
fn npz(path: &Path, mib: u64) {
    let rows = mib * MIB / 64;
    let text = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, 8), }}\n");
    let mut head = b"\x93NUMPY\x01\x00".to_vec();
    head.extend((text.len() as u16).to_le_bytes());
    head.extend(text.as_bytes());
    let (head, zeros) = (Piece::new(&head), Piece::new(&vec![0; MIB as usize]));
    let mut packed = Vec::new();
    let (packed_bytes, bytes, crc) = deflate(&mut packed, &[(&head, 1), (&zeros, mib)]);
    let name = "x.npy";
    let mut common = vec![20, 0, 0, 0, 8, 0, 0, 0, 0, 0];
    common.extend(crc.to_le_bytes());
    common.extend(u32::try_from(packed_bytes).unwrap().to_le_bytes());
    common.extend(u32::try_from(bytes).unwrap().to_le_bytes());
    common.extend([name.len() as u8, 0, 0, 0]);
    let file = [b"PK\x03\x04", &common[..], name.as_bytes(), &packed].concat();
    let list = [b"PK\x01\x02\x14\x00", &common[..], &[0; 14], name.as_bytes()].concat();
    let mut end = b"PK\x05\x06\0\0\0\0\x01\0\x01\0".to_vec();
    end.extend((list.len() as u32).to_le_bytes());
    end.extend((file.len() as u32).to_le_bytes());
    end.extend([0, 0]);
    std::fs::write(path, [file, list, end].concat()).unwrap();
}

/// A compressed table of zeros, with eight columns.
fn csv_gz(path: &Path, mib: u64) {
    let lines = Piece::new("0,0,0,0,0,0,0,0\n".repeat(MIB as usize / 16).as_bytes());
    let mut out = BufWriter::new(File::create(path).unwrap());
    out.write_all(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]).unwrap();
    let (_, bytes, crc) = deflate(&mut out, &[(&lines, mib)]);
    out.write_all(&crc.to_le_bytes()).unwrap();
    out.write_all(&(bytes as u32).to_le_bytes()).unwrap();
    out.flush().unwrap();
}

/// Fits a file with limits on memory and address space, where all that can be written to is a disk of so many MiB. Gives what the
/// command said, and the KiB that it left on the disk.
fn fit(file: &Path, disk: &Path, disk_mib: u64, workers: &str) -> (Output, u64) {
    let script = "mount -t tmpfs -o size=$1m none \"$D\" || { echo NOT TESTED >&2; exit 99; }; shift; \
                  (ulimit -v 3145728; exec \"$@\"); code=$?; \
                  du -sk \"$D\" | cut -f1; exit $code";
    let mut command = Command::new("unshare");
    let root = rustix::process::geteuid().is_root();
    command.args(if root { &["-m"][..] } else { &["-r", "-m"] }).args(["sh", "-c", script, "sh"]);
    command.arg(disk_mib.to_string()).arg(env!("CARGO_BIN_EXE_qjam"));
    command.args(["fit", "kmeans"]).arg(file).args([
        "--k",
        "1",
        "--memory-limit",
        "512M",
        "--workers",
        workers,
    ]);
    command.arg("--out").arg(disk.join("model"));
    command.env("D", disk).env("XDG_CACHE_HOME", disk).env("TMPDIR", disk).env("QJAM_RUNS", "off");
    let output = command.output().unwrap();
    let (out, err) = text(&output);
    assert!(!err.contains("NOT TESTED"), "NOT TESTED, since this user may not mount anything: {err}");
    // A signal, or memory that was not there, would be no code of the command.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}: {}\n{out}{err}", file.display(), output.status);
    let left_kib = out.lines().last().and_then(|line| line.parse().ok());
    (output, left_kib.unwrap_or_else(|| panic!("{out}{err}")))
}

fn files(mib: u64) -> (Temporary, [PathBuf; 2]) {
    let folder = Temporary::new(&format!("bombs-{mib}"));
    std::fs::create_dir_all(folder.0.join("disk")).unwrap();
    let paths = ["x.npz", "x.csv.gz"].map(|name| folder.0.join(name));
    npz(&paths[0], mib);
    csv_gz(&paths[1], mib);
    for path in &paths {
        let bytes = path.metadata().unwrap().len();
        assert!(bytes * 50 < mib * MIB, "{} has {bytes} bytes", path.display());
    }
    (folder, paths)
}

#[test]
fn files_that_unpack_to_four_gibibytes_are_refused_and_leave_nothing() {
    let (folder, files) = files((4 << 10) - 1);
    for file in files {
        let (output, left_kib) = fit(&file, &folder.0.join("disk"), 256, "local:2");
        let (_, err) = text(&output);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains("more than half of the room on this disk"), "{err}");
        assert!(left_kib < 1024, "{left_kib} KiB are left of {}", file.display());
    }
}

#[test]
fn files_that_unpack_to_less_than_there_is_are_fitted_within_the_limits() {
    let (folder, files) = files(40);
    for (file, workers) in files.iter().zip(["local:2", "proc:1"]) {
        let (output, left_kib) = fit(file, &folder.0.join("disk"), 512, workers);
        let (out, err) = text(&output);
        assert!(output.status.success() && out.contains("converged"), "{}: {out}{err}", file.display());
        assert!(left_kib < 256 << 10, "{left_kib} KiB are left of {}", file.display());
    }
}

/// What a fit keeps for each row counts, too: rows are many in a file of few columns.
#[test]
fn rows_for_which_the_start_of_k_means_takes_more_than_the_limit_are_refused_with_the_numbers() {
    let (folder, files) = files(320);
    let mut command = Command::new(env!("CARGO_BIN_EXE_qjam"));
    command.args(["fit", "kmeans"]).arg(&files[0]).args([
        "--k",
        "2",
        "--memory-limit",
        "64M",
        "--workers",
        "local:1",
    ]);
    command.arg("--out").arg(folder.0.join("model"));
    command.env("XDG_CACHE_HOME", &folder.0).env("TMPDIR", &folder.0).env("QJAM_RUNS", "off");
    let output = command.output().unwrap();
    let (_, err) = text(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.contains("keeps 16 bytes for each of 5242880 rows, 83886080 bytes, and there are 67108864"),
        "{err}"
    );
}
