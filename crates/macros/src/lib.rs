//! The macros of qjam, used as `qjam::map`, `qjam::fold`, `qjam::main`, `qjam::Wire` and `qjam::Sum`.
//!
//! Comes in: the tokens of one item. Goes out: tokens. Of everything else the macros see one thing: the name by which the crate
//! depends on qjam, in its `Cargo.toml` ([`home`]). Where it reaches qjam in another way, as through a library that passes it
//! on, `crate = path` in the attribute says how, and `#[qjam(crate = path)]` beside a derive. Examples are in the documentation of
//! qjam, where they can run.

mod arguments;
mod derive;
mod entry;
mod function;
mod home;
mod record;
mod sum;
mod wire;

use function::Kind;
use proc_macro::TokenStream;

/// Registers a function that returns one result per chunk. The function itself is not changed.
///
/// It takes its parameters and its chunk by reference, may take a `&Ctx` after them, and returns its result.
/// A generic function is only checked; register its instances with `qjam::register!`.
#[proc_macro_attribute]
pub fn map(args: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(Kind::Map, args.into(), item.into()).into()
}

/// Registers a function that adds chunks one after the other to an accumulator. The function itself is not changed.
///
/// It takes its parameters and its chunk by reference, then the accumulator by mutable reference, may take a `&Ctx`
/// after that, and returns nothing. The accumulator starts as its `Default`.
/// Blocks have at least four times the bytes of the accumulator, which is taken to be as long as the parameters. If it is longer,
/// `#[qjam::fold(accumulator_bytes = 8 * WIDTH)]` says how long, so that fewer accumulators are combined. The value is part of
/// the function: another one may change the last bits of results.
/// A generic function is only checked; register its instances with `qjam::register!`.
#[proc_macro_attribute]
pub fn fold(args: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(Kind::Fold, args.into(), item.into()).into()
}

/// Registers a function over single records, for derived data sets. The function itself is not changed.
///
/// It takes its parameters and its record by reference and returns a record (`map`) or whether to keep it (`filter`); or the
/// number of the record between the two (`map_numbered`); or a `&mut Vec` after them, to push into (`flat_map`, `rows`).
/// A generic function is only checked; register its instances with `qjam::register_record!`.
#[proc_macro_attribute]
pub fn record(args: TokenStream, item: TokenStream) -> TokenStream {
    record::expand(args.into(), item.into()).into()
}

/// Makes the executable its own worker: if it is started as a worker, it serves and exits before the body of `main`.
#[proc_macro_attribute]
pub fn main(args: TokenStream, item: TokenStream) -> TokenStream {
    entry::expand(args.into(), item.into()).into()
}

/// Implements `qjam::Wire` for a struct or enum, field by field, so that it can be sent to workers and back. Vectors of numbers are sent
/// as raw memory.
#[proc_macro_derive(Wire, attributes(qjam))]
pub fn wire(item: TokenStream) -> TokenStream {
    wire::expand(item.into()).into()
}

/// Implements `qjam::Reduce` for a struct, field by field: numbers are added, vectors element by element.
#[proc_macro_derive(Sum, attributes(qjam))]
pub fn sum(item: TokenStream) -> TokenStream {
    sum::expand(item.into()).into()
}
