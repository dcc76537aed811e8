//! Blobs as files.

use super::{Folder, failed};
use crate::StoreError;
use bytes::Bytes;
use qjam_core::bucket::Listed;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

impl Folder {
    /// Where a blob is. Names come from the protocol; one that could lead out of the folder is a defect of ours.
    pub(super) fn path_of(&self, key: &str) -> PathBuf {
        let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        assert!(key.split('/').all(is_plain), "the name of a blob: {key}");
        self.blobs.join(key)
    }

    pub(super) fn read(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        let path = self.path_of(key);
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(&path)?;
            let mut bytes = self.buffers.take(file.metadata()?.len() as usize);
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => Ok(Some(self.buffers.lend(bytes))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed("read", &path)(e)),
        }
    }

    /// Writes a blob that is in several parts; if `only_new`, unless there is one. Returns whether it was written.
    pub(crate) fn write_parts(&self, key: &str, parts: &[&[u8]], only_new: bool) -> Result<bool, StoreError> {
        let path = self.path_of(key);
        // Most of those that are created again are there already.
        if only_new && path.exists() {
            return Ok(false);
        }
        let beside = self.beside.join(self.fresh_name());
        let written =
            File::create(&beside).and_then(|mut file| parts.iter().try_for_each(|part| file.write_all(part)));
        let placed = written.map_err(failed("write", &beside)).and_then(|()| {
            match place(&beside, &path, only_new) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    let folder = path.parent().unwrap_or(&self.blobs);
                    fs::create_dir_all(folder).map_err(failed("make", folder))?;
                    place(&beside, &path, only_new)
                }
                other => other,
            }
            .map_err(failed("write", &path))
        });
        if only_new || placed.is_err() {
            let _ = fs::remove_file(&beside);
        }
        placed
    }

    pub(super) fn remove(&self, key: &str) -> Result<(), StoreError> {
        let path = self.path_of(key);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path)(e)),
            _ => {
                // Folders that are empty now go, too.
                let mut folder = path.parent();
                while let Some(empty) = folder.filter(|f| *f != self.blobs && fs::remove_dir(f).is_ok()) {
                    folder = empty.parent();
                }
                Ok(())
            }
        }
    }

    pub(super) fn list_blobs(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        let (folder, begins) = prefix.rsplit_once('/').unwrap_or(("", prefix));
        let folder = self.blobs.join(folder);
        let mut found = Vec::new();
        self.walk(&folder, "", begins, &mut found).map_err(failed("list", &folder))?;
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let skip = begins.len();
        found.iter_mut().for_each(|listed| drop(listed.name.drain(..skip)));
        Ok(found)
    }

    /// All files below a folder whose names begin like this.
    fn walk(&self, folder: &Path, above: &str, begins: &str, found: &mut Vec<Listed>) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if above.is_empty() && !name.starts_with(begins) {
                continue;
            }
            let name = if above.is_empty() { name } else { format!("{above}/{name}") };
            // Gone meanwhile: then it is not there.
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                self.walk(&entry.path(), &name, begins, found)?;
            } else {
                found.push(Listed { name, age: self.clock.age(&meta) });
            }
        }
        Ok(())
    }
}

/// Gives a finished file its name. Returns false if there is one of that name and that is not wanted.
fn place(beside: &Path, path: &Path, only_new: bool) -> io::Result<bool> {
    if !only_new {
        return fs::rename(beside, path).map(|()| true);
    }
    match fs::hard_link(beside, path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(e),
    }
}
