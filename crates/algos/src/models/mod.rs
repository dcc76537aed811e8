//! Files that models are kept in: named tensors in the safetensors format, which Rust, Python and the command read alike.
//!
//! The file's only entry of metadata, `qjam`, is a JSON object: the kind of the model, the version of its layout, and
//! [`Notes`] on how it came about. What a model consists of are its [`Parts`]. `docs/book/model-files.md` describes it for those who write other programs. A file of a
//! newer version is refused instead of being read wrongly. Nothing in a file is run, and every length is checked before it
//! is believed.

mod notes;
mod parts;

pub use notes::Notes;
pub use parts::{Format, Parts, PartsError, Tensor, Values, hash};

use crate::options::Value;
use safetensors::tensor::{Dtype, Metadata, SafeTensors, TensorView, serialize};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The kind of models that scale rows before they answer.
pub const SCALED: &str = "scaled";
/// The attribute of these that names the kind of the model behind the scaling.
pub const OF: &str = "of";

/// The entry that says what the file is.
const ENTRY: &str = "qjam";

/// Longest header that is read, as in the format's own library.
const HEADER_BYTES_MAX: u64 = 100_000_000;

/// Why a model file could not be read or written.
#[derive(Debug, Error)]
pub enum FileError {
    /// The system said no.
    #[error("model file {}: {source}{}", path.display(), remedy(source))]
    Io {
        /// Which file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// It is something else.
    #[error("{} is no model file: {what}; give one that was saved after fitting", path.display())]
    NoModel {
        /// Which file.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// Not all of it is there.
    #[error("model file {}: it is cut off: {bytes} bytes of {expected}; copy it again, or fit again", path.display())]
    CutOff {
        /// Which file.
        path: PathBuf,
        /// Bytes it has.
        bytes: u64,
        /// Bytes it should have, as far as that can be known.
        expected: u64,
    },
    /// It is a model file, and something in it is wrong.
    #[error("model file {}: {what}; it is damaged, copy it again, or fit again", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Another model.
    #[error("model file {}: it has a model of kind {found}, and one of kind {expected} is needed", path.display())]
    Kind {
        /// Which file.
        path: PathBuf,
        /// What it has.
        found: String,
        /// What was asked for.
        expected: &'static str,
    },
    /// A kind of model that no learner here has.
    #[error("{} has a model of kind {found}, which this program does not know: update it", path.display())]
    UnknownKind {
        /// Which file.
        path: PathBuf,
        /// What it has.
        found: String,
    },
    /// A layout of the future.
    #[error("model file {}: version {found} of kind {kind}; this program knows versions up to {known}: update it", path.display())]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Kind of the model.
        kind: String,
        /// Its version.
        found: u32,
        /// The newest known.
        known: u32,
    },
}

fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound => "; is the path right?",
        io::ErrorKind::PermissionDenied => "; may you read and write there?",
        io::ErrorKind::StorageFull => "; make room, or name another place",
        _ => "",
    }
}

/// Writes the parts of a model, whole or not at all. The same model is the same bytes.
pub fn save(path: &Path, parts: &Parts, notes: &Notes) -> Result<(), FileError> {
    let damaged =
        |e: safetensors::SafeTensorError| FileError::Damaged { path: path.into(), what: e.to_string() };
    let mut tensors = Vec::new();
    for tensor in &parts.tensors {
        let (dtype, bytes): (Dtype, Vec<u8>) = match &tensor.values {
            Values::F32(values) => (Dtype::F32, values.iter().flat_map(|v| v.to_le_bytes()).collect()),
            Values::F64(values) => (Dtype::F64, values.iter().flat_map(|v| v.to_le_bytes()).collect()),
            Values::Foreign(_) => continue,
        };
        tensors.push((&tensor.name[..], dtype, &tensor.shape, bytes));
    }
    let mut views = Vec::new();
    for (name, dtype, shape, bytes) in &tensors {
        views.push((*name, TensorView::new(*dtype, shape.to_vec(), bytes).map_err(damaged)?));
    }
    let numbers = hash_of_bytes(tensors.iter().map(|(name, _, _, bytes)| (*name, &bytes[..])).collect());
    let mut notes = notes.clone();
    notes.fitted.retain(|(name, _)| !parts.attributes.iter().any(|(known, _)| known == name));
    notes.fitted.splice(0..0, parts.attributes.iter().cloned());
    // One entry only: the order of several is that of a hash map, and the same model must be the same file.
    let entries = HashMap::from([(ENTRY.to_string(), notes.to_json(parts.kind, parts.version, &numbers))]);
    let bytes = serialize(views, Some(entries)).map_err(damaged)?;
    let failed = |source| FileError::Io { path: path.into(), source };
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        // A device or a pipe is written to. Renaming would put a file in its place: of /dev/null, for all programs there are.
        return std::fs::write(path, bytes).map_err(failed);
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".{}.part", std::process::id()));
    let aside = PathBuf::from(aside);
    std::fs::write(&aside, bytes).and_then(|()| std::fs::rename(&aside, path)).map_err(|source| {
        // What is left of it is of no use to anybody.
        let _ = std::fs::remove_file(&aside);
        failed(source)
    })
}

