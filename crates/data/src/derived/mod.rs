//! Derived data sets: how they were made from others, and nothing else.
//!
//! [`Derived`] has the cut of its sources and a [`Lineage`]: which functions turn a chunk of a source into one of its own.
//! Nothing is computed here. A round over it is a round over the chunks of the sources; workers do the operations when
//! they open a chunk. So data is named, sent and found again as ever, and what is derived never travels.

pub mod function;
pub mod record;

pub use function::RecordFunction;
pub use record::{Record, Recorded};

use crate::chunk::{Chunk, Dense, Element, List};
use crate::codec::{Encoder, Params};
use crate::dataset::{CutData, DataSet, DataSetId};
use crate::source::DataError;
use function::{ManyForEach, OneForEach, OneForEachNumbered};
use qjam_core::lineage::{Lineage, Operation, OperationKind, Stretch};
use record::KindOf;
use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A data set that is made from another by functions over its records, when a round needs it and where its chunks are.
///
/// It is lazy: [`DataSet::map`] and the like only note what to do. In a round each worker opens a chunk, passes its records
/// through all functions, one record at a time, and gives what comes out to the function of the round. Nothing that is
/// derived is sent or named by its content. A chunk that was lost with its worker is made again. With
/// [`persist`](Self::persist) workers keep what they have made, as far as there is room.
///
/// Functions have `#[qjam::record]`, so that workers find them by their path.
///
/// ```
/// use qjam::{DataSet, List, Master};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Serialize, Deserialize)]
/// struct Visit { page: String, seconds: f64 }
///
/// #[qjam::record]
/// fn parse(_: &(), line: &str, visits: &mut Vec<Visit>) {
///     if let Some((page, seconds)) = line.split_once(' ') {
///         visits.push(Visit { page: page.into(), seconds: seconds.parse().expect("seconds") });
///     }
/// }
///
/// #[qjam::record]
/// fn is_of(page: &str, visit: &Visit) -> bool {
///     visit.page == page
/// }
///
/// #[qjam::map]
/// fn seconds(_: &(), visits: &List<Visit>) -> f64 {
///     visits.iter().map(|visit| visit.seconds).sum()
/// }
///
/// let log = DataSet::text("home 3.5\nbuy 10\n\nhome 4.5\n".into())?;
/// let visits = log.flat_map(parse, &()).filter(is_of, "home");
/// let m = Master::connect("local:2")?;
/// assert_eq!(m.run(seconds, &(), &visits)?, 8.0);
/// assert_eq!(m.count(&visits)?, 2);
/// println!("{}", visits.explain());
/// # Ok::<(), qjam::Error>(())
/// ```
pub struct Derived<C> {
    /// The chunks of the sources, with the lineage.
    cut: Arc<CutData>,
    kind: PhantomData<fn() -> C>,
}

/// What a round can run over: a [`DataSet`], or one [derived](Derived) from it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a data set",
    note = "rounds run over `&DataSet<C>` and over `&Derived<C>`"
)]
pub trait RoundData {
    /// The kind of chunk that functions get.
    type Chunk: Chunk;

    /// The cut, with its type taken off.
    #[doc(hidden)]
    fn erased(&self) -> &Arc<CutData>;

    /// The same as a data set.
    #[doc(hidden)]
    fn as_set(&self) -> DataSet<Self::Chunk>;
}

impl<C: Chunk> RoundData for DataSet<C> {
    type Chunk = C;

    fn erased(&self) -> &Arc<CutData> {
        DataSet::erased(self)
    }

    fn as_set(&self) -> DataSet<C> {
        self.clone()
    }
}

impl<C: Chunk> RoundData for Derived<C> {
    type Chunk = C;

    fn erased(&self) -> &Arc<CutData> {
        &self.cut
    }

    fn as_set(&self) -> DataSet<C> {
        DataSet::of_cut(self.cut.clone())
    }
}

