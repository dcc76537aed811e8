//! Lines of sparse matrices: gathered as a reader finds them, then put together into the chunks of a cut.
//!
//! How the standard rule cuts depends on the bytes of the whole, so what comes in is set aside first: in memory, or in
//! a file of its own when it becomes too much for that. Nothing here knows the type of a value, only its width.

use super::super::DataError;
use super::super::cut::{Packer, Rule};
use super::super::location::ChunkEntry;
use super::sink::{Beside, Sink};
use super::{ConvertedChunks, Keep};
use crate::chunk::sparse::{Shape, header};
use crate::chunk::{ChunkError, Csr, Element, Header};
use crate::codec::Slab;
use bytes::Bytes;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// What is set aside in memory before a file is used, and what is sorted into columns at once.
const HELD_BYTES: u64 = 64 << 20;

/// Most columns that rows are turned into: their counts are kept in memory.
const COLUMNS_MAX: u64 = 1 << 28;

/// Some lines of a sparse matrix as they lie in a chunk's bytes.
struct Part {
    shape: Shape,
    starts: Slab<u64>,
    bytes: Bytes,
}

impl Part {
    fn over(shape: Shape, bytes: Bytes) -> Part {
        let starts = Slab::over(bytes.slice(..(shape.lines as usize + 1) * 8));
        Part { shape, starts, bytes }
    }

    /// The part of the bytes that holds these of the things that start at `base` and have `width` bytes.
    fn run(&self, base: u64, width: u64, range: Range<u64>) -> &[u8] {
        &self.bytes[(base + range.start * width) as usize..(base + range.end * width) as usize]
    }

    fn values_at(&self) -> u64 {
        (self.shape.lines + 1) * 8
    }

    fn labels_at(&self) -> u64 {
        self.values_at() + self.shape.values * self.shape.width
    }

    fn places_at(&self) -> u64 {
        self.labels_at() + if self.shape.labelled { self.shape.lines * self.shape.width } else { 0 }
    }

    fn places(&self) -> Slab<u32> {
        Slab::over(self.bytes.slice(self.places_at() as usize..))
    }
}

/// Bytes of a line with so many values, without its share of what all lines have in common.
fn line_bytes(shape: &Shape, values: u64) -> u64 {
    8 + values * (shape.width + 4) + if shape.labelled { shape.width } else { 0 }
}

/// A chunk that is being put together.
#[derive(Default)]
struct Builder {
    starts: Vec<u64>,
    values: Vec<u8>,
    labels: Vec<u8>,
    places: Vec<u8>,
}

impl Builder {
    fn add(&mut self, part: &Part, lines: Range<u64>) {
        let width = part.shape.width;
        let (from, to) = (part.starts[lines.start as usize], part.starts[lines.end as usize]);
        if self.starts.is_empty() {
            self.starts.push(0);
        }
        let base = self.starts[self.starts.len() - 1];
        let ends = &part.starts[lines.start as usize + 1..=lines.end as usize];
        self.starts.extend(ends.iter().map(|end| end - from + base));
        self.values.extend_from_slice(part.run(part.values_at(), width, from..to));
        if part.shape.labelled {
            self.labels.extend_from_slice(part.run(part.labels_at(), width, lines));
        }
        self.places.extend_from_slice(part.run(part.places_at(), 4, from..to));
    }

    /// Writes the chunk, and starts another.
    fn put(&mut self, sink: &mut Sink, form: &Form) -> Result<(Header, u64), DataError> {
        sink.align()?;
        let at = sink.at();
        let shape = Shape {
            lines: self.starts.len() as u64 - 1,
            values: self.starts[self.starts.len() - 1],
            ..form.shape
        };
        for bytes in [bytemuck::cast_slice(&self.starts), &self.values, &self.labels, &self.places] {
            sink.write(bytes)?;
        }
        self.starts.clear();
        self.values.clear();
        self.labels.clear();
        self.places.clear();
        Ok((header(form.kind, &form.dtype, shape), at))
    }
}

/// So many zeros, for a number that a file gives.
fn numbers<N: bytemuck::Zeroable>(count: u64) -> Result<Vec<N>, DataError> {
    let bytes = count.saturating_mul(size_of::<N>() as u64);
    let no_memory = || DataError::Memory { bytes, source: io::ErrorKind::OutOfMemory.into() };
    crate::store::try_zeroed(count).ok_or_else(no_memory)
}