/// What tells these numbers from others: of each tensor its name, its length and its bytes, in the order of the names.
fn hash_of_bytes(mut tensors: Vec<(&str, &[u8])>) -> String {
    tensors.sort_unstable();
    let mut hasher = blake3::Hasher::new();
    for (name, bytes) in tensors {
        hasher.update(name.as_bytes()).update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }
    hasher.finalize().to_hex().to_string()
}

/// What a model file says it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// Kind of the model.
    pub kind: String,
    /// Version of its layout.
    pub version: u32,
    /// How it came about.
    pub notes: Notes,
    /// Name, type and shape of every tensor, by name.
    pub tensors: Vec<(String, String, Vec<usize>)>,
    /// The hash of its numbers, if it has one.
    pub blake3: Option<String>,
}

impl Contents {
    /// The kind of the model behind a scaling of rows, if it is one.
    pub fn behind(&self) -> Option<&str> {
        let of = self.notes.fitted.iter().find(|(name, _)| name == OF);
        match of {
            Some((_, Value::Text(kind))) if self.kind == SCALED => Some(kind),
            _ => None,
        }
    }

    /// The kind of the model that answers: of a scaled one that behind the scaling.
    pub fn kind_of_answers(&self) -> &str {
        self.behind().unwrap_or(&self.kind)
    }
}

/// Looks into a model file of any kind and version, without reading its numbers.
pub fn inspect(path: &Path) -> Result<Contents, FileError> {
    let io = |source| FileError::Io { path: path.into(), source };
    let none = |what: &str| FileError::NoModel { path: path.into(), what: what.into() };
    let mut file = File::open(path).map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    if !metadata.is_file() {
        return Err(none("it is no regular file"));
    }
    let bytes = metadata.len();
    let mut length = [0; 8];
    if bytes < 8 {
        return Err(none(&format!("it has {bytes} bytes")));
    }
    file.read_exact(&mut length).map_err(io)?;
    let length = u64::from_le_bytes(length);
    if length > HEADER_BYTES_MAX {
        return Err(none("it does not begin like one"));
    }
    let mut header = Vec::new();
    file.take(length).read_to_end(&mut header).map_err(io)?;
    if (header.len() as u64) < length {
        return match header.first() {
            Some(b'{') => Err(FileError::CutOff { path: path.into(), bytes, expected: length + 8 }),
            _ => Err(none("it does not begin like one")),
        };
    }
    let header: Metadata =
        serde_json::from_slice(&header).map_err(|_| none("its header is not that of one"))?;
    let expected = (8 + length).saturating_add(header.data_len() as u64);
    if bytes < expected {
        return Err(FileError::CutOff { path: path.into(), bytes, expected });
    }
    contents(path, &header)
}

