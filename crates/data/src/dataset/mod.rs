//! A data set: an ordered list of chunks, and the source they were cut from.
//!
//! Made from values or a file by the constructors of each kind, it goes to the master together with a function. Two
//! data sets with the same chunks have the same [`DataSetId`], whatever they were made from; workers that know it need
//! nothing sent again.

mod array;
mod written;
mod zipped;

pub use array::Array;
use qjam_core::chunk::Hasher;
pub use qjam_core::ids::DataSetId;
use qjam_core::lineage::{Lineage, OPERATIONS_MAX};
use qjam_core::records::RecordCounts;
use qjam_core::reduce::blocks::{CHUNKS_LEAST, DATA_PER_RESULT};

use crate::chunk::{Chunk, ChunkId, Csc, Csr, Dense, Element, Header, Labelled, Lines, List, Nothing, Raw};
use crate::source::array::{Layout, over};
use crate::source::cut::Rule;
use crate::source::kept::{ConvertedChunks, Keep, SparseWriter};
use crate::source::lines::Text;
use crate::source::list::Values;
use crate::source::location::{self, ChunkEntry, ChunkLocation};
use crate::source::matrix::Matrix;
use crate::source::memory::UserMemory;
use crate::source::nothing::Tasks;
use crate::source::{DataError, Records, Source, npy, numbers, raw, slices};
use crate::store::mapped;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

/// An ordered list of chunks of kind `C`. Clones are the same data set.
///
/// ```
/// use qjam::{DataSet, Dense};
/// let x = DataSet::<Dense<f64>>::dense(vec![0.0; 30_000], 3).unwrap();
/// assert_eq!((x.records(), x.len()), (10_000, 4));       // chunks of about 64 KiB
/// let halves = x.partitions(2).unwrap();
/// assert_eq!(halves.chunk(1).unwrap().rows(), 5_000);
/// ```
pub struct DataSet<C> {
    inner: Arc<CutData>,
    kind: PhantomData<fn() -> C>,
}

/// One cut of a source.
#[derive(Clone)]
pub struct CutData {
    /// The name of this cut of these records.
    pub id: DataSetId,
    /// The same together with where every chunk lies. Workers know it by this name: they keep places, and the same
    /// records may be found in one file today and in another tomorrow.
    pub located: DataSetId,
    /// All of them, in order.
    pub chunks: Vec<Arc<ChunkEntry>>,
    /// How many records each chunk has.
    pub records: RecordCounts,
    /// How chunks are turned into those that functions get, if this is a derived data set.
    pub lineage: Option<Arc<Lineage>>,
    source: Arc<dyn Source>,
    /// How it was cut, where that is known: the same cut again is this one.
    rule: Option<Rule>,
}

impl CutData {
    /// A cut of which only the names of the chunks are known. Their contents are put in one by one.
    pub fn named(located: DataSetId, chunks: Vec<(ChunkId, Header)>) -> CutData {
        let id = DataSetId::of(chunks.iter().map(|(id, _)| id));
        let source = Arc::new(Elsewhere { bytes: chunks.iter().map(|(_, header)| header.bytes).sum() });
        let records = RecordCounts::of(chunks.iter().map(|(_, header)| header.records()));
        let absent = |(id, header)| Arc::new(ChunkEntry::absent(id, header));
        let chunks = chunks.into_iter().map(absent).collect();
        CutData { id, located, chunks, records, lineage: None, source, rule: None }
    }

    /// Bytes of all chunks together.
    pub fn bytes(&self) -> u64 {
        self.source.bytes()
    }

    /// The same chunks, from which others are derived. The name follows from theirs and from how.
    pub(crate) fn with_lineage(mut self, lineage: Lineage) -> CutData {
        let what = Header { kind: "derived".into(), dtype: String::new(), shape: Vec::new(), bytes: 0 };
        let mut hasher = Hasher::new(&what);
        hasher.update(&DataSetId::of(self.chunks.iter().map(|chunk| &chunk.id)).0);
        for stretch in &lineage.stretches {
            hasher.update(&stretch.chunks.to_le_bytes());
            hasher.update(&stretch.name(stretch.operations.len()));
        }
        self.id = DataSetId(hasher.finish().0);
        (self.rule, self.lineage) = (None, Some(Arc::new(lineage)));
        self
    }