macro_rules! operations {
    ($owner:ident) => {
        impl<C: Recorded> $owner<C> {
            /// One record for each: what the function gives.
            ///
            /// ```
            /// # use qjam::{DataSet, Master};
            /// #[qjam::record]
            /// fn length(_: &(), word: &String) -> u64 {
            ///     word.len() as u64
            /// }
            ///
            /// let words = DataSet::list(["one", "three"].map(String::from))?;
            /// assert_eq!(Master::connect("local:2")?.collect(&words.map(length, &()))?, [3, 5]);
            /// # Ok::<(), qjam::Error>(())
            /// ```
            pub fn map<F, M>(&self, f: F, params: &F::Params) -> Derived<List<F::Output>>
            where
                F: RecordFunction<M, Record = C::Record, Shape = OneForEach>,
                F::Output: Record<Chunk = List<F::Output>>,
            {
                self.lazy().then(OperationKind::Map, f.erase().name(), params)
            }

            /// The same, and the function is told the number of the record: its place in the data set, from 0. With
            /// `-> (u64, T)` that is what is called zip-with-index. How many records there are in front of a chunk is only
            /// known as long as none were left out or added: after a `filter`, `flat_map`, `rows` or `sample` it is an error.
            ///
            /// ```
            /// # use qjam::{DataSet, Master};
            /// #[qjam::record]
            /// fn numbered(_: &(), number: u64, word: &String) -> (u64, String) {
            ///     (number, word.clone())
            /// }
            ///
            /// let words = DataSet::list(["to", "be", "or"].map(String::from))?.chunk_records(1)?;
            /// let found = Master::connect("local:2")?.collect(&words.map_numbered(numbered, &())?)?;
            /// assert_eq!(found[2], (2, "or".to_string()));
            /// # Ok::<(), qjam::Error>(())
            /// ```
            pub fn map_numbered<F, M>(
                &self,
                f: F,
                params: &F::Params,
            ) -> Result<Derived<List<F::Output>>, DataError>
            where
                F: RecordFunction<M, Record = C::Record, Shape = OneForEachNumbered>,
                F::Output: Record<Chunk = List<F::Output>>,
            {
                self.lazy().then_numbered(f.erase().name(), params)
            }

            /// The records for which the function says `true`.
            pub fn filter<F, M>(&self, f: F, params: &F::Params) -> Derived<C>
            where
                F: RecordFunction<M, Record = C::Record, Output = bool, Shape = OneForEach>,
            {
                self.lazy().then(OperationKind::Filter, f.erase().name(), params)
            }

            /// Any number of records for each: those that the function pushes.
            ///
            /// ```
            /// # use qjam::{DataSet, Master};
            /// #[qjam::record]
            /// fn words(_: &(), line: &str, words: &mut Vec<String>) {
            ///     words.extend(line.split(' ').map(String::from));
            /// }
            ///
            /// let poem = DataSet::text("roses are red\nviolets".into())?;
            /// assert_eq!(Master::connect("local:2")?.count(&poem.flat_map(words, &()))?, 4);
            /// # Ok::<(), qjam::Error>(())
            /// ```
            pub fn flat_map<F, M>(&self, f: F, params: &F::Params) -> Derived<List<F::Output>>
            where
                F: RecordFunction<M, Record = C::Record, Shape = ManyForEach>,
                F::Output: Record<Chunk = List<F::Output>>,
            {
                self.lazy().then(OperationKind::FlatMap, f.erase().name(), params)
            }

            /// A matrix with a row of `cols` numbers for each record: those that the function pushes. A record for which it
            /// pushes none has no row; any other number than `cols` fails the round.
            ///
            /// ```
            /// # use qjam::{DataSet, Dense, Master};
            /// #[qjam::record]
            /// fn parse(separator: &str, line: &str, row: &mut Vec<f64>) {
            ///     row.extend(line.split(separator).map(|field| field.parse::<f64>().expect("a number")));
            /// }
            ///
            /// #[qjam::map]
            /// fn sums(_: &(), x: &Dense<f64>) -> Vec<f64> {
            ///     (0..x.cols()).map(|j| x.rows_iter().map(|row| row[j]).sum()).collect()
            /// }
            ///
            /// let x = DataSet::text("1;2\n3;4\n".into())?.rows(parse, ";", 2);
            /// assert_eq!(Master::connect("local:2")?.run(sums, &(), &x)?, [4.0, 6.0]);
            /// # Ok::<(), qjam::Error>(())
            /// ```
            pub fn rows<F, M>(&self, f: F, params: &F::Params, cols: usize) -> Derived<Dense<F::Output>>
            where
                F: RecordFunction<M, Record = C::Record, Shape = ManyForEach>,
                F::Output: Element,
            {
                self.lazy().then(OperationKind::Rows { cols: cols as u64 }, f.erase().name(), params)
            }

            /// Each record with this probability, by itself. The draws follow from the seed, from how the data set was made,
            /// and from the chunk: they are the same in every round and on every worker.
            ///
            /// ```
            /// # use qjam::{DataSet, Master};
            /// let words = DataSet::list((0..10_000).map(|n| n.to_string()))?.sample(0.1, 7);
            /// let m = Master::connect("local:2")?;
            /// let count = m.count(&words)?;
            /// assert!((900..1_100).contains(&count));
            /// assert_eq!(m.count(&words)?, count);
            /// # Ok::<(), qjam::Error>(())
            /// ```
            ///
            /// # Panics
            ///
            /// When the fraction is not a number between 0 and 1.
            pub fn sample(&self, fraction: f64, seed: u64) -> Derived<C> {
                assert!((0.0..=1.0).contains(&fraction), "a fraction of {fraction} is not between 0 and 1");
                let fraction = (fraction * (1_u64 << 53) as f64) as u64;
                self.lazy().then(OperationKind::Sample { fraction, seed }, "", &())
            }

            /// The chunks of this data set, and behind them those of another.
            ///
            /// ```
            /// # use qjam::{DataSet, Master};
            /// let (a, b) = (DataSet::text("1\n2".into())?, DataSet::text("3".into())?);
            /// assert_eq!(Master::connect("local:2")?.collect(&a.union(&b)?)?, ["1", "2", "3"]);
            /// # Ok::<(), qjam::Error>(())
            /// ```
            pub fn union(&self, other: &impl RoundData<Chunk = C>) -> Result<Derived<C>, DataError> {
                self.lazy().united(&Derived::over(other))
            }
        }
    };
}

