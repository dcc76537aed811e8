//! What readers make of text, compressed and foreign files: binary chunks in a file of their own, or in memory.
//!
//! A text is read once, from its beginning to its end; a round reads its chunks again and again, from several
//! processes, in any order. So a reader turns what it reads into rows of numbers, piece by piece, with a [`RowsWriter`]
//! or a [`SparseWriter`], and gets a data set over what was written. Put into a file ([`Keep::File`]), the rows may be
//! more than memory holds, and the next reading finds them there ([`DataSet::kept`](crate::DataSet::kept)).
//!
//! Such a file has the chunks of the standard cut first, then an index with their headers, places and names, and last
//! a trailer of fixed length that says where the index is. It is written beside its place and renamed, so a file of that
//! name is whole. When it is opened again its chunks are compared with their names, unless it is large and has not been
//! written to since; then each is compared when it is read. A file that fails is made anew. How long files stay is told
//! in `shelf`.

mod rows;
mod shelf;
mod sink;
mod sparse;

pub use rows::RowsWriter;
pub use shelf::{Shelf, clear, survey};
pub use sparse::SparseWriter;

use super::cut::{Rule, chunk_rows};
use super::location::{Backing, ChunkEntry, UserFile, spread};
use super::{DataError, Source};
use crate::chunk::{ChunkId, Header};
use qjam_system::memory::most_bytes;
use serde::{Deserialize, Serialize};
use sink::Sink;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Where a reader puts what it makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// In memory, for as long as the data set is in use.
    Memory,
    /// In this file, which stays and is found again.
    File(PathBuf),
    /// In memory up to so many bytes, and beyond that in a file of this name in [`folder`]. Decided by what is written, not
    /// by what a file says of itself.
    Cached {
        /// Name of the file.
        name: String,
        /// Most bytes in memory.
        memory_bytes_max: u64,
    },
}

impl Keep {
    /// Where an earlier reading may have left a file.
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            Keep::Memory => None,
            Keep::File(path) => Some(path.clone()),
            Keep::Cached { name, .. } => Some(present_folder()?.join(name)),
        }
    }

    /// The file to use when memory does not suffice. `None` if there shall be none.
    fn file(&self) -> Result<Option<PathBuf>, DataError> {
        match self {
            Keep::Memory => Ok(None),
            Keep::File(path) => Ok(Some(path.clone())),
            Keep::Cached { name, .. } => {
                let no_folder = || DataError::Keep {
                    path: name.into(),
                    source: io::Error::new(
                        io::ErrorKind::NotFound,
                        "there is no cache folder of this user's own",
                    ),
                };
                Ok(Some(folder().ok_or_else(no_folder)?.join(name)))
            }
        }
    }
}

/// The folder in which readers keep files when nobody names another: `converted` in the user's cache folder, which is
/// made if it is not there, and made private if it is not. `None` where there is no folder that can be written.
pub fn folder() -> Option<PathBuf> {
    let folder = qjam_cache::home_dir()?.join(FOLDER);
    qjam_cache::own_directory(&folder).is_ok().then_some(folder)
}

const FOLDER: &str = "converted";

/// The same, if it is there.
fn present_folder() -> Option<PathBuf> {
    qjam_cache::present_folder(FOLDER)
}

const MAGIC: [u8; 8] = *b"qjamkep2";

/// Place and length of the index, its checksum, and the magic string.
const TRAILER_BYTES: u64 = 32;

/// Longest index that is read: a chunk takes about a hundred bytes of it.
const INDEX_BYTES_MAX: u64 = 1 << 30;

/// Files up to this many bytes are compared with the names of their chunks whenever they are opened.
const COMPARED_BYTES: u64 = 256 << 20;

/// What a kept file says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Index {
    records: u64,
    /// Bytes of all records together, whatever the cut.
    bytes: u64,
    /// The chunks of the standard cut: what each is, where it starts, its name.
    chunks: Vec<(Header, u64, ChunkId)>,
    /// When it was written, which its time of change is set to.
    modified_s: u64,
    /// Whatever the reader wants to find again.
    notes: Vec<u8>,
}

