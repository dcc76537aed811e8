//! `#[derive(qjam::Wire)]`: writes the number of the variant, then the fields in order.

use crate::arguments::Arguments;
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
    let qjam = &Arguments::of_derive(&input.attrs)?.qjam;
    let (encode, decode, short) = match &input.data {
        Data::Struct(data) => of_struct(&data.fields, qjam),
        Data::Enum(data) => {
            let (encode, decode) = of_enum(&input, data, qjam);
            (encode, decode, TokenStream::new())
        }
        Data::Union(data) => {
            return Err(Error::new_spanned(
                data.union_token,
                "a union cannot be sent: nothing says which field is in use",
            ));
        }
    };
    let body = quote! {
        #[allow(unused_variables, reason = "a type may have no fields")]
        fn encode<'a>(&'a self, out: &mut #qjam::Encoder<'a>) {
            #encode
        }

        #[allow(unused_variables, reason = "a type may have no fields")]
        fn decode(input: &mut #qjam::Decoder) -> ::core::result::Result<Self, #qjam::DecodeError> {
            #decode
        }

        #short
    };
    Ok(implementation(&input, &quote!(#qjam::Wire), &body))
}

/// How a struct is written and read, and how so in a sequence if all its fields are short.
fn of_struct(fields: &Fields, qjam: &TokenStream) -> (TokenStream, TokenStream, TokenStream) {
    let members = members(fields);
    let encode = members.iter().map(|Member { selector, kind, .. }| {
        quote_spanned! { kind.span() => <#kind as #qjam::Wire>::encode(&self.#selector, out); }
    });
    let decode = reading(&members, qjam);
    let short = short(&members, qjam);
    (quote! { #(#encode)* }, quote! { ::core::result::Result::Ok(Self { #decode }) }, short)
}

/// Writing and reading where there is room for the widest value.
fn short(members: &[Member], qjam: &TokenStream) -> TokenStream {
    let widths = members.iter().map(|Member { kind, .. }| quote! { <#kind as #qjam::Wire>::WIRE_WIDTH });
    let encode = members.iter().map(|Member { selector, kind, .. }| {
        quote! { at += <#kind as #qjam::Wire>::encode_short(&self.#selector, &mut out[at..]); }
    });
    let decode = members.iter().map(|Member { selector, kind, .. }| {
        quote! {
            #selector: <#kind as #qjam::Wire>::decode_short(<#kind as #qjam::Wire>::WIRE_WIDTH.take(&mut rest))?
        }
    });
    quote! {
        const WIRE_WIDTH: #qjam::codec::Width = #qjam::codec::Width::sum(&[#(#widths),*]);

        #[inline]
        #[allow(unused_mut, unused_variables, reason = "a type may have no fields")]
        fn encode_short(&self, out: &mut [u8]) -> usize {
            let mut at = 0;
            #(#encode)*
            at
        }

        #[inline]
        #[allow(unused_mut, unused_variables, reason = "a type may have no fields")]
        fn decode_short(bytes: &[u8]) -> ::core::option::Option<Self> {
            let mut rest = bytes;
            ::core::option::Option::Some(Self { #(#decode),* })
        }
    }
}

fn of_enum(input: &DeriveInput, data: &DataEnum, qjam: &TokenStream) -> (TokenStream, TokenStream) {
    let name = input.ident.to_string();
    let (mut writing, mut reading_arms) = (Vec::new(), Vec::new());
    for (tag, variant) in (0_u64..).zip(&data.variants) {
        let ident = &variant.ident;
        let members = members(&variant.fields);
        let pattern = members.iter().map(|Member { selector, local, .. }| quote! { #selector: #local });
        let encode = members.iter().map(|Member { local, kind, .. }| {
            quote_spanned! { kind.span() => <#kind as #qjam::Wire>::encode(#local, out); }
        });
        writing.push(quote! { Self::#ident { #(#pattern),* } => { out.put_varint(#tag); #(#encode)* } });
        let decode = reading(&members, qjam);
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
            tag => ::core::result::Result::Err(#qjam::DecodeError::Tag { kind: #name, tag }),
        }
    };
    (encode, decode)
}

/// `a: read, b: read` in the order of the fields, which is also the order in which the reads happen.
fn reading(members: &[Member], qjam: &TokenStream) -> TokenStream {
    let fields = members.iter().map(|Member { selector, kind, .. }| {
        quote_spanned! { kind.span() => #selector: <#kind as #qjam::Wire>::decode(input)? }
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