operations!(DataSet);
operations!(Derived);

impl<C: Recorded> DataSet<C> {
    /// The same records, derived by no function yet.
    fn lazy(&self) -> Derived<C> {
        Derived::over(self)
    }
}

impl<C: Recorded> Derived<C> {
    fn lazy(&self) -> &Derived<C> {
        self
    }

    /// The same chunks, with a lineage, of no function if there was none.
    #[doc(hidden)]
    pub fn over(data: &impl RoundData<Chunk = C>) -> Derived<C> {
        let cut = data.erased();
        if cut.lineage.is_some() {
            return Derived { cut: cut.clone(), kind: PhantomData };
        }
        let chunks = cut.chunks.len() as u32;
        let source = KindOf::<C>::ERASED.name().to_owned();
        let stretch = Stretch { chunks, source, operations: Vec::new() };
        Derived::of(CutData::clone(cut), Lineage { stretches: vec![stretch] })
    }

    /// Has workers keep what has been made up to here in memory, under its name, as long as the source is in use and there is
    /// room beside the chunks they keep open. The next round finds it and computes nothing of it again; what was lost with a
    /// worker, or had no room, is computed again.
    ///
    /// ```
    /// # use qjam::{DataSet, Master};
    /// #[qjam::record]
    /// fn number(_: &(), line: &str) -> u64 {
    ///     line.parse().expect("a number")
    /// }
    ///
    /// let numbers = DataSet::text("1\n2\n3\n".into())?.partitions(3)?.map(number, &()).persist();
    /// let m = Master::connect("local:1")?;
    /// m.count(&numbers)?;
    /// assert_eq!(m.last_round().unwrap().cache_misses, 3); // made
    /// m.count(&numbers)?;
    /// assert_eq!(m.last_round().unwrap().cache_misses, 0); // found
    /// # Ok::<(), qjam::Error>(())
    /// ```
    pub fn persist(&self) -> Derived<C> {
        self.then(OperationKind::Persist, "", &())
    }

    /// The first so many chunks.
    #[doc(hidden)]
    pub fn first_chunks(&self, chunks: usize) -> Derived<C> {
        let mut cut = CutData::clone(&self.cut);
        cut.keep_first(chunks);
        let mut lineage = self.lineage().clone();
        let mut left = cut.chunks.len() as u32;
        for stretch in &mut lineage.stretches {
            stretch.chunks = stretch.chunks.min(left);
            left -= stretch.chunks;
        }
        lineage.stretches.retain(|stretch| stretch.chunks > 0);
        Derived::of(cut, lineage)
    }