fn contents(path: &Path, header: &Metadata) -> Result<Contents, FileError> {
    let damaged = |what: &str| FileError::Damaged { path: path.into(), what: what.into() };
    let entry = header.metadata().as_ref().and_then(|entries| entries.get(ENTRY));
    let entry = entry.ok_or_else(|| FileError::NoModel {
        path: path.into(),
        what: "it has tensors that another program saved".into(),
    })?;
    let all: Map<String, Json> =
        serde_json::from_str(entry).map_err(|_| damaged("it does not say what model it is"))?;
    let kind = all.get("kind").and_then(Json::as_str);
    let version = all.get("version").and_then(Json::as_u64).and_then(|version| version.try_into().ok());
    let (Some(kind), Some(version)) = (kind, version) else {
        return Err(damaged("it does not say of what kind and version it is"));
    };
    let mut tensors: Vec<_> = header
        .tensors()
        .into_iter()
        .map(|(name, info)| (name, format!("{:?}", info.dtype), info.shape.clone()))
        .collect();
    tensors.sort();
    let blake3 = all.get("blake3").and_then(Json::as_str).map(String::from);
    Ok(Contents { kind: kind.into(), version, notes: Notes::of_json(&all), tensors, blake3 })
}

/// Reads a model file of this kind, in a version that is known.
pub fn load(path: &Path, format: Format) -> Result<(Parts, Contents), FileError> {
    let contents = inspect(path)?;
    if contents.kind != format.kind {
        return Err(FileError::Kind { path: path.into(), found: contents.kind, expected: format.kind });
    }
    if contents.version > format.version {
        let (kind, found, known) = (contents.kind, contents.version, format.version);
        return Err(FileError::Newer { path: path.into(), kind, found, known });
    }
    let bytes = std::fs::read(path).map_err(|source| FileError::Io { path: path.into(), source })?;
    let damaged = |what: &str| FileError::Damaged { path: path.into(), what: what.into() };
    let file = SafeTensors::deserialize(&bytes).map_err(|e| damaged(&e.to_string()))?;
    if let Some(expected) = &contents.blake3 {
        // A changed bit would be a model like any other, that predicts something else.
        let found = hash_of_bytes(file.iter().map(|(name, tensor)| (name, tensor.data())).collect());
        if found != *expected {
            return Err(damaged("its numbers are not those that were saved"));
        }
    }
    let is_attribute = |(name, _): &&(String, Value)| format.attributes.contains(&name.as_str());
    let attributes = contents.notes.fitted.iter().filter(is_attribute).cloned().collect();
    let tensors = file.iter().map(|(name, view)| tensor(name, &view)).collect();
    Ok((Parts { kind: format.kind, version: contents.version, tensors, attributes }, contents))
}

