//! Files that models are kept in: named tensors in the safetensors format, which Rust, Python and the command read alike.
//!
//! The file's only entry of metadata, `qjam`, has the kind of the model and the version of its layout, `kmeans 1`. A file of
//! a newer version is refused instead of being read wrongly. Nothing in a file is run, and every length is checked before
//! it is believed.

use crate::kernels::nearest::Real;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The entry that says what the file is.
const ENTRY: &str = "qjam";

/// Why a model file could not be read or written.
#[derive(Debug, Error)]
pub enum FileError {
    /// The system said no.
    #[error("model file {}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// It is no model file, or not all of one.
    #[error("model file {}: {what}; it is damaged, cut off or no model", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Another model.
    #[error("model file {}: it has a model of kind {found}, not {expected}", path.display())]
    Kind {
        /// Which file.
        path: PathBuf,
        /// What it has.
        found: String,
        /// What was asked for.
        expected: &'static str,
    },
    /// A layout of the future.
    #[error("model file {}: version {found} of {kind}; this program knows versions up to {known}: update it", path.display())]
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

/// Numbers on their way into a file.
#[derive(Clone, Debug)]
pub struct Values {
    dtype: Dtype,
    bytes: Vec<u8>,
}

impl Values {
    /// Numbers as they are.
    pub fn of<T: Real>(values: &[T]) -> Values {
        match size_of::<T>() {
            4 => Values {
                dtype: Dtype::F32,
                bytes: values.iter().flat_map(|v| (v.to_f64() as f32).to_le_bytes()).collect(),
            },
            _ => Values {
                dtype: Dtype::F64,
                bytes: values.iter().flat_map(|v| v.to_f64().to_le_bytes()).collect(),
            },
        }
    }
}

/// Writes tensors with name, shape and numbers, whole or not at all.
pub fn save(
    path: &Path,
    kind: &'static str,
    version: u32,
    tensors: &[(&str, &[usize], Values)],
) -> Result<(), FileError> {
    let damaged =
        |e: safetensors::SafeTensorError| FileError::Damaged { path: path.into(), what: e.to_string() };
    let mut views = Vec::new();
    for (name, shape, values) in tensors {
        let view = TensorView::new(values.dtype, shape.to_vec(), &values.bytes).map_err(damaged)?;
        views.push((*name, view));
    }
    // One entry only: the order of several is that of a hash map, and the same model must be the same file.
    let entries = HashMap::from([(ENTRY.to_string(), format!("{kind} {version}"))]);
    let bytes = serialize(views, Some(entries)).map_err(damaged)?;
    let io = |source| FileError::Io { path: path.into(), source };
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".{}.part", std::process::id()));
    let aside = PathBuf::from(aside);
    std::fs::write(&aside, bytes).map_err(io)?;
    std::fs::rename(&aside, path).map_err(|e| {
        // What is left of it is of no use to anybody.
        let _ = std::fs::remove_file(&aside);
        io(e)
    })
}

/// A model file that was read.
#[derive(Debug)]
pub struct ModelFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

/// What a model file says it is: kind, version, and the names, types and shapes of its tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Kind of the model.
    pub kind: String,
    /// Version of its layout.
    pub version: u32,
    /// Name, type and shape of every tensor.
    pub tensors: Vec<(String, String, Vec<usize>)>,
}

/// Looks into a model file of any kind and version.
pub fn inspect(path: &Path) -> Result<Contents, FileError> {
    read(path).map(|(_, contents)| contents)
}

fn read(path: &Path) -> Result<(ModelFile, Contents), FileError> {
    let bytes = std::fs::read(path).map_err(|source| FileError::Io { path: path.into(), source })?;
    let file = ModelFile { path: path.into(), bytes };
    let (_, metadata) = SafeTensors::read_metadata(&file.bytes).map_err(|e| file.damaged(&e.to_string()))?;
    let entry = metadata.metadata().as_ref().and_then(|m| m.get(ENTRY).cloned());
    let entry = entry.ok_or_else(|| file.damaged("it does not say what model it is"))?;
    let (kind, version) = entry.rsplit_once(' ').unwrap_or((&entry, ""));
    let version = version.parse().map_err(|_| file.damaged("it does not say what version it is"))?;
    let mut tensors: Vec<_> = metadata
        .tensors()
        .into_iter()
        .map(|(name, info)| (name, format!("{:?}", info.dtype), info.shape.clone()))
        .collect();
    tensors.sort();
    let contents = Contents { kind: kind.into(), version, tensors };
    Ok((file, contents))
}

/// Reads a model file of a kind, up to a version.
pub fn load(path: &Path, kind: &'static str, known: u32) -> Result<ModelFile, FileError> {
    let (file, contents) = read(path)?;
    let path = path.to_path_buf();
    if contents.kind != kind {
        return Err(FileError::Kind { path, found: contents.kind, expected: kind });
    }
    if contents.version > known {
        return Err(FileError::Newer { path, kind: contents.kind, found: contents.version, known });
    }
    Ok(file)
}

impl ModelFile {
    /// A matrix of 32- or 64-bit numbers, and its shape.
    pub fn matrix(&self, name: &str) -> Result<([usize; 2], Vec<f64>), FileError> {
        let tensors = SafeTensors::deserialize(&self.bytes).map_err(|e| self.damaged(&e.to_string()))?;
        let tensor = tensors.tensor(name).map_err(|e| self.damaged(&e.to_string()))?;
        let Ok(shape) = <[usize; 2]>::try_from(tensor.shape()) else {
            return Err(self.damaged(&format!("{name} is no matrix")));
        };
        let values = match tensor.dtype() {
            Dtype::F32 => tensor.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b).into()).collect(),
            Dtype::F64 => tensor.data().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
            other => return Err(self.damaged(&format!("{name} is of type {other:?}"))),
        };
        Ok((shape, values))
    }

    /// The error for a file that is not what it should be.
    pub fn damaged(&self, what: &str) -> FileError {
        FileError::Damaged { path: self.path.clone(), what: what.into() }
    }
}
