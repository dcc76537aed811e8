//! The macros of qjam, used as `qjam::map`, `qjam::fold`, `qjam::main`, `qjam::Wire` and `qjam::Sum`.
//!
//! Each takes the tokens of one item and gives tokens back, without looking at anything else. What they write refers
//! to `::qjam::…`, so a crate that uses them must know qjam by that name. Their examples are in the documentation of
//! qjam, where they can run.

mod derive;
mod entry;
mod function;
mod sum;
mod wire;

use function::Kind;
use proc_macro::TokenStream;

/// Registers a function that gives one result per chunk. The function itself stays as it is.
///
/// It takes its parameters and its chunk by reference, may take a `&Ctx` after them, and returns its result.
/// A generic function is only looked at; name it with its types in `qjam::register!`.
#[proc_macro_attribute]
pub fn map(args: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(Kind::Map, args.into(), item.into()).into()
}

/// Registers a function that adds chunks one after the other into an accumulator. The function itself stays as it is.
///
/// It takes its parameters and its chunk by reference, then the accumulator by mutable reference, may take a `&Ctx`
/// after that, and returns nothing. The accumulator starts as its `Default`.
/// A generic function is only looked at; name it with its types in `qjam::register!`.
#[proc_macro_attribute]
pub fn fold(args: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(Kind::Fold, args.into(), item.into()).into()
}

/// Makes the executable its own worker: when it is started as one, it serves and ends before anything else in `main`.
#[proc_macro_attribute]
pub fn main(args: TokenStream, item: TokenStream) -> TokenStream {
    entry::expand(args.into(), item.into()).into()
}

/// Lets a struct or an enum cross to a worker and back, field by field. Vectors of numbers travel as they lie in
/// memory.
#[proc_macro_derive(Wire)]
pub fn wire(item: TokenStream) -> TokenStream {
    wire::expand(item.into()).into()
}

/// Gives a struct `qjam::Reduce`, field by field: numbers add up, vectors element by element.
#[proc_macro_derive(Sum)]
pub fn sum(item: TokenStream) -> TokenStream {
    sum::expand(item.into()).into()
}