/// Chunks that a reader made.
pub(crate) struct ConvertedChunks {
    backing: Backing,
    index: Index,
    keep: Keep,
    /// Says that the file is in use.
    _held: Option<File>,
}

impl ConvertedChunks {
    /// Finishes what was written: names the chunks, and adds the index to a file.
    fn finish(
        sink: Sink,
        pieces: Vec<(Header, u64)>,
        records: u64,
        bytes: u64,
        notes: Vec<u8>,
    ) -> Result<ConvertedChunks, DataError> {
        let keep = sink.keep().clone();
        let written = sink.written()?;
        let named = written.backing().name(pieces)?;
        let at = |entry: &ChunkEntry| entry.place.offset();
        let chunks = named.into_iter().map(|entry| (entry.header.clone(), at(&entry), entry.id)).collect();
        let modified_s = shelf::now_s();
        let index = Index { records, bytes, chunks, modified_s, notes };
        let whole = |path: &Path| matches!(ConvertedChunks::open(path), Ok(Some(_)));
        let (backing, held) = written.close(|at| encode(&index, at), modified_s, whole)?;
        if let Keep::File(path) = &keep {
            shelf::sweep(path);
        }
        // What has the name may be another program's, so it is asked for its own index.
        let index = match &backing {
            Backing::File(file) => decode(file)?.ok_or_else(|| DataError::Changed {
                path: file.path().into(),
                what: "it is damaged as soon as it is written",
            })?,
            Backing::Shared(_) | Backing::Memory(_) => index,
        };
        Ok(ConvertedChunks { backing, index, keep, _held: held })
    }