    /// The data set that is left when this is done to the records of all chunks.
    fn then<P, D>(&self, kind: OperationKind, function: &'static str, params: &P) -> Derived<D>
    where
        P: Params + ?Sized,
    {
        self.then_each(function, params, |_| kind)
    }

    /// The same where what is done differs between stretches.
    fn then_each<P, D>(
        &self,
        function: &'static str,
        params: &P,
        kind: impl Fn(usize) -> OperationKind,
    ) -> Derived<D>
    where
        P: Params + ?Sized,
    {
        let mut out = Encoder::new();
        params.encode_params(&mut out);
        let params = if function.is_empty() { Vec::new() } else { out.to_bytes().to_vec() };
        let mut lineage = self.lineage().clone();
        for (number, stretch) in lineage.stretches.iter_mut().enumerate() {
            let operation =
                Operation { kind: kind(number), function: function.into(), params: params.clone() };
            stretch.operations.push(operation);
        }
        Derived::of(CutData::clone(&self.cut), lineage)
    }

    fn then_numbered<P, D>(&self, function: &'static str, params: &P) -> Result<Derived<D>, DataError>
    where
        P: Params + ?Sized,
    {
        let stretches = &self.lineage().stretches;
        if let Some(operation) = stretches.iter().flat_map(|s| &s.operations).find(|o| !keeps_count(o.kind)) {
            return Err(DataError::NoNumbers { after: name_of(operation.kind) });
        }
        let records = self.cut.records.starts();
        let mut chunk = 0;
        let firsts = stretches.iter().map(|stretch| {
            let first = records.range(chunk).start;
            chunk += stretch.chunks;
            first
        });
        let firsts: Vec<u64> = firsts.collect();
        Ok(self.then_each(function, params, |number| OperationKind::Numbered { first: firsts[number] }))
    }

    fn united(&self, other: &Derived<C>) -> Result<Derived<C>, DataError> {
        let chunks = self.cut.chunks.len() + other.cut.chunks.len();
        if u32::try_from(chunks).is_err() {
            return Err(DataError::TooManyChunks { chunks: chunks as u64 });
        }
        let stretches = [self, other].into_iter().flat_map(|data| &data.lineage().stretches);
        let part = |(number, stretch): (usize, &Stretch)| {
            let mut stretch = stretch.clone();
            let (kind, function) = (OperationKind::Part(number as u32), String::new());
            stretch.operations.push(Operation { kind, function, params: Vec::new() });
            stretch
        };
        let lineage = Lineage { stretches: stretches.enumerate().map(part).collect() };
        Ok(Derived::of(CutData::joined(&self.cut, &other.cut), lineage))
    }
}

impl<C> Derived<C> {
    fn of(cut: CutData, lineage: Lineage) -> Derived<C> {
        Derived { cut: Arc::new(cut.with_lineage(lineage)), kind: PhantomData }
    }

    fn lineage(&self) -> &Lineage {
        self.cut.lineage.as_deref().expect("a derived data set has a lineage")
    }

    /// Number of chunks: as many as the sources have.
    pub fn len(&self) -> usize {
        self.cut.chunks.len()
    }

    /// Never: a data set has at least one chunk.
    pub fn is_empty(&self) -> bool {
        self.cut.chunks.is_empty()
    }

    /// Its name: it follows from the names of the sources, the functions, their parameters and the seeds.
    pub fn id(&self) -> DataSetId {
        self.cut.id
    }

    /// How it is made, to be printed.
    ///
    /// ```
    /// # use qjam::DataSet;
    /// #[qjam::record]
    /// fn is_long(least: &u64, line: &str) -> bool {
    ///     line.len() as u64 >= *least
    /// }
    ///
    /// let lines = DataSet::text("a line\nb\n".into())?.filter(is_long, &3).sample(0.5, 7).persist();
    /// let plan = lines.explain().to_string();
    /// assert!(plan.contains("sample(0.5, seed 7)") && plan.contains("is_long"), "{plan}");
    /// # Ok::<(), qjam::DataError>(())
    /// ```
    pub fn explain(&self) -> Plan {
        let records = self.cut.records.starts();
        let mut chunk = 0;
        let part = |stretch: &Stretch| {
            let first = records.range(chunk).start;
            chunk += stretch.chunks;
            let count = records.range(chunk - 1).end - first;
            let source = format!("{} in {} chunks, {count} records", short(&stretch.source), stretch.chunks);
            let operations = stretch.operations.iter().enumerate().map(|(n, operation)| {
                let name = DataSetId(stretch.name(n + 1));
                (operation.to_string(), format!("{name:?}"))
            });
            (source, operations.collect())
        };
        Plan { made: type_name::<C>(), parts: self.lineage().stretches.iter().map(part).collect() }
    }
}

/// Whether as many records come out as go in.
fn keeps_count(kind: OperationKind) -> bool {
    match kind {
        OperationKind::Map
        | OperationKind::Numbered { .. }
        | OperationKind::Part(_)
        | OperationKind::Persist => true,
        OperationKind::Filter
        | OperationKind::FlatMap
        | OperationKind::Rows { .. }
        | OperationKind::Sample { .. } => false,
    }
}

/// What the method is called that does this.
fn name_of(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Map => "map",
        OperationKind::Numbered { .. } => "map_numbered",
        OperationKind::Filter => "filter",
        OperationKind::FlatMap => "flat_map",
        OperationKind::Rows { .. } => "rows",
        OperationKind::Sample { .. } => "sample",
        OperationKind::Part(_) => "union",
        OperationKind::Persist => "persist",
    }
}

/// The names of types without their paths.
fn short(name: &str) -> String {
    let mut out = String::new();
    for word in name.split_inclusive(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
        out.push_str(word.rsplit("::").next().unwrap_or(word));
    }
    out
}

/// How a derived data set is made: one paragraph for each source, a line for each operation with the name of what is there
/// after it. Functions are called by their path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    made: &'static str,
    /// A source, and what is done with it: the operation, and the name of what there is after it.
    parts: Vec<(String, Vec<(String, String)>)>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (source, operations) in &self.parts {
            writeln!(f, "{source}")?;
            let width = operations.iter().map(|(operation, _)| operation.chars().count()).max().unwrap_or(0);
            for (operation, name) in operations {
                writeln!(f, "  {operation:width$}  {name}")?;
            }
        }
        write!(f, "made where its chunks are, as {}", short(self.made))
    }
}

