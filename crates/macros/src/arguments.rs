//! What stands in the parentheses of an attribute: `crate = path`, and what else that attribute takes.

use crate::home;
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Error, Expr, Ident, Path, Result, Token};

/// The arguments of an attribute.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// The path of qjam.
    pub(crate) qjam: TokenStream,
    /// How long the accumulator of a fold is.
    pub(crate) accumulator_bytes: Option<Expr>,
}

impl Arguments {
    /// Reads the arguments of an attribute that may have these.
    pub(crate) fn parse(args: &TokenStream, attribute: &str, allowed: &[&str]) -> Result<Arguments> {
        let (mut path, mut accumulator_bytes) = (None, None);
        let parser = |input: ParseStream<'_>| {
            while !input.is_empty() {
                let name = input.call(Ident::parse_any)?;
                if !allowed.iter().any(|allowed| name == allowed) {
                    let allowed: Vec<String> = allowed.iter().map(|name| format!("`{name} = …`")).collect();
                    return Err(Error::new(
                        name.span(),
                        format!("{attribute} takes {} and nothing else", allowed.join(" and ")),
                    ));
                }
                input.parse::<Token![=]>()?;
                match name == "crate" {
                    true => path = Some(input.call(Path::parse_mod_style)?),
                    false => accumulator_bytes = Some(input.parse::<Expr>()?),
                }
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        parser.parse2(args.clone())?;
        let qjam = path.map_or_else(home::path, |path| quote!(#path));
        Ok(Arguments { qjam, accumulator_bytes })
    }

    /// Reads `#[qjam(crate = path)]` beside a derive.
    pub(crate) fn of_derive(attributes: &[Attribute]) -> Result<Arguments> {
        let mut args = TokenStream::new();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("qjam")) {
            args = attribute.meta.require_list()?.tokens.clone();
        }
        Arguments::parse(&args, "#[qjam(…)]", &["crate"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_and_the_width_of_an_accumulator_are_read() {
        let both = quote! { crate = crate::jam, accumulator_bytes = 8 * WIDTH, };
        let read = Arguments::parse(&both, "#[qjam::fold]", &["crate", "accumulator_bytes"]).unwrap();
        assert_eq!(read.qjam.to_string(), "crate :: jam");
        assert!(read.accumulator_bytes.is_some());
        let none = Arguments::parse(&TokenStream::new(), "#[qjam::map]", &["crate"]).unwrap();
        assert_eq!(none.qjam.to_string(), ":: qjam");
    }

    #[test]
    fn others_are_refused_with_what_there_is() {
        let refused =
            |args: TokenStream| Arguments::parse(&args, "#[qjam::map]", &["crate"]).unwrap_err().to_string();
        assert_eq!(refused(quote! { fast }), "#[qjam::map] takes `crate = …` and nothing else");
        assert_eq!(
            refused(quote! { accumulator_bytes = 8 }),
            "#[qjam::map] takes `crate = …` and nothing else"
        );
        assert!(!refused(quote! { crate }).is_empty());
    }
}