    /// Opens a kept file. `None` when there is none, or none that is whole: it is made again then.
    pub(crate) fn open(path: &Path) -> Result<Option<ConvertedChunks>, DataError> {
        let held = shelf::hold(path);
        let file = match UserFile::open(path) {
            Ok(file) => file,
            Err(DataError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // Its chunks are what its own index says, so whoever can write it decides what they are.
        if !file.is_ours() {
            return Ok(None);
        }
        let (Some(held), Some(index)) = (held, decode(&file)?) else { return Ok(None) };
        let untouched = shelf::is_untouched(path, index.modified_s);
        let mut kept = ConvertedChunks {
            backing: Backing::File(file),
            index,
            keep: Keep::File(path.into()),
            _held: Some(held),
        };
        if (!untouched || kept.index.bytes <= COMPARED_BYTES) && !kept.is_as_named() {
            return Ok(None);
        }
        // Who may only read it cannot say that it was used, and need not.
        let touched = File::options().write(true).open(path);
        if touched.and_then(|file| shelf::touch(&file, kept.index.modified_s)).is_ok() && !untouched {
            kept.backing = Backing::File(UserFile::open(path)?);
        }
        Ok(Some(kept))
    }

    /// Whether all chunks are what their names say.
    fn is_as_named(&self) -> bool {
        let is_it = |(header, at, id): &(Header, u64, ChunkId)| {
            self.backing.name_one(header, *at).is_ok_and(|name| name == *id)
        };
        spread(&self.index.chunks, self.index.bytes, is_it).into_iter().all(|is_it| is_it)
    }

    pub(crate) fn notes(&self) -> &[u8] {
        &self.index.notes
    }

    fn standard(&self) -> Vec<ChunkEntry> {
        let chunks = self.index.chunks.iter();
        chunks
            .map(|(header, at, id)| ChunkEntry {
                id: *id,
                header: header.clone(),
                place: self.backing.place(*at),
            })
            .collect()
    }

    /// Rows of equal length lie one after the other whatever the chunks: another cut only names other stretches.
    fn cut_rows(&self, rule: Rule, first: &Header, mut at: u64) -> Result<Vec<ChunkEntry>, DataError> {
        let cols = first.shape.get(1).copied().unwrap_or(0);
        let row_bytes = first.bytes / first.shape.first().copied().unwrap_or(1).max(1);
        let counts = rule.counts(self.index.records, chunk_rows(self.index.bytes, row_bytes))?;
        let pieces = counts.map(|rows| {
            let header = Header::dense(&first.dtype, rows, cols);
            let start = at;
            at += header.bytes;
            (header, start)
        });
        self.backing.name(pieces.collect())
    }

    /// Sparse chunks are put together anew, beside the ones there are.
    fn cut_lines(&self, rule: Rule) -> Result<Vec<ChunkEntry>, DataError> {
        let keep = match (&self.keep, rule) {
            (Keep::Memory | Keep::Cached { .. }, _) | (_, Rule::Standard) => Keep::Memory,
            (Keep::File(path), Rule::Records(n)) => Keep::File(path.with_extension(format!("records-{n}"))),
            (Keep::File(path), Rule::Partitions(k)) => Keep::File(path.with_extension(format!("parts-{k}"))),
        };
        if let Keep::File(path) = &keep
            && let Some(there) = ConvertedChunks::open(path)?
        {
            return Ok(there.standard());
        }
        Ok(sparse::cut_again(&self.standard(), rule, self.index.records, &keep)?.standard())
    }
}

impl Source for ConvertedChunks {
    fn records(&self) -> u64 {
        self.index.records
    }

    fn bytes(&self) -> u64 {
        self.index.bytes
    }

    fn cut(&self, rule: Rule) -> Result<Vec<ChunkEntry>, DataError> {
        match (rule, self.index.chunks.first()) {
            (Rule::Standard, _) | (_, None) => Ok(self.standard()),
            (_, Some((first, at, _))) if first.kind == "dense" => self.cut_rows(rule, first, *at),
            _ => self.cut_lines(rule),
        }
    }
}

/// Refuses to hold so many bytes in memory if that is more than three quarters of what this process may have: the rest
/// is needed to work with them.
fn must_fit(bytes: u64) -> Result<(), DataError> {
    let most = most_bytes() / 4 * 3;
    if bytes <= most {
        return Ok(());
    }
    let reason =
        format!("at most {most} bytes may be taken for it here; let it be kept in a file (`keep_in`)");
    Err(DataError::Memory { bytes, source: io::Error::new(io::ErrorKind::OutOfMemory, reason) })
}

/// The index and the trailer, for a file that has so many bytes before them.
fn encode(index: &Index, at: u64) -> Vec<u8> {
    let mut end = postcard::to_stdvec(index).expect("an index is plain data");
    let (length, checksum) = (end.len() as u64, crc32fast::hash(&end));
    end.extend_from_slice(&at.to_le_bytes());
    end.extend_from_slice(&length.to_le_bytes());
    end.extend_from_slice(&u64::from(checksum).to_le_bytes());
    end.extend_from_slice(&MAGIC);
    end
}

/// Reads the index of a file, if it is a whole one.
fn decode(file: &UserFile) -> Result<Option<Index>, DataError> {
    let Some(trailer_at) = file.bytes().checked_sub(TRAILER_BYTES) else { return Ok(None) };
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.read_at(trailer_at, &mut trailer)?;
    let number = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| trailer[i * 8 + k]));
    let (at, length, checksum) = (number(0), number(1), number(2));
    if trailer[24..] != MAGIC || length > INDEX_BYTES_MAX || at.checked_add(length) != Some(trailer_at) {
        return Ok(None);
    }
    let mut bytes = crate::store::try_zeroed(length)
        .ok_or_else(|| DataError::ChunkMemory { path: file.path().into(), bytes: length })?;
    file.read_at(at, &mut bytes)?;
    if u64::from(crc32fast::hash(&bytes)) != checksum {
        return Ok(None);
    }
    let index = postcard::from_bytes::<Index>(&bytes).ok();
    Ok(index.filter(|index| {
        !index.chunks.is_empty()
            && index
                .chunks
                .iter()
                .all(|(header, start, _)| start.checked_add(header.bytes).is_some_and(|end| end <= at))
    }))
}
