//! `#[derive(qjam::Sum)]`: merges field by field; an error names the field.

use crate::arguments::Arguments;
use crate::derive::{Member, implementation, members, parse};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, Error, Result};

pub(crate) fn expand(item: TokenStream) -> TokenStream {
    implement(item).unwrap_or_else(Error::into_compile_error)
}

fn implement(item: TokenStream) -> Result<TokenStream> {
    let input = parse(item, "#[derive(qjam::Sum)]")?;
    let qjam = &Arguments::of_derive(&input.attrs)?.qjam;
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(
            &input.ident,
            "only a struct can be added up field by field; implement qjam::Reduce for this type by hand",
        ));
    };
    let merges = members(&data.fields).into_iter().map(|Member { selector, kind, .. }| {
        // `r#type` is the field `type`.
        let name = selector.to_string().trim_start_matches("r#").to_owned();
        quote_spanned! { kind.span() =>
            <#kind as #qjam::Reduce>::try_merge(&mut self.#selector, right.#selector)
                .map_err(|error| error.in_field(#name))?;
        }
    });
    let body = quote! {
        fn merge(&mut self, right: Self) {
            #qjam::__private::merged(#qjam::Reduce::try_merge(self, right));
        }

        #[allow(unused_variables, reason = "a type may have no fields")]
        fn try_merge(&mut self, right: Self) -> ::core::result::Result<(), #qjam::MergeError> {
            #(#merges)*
            ::core::result::Result::Ok(())
        }
    };
    Ok(implementation(&input, &quote!(#qjam::Reduce), &body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_structs_have_a_sum() {
        let error = implement(quote! { enum E { A, B } }).unwrap_err();
        assert!(error.to_string().contains("implement qjam::Reduce"), "{error}");
    }

    #[test]
    fn fields_are_named_in_errors() {
        let written = implement(quote! { struct S { r#type: f64, rows: u64 } }).unwrap().to_string();
        assert!(written.contains(r#"in_field ("rows")"#), "{written}");
        let written = implement(quote! { struct S(f64, u64); }).unwrap().to_string();
        assert!(written.contains(r#"in_field ("1")"#), "{written}");
    }
}
