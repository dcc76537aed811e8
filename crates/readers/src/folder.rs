//! The files of one kind in a folder, in the order of their paths.

use crate::ReadError;
#[cfg(any(feature = "audio", feature = "images"))]
use crate::input::{Input, Stamp};
use std::path::{Path, PathBuf};

/// Maximum depth of nested folders.
const DEPTH_MAX: usize = 16;

#[cfg(any(feature = "audio", feature = "images"))]
/// The files below a folder with certain extensions, sorted by path, and the stamps that show whether one has changed.
pub(crate) struct FolderFiles {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) stamps: Vec<Stamp>,
    pub(crate) bytes: u64,
}

/// File name extensions of pictures.
pub(crate) const PICTURES: [&str; 3] = ["png", "jpg", "jpeg"];

/// File name extensions of sounds.
pub(crate) const SOUNDS: [&str; 2] = ["wav", "wave"];

/// Whether there are pictures and sounds below a folder.
pub(crate) fn kinds(folder: &Path) -> Result<(bool, bool), ReadError> {
    let any = |endings: &[&str]| {
        let mut files = Vec::new();
        walk(folder, endings, 0, &mut files).map(|()| !files.is_empty())
    };
    Ok((any(&PICTURES)?, any(&SOUNDS)?))
}

#[cfg(any(feature = "audio", feature = "images"))]
pub(crate) fn find(folder: &Path, endings: &[&str], what: &'static str) -> Result<FolderFiles, ReadError> {
    let mut files = Vec::new();
    walk(folder, endings, 0, &mut files)?;
    if files.is_empty() {
        return Err(ReadError::Empty { path: folder.into(), what });
    }
    files.sort();
    let stamps =
        files.iter().map(|file| Ok(Input::open(file)?.stamp())).collect::<Result<Vec<_>, ReadError>>()?;
    let bytes = stamps.iter().map(|stamp| stamp.bytes).sum();
    Ok(FolderFiles { files, stamps, bytes })
}

fn walk(folder: &Path, endings: &[&str], depth: usize, files: &mut Vec<PathBuf>) -> Result<(), ReadError> {
    let failed = |source| ReadError::Io { path: folder.into(), source };
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        if path.is_dir() {
            if depth < DEPTH_MAX {
                walk(&path, endings, depth + 1, files)?;
            }
        } else if ending.is_some_and(|ending| endings.contains(&ending.as_str())) {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(any(feature = "audio", feature = "images"))]
/// The paths of files relative to the folder.
pub(crate) fn names(folder: &Path, files: &[PathBuf]) -> Vec<String> {
    files.iter().map(|file| file.strip_prefix(folder).unwrap_or(file).display().to_string()).collect()
}

/// The distinct first path components in order, and for each row the index of its class.
#[cfg(any(feature = "audio", feature = "images"))]
pub(crate) fn classes(files: &[String], rows: &[u64]) -> (Vec<String>, Vec<usize>) {
    let folder = |file: &String| file.split_once('/').map_or("", |(folder, _)| folder).to_owned();
    let mut classes: Vec<String> = files.iter().map(folder).collect();
    classes.sort();
    classes.dedup();
    let class = |file: &String| classes.binary_search(&folder(file)).unwrap_or(0);
    let mut of_rows = Vec::new();
    for (file, rows) in files.iter().zip(rows) {
        let class = class(file);
        of_rows.extend((0..*rows).map(|_| class));
    }
    (classes, of_rows)
}
