//! Records on their way from a chunk through functions into another chunk, one at a time and without a list in between.
//!
//! A chunk that has [`Recorded`] shows its records one after the other as [`Item`]s, whose type only the functions know
//! that take them. A sink puts what comes out at the end into a chunk again.

use crate::chunk::{Chunk, Dense, Element, Header, Lines, List};
use crate::codec::{Serde, Wire};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::{Any, TypeId, type_name};
use std::marker::PhantomData;
use std::sync::Arc;

/// A record whose type only its functions know.
pub enum Item<'a> {
    /// One that lies in a chunk.
    Value(&'a dyn Any),
    /// A line.
    Text(&'a str),
    /// A row of numbers.
    Row {
        /// The type of the numbers.
        element: TypeId,
        /// The numbers.
        bytes: &'a [u8],
    },
    /// One that a function has made: an `Option` that can be taken out.
    Owned(&'a mut dyn Any),
}

impl<'a> Item<'a> {
    /// A row of numbers.
    pub fn row<T: Element>(row: &'a [T]) -> Item<'a> {
        Item::Row { element: TypeId::of::<T>(), bytes: bytemuck::cast_slice(row) }
    }
}

/// What a function over records takes by reference: anything that can be in a [`List`], `str` for [`Lines`], and slices of
/// numbers for the rows of [`Dense`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a record",
    label = "a record is anything with `Clone` and serde's traits, `str` for lines, or `[T]` for rows of numbers",
    note = "`#[derive(Clone, serde::Serialize, serde::Deserialize)]` on your type makes it a record"
)]
pub trait Record: 'static {
    /// The kind of chunk that has such records.
    type Chunk: Recorded<Record = Self>;

    /// The record, if it is one of this type.
    #[doc(hidden)]
    fn of<'a>(item: &'a Item<'_>) -> Option<&'a Self>;
}

impl<T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Record for T {
    type Chunk = List<T>;

    fn of<'a>(item: &'a Item<'_>) -> Option<&'a T> {
        match item {
            Item::Value(value) => value.downcast_ref(),
            Item::Owned(value) => value.downcast_ref::<Option<T>>()?.as_ref(),
            Item::Text(_) | Item::Row { .. } => None,
        }
    }
}

impl Record for str {
    type Chunk = Lines;

    fn of<'a>(item: &'a Item<'_>) -> Option<&'a str> {
        if let Item::Text(text) = item { Some(text) } else { None }
    }
}

impl<T: Element> Record for [T] {
    type Chunk = Dense<T>;

    fn of<'a>(item: &'a Item<'_>) -> Option<&'a [T]> {
        match item {
            Item::Row { element, bytes } if *element == TypeId::of::<T>() => {
                bytemuck::try_cast_slice(bytes).ok()
            }
            _ => None,
        }
    }
}

/// A kind of chunk that is made of records which can be gone through, left out and put together: [`List`], [`Lines`] and
/// [`Dense`]. What a derived data set can be made from.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no records that functions could go through one by one",
    note = "derived data sets are made from `Lines`, from `Dense` by rows, and from `List<T>` where `T` has `Clone` and serde's traits"
)]
pub trait Recorded: Chunk {
    /// What its records are borrowed as.
    type Record: ?Sized + Record<Chunk = Self>;
    /// A record on its own, as it comes home.
    type Owned;
    /// The same on its way.
    #[doc(hidden)]
    type Sent: Wire;
    /// Puts records into such a chunk.
    #[doc(hidden)]
    type Sink: Sink<Chunk = Self>;

    /// Number of records.
    #[doc(hidden)]
    fn count(&self) -> usize;

    /// Numbers in a row of a matrix.
    #[doc(hidden)]
    fn cols(&self) -> usize {
        0
    }