/// What all chunks of a sparse matrix have in common.
struct Form {
    kind: &'static str,
    dtype: String,
    /// Width of the matrix and of its values, and whether there are labels.
    shape: Shape,
}

/// Puts lines together into chunks. `total` is what the lines have in bytes.
fn assemble(
    form: &Form,
    parts: usize,
    mut load: impl FnMut(usize) -> Result<Part, DataError>,
    rule: Rule,
    (lines, total): (u64, u64),
    keep: &Keep,
    notes: Vec<u8>,
) -> Result<ConvertedChunks, DataError> {
    let mut sink = Sink::create(keep)?;
    let mut packer = Packer::new(total);
    let mut counts = rule.counts(lines, lines)?;
    let (mut due, mut builder, mut pieces) = (0, Builder::default(), Vec::new());
    for index in 0..parts {
        let part = load(index)?;
        let mut from = 0;
        for line in 0..part.shape.lines {
            let values = part.starts[line as usize + 1] - part.starts[line as usize];
            let starts = match rule {
                Rule::Standard => packer.starts_chunk(line_bytes(&form.shape, values)),
                _ => due == 0,
            };
            if starts {
                due = counts.next().unwrap_or(u64::MAX);
                builder.add(&part, from..line);
                from = line;
                if builder.starts.len() > 1 {
                    pieces.push(builder.put(&mut sink, form)?);
                }
            }
            due = due.saturating_sub(1);
        }
        builder.add(&part, from..part.shape.lines);
    }
    if builder.starts.len() > 1 {
        pieces.push(builder.put(&mut sink, form)?);
    }
    if pieces.len() > u32::MAX as usize {
        return Err(DataError::TooManyChunks { chunks: pieces.len() as u64 });
    }
    ConvertedChunks::finish(sink, pieces, lines, total, notes)
}

/// Another cut of chunks that are there.
pub(super) fn cut_again(
    chunks: &[ChunkEntry],
    rule: Rule,
    lines: u64,
    keep: &Keep,
) -> Result<ConvertedChunks, DataError> {
    let shape = |header: &Header| -> Option<Shape> {
        let &[lines, across, values, labels] = header.shape.as_slice() else { return None };
        let width = match header.dtype.as_str() {
            "u8" => 1,
            "f32" | "i32" => 4,
            _ => 8,
        };
        let shape = Shape { lines, across, values, labelled: labels == 1, width };
        (shape.bytes() == Some(header.bytes)).then_some(shape)
    };
    let load = |index: usize| -> Result<Part, DataError> {
        let chunk = &chunks[index];
        let damaged = || {
            let header = &chunk.header;
            let source =
                ChunkError::Shape { kind: "sparse", shape: header.shape.clone(), bytes: header.bytes };
            DataError::Chunk { index, source }
        };
        let part = Part::over(shape(&chunk.header).ok_or_else(damaged)?, chunk.load()?);
        // Its bytes are what they were named after; that they were in order then is checked all the same.
        let ordered = part.starts.is_sorted() && part.starts[0] == 0;
        let ends = part.starts[part.shape.lines as usize] == part.shape.values;
        if ordered && ends { Ok(part) } else { Err(damaged()) }
    };
    let first = load(0)?.shape;
    let kind = if chunks[0].header.kind == "csc" { "csc" } else { "csr" };
    let form = Form { kind, dtype: chunks[0].header.dtype.clone(), shape: first };
    let total = chunks.iter().map(|chunk| chunk.header.bytes - 8).sum();
    assemble(&form, chunks.len(), load, rule, (lines, total), keep, Vec::new())
}