impl<C> Clone for Derived<C> {
    fn clone(&self) -> Self {
        Derived { cut: self.cut.clone(), kind: PhantomData }
    }
}

impl<C> fmt::Debug for Derived<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Derived({} chunks, {:?})", self.len(), self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(_: &u64, line: &str) -> bool {
        line.len() > 3
    }

    fn numbered(_: &(), number: u64, line: &str) -> (u64, String) {
        (number, line.to_owned())
    }

    fn lines() -> DataSet<crate::Lines> {
        DataSet::text("one\ntwo\nthree\n".into()).unwrap()
    }

    #[test]
    fn names_follow_from_sources_functions_parameters_and_seeds_and_from_nothing_else() {
        let all = [
            lines().filter(long, &1),
            lines().filter(long, &2),
            lines().filter(long, &1).persist(),
            lines().partitions(2).unwrap().filter(long, &1),
            lines().sample(0.5, 1),
            lines().sample(0.5, 2),
            lines().sample(0.25, 1),
            lines().sample(0.5, 1).sample(0.5, 1),
            lines().union(&lines()).unwrap(),
        ];
        let mut ids: Vec<DataSetId> = all.iter().map(Derived::id).collect();
        assert_eq!(all[0].id(), lines().filter(long, &1).id());
        ids.sort_unstable_by_key(|id| id.0);
        ids.dedup();
        assert_eq!(ids.len(), all.len());
        assert!(ids.iter().all(|id| *id != lines().id()));
    }

    #[test]
    fn records_are_numbered_only_where_their_number_is_known() {
        assert!(lines().union(&lines()).unwrap().persist().map_numbered(numbered, &()).is_ok());
        let error = lines().filter(long, &1).map_numbered(numbered, &()).unwrap_err();
        assert!(matches!(error, DataError::NoNumbers { after: "filter" }), "{error}");
    }

    #[test]
    fn operations_without_end_are_refused() {
        let mut data = lines().filter(long, &1);
        for _ in 1..qjam_core::lineage::OPERATIONS_MAX {
            data = data.filter(long, &1);
        }
        assert!(data.cut.check().is_ok());
        let error = data.persist().cut.check().unwrap_err();
        assert!(matches!(error, DataError::LineageTooLong { operations: 1025 }), "{error}");
    }

    #[test]
    fn the_plan_has_a_line_for_every_operation() {
        let data = lines().filter(long, &1).sample(0.5, 7).union(&lines()).unwrap().persist();
        let plan = data.explain().to_string();
        let starts: Vec<&str> =
            plan.lines().map(|line| line.trim_start().split('(').next().unwrap()).collect();
        let wanted = [
            "Lines in 1 chunks, 3 records",
            "filter",
            "sample",
            "union",
            "persist",
            "Lines in 1 chunks, 3 records",
            "union",
            "persist",
            "made where its chunks are, as Lines",
        ];
        assert_eq!(starts, wanted, "{plan}");
        assert_eq!(short("a::b::List<(u64, alloc::string::String)>"), "List<(u64, String)>");
    }

    #[test]
    fn the_first_chunks_have_the_operations_that_they_had() {
        let both = lines().partitions(3).unwrap().filter(long, &1).union(&lines()).unwrap();
        let first = both.first_chunks(2);
        assert_eq!((first.len(), first.lineage().stretches.len()), (2, 1));
        assert_eq!(first.lineage().stretches[0].operations, both.lineage().stretches[0].operations);
        assert_eq!(both.first_chunks(9).len(), 4);
        assert_eq!(both.first_chunks(9).id(), both.id());
    }
}
