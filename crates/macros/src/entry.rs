//! `#[qjam::main]`: first checks whether the executable was started as a worker.

use crate::arguments::Arguments;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, ItemFn, Result};

pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    wrap(&args, &item).unwrap_or_else(|error| {
        let error = error.into_compile_error();
        quote! { #item #error }
    })
}

fn wrap(args: &TokenStream, item: &TokenStream) -> Result<TokenStream> {
    let qjam = Arguments::parse(args, "#[qjam::main]", &["crate"])?.qjam;
    let ItemFn { attrs, vis, sig, block, .. } = syn::parse2(item.clone())
        .map_err(|error| Error::new(error.span(), "#[qjam::main] goes on the function `main`"))?;
    if sig.ident != "main" {
        return Err(Error::new(sig.ident.span(), "#[qjam::main] goes on the function `main`"));
    }
    if let Some(token) = &sig.asyncness {
        return Err(Error::new_spanned(
            token,
            "#[qjam::main] needs a `main` that is not async; start the runtime inside it",
        ));
    }
    let statements = &block.stmts;
    Ok(quote! {
        #(#attrs)*
        #vis #sig {
            #qjam::worker::serve_if_asked();
            #(#statements)*
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_comes_first_and_the_rest_stays() {
        let written = wrap(
            &TokenStream::new(),
            &quote! { #[allow(dead_code)] fn main() -> qjam::Result<()> { let x = 1; run(x)?; Ok(()) } },
        );
        let expected = quote! {
            #[allow(dead_code)]
            fn main() -> qjam::Result<()> { ::qjam::worker::serve_if_asked(); let x = 1; run(x)?; Ok(()) }
        };
        assert_eq!(written.unwrap().to_string(), expected.to_string());
    }

    #[test]
    fn anything_but_a_plain_main_is_refused() {
        for (item, expected) in [
            (quote! { fn start() {} }, "`main`"),
            (quote! { async fn main() {} }, "not async"),
            (quote! { struct Main; }, "`main`"),
        ] {
            let error = wrap(&TokenStream::new(), &item).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        assert!(wrap(&quote! { workers = 2 }, &quote! { fn main() {} }).is_err());
    }
}
