//! Detects the kind of a file from its content and, for text files, from its name.

use crate::ReadError;
use crate::input::Input;
use std::path::Path;

/// The kinds of files that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An array saved by NumPy (`.npy`).
    Npy,
    /// An archive of arrays (`.npz`).
    Npz,
    /// Values separated by commas, tabs, semicolons or spaces.
    Csv,
    /// LIBSVM: a label and `index:value` pairs per line.
    Libsvm,
    /// Parquet.
    Parquet,
    /// IDX, the format of MNIST.
    Idx,
    /// A folder of PNG and JPEG pictures.
    Images,
    /// A folder of WAV files.
    Audio,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 8] =
        [Kind::Npy, Kind::Npz, Kind::Csv, Kind::Libsvm, Kind::Parquet, Kind::Idx, Kind::Images, Kind::Audio];

    /// The name of the kind, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Npy => "npy",
            Kind::Npz => "npz",
            Kind::Csv => "csv",
            Kind::Libsvm => "libsvm",
            Kind::Parquet => "parquet",
            Kind::Idx => "idx",
            Kind::Images => "images",
            Kind::Audio => "audio",
        }
    }

    /// The kind with this name.
    ///
    /// ```
    /// assert_eq!(qjam_readers::Kind::of_name("csv"), Some(qjam_readers::Kind::Csv));
    /// ```
    pub fn of_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Detects the kind of a file or folder.
    pub fn of(path: impl AsRef<Path>) -> Result<Kind, ReadError> {
        let path = path.as_ref();
        let failed = |source| ReadError::Io { path: path.into(), source };
        if std::fs::metadata(path).map_err(failed)?.is_dir() {
            return of_folder(path);
        }
        let mut start = vec![0; START_BYTES];
        let n = Input::open(path)?.stream()?.fill(&mut start)?;
        of_content(path, &start[..n]).map_err(|found| ReadError::Unknown { path: path.into(), found })
    }
}

/// Number of bytes examined.
const START_BYTES: usize = 64 << 10;

fn of_folder(path: &Path) -> Result<Kind, ReadError> {
    let unknown = |found: &str| ReadError::Unknown { path: path.into(), found: found.into() };
    match crate::folder::kinds(path)? {
        (true, false) => Ok(Kind::Images),
        (false, true) => Ok(Kind::Audio),
        (true, true) => Err(unknown(
            "it is a folder of both pictures and sounds; choose `images` or `audio`, or name one of its subfolders",
        )),
        (false, false) => Err(unknown("it is a folder without a PNG, JPEG or WAV file")),
    }
}

/// The kind of a file with this decompressed beginning; otherwise what it seems to be.
fn of_content(path: &Path, start: &[u8]) -> Result<Kind, String> {
    if start.is_empty() {
        return Err("it is empty".into());
    }
    for (magic, kind) in [
        (&b"\x93NUMPY"[..], Kind::Npy),
        (b"PK\x03\x04", Kind::Npz),
        (b"PK\x05\x06", Kind::Npz),
        (b"PAR1", Kind::Parquet),
    ] {
        if start.starts_with(magic) {
            return Ok(kind);
        }
    }
    for (magic, found) in [
        (&b"\x89PNG"[..], "it is a single picture; name the folder it is in"),
        (b"\xff\xd8\xff", "it is a single picture; name the folder it is in"),
        (b"RIFF", "it is a single sound; name the folder it is in"),
        (b"\x89HDF", "it is an HDF5 file; save its arrays with numpy.save"),
        (b"ARROW1", "it is an Arrow file; write it as Parquet"),
        (b"%PDF", "it is a PDF"),
        (b"\x80", "it seems to be a pickle, which is code; save its arrays with numpy.save"),
    ] {
        if start.starts_with(magic) {
            return Err(found.into());
        }
    }
    if start.starts_with(&[0, 0]) && crate::idx::parse_header(start).is_ok() {
        return Ok(Kind::Idx);
    }
    if start.contains(&0) {
        return Err(format!("it is not a text file and starts with {:02x?}", &start[..start.len().min(8)]));
    }
    match text_ending(path).as_deref() {
        Some("csv" | "tsv" | "tab") => Ok(Kind::Csv),
        Some("svm" | "libsvm" | "svmlight") => Ok(Kind::Libsvm),
        _ => Ok(of_text(start)),
    }
}