    /// The chunks of one and behind them those of another.
    pub(crate) fn joined(left: &CutData, right: &CutData) -> CutData {
        let entries = left.chunks.iter().chain(&right.chunks);
        let source = Selection {
            records: left.source.records().saturating_add(right.source.records()),
            bytes: left.source.bytes().saturating_add(right.source.bytes()),
        };
        CutData::of(entries.map(|entry| ChunkEntry::clone(entry)).collect(), Arc::new(source), None)
    }

    /// Drops all chunks but the first so many, of which there is at least one.
    pub(crate) fn keep_first(&mut self, chunks: usize) {
        let entries = self.chunks.iter().take(chunks.max(1)).map(|entry| ChunkEntry::clone(entry)).collect();
        *self = CutData::of(entries, self.source.clone(), None);
    }

    fn of(chunks: Vec<ChunkEntry>, source: Arc<dyn Source>, rule: Option<Rule>) -> CutData {
        let id = DataSetId::of(chunks.iter().map(|chunk| &chunk.id));
        let located = location::located(id, &chunks);
        let records = RecordCounts::of(chunks.iter().map(|chunk| chunk.header.records()));
        let chunks = chunks.into_iter().map(Arc::new).collect();
        CutData { id, located, chunks, records, lineage: None, source, rule }
    }

    /// Whether a round may run over it: the files it was made from, if any, still are what they were, and it is not derived
    /// by too many operations. The chunks of a source are in one file at most.
    pub fn check(&self) -> Result<(), DataError> {
        let mut firsts = vec![0];
        if let Some(lineage) = &self.lineage {
            let longest = lineage.stretches.iter().map(|stretch| stretch.operations.len()).max();
            if let Some(operations) = longest.filter(|operations| *operations > OPERATIONS_MAX) {
                return Err(DataError::LineageTooLong { operations });
            }
            let ends = lineage.stretches.iter().scan(0, |end, stretch| {
                *end += stretch.chunks as usize;
                Some(*end)
            });
            firsts.extend(ends);
        }
        let mut firsts = firsts.into_iter().filter_map(|first| self.chunks.get(first));
        firsts.try_for_each(|chunk| chunk.place.must_be_unchanged())
    }
}

/// Records that another process has cut.
struct Elsewhere {
    bytes: u64,
}

impl Source for Elsewhere {
    fn records(&self) -> u64 {
        0
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn cut(&self, _: Rule) -> Result<Vec<ChunkEntry>, DataError> {
        Err(DataError::Empty { what: "records of another process" })
    }
}

/// Some chunks of another cut.
struct Selection {
    records: u64,
    bytes: u64,
}

impl Source for Selection {
    fn records(&self) -> u64 {
        self.records
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn cut(&self, _: Rule) -> Result<Vec<ChunkEntry>, DataError> {
        Err(DataError::CutAgain)
    }
}

impl<T: Element> DataSet<Dense<T>> {
    /// A matrix in memory, row after row. The values are copied once, to where other processes can read them.
    pub fn dense(values: Vec<T>, cols: usize) -> Result<Self, DataError> {
        Self::from_source(Matrix::in_memory(&values, cols)?)
    }

    /// A few rows for a function that is called here and now, as one chunk. They are neither hashed nor shared: the chunk's
    /// name says how many they are and not what is in them, so no worker may be given it.
    ///
    /// ```
    /// use qjam::{DataSet, Dense};
    /// let x = DataSet::<Dense<f64>>::here(&[1.0, 2.0, 3.0, 4.0], 2).unwrap();
    /// assert_eq!((x.records(), x.len(), x.chunk(0).unwrap().row(1)), (2, 1, &[3.0, 4.0][..]));
    /// assert!(DataSet::<Dense<f64>>::here(&[1.0, 2.0, 3.0], 2).is_err());
    /// ```
    pub fn here(values: &[T], cols: usize) -> Result<Self, DataError> {
        if cols == 0 || values.is_empty() || !values.len().is_multiple_of(cols) {
            // The error is that of any matrix.
            return Self::dense(values.to_vec(), cols);
        }
        let records = (values.len() / cols) as u64;
        let header = Header::dense(T::DTYPE, records, cols as u64);
        let chunk = ChunkEntry::in_memory(ChunkId::of(&header, &[]), header, bytemuck::cast_slice(values));
        let bytes = chunk.header.bytes;
        Ok(Self::of_chunks(vec![chunk], Arc::new(Selection { records, bytes })))
    }