    /// Shows all records in order.
    #[doc(hidden)]
    fn each(&self, f: &mut dyn FnMut(&mut Item<'_>));

    /// An empty one; rows have so many numbers.
    #[doc(hidden)]
    fn sink(cols: usize) -> Self::Sink;

    /// The first so many records.
    #[doc(hidden)]
    fn own(&self, most: usize) -> Vec<Self::Sent>;

    /// A record that has come home.
    #[doc(hidden)]
    fn received(sent: Self::Sent) -> Self::Owned;
}

/// Puts records into a chunk.
#[doc(hidden)]
pub trait Sink: Send {
    /// The chunk.
    type Chunk;

    /// The next record.
    fn push(&mut self, item: &mut Item<'_>);

    /// The chunk, and how many bytes it takes.
    fn finish(self) -> (Self::Chunk, u64);
}

/// Says that a chain of functions is none.
fn mismatched(wanted: &str) -> ! {
    panic!("a derived data set has records of another type than {wanted}: its functions do not fit together")
}

impl<T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Recorded for List<T> {
    type Record = T;
    type Owned = T;
    type Sent = Serde<T>;
    type Sink = Vec<T>;

    fn count(&self) -> usize {
        self.len()
    }

    fn each(&self, f: &mut dyn FnMut(&mut Item<'_>)) {
        self.iter().for_each(|record| f(&mut Item::Value(record)));
    }

    fn sink(_: usize) -> Vec<T> {
        Vec::new()
    }

    fn own(&self, most: usize) -> Vec<Serde<T>> {
        self.iter().take(most).cloned().map(Serde).collect()
    }

    fn received(sent: Serde<T>) -> T {
        sent.0
    }
}

impl<T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Sink for Vec<T> {
    type Chunk = List<T>;

    fn push(&mut self, item: &mut Item<'_>) {
        let owned = match item {
            Item::Owned(value) => value.downcast_mut::<Option<T>>().and_then(Option::take),
            other => T::of(other).cloned(),
        };
        self.push(owned.unwrap_or_else(|| mismatched(type_name::<T>())));
    }

    fn finish(self) -> (List<T>, u64) {
        // What records have elsewhere is about as long as it is written down.
        let written: usize =
            self.iter().map(|record| postcard::experimental::serialized_size(record).unwrap_or(0)).sum();
        let bytes = size_of_val(&self[..]) + written;
        (List::from_vec(self), bytes as u64)
    }
}

impl Recorded for Lines {
    type Record = str;
    type Owned = String;
    type Sent = String;
    type Sink = TextSink;

    fn count(&self) -> usize {
        self.len()
    }

    fn each(&self, f: &mut dyn FnMut(&mut Item<'_>)) {
        self.iter().for_each(|line| f(&mut Item::Text(line)));
    }

    fn sink(_: usize) -> TextSink {
        TextSink(String::new())
    }

    fn own(&self, most: usize) -> Vec<String> {
        self.iter().take(most).map(str::to_owned).collect()
    }

    fn received(sent: String) -> String {
        sent
    }
}

/// Lines one after the other.
#[doc(hidden)]
pub struct TextSink(String);

impl Sink for TextSink {
    type Chunk = Lines;

    fn push(&mut self, item: &mut Item<'_>) {
        self.0.push_str(str::of(item).unwrap_or_else(|| mismatched("str")));
        self.0.push('\n');
    }

    fn finish(self) -> (Lines, u64) {
        let bytes = self.0.len() as u64;
        (Lines::from_text(&self.0), bytes)
    }
}

impl<T: Element> Recorded for Dense<T> {
    type Record = [T];
    type Owned = Vec<T>;
    type Sent = Vec<T>;
    type Sink = RowSink<T>;

    fn count(&self) -> usize {
        self.rows()
    }

    fn cols(&self) -> usize {
        Dense::cols(self)
    }

    fn each(&self, f: &mut dyn FnMut(&mut Item<'_>)) {
        self.rows_iter().for_each(|row| f(&mut Item::row(row)));
    }

    fn sink(cols: usize) -> RowSink<T> {
        RowSink { values: Vec::new(), cols }
    }

    fn own(&self, most: usize) -> Vec<Vec<T>> {
        self.rows_iter().take(most).map(<[T]>::to_vec).collect()
    }

    fn received(sent: Vec<T>) -> Vec<T> {
        sent
    }
}

/// Rows one after the other.
#[doc(hidden)]
pub struct RowSink<T> {
    values: Vec<T>,
    cols: usize,
}

impl<T: Element> Sink for RowSink<T> {
    type Chunk = Dense<T>;

    fn push(&mut self, item: &mut Item<'_>) {
        self.values.extend_from_slice(<[T]>::of(item).unwrap_or_else(|| mismatched(type_name::<[T]>())));
    }

    fn finish(self) -> (Dense<T>, u64) {
        let bytes = size_of_val(&self.values[..]) as u64;
        let made = Dense::from_vec(self.values, self.cols);
        (made.unwrap_or_else(|error| panic!("rows of a derived data set: {error}")), bytes)
    }
}

/// A chunk whose type is not known.
pub type AnyChunk = Arc<dyn Any + Send + Sync>;

/// A kind of chunk, its type taken off.
pub trait ErasedKind: Send + Sync {
    /// The name of its type.
    fn name(&self) -> &'static str;

    /// Its type.
    fn chunk_type(&self) -> TypeId;

    /// Opens a chunk.
    fn open(&self, header: &Header, bytes: Bytes) -> Result<AnyChunk, crate::ChunkError>;

    /// Numbers in a row.
    fn cols(&self, chunk: &(dyn Any + Send + Sync)) -> usize;

    /// Shows all records in order.
    fn each(&self, chunk: &(dyn Any + Send + Sync), f: &mut dyn FnMut(&mut Item<'_>));

    /// An empty chunk, to put records into.
    fn sink(&self, cols: usize) -> Box<dyn ErasedSink>;
}

/// Puts records into a chunk whose type is not known.
pub trait ErasedSink: Send {
    /// The next record.
    fn push(&mut self, item: &mut Item<'_>);

    /// The chunk, and how many bytes it takes.
    fn finish(self: Box<Self>) -> (AnyChunk, u64);
}

/// The operations of one kind.
pub struct KindOf<C>(PhantomData<fn() -> C>);

impl<C: Recorded> KindOf<C> {
    /// With the type taken off.
    pub const ERASED: &'static dyn ErasedKind = &KindOf::<C>(PhantomData);
}

fn typed<C: 'static>(chunk: &(dyn Any + Send + Sync)) -> &C {
    chunk.downcast_ref().unwrap_or_else(|| mismatched(type_name::<C>()))
}

impl<C: Recorded> ErasedKind for KindOf<C> {
    fn name(&self) -> &'static str {
        type_name::<C>()
    }

    fn chunk_type(&self) -> TypeId {
        TypeId::of::<C>()
    }

    fn open(&self, header: &Header, bytes: Bytes) -> Result<AnyChunk, crate::ChunkError> {
        Ok(Arc::new(C::open(header, bytes)?))
    }

    fn cols(&self, chunk: &(dyn Any + Send + Sync)) -> usize {
        typed::<C>(chunk).cols()
    }

    fn each(&self, chunk: &(dyn Any + Send + Sync), f: &mut dyn FnMut(&mut Item<'_>)) {
        typed::<C>(chunk).each(f);
    }

    fn sink(&self, cols: usize) -> Box<dyn ErasedSink> {
        Box::new(C::sink(cols))
    }
}

impl<S> ErasedSink for S
where
    S: Sink,
    S::Chunk: Send + Sync + 'static,
{
    fn push(&mut self, item: &mut Item<'_>) {
        Sink::push(self, item);
    }

    fn finish(self: Box<Self>) -> (AnyChunk, u64) {
        let (chunk, bytes) = Sink::finish(*self);
        (Arc::new(chunk), bytes)
    }
}
