//! `#[qjam::record]`: checks the signature of a function over records and registers it.

use crate::arguments::Arguments;
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::spanned::Spanned;
use syn::{Attribute, Error, FnArg, GenericParam, ItemFn, Result, Safety, Signature};

/// The unchanged function, followed by its registration or an error.
pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let added = register(&args, &item).unwrap_or_else(Error::into_compile_error);
    quote! { #item #added }
}

fn register(args: &TokenStream, item: &TokenStream) -> Result<TokenStream> {
    let qjam = Arguments::parse(args, "#[qjam::record]", &["crate"])?.qjam;
    let function: ItemFn = syn::parse2(item.clone())
        .map_err(|error| Error::new(error.span(), "#[qjam::record] goes on a function"))?;
    check(&function.sig)?;
    if function.sig.generics.params.iter().any(|param| !matches!(param, GenericParam::Lifetime(_))) {
        return Ok(TokenStream::new());
    }
    let name = &function.sig.ident;
    let conditions: Vec<&Attribute> =
        function.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect();
    Ok(quote! { #(#conditions)* #qjam::register_record!(#name); })
}

/// What the traits would only say in many words.
fn check(sig: &Signature) -> Result<()> {
    let wrong = |span: Span, what: &str| {
        let wanted = "`fn(params: &P, record: &T) -> U`, `fn(params: &P, number: u64, record: &T) -> U` or `fn(params: &P, record: &T, out: &mut Vec<U>)`";
        Err(Error::new(span, format!("{what}; #[qjam::record] expects {wanted}")))
    };
    if let Some(token) = &sig.asyncness {
        return wrong(token.span(), "an async function cannot be run over records");
    }
    if let Safety::Unsafe(token) = &sig.safety {
        return wrong(token.span(), "an unsafe function cannot be run over records");
    }
    if let Some(lifetime) = sig.generics.lifetimes().next() {
        return wrong(lifetime.span(), "leave the lifetimes out, each argument is borrowed for one call");
    }
    if let Some(FnArg::Receiver(receiver)) = sig.inputs.first() {
        return wrong(receiver.span(), "a method cannot be run over records, make it a free function");
    }
    match sig.inputs.len() {
        2 | 3 => Ok(()),
        n => wrong(sig.ident.span(), &format!("the function takes {n} arguments")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(function: TokenStream, expected: &str) {
        let error = register(&TokenStream::new(), &function).expect_err("it should be refused");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(expand(TokenStream::new(), function.clone()).to_string().starts_with(&function.to_string()));
    }

    #[test]
    fn functions_over_records_are_registered_and_generic_ones_left_to_their_author() {
        let written = |function: TokenStream| {
            register(&TokenStream::new(), &function).expect("it should be accepted").to_string()
        };
        let plain = written(quote! { #[cfg(unix)] #[inline] fn f(p: &P, line: &str) -> u64 { 0 } });
        assert!(
            plain.contains(":: qjam :: register_record ! (f)") && plain.contains("cfg (unix)"),
            "{plain}"
        );
        assert!(!plain.contains("inline"), "{plain}");
        written(quote! { fn f(p: &P, number: u64, x: &X) -> Y { g() } });
        assert_eq!(written(quote! { fn f<T: Clone>(p: &P, x: &T, out: &mut Vec<T>) {} }), "");
    }

    #[test]
    fn what_is_no_function_over_records_is_told() {
        refused(quote! { async fn f(p: &P, x: &X) -> Y {} }, "async");
        refused(quote! { unsafe fn f(p: &P, x: &X) -> Y {} }, "unsafe");
        refused(quote! { fn f<'a>(p: &P, x: &'a X) -> Y {} }, "lifetimes");
        refused(quote! { fn f(&self, x: &X) -> Y {} }, "free function");
        refused(quote! { fn f(x: &X) -> Y {} }, "1 arguments");
        refused(quote! { struct F; }, "goes on a function");
    }
}
