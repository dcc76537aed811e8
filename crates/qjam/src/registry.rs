//! The functions of this executable by name.
//!
//! `#[qjam::map]`, `#[qjam::fold]` and [`register!`](crate::register) put an [`Entry`] into a table that the linker
//! puts together from all crates of the program. A worker, being the same executable, has the same table; the master sends it a
//! name and it finds the function here.

pub(crate) mod records;

pub(crate) use records::{function as record_function, kind, rows_of};

use crate::function::gather::{COUNT, OWN};
use crate::function::{Function, Job};
use crate::state::{ErasedState, LOOK};
use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// One registered function.
#[derive(Clone, Copy)]
pub struct Entry {
    build: fn() -> (Function, TypeId),
    /// How long the accumulator of a fold is said to be.
    accumulator_bytes: Option<u64>,
}

/// All registered functions, in the order of the linker.
#[doc(hidden)]
#[linkme::distributed_slice]
pub static FUNCTIONS: [Entry];

impl Entry {
    /// Used by the macros.
    #[doc(hidden)]
    pub const fn new(build: fn() -> (Function, TypeId), accumulator_bytes: Option<u64>) -> Self {
        Entry { build, accumulator_bytes }
    }
}

/// The function in its erased form, with what tells it from another of its name. All that the macros ask about a function goes
/// through here, so that a function that is none of the shapes is one error and not several.
#[doc(hidden)]
pub fn erased<F, M>(f: F) -> (Function, TypeId)
where
    F: Job<M>,
{
    (f.erase(), TypeId::of::<F>())
}

/// The same of a function with a context, of which [`Context`](crate::__private::Context) says whether it is `Right`.
#[doc(hidden)]
pub fn erased_with<Right, F, M>(f: F) -> (Function, TypeId)
where
    F: WithContext<Right, M>,
{
    f.erased()
}

/// A function with a context.
#[doc(hidden)]
pub trait WithContext<Right, M> {
    /// See [`erased`].
    fn erased(self) -> (Function, TypeId);
}

impl<F: Job<M>, M> WithContext<(), M> for F {
    fn erased(self) -> (Function, TypeId) {
        erased(self)
    }
}

/// Nothing is registered with it. Where the compiler could not find out what `Right` is, and has said so, it must not conclude that
/// from the implementation above, and say that the function is not a job either.
#[doc(hidden)]
pub enum Unknown {}

impl<F, M> WithContext<Unknown, M> for F {
    fn erased(self) -> (Function, TypeId) {
        unreachable!("there is no context of this kind")
    }
}

/// Why a name gives no function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownFunction {
    /// None is registered under it.
    #[error(
        "no function {name} is registered; put #[qjam::map] or #[qjam::fold] on it, or name it in qjam::register!(…) if it is generic{}",
        hint(.near)
    )]
    Missing {
        /// The name asked for.
        name: String,
        /// Registered names that look like it, most alike first.
        near: Vec<String>,
    },
    /// Several different ones are.
    #[error(
        "{count} different functions or states are called {name}, so a worker could not tell them apart; rename all but one"
    )]
    Ambiguous {
        /// The name asked for.
        name: String,
        /// How many there are.
        count: usize,
    },
    /// No function over records is.
    #[error(
        "no function {name} over records is registered; put #[qjam::record] on it, or name it in qjam::register_record!(…) if it is generic"
    )]
    Record {
        /// The name asked for.
        name: String,
    },
    /// No function over records takes or makes such a chunk.
    #[error(
        "no registered function over records takes those of {name} or makes them, so a worker would not know how to go through them; put #[qjam::record] on one that does, if only `fn same(_: &(), record: &T) -> T`"
    )]
    Kind {
        /// The name of the type.
        name: String,
    },
    /// No function with this state is.
    #[error(
        "no registered function uses the state {name}; put #[qjam::map] on one that takes it as `&mut {name}`, or name it in qjam::register!(…) if it is generic"
    )]
    State {
        /// The name of the state's type.
        name: String,
    },
}

fn hint(near: &[String]) -> String {
    if near.is_empty() {
        String::new()
    } else {
        format!(" (registered are, among others, {})", near.join(", "))
    }
}

/// Finds a function by the name it was registered under.
///
/// ```
/// #[qjam::map]
/// fn count(_: &(), lines: &qjam::Lines) -> u64 {
///     lines.len() as u64
/// }
///
/// let name = qjam::Job::erase(count).name();
/// assert!(qjam::registry::lookup(name).is_ok());
/// let error = qjam::registry::lookup("my::coumt").err().unwrap();
/// assert!(error.to_string().contains("count"));
/// ```
pub fn lookup(name: &str) -> Result<Function, UnknownFunction> {
    match table().get(name).map(Vec::as_slice) {
        Some([(only, _)]) => Ok((only.build)().0),
        Some(several) => Err(UnknownFunction::Ambiguous { name: name.into(), count: several.len() }),
        None if name.starts_with(LOOK) => Ok(state(name.trim_start_matches(LOOK))?.look()),
        None if name.starts_with(COUNT) => Ok(records::kind(name.trim_start_matches(COUNT))?.count()),
        None if name.starts_with(OWN) => Ok(records::kind(name.trim_start_matches(OWN))?.own()),
        None => {
            Err(UnknownFunction::Missing { name: name.into(), near: near(name, table().keys().copied()) })
        }
    }
}