    /// A matrix in a file that NumPy wrote (`numpy.save`). The file may be larger than memory and must not change
    /// while the data set is in use.
    ///
    /// ```no_run
    /// use qjam::{DataSet, Dense};
    /// let x = DataSet::<Dense<f64>>::npy("x.npy")?;
    /// println!("{} rows in {} chunks", x.records(), x.len());
    /// # Ok::<(), qjam::DataError>(())
    /// ```
    pub fn npy(path: impl AsRef<Path>) -> Result<Self, DataError> {
        Self::from_source(npy::open::<T>(path.as_ref())?)
    }

    /// A matrix in a file of nothing but numbers, as `a.tofile(path)` writes it: row after row, little-endian. The file
    /// may be larger than memory and must not change while the data set is in use.
    ///
    /// ```
    /// use qjam::{DataSet, Dense};
    /// let path = std::env::temp_dir().join(format!("qjam-example-{}.raw", std::process::id()));
    /// std::fs::write(&path, [1_u8, 2, 3, 4, 5, 6])?;
    /// let x = DataSet::<Dense<u8>>::raw(&path, 3)?;
    /// assert_eq!(x.chunk(0)?.row(1), [4, 5, 6]);
    /// std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn raw(path: impl AsRef<Path>, cols: usize) -> Result<Self, DataError> {
        Self::from_source(raw::open::<T>(path.as_ref(), cols)?)
    }

    /// A matrix somewhere in a file, row after row and little-endian, from byte `offset` on.
    pub fn within(path: impl AsRef<Path>, offset: u64, rows: u64, cols: u64) -> Result<Self, DataError> {
        Self::from_source(raw::open_within::<T>(path.as_ref(), offset, rows, cols)?)
    }