/// Takes rows of a sparse matrix and gives a data set of its rows or of its columns.
///
/// ```
/// use qjam::Csr;
/// use qjam::source::kept::{Keep, SparseWriter};
/// let mut rows = SparseWriter::create(&Keep::Memory, true);
/// rows.push(&Csr::from_vecs(vec![0, 2], vec![0, 2], vec![1.0, 2.0], 3, Some(vec![1.0]))?)?;
/// rows.push(&Csr::from_vecs(vec![0, 1], vec![1], vec![3.0], 3, Some(vec![0.0]))?)?;
/// let x = rows.finish(3, Vec::new())?;
/// assert_eq!(x.chunk(0)?.row(1), (&[1][..], &[3.0][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SparseWriter<T: Element> {
    keep: Keep,
    labelled: bool,
    parts: Vec<(Shape, Aside)>,
    held_bytes: u64,
    spill: Option<(Beside, u64)>,
    rows: u64,
    values: u64,
    /// One more than the last column seen.
    cols: u64,
    kind: PhantomData<T>,
}

/// Where a part was set aside.
enum Aside {
    Memory(Bytes),
    File(u64),
}

impl<T: Element> SparseWriter<T> {
    /// Starts a matrix, whose rows have labels or have none.
    pub fn create(keep: &Keep, labelled: bool) -> Self {
        SparseWriter {
            keep: keep.clone(),
            labelled,
            parts: Vec::new(),
            held_bytes: 0,
            spill: None,
            rows: 0,
            values: 0,
            cols: 0,
            kind: PhantomData,
        }
    }

    /// Number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of values so far.
    pub fn values(&self) -> u64 {
        self.values
    }

    /// One more than the last column that was not zero so far.
    pub fn cols(&self) -> u64 {
        self.cols
    }

    /// Adds rows. How many columns they say they have does not matter here.
    pub fn push(&mut self, rows: &Csr<T>) -> Result<(), DataError> {
        if rows.labels().is_some() != self.labelled {
            return Err(DataError::Labels);
        }
        if rows.rows() == 0 {
            return Ok(());
        }
        let last = rows.columns().iter().max().map_or(0, |last| u64::from(*last) + 1);
        self.cols = self.cols.max(last);
        let (header, bytes) = rows.0.to_chunk("csr");
        let shape = Shape {
            lines: header.shape[0],
            across: header.shape[1],
            values: header.shape[2],
            labelled: self.labelled,
            width: size_of::<T>() as u64,
        };
        self.rows += shape.lines;
        self.values += shape.values;
        self.make_room(bytes.len() as u64)?;
        let aside = match &self.keep {
            Keep::File(place) if self.held_bytes + bytes.len() as u64 > HELD_BYTES => {
                let (beside, at) = match &mut self.spill {
                    Some(spill) => spill,
                    None => self.spill.insert((Beside::create(place)?, 0)),
                };
                beside.file().write_all(&bytes).map_err(|source| beside.failed(source))?;
                let start = *at;
                *at += bytes.len() as u64;
                Aside::File(start)
            }
            _ => {
                self.held_bytes += bytes.len() as u64;
                Aside::Memory(bytes.into())
            }
        };
        self.parts.push((shape, aside));
        Ok(())
    }

    /// Decides for a file when memory does not suffice, and refuses what there is no room for.
    fn make_room(&mut self, more: u64) -> Result<(), DataError> {
        let end = self.held_bytes + more;
        if let Keep::Cached { memory_bytes_max, .. } = &self.keep
            && end > *memory_bytes_max
            && let Some(place) = self.keep.file()?
        {
            self.keep = Keep::File(place);
        }
        // They are put together into chunks beside these.
        if end / HELD_BYTES > self.held_bytes / HELD_BYTES && self.keep == Keep::Memory {
            super::must_fit(end * 2)?;
        }
        Ok(())
    }

    fn load(&self, index: usize) -> Result<Part, DataError> {
        let (shape, aside) = &self.parts[index];
        let bytes = match (aside, &self.spill) {
            (Aside::File(at), Some((beside, _))) => {
                let mut bytes = vec![0; shape.bytes().unwrap_or(0) as usize];
                beside.file().read_exact_at(&mut bytes, *at).map_err(|source| beside.failed(source))?;
                bytes.into()
            }
            (Aside::Memory(bytes), _) => bytes.clone(),
            (Aside::File(_), None) => unreachable!("what is in a file has a file"),
        };
        Ok(Part::over(*shape, bytes))
    }

    fn form(&self, kind: &'static str, across: u64, labelled: bool) -> Form {
        let width = size_of::<T>() as u64;
        Form { kind, dtype: T::DTYPE.into(), shape: Shape { lines: 0, across, values: 0, labelled, width } }
    }

