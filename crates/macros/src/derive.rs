//! Code that both derives share: fields, and generics with a bound on every type parameter.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::{DeriveInput, Error, Fields, Generics, Ident, Index, Result, Type, TypeParamBound, parse_quote};

/// One field: how it is selected, a local name for it, and its type.
pub(crate) struct Member {
    pub(crate) selector: TokenStream,
    pub(crate) local: Ident,
    pub(crate) kind: Type,
}

/// The fields of a struct or a variant. `Name { 0: a, 1: b }` is valid for tuple structs too, so the three kinds of fields are treated
/// alike.
pub(crate) fn members(fields: &Fields) -> Vec<Member> {
    let member = |(i, field): (usize, &syn::Field)| {
        let selector = match &field.ident {
            Some(name) => name.to_token_stream(),
            None => Index::from(i).to_token_stream(),
        };
        Member { selector, local: format_ident!("field_{i}"), kind: field.ty.clone() }
    };
    fields.iter().enumerate().map(member).collect()
}

/// Parses a derive's input and refuses types that borrow.
pub(crate) fn parse(item: TokenStream, derive: &str) -> Result<DeriveInput> {
    let input: DeriveInput = syn::parse2(item)?;
    match input.generics.lifetimes().next() {
        Some(lifetime) => Err(Error::new_spanned(
            lifetime,
            format!(
                "{derive} is for types that own their data: use `Vec<f64>` instead of `&[f64]`, `String` instead of `&str`"
            ),
        )),
        None => Ok(input),
    }
}

/// The generics with a bound added to every type parameter.
pub(crate) fn bound(generics: &Generics, bound: &TokenStream) -> Generics {
    let mut generics = generics.clone();
    let bound: TypeParamBound = parse_quote!(#bound);
    for param in generics.type_params_mut() {
        param.bounds.push(bound.clone());
    }
    generics
}

/// `impl<…> trait for Name<…> where … { body }`.
pub(crate) fn implementation(input: &DeriveInput, path: &TokenStream, body: &TokenStream) -> TokenStream {
    let generics = bound(&input.generics, path);
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let name = &input.ident;
    quote! {
        #[automatically_derived]
        impl #impl_generics #path for #name #type_generics #where_clause {
            #body
        }
    }
}