/// The extension of a file name, ignoring that of a compressor.
pub(super) fn text_ending(path: &Path) -> Option<String> {
    let ending = |path: &Path| path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    match ending(path).as_deref() {
        Some("gz" | "gzip" | "zst" | "zstd") => ending(Path::new(path.file_stem()?)),
        _ => ending(path),
    }
}

/// Whether a text is LIBSVM or a table.
fn of_text(start: &[u8]) -> Kind {
    let is_pair = |word: &[u8]| {
        memchr::memchr(b':', word).is_some_and(|at| {
            at > 0 && (word[..at].iter().all(u8::is_ascii_digit) || word.starts_with(b"qid:"))
        })
    };
    let lines = start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    // A line may contain a label only, so the first line with more than that decides.
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with(b"#")).take(1000) {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).skip(1);
        if let Some(word) = words.next() {
            return if is_pair(word) { Kind::Libsvm } else { Kind::Csv };
        }
        if line.iter().any(|byte| b",;".contains(byte)) {
            return Kind::Csv;
        }
    }
    Kind::Csv
}

/// The field separator of a table with this beginning.
pub(super) fn delimiter(path: &Path, start: &[u8]) -> u8 {
    if matches!(text_ending(path).as_deref(), Some("tsv" | "tab")) {
        return b'\t';
    }
    let line = start
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .find(|line| !line.is_empty() && !line.starts_with(b"#"))
        .unwrap_or_default();
    let mut quoted = false;
    let mut counts = [0_usize; 4];
    const CANDIDATES: [u8; 4] = [b',', b'\t', b';', b' '];
    for byte in line {
        if *byte == b'"' {
            quoted = !quoted;
        } else if !quoted && let Some(which) = CANDIDATES.iter().position(|candidate| candidate == byte) {
            counts[which] += 1;
        }
    }
    // In this order: commas may occur inside fields, and spaces in names.
    CANDIDATES.into_iter().zip(counts).find(|(_, count)| *count > 0).map_or(b',', |(candidate, _)| candidate)
}

/// The decompressed beginning of a file.
pub(super) fn start_of(path: &Path) -> Result<Vec<u8>, ReadError> {
    let mut start = vec![0; START_BYTES];
    let n = Input::open(path)?.stream()?.fill(&mut start)?;
    start.truncate(n);
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_content_and_texts_also_by_their_names() {
        for (name, start, kind) in [
            ("x", &b"\x93NUMPY\x01\x00"[..], Kind::Npy),
            ("x", b"PK\x03\x04", Kind::Npz),
            ("x.csv", b"PAR1", Kind::Parquet),
            ("x", &[0, 0, 8, 1, 0, 0, 0, 1, 5], Kind::Idx),
            ("x", b"1 2:0.5 3:1\n", Kind::Libsvm),
            ("x", b"# made today\n1\n0\n-1 qid:3 2:0.5\n", Kind::Libsvm),
            ("x.txt", b"1 2 3\n", Kind::Csv),
            ("x", b"time,value\n12:30,5\n", Kind::Csv),
            ("x", b"7\n8\n", Kind::Csv),
            ("x.svm.gz", b"1\n-1\n", Kind::Libsvm),
        ] {
            assert_eq!(of_content(Path::new(name), start), Ok(kind), "{name} {start:?}");
        }
        for start in [&b""[..], b"\x89PNG", b"RIFF", b"\x89HDF", b"a\0b", &[0, 0, 1, 1]] {
            assert!(of_content(Path::new("x"), start).is_err(), "{start:?}");
        }
    }

    #[test]
    fn what_stands_between_fields_is_seen_from_the_first_line() {
        for (name, start, expected) in [
            ("x.csv", "a,b c\n", b','),
            ("x.tsv.zst", "a,b\tc\n", b'\t'),
            ("x", "a\tb c\n", b'\t'),
            ("x", "# a,b\n\n1;2,5\n", b','),
            ("x", "\"a,b\";c\n", b';'),
            ("x", "1.5 2.5\n", b' '),
            ("x", "7\n", b','),
        ] {
            assert_eq!(delimiter(Path::new(name), start.as_bytes()), expected, "{start:?}");
        }
    }
}
