//! The functions over records of this executable by name, and the kinds of chunks that they take and make.
//!
//! `#[qjam::record]` and [`register_record!`](crate::register_record) put an [`Entry`] into a table that the linker puts
//! together, as those for functions over chunks do.

use super::UnknownFunction;
use crate::function::gather::{Gather, Gathers};
use qjam_data::derived::function::ErasedRecordFunction;
use qjam_data::derived::record::ErasedKind;
use qjam_data::derived::{Record, RecordFunction};
use qjam_data::{Dense, Lines, List};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// A registered function over records.
#[derive(Clone, Copy)]
pub struct Entry {
    build: fn() -> Built,
}

/// What is known of one.
pub struct Built {
    function: Arc<dyn ErasedRecordFunction>,
    takes: &'static dyn Gathers,
    makes: &'static dyn Gathers,
}

/// All registered functions over records, in the order of the linker.
#[doc(hidden)]
#[linkme::distributed_slice]
pub static RECORD_FUNCTIONS: [Entry];

impl Entry {
    /// Used by the macros.
    #[doc(hidden)]
    pub const fn new(build: fn() -> Built) -> Self {
        Entry { build }
    }
}

/// The function with its types taken off. Used by the macros.
#[doc(hidden)]
pub fn built<F, M>(f: F) -> Built
where
    F: RecordFunction<M>,
{
    Built {
        function: f.erase(),
        takes: Gather::<<F::Record as Record>::Chunk>::ERASED,
        makes: Gather::<<F::Output as Record>::Chunk>::ERASED,
    }
}

/// Names to functions. The same function registered twice is one; two of the same name stay two.
fn table() -> &'static BTreeMap<&'static str, Vec<Built>> {
    static TABLE: OnceLock<BTreeMap<&'static str, Vec<Built>>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table: BTreeMap<_, Vec<Built>> = BTreeMap::new();
        for entry in RECORD_FUNCTIONS {
            let built = (entry.build)();
            let same_name = table.entry(built.function.name()).or_default();
            let kind = built.function.function_type();
            if same_name.iter().all(|other| other.function.function_type() != kind) {
                same_name.push(built);
            }
        }
        table
    })
}

/// Finds a function by the name it was registered under.
pub(crate) fn function(name: &str) -> Result<Arc<dyn ErasedRecordFunction>, UnknownFunction> {
    match table().get(name).map(Vec::as_slice) {
        Some([only]) => Ok(only.function.clone()),
        Some(several) => Err(UnknownFunction::Ambiguous { name: name.into(), count: several.len() }),
        None => Err(UnknownFunction::Record { name: name.into() }),
    }
}

/// Kinds that are there without a function: lines, rows of numbers, and lists of text.
const ALWAYS: [&dyn Gathers; 7] = [
    Gather::<Lines>::ERASED,
    Gather::<List<String>>::ERASED,
    Gather::<Dense<f64>>::ERASED,
    Gather::<Dense<f32>>::ERASED,
    Gather::<Dense<i64>>::ERASED,
    Gather::<Dense<i32>>::ERASED,
    Gather::<Dense<u8>>::ERASED,
];

/// Finds a kind of chunk by the name of its type.
pub(crate) fn kind(name: &str) -> Result<&'static dyn Gathers, UnknownFunction> {
    let all = table().values().flatten().flat_map(|built| [built.takes, built.makes]);
    let mut same = ALWAYS.into_iter().chain(all).filter(|kind| kind.records().name() == name);
    let first = same.next().ok_or_else(|| UnknownFunction::Kind { name: name.into() })?;
    match same.any(|other| other.records().chunk_type() != first.records().chunk_type()) {
        true => Err(UnknownFunction::Ambiguous { name: name.into(), count: 2 }),
        false => Ok(first),
    }
}

/// The matrix whose rows are made of such records, if they are numbers.
pub(crate) fn rows_of(numbers: &dyn ErasedKind) -> Option<&'static dyn ErasedKind> {
    macro_rules! of {
        ($($kind:ty)*) => {
            [$((Gather::<List<$kind>>::ERASED, Gather::<Dense<$kind>>::ERASED)),*]
        };
    }
    let pairs = of!(f64 f32 i64 i32 u8);
    let found = pairs.into_iter().find(|(list, _)| list.records().chunk_type() == numbers.chunk_type());
    found.map(|(_, rows)| rows.records())
}

/// Registers functions over records by hand: generic ones, once for each set of types they are used with.
///
/// ```
/// use serde::{Serialize, de::DeserializeOwned};
///
/// #[qjam::record]
/// fn first<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static>(_: &(), pair: &(T, T)) -> T {
///     pair.0.clone()
/// }
/// qjam::register_record!(first::<u32>, first::<String>);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! register_record {
    ($($function:expr),+ $(,)?) => {$(
        const _: () = {
            #[$crate::__private::linkme::distributed_slice($crate::__private::RECORD_FUNCTIONS)]
            #[linkme(crate = $crate::__private::linkme)]
            static ENTRY: $crate::__private::RecordEntry =
                $crate::__private::RecordEntry::new(|| $crate::__private::built_record($function));
        };
    )+};
}