/// The state of this name, as far as a registered function uses it.
pub(crate) fn state(name: &str) -> Result<&'static dyn ErasedState, UnknownFunction> {
    static STATES: OnceLock<BTreeMap<&'static str, Vec<&'static dyn ErasedState>>> = OnceLock::new();
    let states = STATES.get_or_init(|| {
        let mut states: BTreeMap<_, Vec<&'static dyn ErasedState>> = BTreeMap::new();
        for state in FUNCTIONS.iter().filter_map(|entry| (entry.build)().0.state()) {
            let same_name = states.entry(state.name()).or_default();
            if same_name.iter().all(|other| other.type_id() != state.type_id()) {
                same_name.push(state);
            }
        }
        states
    });
    match states.get(name).map(Vec::as_slice) {
        Some([only]) => Ok(*only),
        Some(several) => Err(UnknownFunction::Ambiguous { name: name.into(), count: several.len() }),
        None => Err(UnknownFunction::State { name: name.into() }),
    }
}

/// Makes sure that there is exactly one function of this name, and says how long its accumulator is, if its attribute does.
pub(crate) fn weigh(name: &str) -> Result<Option<u64>, UnknownFunction> {
    match table().get(name).map(Vec::as_slice) {
        Some([(only, _)]) => Ok(only.accumulator_bytes),
        _ => lookup(name).map(|_| None),
    }
}

/// The names of all registered functions, in alphabetical order.
pub fn names() -> impl Iterator<Item = &'static str> {
    table().keys().copied()
}

/// Names to functions. The same function registered twice is one; two of the same name stay two.
fn table() -> &'static BTreeMap<&'static str, Vec<(Entry, TypeId)>> {
    static TABLE: OnceLock<BTreeMap<&'static str, Vec<(Entry, TypeId)>>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table: BTreeMap<_, Vec<(Entry, TypeId)>> = BTreeMap::new();
        for entry in FUNCTIONS {
            let (function, kind) = (entry.build)();
            let same_name = table.entry(function.name()).or_default();
            if same_name.iter().all(|(_, other)| *other != kind) {
                same_name.push((*entry, kind));
            }
        }
        table
    })
}

/// The names most like one that is not there: first those with the same last part, then by edit distance.
fn near<'a>(name: &str, registered: impl Iterator<Item = &'a str>) -> Vec<String> {
    const SHOWN: usize = 3;
    let mut ranked: Vec<(usize, &str)> = registered
        .map(|candidate| {
            let same_last = last_part(candidate) == last_part(name);
            (if same_last { 0 } else { 1 + distance(last_part(name), last_part(candidate)) }, candidate)
        })
        .filter(|(distance, _)| *distance <= 1 + last_part(name).len() / 2)
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().take(SHOWN).map(|(_, candidate)| candidate.to_owned()).collect()
}

/// `assign` of `my::kmeans::assign<f64>`.
fn last_part(name: &str) -> &str {
    let path = name.split('<').next().unwrap_or(name);
    path.rsplit("::").next().unwrap_or(path)
}

/// How many letters must be put in, taken out or changed to make `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Registers functions by hand: generic ones, once for each set of types they are used with. One fold may be given the length of
/// its accumulator, as its attribute would have it: `register!(sums::<f64>, accumulator_bytes = 1 << 20)`.
///
/// ```
/// use qjam::{Dense, chunk::Element};
///
/// #[qjam::map]
/// fn rows<T: Element>(_: &(), x: &Dense<T>) -> u64 {
///     x.rows() as u64
/// }
/// qjam::register!(rows::<f32>, rows::<f64>);
/// # fn main() {
/// #     assert!(qjam::registry::names().any(|name| name.ends_with("::rows<f64>")));
/// # }
/// ```
#[macro_export]
macro_rules! register {
    ($function:expr, accumulator_bytes = $bytes:expr $(,)?) => {
        $crate::register!(
            @ $crate::__private::erased($function), ::core::option::Option::Some($bytes as u64)
        );
    };
    (@ $erased:expr, $bytes:expr) => {
        const _: () = {
            #[$crate::__private::linkme::distributed_slice($crate::__private::FUNCTIONS)]
            #[linkme(crate = $crate::__private::linkme)]
            static ENTRY: $crate::__private::Entry = $crate::__private::Entry::new(|| $erased, $bytes);
        };
    };
    ($($function:expr),+ $(,)?) => {$(
        $crate::register!(@ $crate::__private::erased($function), ::core::option::Option::None);
    )+};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_counts_letters() {
        for (a, b, expected) in
            [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3), ("ä", "a", 1)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn last_part_leaves_out_path_and_types() {
        assert_eq!(last_part("a::b::assign<f64>"), "assign");
        assert_eq!(last_part("a::b::assign<x::Y<z::W>, f64>"), "assign");
        assert_eq!(last_part("plain"), "plain");
        assert_eq!(last_part(""), "");
    }

    #[test]
    fn near_names_have_the_same_last_part_first() {
        let names = ["a::logistik", "b::logistic", "c::unrelated", "d::logistics", "e::logist"];
        assert_eq!(near("x::logistic", names.into_iter()), ["b::logistic", "a::logistik", "d::logistics"]);
        assert!(near("x::qqqqqqq", names.into_iter()).is_empty());
    }
}