    fn total(&self, form: &Form, lines: u64) -> u64 {
        line_bytes(&form.shape, 0) * lines + self.values * (form.shape.width + 4)
    }

    fn checked(&self, cols: u64) -> Result<(), DataError> {
        match (self.rows, cols) {
            (0, _) => Err(DataError::Empty { what: "rows" }),
            (_, 0) => Err(DataError::NoColumns),
            _ if cols < self.cols => Err(DataError::TooFewColumns { cols, needed: self.cols }),
            _ => Ok(()),
        }
    }

    /// The rows in chunks, of so many columns, with the reader's notes.
    pub(crate) fn written(self, cols: u64, notes: Vec<u8>) -> Result<ConvertedChunks, DataError> {
        self.checked(cols)?;
        let form = self.form("csr", cols, self.labelled);
        let sizes = (self.rows, self.total(&form, self.rows));
        let load = |index| self.load(index);
        assemble(&form, self.parts.len(), load, Rule::Standard, sizes, &self.keep, notes)
    }

    /// The columns in chunks, without labels.
    pub(crate) fn written_columns(self, cols: u64, notes: Vec<u8>) -> Result<ConvertedChunks, DataError> {
        self.checked(cols)?;
        if self.rows > 1 << 32 {
            return Err(DataError::TooWide { what: "rows", count: self.rows, most: 1 << 32 });
        }
        if cols > COLUMNS_MAX {
            return Err(DataError::TooWide { what: "columns", count: cols, most: COLUMNS_MAX });
        }
        let mut counts = numbers::<u64>(cols)?;
        for index in 0..self.parts.len() {
            self.load(index)?.places().iter().for_each(|column| counts[*column as usize] += 1);
        }
        let form = self.form("csc", self.rows, false);
        // As many neighbouring columns at once as memory allows, and for each such group once through the rows.
        let (mut groups, mut first, mut bytes) = (Vec::new(), 0, 0);
        for (column, count) in counts.iter().enumerate() {
            let more = line_bytes(&form.shape, *count);
            if bytes > 0 && bytes + more > HELD_BYTES {
                groups.push(first..column);
                (first, bytes) = (column, 0);
            }
            bytes += more;
        }
        groups.push(first..cols as usize);
        let load = |group: usize| self.columns(&form, groups[group].clone(), &counts);
        let sizes = (cols, self.total(&form, cols));
        assemble(&form, groups.len(), load, Rule::Standard, sizes, &self.keep, notes)
    }

    /// Some columns, gathered from all rows.
    fn columns(&self, form: &Form, columns: Range<usize>, counts: &[u64]) -> Result<Part, DataError> {
        let mut starts = numbers::<u64>(columns.len() as u64 + 1)?;
        for (i, column) in columns.clone().enumerate() {
            starts[i + 1] = starts[i] + counts[column];
        }
        let mut next = starts.clone();
        let total = starts[columns.len()] as usize;
        let (mut values, mut places) = (numbers::<T>(total as u64)?, numbers::<u32>(total as u64)?);
        let mut row = 0_u64;
        for index in 0..self.parts.len() {
            let part = self.load(index)?;
            let (part_places, part_values) = (part.places(), {
                let range = part.values_at() as usize..part.labels_at() as usize;
                Slab::<T>::over(part.bytes.slice(range))
            });
            for line in part.starts.windows(2) {
                let range = line[0] as usize..line[1] as usize;
                let line_places = &part_places[range.clone()];
                let from = range.start + line_places.partition_point(|c| (*c as usize) < columns.start);
                let to = range.start + line_places.partition_point(|c| (*c as usize) < columns.end);
                for k in from..to {
                    let at = &mut next[part_places[k] as usize - columns.start];
                    values[*at as usize] = part_values[k];
                    places[*at as usize] = row as u32;
                    *at += 1;
                }
                row += 1;
            }
        }
        let shape = Shape { lines: columns.len() as u64, values: total as u64, ..form.shape };
        let mut bytes = bytemuck::cast_slice::<u64, u8>(&starts).to_vec();
        bytes.extend_from_slice(bytemuck::cast_slice(&values));
        bytes.extend_from_slice(bytemuck::cast_slice(&places));
        Ok(Part::over(shape, bytes.into()))
    }
}