fn tensor(name: &str, view: &TensorView<'_>) -> Tensor {
    let values = match view.dtype() {
        Dtype::F32 => Values::F32(view.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()),
        Dtype::F64 => Values::F64(view.data().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect()),
        other => Values::Foreign(format!("{other:?}")),
    };
    Tensor { name: name.into(), shape: view.shape().to_vec(), values }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A file that goes away with the test, however that ends.
    pub(crate) struct Temporary(pub(crate) PathBuf);

    impl Temporary {
        pub(crate) fn new(name: &str) -> Temporary {
            Temporary(std::env::temp_dir().join(format!("qjam-models-{}-{name}", std::process::id())))
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn notes() -> Notes {
        let value = |name: &str, value| (name.to_string(), value);
        Notes {
            options: vec![
                value("init", Value::Text("random".into())),
                value("n_clusters", Value::Integer(3)),
            ],
            columns: vec!["a \"b\"".into(), "ö".into()],
            fitted: vec![value("converged", Value::Flag(true)), value("inertia", Value::Real(0.1 + 0.2))],
        }
    }

    fn format(kind: &'static str, version: u32) -> Format {
        Format { kind, version, attributes: &[] }
    }

    fn written(name: &str, version: u32) -> (Temporary, Vec<u8>) {
        let file = Temporary::new(name);
        let tensors = vec![Tensor::new("centres", &[2, 2], &[1.0_f32, 2.0, 3.0, 4.0])];
        save(&file.0, &Parts::new(format("kmeans", version), tensors), &notes()).unwrap();
        let bytes = std::fs::read(&file.0).unwrap();
        (file, bytes)
    }

    #[test]
    fn what_was_saved_is_read_to_the_bit_and_the_same_model_is_the_same_file() {
        let (file, bytes) = written("same", 1);
        let (parts, contents) = load(&file.0, format("kmeans", 1)).unwrap();
        assert_eq!(contents.notes, notes());
        assert_eq!(contents.tensors, [("centres".into(), "F32".into(), vec![2, 2])]);
        assert_eq!(parts.tensor("centres").unwrap(), ([2, 2], vec![1.0, 2.0, 3.0, 4.0]));
        assert!(matches!(parts.tensor::<1>("centres"), Err(PartsError::Shape { .. })));
        assert!(matches!(parts.tensor::<2>("weights"), Err(PartsError::Missing { .. })));
        assert_eq!(written("same again", 1).1, bytes);
    }

    #[test]
    fn other_kinds_and_newer_versions_are_refused_but_can_be_looked_at() {
        let (file, _) = written("newer", 7);
        assert_eq!(inspect(&file.0).unwrap().version, 7);
        assert!(matches!(
            load(&file.0, format("kmeans", 6)),
            Err(FileError::Newer { found: 7, known: 6, .. })
        ));
        assert!(matches!(load(&file.0, format("other", 7)), Err(FileError::Kind { expected: "other", .. })));
    }

    #[test]
    fn a_file_that_ends_anywhere_too_soon_is_an_error() {
        let (file, bytes) = written("cut", 1);
        for length in 0..bytes.len() {
            std::fs::write(&file.0, &bytes[..length]).unwrap();
            let error = load(&file.0, format("kmeans", 1)).unwrap_err();
            match length {
                0..=8 => assert!(matches!(error, FileError::NoModel { .. }), "{length}: {error}"),
                _ => assert!(matches!(error, FileError::CutOff { .. }), "{length}: {error}"),
            }
        }
    }

    #[test]
    fn bytes_of_other_programs_are_no_model() {
        let file = Temporary::new("other");
        let foreign = serialize([("x", TensorView::new(Dtype::U8, vec![1], &[0]).unwrap())], None).unwrap();
        let texts = [
            &b"a,b,c\n1,2,3\n"[..],
            b"\x93NUMPY\x01\x00v\x00{'descr'",
            &[9, 0, 0, 0, 0, 0, 0, 0, 1],
            &foreign,
        ];
        for bytes in texts {
            std::fs::write(&file.0, bytes).unwrap();
            let error = inspect(&file.0).unwrap_err();
            assert!(matches!(error, FileError::NoModel { .. }), "{bytes:?}: {error}");
        }
        assert!(matches!(inspect(&std::env::temp_dir()), Err(FileError::NoModel { .. })));
        assert!(matches!(inspect(Path::new("/nonexistent/model")), Err(FileError::Io { .. })));
    }

    #[test]
    fn a_changed_bit_of_the_numbers_is_noticed() {
        let (file, bytes) = written("flipped", 1);
        for at in bytes.len() - 16..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            std::fs::write(&file.0, &changed).unwrap();
            let error = load(&file.0, format("kmeans", 1)).unwrap_err().to_string();
            assert!(
                error.contains("not those that were saved") && error.contains("copy it again"),
                "{error}"
            );
        }
        // Files of before there were hashes, and of other programs, have none.
        let mut without = bytes;
        let at = without.windows(6).position(|word| word == b"blake3").unwrap();
        without[at..at + 6].copy_from_slice(b"nobody");
        std::fs::write(&file.0, without).unwrap();
        assert_eq!(load(&file.0, format("kmeans", 1)).unwrap().1.blake3, None);
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        let parts = Parts::new(format("kmeans", 1), vec![Tensor::new("centres", &[1, 1], &[1.0_f64])]);
        save(Path::new("/dev/null"), &parts, &notes()).unwrap();
        let full = save(Path::new("/dev/full"), &parts, &notes());
        assert!(matches!(full, Err(FileError::Io { .. })));
        assert!(std::fs::metadata("/dev/null").is_ok_and(|found| !found.is_file()));
    }

    #[test]
    fn a_changed_byte_of_the_header_never_panics() {
        let (file, bytes) = written("changed", 1);
        let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        for at in 0..header {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            std::fs::write(&file.0, &changed).unwrap();
            if let Ok((parts, _)) = load(&file.0, format("kmeans", 1)) {
                let _ = parts.tensor::<2>("centres");
            }
        }
    }
}
