//! `#[derive(qjam::Wire)]`: writes the number of the variant, then the fields in order.

use crate::derive::{Member, implementation, members, parse};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DataEnum, DeriveInput, Error, Fields, Result};

pub(crate) fn expand(item: TokenStream) -> TokenStream {
    implement(item).unwrap_or_else(Error::into_compile_error)
}

fn implement(item: TokenStream) -> Result<TokenStream> {
    let input = parse(item, "#[derive(qjam::Wire)]")?;
    let (encode, decode) = match &input.data {
        Data::Struct(data) => of_struct(&data.fields),
        Data::Enum(data) => of_enum(&input, data),
        Data::Union(data) => {
            return Err(Error::new_spanned(
                data.union_token,
                "a union cannot be sent: nothing says which field is in use",
            ));
        }
    };
    let body = quote! {
        #[allow(unused_variables, reason = "a type may have no fields")]
        fn encode<'a>(&'a self, out: &mut ::qjam::Encoder<'a>) {
            #encode
        }

        #[allow(unused_variables, reason = "a type may have no fields")]
        fn decode(input: &mut ::qjam::Decoder) -> ::core::result::Result<Self, ::qjam::DecodeError> {
            #decode
        }
    };
    Ok(implementation(&input, &quote!(::qjam::Wire), &body))
}

fn of_struct(fields: &Fields) -> (TokenStream, TokenStream) {
    let members = members(fields);
    let encode = members.iter().map(|Member { selector, kind, .. }| {
        quote_spanned! { kind.span() => <#kind as ::qjam::Wire>::encode(&self.#selector, out); }
    });
    let decode = reading(&members);
    (quote! { #(#encode)* }, quote! { ::core::result::Result::Ok(Self { #decode }) })
}

fn of_enum(input: &DeriveInput, data: &DataEnum) -> (TokenStream, TokenStream) {
    let name = input.ident.to_string();
    let (mut writing, mut reading_arms) = (Vec::new(), Vec::new());
    for (tag, variant) in (0_u64..).zip(&data.variants) {
        let ident = &variant.ident;
        let members = members(&variant.fields);
        let pattern = members.iter().map(|Member { selector, local, .. }| quote! { #selector: #local });
        let encode = members.iter().map(|Member { local, kind, .. }| {
            quote_spanned! { kind.span() => <#kind as ::qjam::Wire>::encode(#local, out); }
        });
        writing.push(quote! { Self::#ident { #(#pattern),* } => { out.put_varint(#tag); #(#encode)* } });
        let decode = reading(&members);
        reading_arms.push(quote! { #tag => ::core::result::Result::Ok(Self::#ident { #decode }), });
    }
    let encode = if writing.is_empty() {
        quote! { match *self {} }
    } else {
        quote! { match self { #(#writing)* } }
    };
    let decode = quote! {
        match input.take_varint()? {
            #(#reading_arms)*
            tag => ::core::result::Result::Err(::qjam::DecodeError::Tag { kind: #name, tag }),
        }
    };
    (encode, decode)
}

/// `a: read, b: read` in the order of the fields, which is also the order in which the reads happen.
fn reading(members: &[Member]) -> TokenStream {
    let fields = members.iter().map(|Member { selector, kind, .. }| {
        quote_spanned! { kind.span() => #selector: <#kind as ::qjam::Wire>::decode(input)? }
    });
    quote! { #(#fields),* }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(item: TokenStream, expected: &str) {
        let error = implement(item).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn unions_and_borrowing_types_are_refused() {
        refused(quote! { union U { a: u32, b: f32 } }, "union");
        refused(quote! { struct S<'a> { text: &'a str } }, "own their data");
    }

    #[test]
    fn every_type_parameter_must_travel_too() {
        let written =
            implement(quote! { struct Pair<A, B: Copy, const N: usize> where A: Clone { a: A, b: [B; N] } })
                .unwrap()
                .to_string();
        assert!(
            written.contains("impl < A : :: qjam :: Wire , B : Copy + :: qjam :: Wire , const N : usize >")
        );
        assert!(written.contains("for Pair < A , B , N > where A : Clone"), "{written}");
    }

    #[test]
    fn variants_are_numbered_in_order() {
        let written = implement(quote! { enum E { A, B(u32), C { x: f64 } } }).unwrap().to_string();
        assert!(written.contains("Self :: B { 0 : field_0 } => { out . put_varint (1u64)"), "{written}");
        assert!(written.contains("2u64 => :: core :: result :: Result :: Ok (Self :: C { x :"), "{written}");
    }
}