    /// The same rows, of which the last column is the label.
    ///
    /// ```
    /// use qjam::{DataSet, Dense};
    /// let x = DataSet::<Dense<f64>>::dense(vec![1.0, 2.0, 0.5, 3.0, 4.0, 0.7], 3).unwrap().labelled().unwrap();
    /// assert_eq!((x.chunk(0).unwrap().row(1), x.chunk(0).unwrap().label(1)), (&[3.0, 4.0][..], 0.7));
    /// ```
    pub fn labelled(&self) -> Result<DataSet<Labelled<T>>, DataError> {
        if self
            .inner
            .chunks
            .first()
            .is_some_and(|chunk| chunk.header.shape.get(1).is_none_or(|cols| *cols < 2))
        {
            return Err(DataError::NoLabel);
        }
        Ok(DataSet { inner: self.inner.clone(), kind: PhantomData })
    }
}

impl<T: Element> DataSet<Csr<T>> {
    /// A sparse matrix in memory, to be cut between its rows. It is copied once, to where other processes can read it.
    ///
    /// ```
    /// use qjam::{Csr, DataSet};
    /// let x = Csr::from_vecs(vec![0, 1, 3], vec![1, 0, 2], vec![5.0, 1.0, 2.0], 3, None).unwrap();
    /// let parts = DataSet::csr(&x).unwrap().partitions(2).unwrap();
    /// assert_eq!(parts.chunk(1).unwrap().row(0), (&[0, 2][..], &[1.0, 2.0][..]));
    /// ```
    pub fn csr(matrix: &Csr<T>) -> Result<Self, DataError> {
        let mut rows = SparseWriter::create(&Keep::Memory, matrix.labels().is_some());
        rows.push(matrix)?;
        rows.finish(matrix.cols() as u64, Vec::new())
    }
}

impl<T: Element> DataSet<Csc<T>> {
    /// The columns of a sparse matrix in memory, to be cut between them. Labels of its rows stay behind.
    ///
    /// ```
    /// use qjam::{Csr, DataSet};
    /// let x = Csr::from_vecs(vec![0, 1, 3], vec![1, 0, 2], vec![5.0, 1.0, 2.0], 3, None).unwrap();
    /// let columns = DataSet::columns_of(&x).unwrap();
    /// assert_eq!((columns.records(), columns.chunk(0).unwrap().col(2)), (3, (&[1][..], &[2.0][..])));
    /// ```
    pub fn columns_of(matrix: &Csr<T>) -> Result<Self, DataError> {
        let mut rows = SparseWriter::create(&Keep::Memory, matrix.labels().is_some());
        rows.push(matrix)?;
        rows.finish_columns(matrix.cols() as u64, Vec::new())
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> DataSet<List<T>> {
    /// A list of anything serde can write.
    ///
    /// ```
    /// use qjam::DataSet;
    /// let names = DataSet::list(["ada", "grace", "mary"].map(String::from)).unwrap();
    /// assert_eq!(names.records(), 3);
    /// ```
    pub fn list(items: impl IntoIterator<Item = T>) -> Result<Self, DataError> {
        Self::from_source(Values::collect(items.into_iter().map(Ok))?)
    }

    /// Records that come from your own [`Records`].
    pub fn custom(records: impl Records<Record = T>) -> Result<Self, DataError> {
        let slices = (0..records.chunks())
            .map(|index| records.slice(index).map_err(|source| DataError::Slice { index, source }));
        Self::from_source(Values::collect(slices)?)
    }
}

impl DataSet<Lines> {
    /// The lines of a text file in UTF-8. The file may be larger than memory and must not change while the data set is
    /// in use.
    pub fn lines(path: impl AsRef<Path>) -> Result<Self, DataError> {
        Self::from_source(Text::open(path.as_ref())?)
    }

    /// The lines of a text.
    ///
    /// ```
    /// use qjam::DataSet;
    /// let poem = DataSet::text("roses\nviolets\nsugar\n".into()).unwrap().partitions(3).unwrap();
    /// assert_eq!(poem.chunk(1).unwrap().iter().next(), Some("violets"));
    /// ```
    pub fn text(text: String) -> Result<Self, DataError> {
        Self::from_source(Text::in_memory(&text)?)
    }
}

impl DataSet<Nothing> {
    /// So many tasks without data, for functions that only use their parameters and their [`Ctx`](crate::Ctx).
    ///
    /// ```
    /// assert_eq!(qjam::DataSet::nothing(16).unwrap().len(), 16);
    /// ```
    pub fn nothing(tasks: usize) -> Result<Self, DataError> {
        Self::from_source(Tasks::new(tasks as u64)?)
    }
}

/// What Python's data sets are made of; see also `qjam::python::Array` for arrays in memory and
/// `qjam::python::Slices` for objects.
impl DataSet<Raw> {
    /// An array in a file, from `offset` on. The file may be larger than memory and must not change while the data set is
    /// in use.
    pub fn array_file(
        path: impl AsRef<Path>,
        offset: u64,
        layout: Layout,
        slice_size: Option<u64>,
    ) -> Result<Self, DataError> {
        let rows = crate::source::array::open(path.as_ref(), offset, layout)?;
        Self::cut(Arc::new(rows), rule(slice_size))
    }

    /// The same chunks of one file where the user has mapped it: `memory` is what lies from `offset` on. Interpreters that this
    /// process starts map the file themselves, and nothing is read or copied for them.
    pub fn mapped(&self, memory: bytes::Bytes, offset: u64) -> Result<Self, DataError> {
        let Some(ChunkLocation::File { path, stamp, .. }) =
            self.inner.chunks.first().map(|chunk| &chunk.place)
        else {
            return Ok(self.clone());
        };
        let file = location::UserFile::open(path)?;
        file.must_be(stamp)?;
        let fd = file.descriptor().map_err(|source| DataError::Io { path: path.to_path_buf(), source })?;
        let memory = UserMemory::over(mapped::of_file(fd, offset as usize, memory));
        let moved = self.inner.chunks.iter().map(|chunk| {
            let place =
                ChunkLocation::Memory { memory: memory.clone(), offset: chunk.place.offset() - offset };
            ChunkEntry { place, ..ChunkEntry::clone(chunk) }
        });
        Ok(Self::made(moved.collect(), self.inner.source.clone(), self.inner.rule))
    }

    /// An array in memory, in so many chunks (or one per row, if there are fewer). Nobody may write to the memory as long
    /// as the data set is in use: see `qjam::python::Array` where somebody may.
    ///
    /// ```
    /// use qjam::python::Layout;
    /// use qjam::{DataSet, Dense};
    /// let layout = Layout { kind: "ndarray".into(), dtype: "<f4".into(), shape: vec![3, 1], item_bytes: 4 };
    /// let x = DataSet::array(vec![0; 12].into(), layout, 2)?.typed::<Dense<f32>>()?;
    /// assert_eq!((x.len(), x.partitions(2)?.id()), (2, x.id()));
    /// # Ok::<(), qjam::DataError>(())
    /// ```
    pub fn array(memory: bytes::Bytes, layout: Layout, chunks: usize) -> Result<Self, DataError> {
        if chunks == 0 {
            return Err(DataError::ZeroCut { what: "0 partitions" });
        }
        let (rows, _) = over(&memory, layout)?;
        Self::cut(Arc::new(rows), Rule::Partitions(chunks as u64))
    }

    /// A matrix in a text file whose lines are equally long. What is in the lines is looked at by whoever opens a chunk.
    pub fn number_lines(
        path: impl AsRef<Path>,
        cols: u64,
        slice_size: Option<u64>,
    ) -> Result<Self, DataError> {
        Self::cut(Arc::new(numbers::open(path.as_ref(), cols)?), rule(slice_size))
    }

    /// The same cut with all its bytes where other processes of this host can map them, or in files. What was in the
    /// user's own memory is copied, once.
    pub fn shared(&self) -> Result<Self, DataError> {
        let is_own = |chunk: &Arc<ChunkEntry>| matches!(chunk.place, ChunkLocation::Memory { .. });
        if !self.inner.chunks.iter().any(is_own) {
            return Ok(self.clone());
        }
        let bytes = self.bytes();
        let moved = location::spread(&self.inner.chunks, bytes, |chunk| {
            let mut moved = ChunkEntry::clone(chunk);
            if let ChunkLocation::Memory { memory, offset } = &chunk.place {
                let region = memory.region().map_err(|source| DataError::Memory { bytes, source })?;
                moved.place = ChunkLocation::Shared { region, offset: *offset };
            }
            Ok(moved)
        });
        let moved = moved.into_iter().collect::<Result<Vec<_>, DataError>>()?;
        Ok(Self::made(moved, self.inner.source.clone(), self.inner.rule))
    }

    /// The same data set for functions that take chunks of one kind, if its chunks are of that kind.
    ///
    /// ```
    /// use qjam::{DataSet, Dense};
    /// let raw = DataSet::dense(vec![1.0_f32, 2.0], 1).unwrap().untyped();
    /// assert_eq!(raw.typed::<Dense<f32>>().unwrap().chunk(0).unwrap().as_slice(), [1.0, 2.0]);
    /// assert!(raw.typed::<Dense<f64>>().is_err());
    /// ```
    pub fn typed<C: Chunk>(&self) -> Result<DataSet<C>, DataError> {
        let data = DataSet { inner: self.inner.clone(), kind: PhantomData };
        data.chunk(0).map(|_: C| data)
    }

    /// The content hash of a chunk.
    pub fn chunk_id(&self, index: usize) -> Option<ChunkId> {
        self.inner.chunks.get(index).map(|chunk| chunk.id)
    }

    /// Whether a chunk is exactly this pickle with these buffers.
    pub fn is_slice(&self, index: usize, stream: &[u8], buffers: &[&[u8]]) -> bool {
        let chunk = self.inner.chunks.get(index).and_then(|chunk| chunk.load().ok());
        chunk.is_some_and(|chunk| slices::is_slice(&chunk, stream, buffers))
    }
}

impl<C: Chunk> DataSet<C> {
    /// The same data set for functions that take chunks of any kind.
    ///
    /// ```
    /// let tasks = qjam::DataSet::nothing(3).unwrap().untyped();
    /// assert_eq!(tasks.chunk(2).unwrap().header.kind, "nothing");
    /// ```
    pub fn untyped(&self) -> DataSet<Raw> {
        DataSet { inner: self.inner.clone(), kind: PhantomData }
    }

    /// What a reader kept in a file, and the notes it left with it. `None` when there is no such file, or it is not
    /// whole, or holds another kind of chunks: then what it was made from is to be read again.
    pub fn kept(path: impl AsRef<Path>) -> Result<Option<(Self, Vec<u8>)>, DataError> {
        let Some(kept) = ConvertedChunks::open(path.as_ref())? else { return Ok(None) };
        let notes = kept.notes().to_vec();
        let data: DataSet<C> = Self::from_source(kept)?;
        Ok(data.chunk(0).is_ok().then_some((data, notes)))
    }

    pub(crate) fn from_source(source: impl Source + 'static) -> Result<Self, DataError> {
        Self::cut(Arc::new(source), Rule::Standard)
    }

    pub(crate) fn cut(source: Arc<dyn Source>, rule: Rule) -> Result<Self, DataError> {
        let chunks = source.cut(rule)?;
        Ok(Self::made(chunks, source, Some(rule)))
    }

    /// A cut that is known already.
    pub(crate) fn of_chunks(chunks: Vec<ChunkEntry>, source: Arc<dyn Source>) -> Self {
        Self::made(chunks, source, None)
    }

    fn made(chunks: Vec<ChunkEntry>, source: Arc<dyn Source>, rule: Option<Rule>) -> Self {
        DataSet { inner: Arc::new(CutData::of(chunks, source, rule)), kind: PhantomData }
    }

    /// The same records in another cut: exactly `k` chunks (or one per record, if there are fewer), contiguous and as
    /// equal as can be.
    ///
    /// ```
    /// let data = qjam::DataSet::list(0..10_u32).unwrap();
    /// let parts = data.partitions(3).unwrap();
    /// assert_eq!((0..3).map(|i| parts.chunk(i).unwrap().len()).collect::<Vec<_>>(), [4, 3, 3]);
    /// ```
    pub fn partitions(&self, k: usize) -> Result<DataSet<C>, DataError> {
        match k {
            0 => Err(DataError::ZeroCut { what: "0 partitions" }),
            // Naming it once more would read all of it.
            _ if self.inner.rule == Some(Rule::Partitions(k as u64)) => Ok(self.clone()),
            _ => Self::cut(self.inner.source.clone(), Rule::Partitions(k as u64)),
        }
    }

    /// The same records in another cut: `n` to a chunk, and what is left in the last.
    ///
    /// ```
    /// let files = qjam::DataSet::list(["a.wav", "b.wav", "c.wav"].map(String::from)).unwrap();
    /// assert_eq!(files.chunk_records(1).unwrap().len(), 3);
    /// ```
    pub fn chunk_records(&self, n: usize) -> Result<DataSet<C>, DataError> {
        match n {
            0 => Err(DataError::ZeroCut { what: "chunks of 0 records" }),
            _ => Self::cut(self.inner.source.clone(), Rule::Records(n as u64)),
        }
    }

    /// The same records in a coarser cut, for a map whose results are long: chunks have at least four times the bytes of a result of
    /// this length, so that making and combining results is a small part of a round. There are no more chunks than now, and not
    /// fewer than 16, so that there is work for many. The cut depends on the data and on this number alone.
    /// `Master::long_results` says for which functions that pays.
    ///
    /// ```
    /// let data = qjam::DataSet::dense(vec![0.5; 1 << 20], 4)?; // 8 MiB in 128 chunks
    /// let gradient_bytes = 50_000;
    /// assert_eq!((data.len(), data.for_results_of(gradient_bytes)?.len()), (128, 41));
    /// # Ok::<(), qjam::DataError>(())
    /// ```
    pub fn for_results_of(&self, bytes: u64) -> Result<DataSet<C>, DataError> {
        let now = self.len() as u64;
        let wanted = self.bytes() / bytes.saturating_mul(DATA_PER_RESULT).max(1);
        match wanted.max(CHUNKS_LEAST.into()) {
            chunks if chunks < now => self.partitions(chunks as usize),
            _ => Ok(self.clone()),
        }
    }

    /// Some chunks of this cut, in this order, as a data set of their own: for algorithms that look at a part of the data at a time.
    /// Nothing is read or named anew, and workers know its chunks from this data set. It cannot be cut in another way.
    ///
    /// ```
    /// let data = qjam::DataSet::list(0..10_u32)?.chunk_records(2)?;
    /// let ends = data.selected(&[0, 4])?;
    /// assert_eq!((ends.len(), ends.records()), (2, 4));
    /// assert_eq!(ends.chunk(1)?.to_vec(), [8, 9]);
    /// assert!(ends.partitions(3).is_err());
    /// # Ok::<(), qjam::DataError>(())
    /// ```
    pub fn selected(&self, indices: &[usize]) -> Result<DataSet<C>, DataError> {
        let all = self.len();
        let entry = |index: &usize| match self.inner.chunks.get(*index) {
            Some(chunk) => Ok(ChunkEntry::clone(chunk)),
            None => Err(DataError::NoSuchChunk { index: *index, chunks: all }),
        };
        let chunks = indices.iter().map(entry).collect::<Result<Vec<ChunkEntry>, DataError>>()?;
        if chunks.is_empty() {
            return Err(DataError::ZeroCut { what: "a selection of 0 chunks" });
        }
        let source = Selection {
            records: chunks.iter().map(|chunk| chunk.header.records()).sum(),
            bytes: chunks.iter().map(|chunk| chunk.header.bytes).sum(),
        };
        Ok(Self::of_chunks(chunks, Arc::new(source)))
    }

    /// Opens one chunk in this process, for tests and serial runs.
    pub fn chunk(&self, index: usize) -> Result<C, DataError> {
        let chunks = self.len();
        let entry = self.inner.chunks.get(index).ok_or(DataError::NoSuchChunk { index, chunks })?;
        C::open(&entry.header, entry.load()?).map_err(|source| DataError::Chunk { index, source })
    }
}

impl<C> DataSet<C> {
    /// Number of chunks.
    pub fn len(&self) -> usize {
        self.inner.chunks.len()
    }

    /// Never: a data set has at least one record.
    pub fn is_empty(&self) -> bool {
        self.inner.chunks.is_empty()
    }

    /// Number of records: rows, lines or values.
    pub fn records(&self) -> u64 {
        self.inner.source.records()
    }

    /// Bytes of all chunks together.
    pub fn bytes(&self) -> u64 {
        self.inner.source.bytes()
    }

    /// The name of this cut of these records.
    pub fn id(&self) -> DataSetId {
        self.inner.id
    }

    /// Whether the file it was made from, if any, still is what it was. A data set is made from one file at most.
    #[doc(hidden)]
    pub fn must_be_unchanged(&self) -> Result<(), DataError> {
        self.inner.check()
    }

    pub(crate) fn of_cut(inner: Arc<CutData>) -> Self {
        DataSet { inner, kind: PhantomData }
    }

    /// The cut, with its type taken off.
    #[doc(hidden)]
    pub fn erased(&self) -> &Arc<CutData> {
        &self.inner
    }
}

/// The cut for slices of so many records, or the standard one.
fn rule(slice_size: Option<u64>) -> Rule {
    slice_size.map_or(Rule::Standard, Rule::Records)
}

impl<C> Clone for DataSet<C> {
    fn clone(&self) -> Self {
        DataSet { inner: self.inner.clone(), kind: PhantomData }
    }
}

impl<C> fmt::Debug for DataSet<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataSet({} records in {} chunks, {:?})", self.records(), self.len(), self.id())
    }
}
