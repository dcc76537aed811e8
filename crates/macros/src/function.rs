//! `#[qjam::map]` and `#[qjam::fold]`: check the signature of a function and register it.

use crate::arguments::Arguments;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, GenericParam, ItemFn, Result, ReturnType, Safety, Signature, Type, TypeReference,
};

/// Which of the two attributes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Map,
    Fold,
}

/// The unchanged function, followed by its registration or an error.
pub(crate) fn expand(kind: Kind, args: TokenStream, item: TokenStream) -> TokenStream {
    let added = register(kind, &args, &item).unwrap_or_else(Error::into_compile_error);
    // The function is emitted in any case: without it every call would be a further error.
    quote! { #item #added }
}

fn register(kind: Kind, args: &TokenStream, item: &TokenStream) -> Result<TokenStream> {
    let attribute = kind.attribute();
    let allowed: &[&str] = if kind == Kind::Fold { &["crate", "accumulator_bytes"] } else { &["crate"] };
    let Arguments { qjam, accumulator_bytes } = Arguments::parse(args, attribute, allowed)?;
    let function: ItemFn = syn::parse2(item.clone())
        .map_err(|error| Error::new(error.span(), format!("{attribute} goes on a function")))?;
    let shape = Shape::of(kind, &function.sig)?;
    let generic =
        function.sig.generics.params.iter().any(|param| !matches!(param, GenericParam::Lifetime(_)));
    if generic {
        return match accumulator_bytes {
            None => Ok(TokenStream::new()),
            Some(bytes) => Err(Error::new_spanned(
                bytes,
                "a generic fold is registered by qjam::register!, which takes it: `qjam::register!(name::<f64>, accumulator_bytes = …)`",
            )),
        };
    }
    let name = &function.sig.ident;
    let checks = shape.checks(kind, &qjam);
    let registered = match (shape.context, accumulator_bytes) {
        (None, None) => quote! { #name },
        (None, Some(bytes)) => quote! { #name, accumulator_bytes = #bytes },
        (Some(context), bytes) => {
            let bytes = match bytes {
                None => quote! { ::core::option::Option::None },
                Some(bytes) => quote! { ::core::option::Option::Some(#bytes as u64) },
            };
            let right = quote_spanned! { context.span() => <#context as #qjam::__private::Context>::Right };
            quote! { @ #qjam::__private::erased_with::<#right, _, _>(#name), #bytes }
        }
    };
    let conditions: Vec<&Attribute> =
        function.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect();
    Ok(quote! {
        #(#conditions)*
        const _: () = {
            #[allow(dead_code, reason = "only its types are looked at")]
            fn each_type_is_checked_at_its_own_place() {
                #checks
            }
        };
        #(#conditions)*
        #qjam::register!(#registered);
    })
}

/// The types in a valid signature.
struct Shape<'a> {
    params: &'a Type,
    chunk: &'a Type,
    /// What a map returns or a fold accumulates. A map without a return type returns `()`.
    output: &'a Type,
    /// The state of the chunk, if it is a map that has one.
    state: Option<&'a Type>,
    /// The context, if it takes one.
    context: Option<&'a Type>,
}

impl Kind {
    fn attribute(self) -> &'static str {
        match self {
            Kind::Map => "#[qjam::map]",
            Kind::Fold => "#[qjam::fold]",
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Kind::Map => {
                "`fn(params: &P, chunk: &C) -> R`, with `state: &mut S` as the next argument if it changes the chunk's state, or `state: &S` if it only reads it, and `ctx: &Ctx` as the last if it needs one"
            }
            Kind::Fold => {
                "`fn(params: &P, chunk: &C, acc: &mut A)`, with `ctx: &Ctx` as a fourth argument if it needs one"
            }
        }
    }
}

impl<'a> Shape<'a> {
    fn of(kind: Kind, sig: &'a Signature) -> Result<Self> {
        let wrong = |span: Span, what: &str| -> Result<Self> {
            Err(Error::new(span, format!("{what}; {} expects {}", kind.attribute(), kind.wanted())))
        };
        if let Some(token) = &sig.asyncness {
            return wrong(token.span(), "an async function cannot be run over chunks");
        }
        if let Safety::Unsafe(token) = &sig.safety {
            return wrong(token.span(), "an unsafe function cannot be run over chunks");
        }
        if let Some(lifetime) = sig.generics.lifetimes().next() {
            return wrong(lifetime.span(), "leave the lifetimes out, each argument is borrowed for one call");
        }
        let (least, most) = if kind == Kind::Map { (2, 4) } else { (3, 4) };
        let mut arguments = Vec::new();
        for input in &sig.inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    return wrong(
                        receiver.span(),
                        "a method cannot be run over chunks, make it a free function",
                    );
                }
                FnArg::Typed(typed) => arguments.push(&*typed.ty),
            }
        }
        if !(least..=most).contains(&arguments.len()) {
            let what = match arguments.len() {
                0 => "the function takes no arguments".to_owned(),
                1 => "the function takes 1 argument".to_owned(),
                n => format!("the function takes {n} arguments"),
            };
            return wrong(sig.ident.span(), &what);
        }
        let params =
            borrowed(arguments[0], "the parameters are taken by reference, as in `&[f64]` or `&Theta`")?;
        let chunk = borrowed(arguments[1], "the chunk is taken by reference, as in `&Dense<f64>`")?;
        let state = arguments.get(2).filter(|_| kind == Kind::Map).and_then(|argument| mutable(argument));
        // In front of a context there can only be a state. Alone it could be either, which the types decide.
        let read =
            arguments.get(2).filter(|_| kind == Kind::Map && state.is_none() && arguments.len() == most);
        let by_reference = "the state is taken by reference: `&mut Alpha`, or `&Alpha` if it is only read";
        let read = read.map(|argument| borrowed(argument, by_reference)).transpose()?;
        let state = state.or(read);
        let before_context = least + usize::from(state.is_some());
        let context = arguments
            .get(before_context)
            .map(|context| borrowed(context, "the context is taken by reference, as in `&Ctx`"))
            .transpose()?;
        let output = match kind {
            Kind::Map => returned(&sig.output, sig.ident.span())?,
            Kind::Fold => accumulated(arguments[2], &sig.output)?,
        };
        for named in [Some(params), Some(chunk), Some(output), state].into_iter().flatten() {
            if let Type::ImplTrait(hidden) = named {
                return wrong(hidden.span(), "name the type instead of `impl Trait`");
            }
        }
        Ok(Shape { params, chunk, output, state, context })
    }

    /// Asserts the trait that each type must have, with the span of the type. That of the context is asserted where the function
    /// is registered.
    fn checks(&self, kind: Kind, qjam: &TokenStream) -> TokenStream {
        let Shape { params, chunk, output, state, .. } = self;
        let of_params = quote_spanned! { params.span() => #qjam::__private::is_params::<#params>(); };
        let of_chunk = quote_spanned! { chunk.span() => #qjam::__private::is_chunk::<#chunk>(); };
        let of_output = match kind {
            Kind::Map => quote_spanned! { output.span() => #qjam::__private::is_output::<#output>(); },
            Kind::Fold => quote_spanned! { output.span() => #qjam::__private::is_accumulator::<#output>(); },
        };
        let of_state = state.map(|state| {
            quote_spanned! { state.span() => #qjam::__private::is_state::<#state, #chunk>(); }
        });
        quote! { #of_params #of_chunk #of_output #of_state }
    }
}

/// The type behind a mutable reference, if it is one.
fn mutable(argument: &Type) -> Option<&Type> {
    match argument {
        Type::Reference(TypeReference { mutability: Some(_), elem, .. }) => Some(elem),
        _ => None,
    }
}

/// The type behind a shared reference.
fn borrowed<'a>(argument: &'a Type, why: &str) -> Result<&'a Type> {
    match argument {
        Type::Reference(TypeReference { mutability: None, elem, .. }) => Ok(elem),
        Type::Reference(TypeReference { mutability: Some(_), .. }) => Err(Error::new_spanned(
            argument,
            format!("{why}, and not mutably; only a state and a fold's accumulator are `&mut`"),
        )),
        _ => Err(Error::new_spanned(argument, why)),
    }
}

/// The return type of a map.
fn returned(output: &ReturnType, name: Span) -> Result<&Type> {
    match output {
        ReturnType::Type(_, returned) if is_result(returned) => Err(Error::new_spanned(
            returned,
            "a map returns its result and not a `Result`: to fail, panic with a message, which becomes the error of the round",
        )),
        ReturnType::Type(_, returned) => Ok(returned),
        ReturnType::Default => Err(Error::new(
            name,
            "a map returns its result, as in `-> f64`; a function that adds into an accumulator is a #[qjam::fold], and one without a result says `-> ()`",
        )),
    }
}

/// Whether a type is written as a `Result`.
fn is_result(returned: &Type) -> bool {
    match returned {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == "Result"),
        _ => false,
    }
}

/// The accumulator of a fold, which returns nothing.
fn accumulated<'a>(argument: &'a Type, output: &ReturnType) -> Result<&'a Type> {
    if let ReturnType::Type(_, returned) = output
        && !matches!(&**returned, Type::Tuple(tuple) if tuple.elems.is_empty())
    {
        return Err(Error::new_spanned(
            returned,
            "a fold returns nothing, its result is the accumulator; a function that returns its result is a #[qjam::map]",
        ));
    }
    match argument {
        Type::Reference(TypeReference { mutability: Some(_), elem, .. }) => Ok(elem),
        _ => Err(Error::new_spanned(
            argument,
            "the accumulator is taken by mutable reference, as in `&mut Sums`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(kind: Kind, function: TokenStream, expected: &str) {
        let error = register(kind, &TokenStream::new(), &function).expect_err("it should be refused");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(
            expand(kind, TokenStream::new(), function.clone()).to_string().starts_with(&function.to_string())
        );
    }

    #[track_caller]
    fn accepted(kind: Kind, function: TokenStream) -> String {
        register(kind, &TokenStream::new(), &function).expect("it should be accepted").to_string()
    }

    #[test]
    fn maps_of_both_shapes_are_registered() {
        let written = accepted(Kind::Map, quote! { pub fn f(p: &[f64], x: &Dense<f64>) -> f64 { 0.0 } });
        assert!(written.contains(":: qjam :: register ! (f)"), "{written}");
        accepted(Kind::Map, quote! { fn f(_: &(), x: &Dense<f64>, ctx: &Ctx) -> () {} });
        accepted(Kind::Fold, quote! { fn f(_: &(), x: &Dense<f64>, acc: &mut Sums) {} });
        accepted(Kind::Fold, quote! { fn f(_: &(), x: &Dense<f64>, acc: &mut Sums, ctx: &Ctx) -> () {} });
    }

    #[test]
    fn maps_with_a_state_are_registered() {
        let written = accepted(Kind::Map, quote! { fn f(p: &P, x: &X, s: &mut Alpha) -> f64 { 0.0 } });
        assert!(written.contains("is_state :: < Alpha , X >"), "{written}");
        accepted(Kind::Map, quote! { fn f(p: &P, x: &X, s: &mut Alpha, ctx: &Ctx) -> f64 { 0.0 } });
        accepted(Kind::Map, quote! { fn f(p: &P, x: &X, s: &Alpha) -> f64 { 0.0 } });
        let written = accepted(Kind::Map, quote! { fn f(p: &P, x: &X, s: &Alpha, ctx: &Ctx) -> f64 { 0.0 } });
        assert!(written.contains("is_state :: < Alpha , X >"), "{written}");
        refused(Kind::Map, quote! { fn f(p: &P, x: &X, s: &mut Alpha) {} }, "a map returns its result");
        refused(Kind::Map, quote! { fn f(p: &P, x: &X, s: &mut impl State) -> R {} }, "name the type");
    }

    #[test]
    fn generic_functions_are_looked_at_and_not_registered() {
        assert_eq!(accepted(Kind::Map, quote! { fn f<T: Real>(p: &T, x: &Dense<T>) -> T { *p } }), "");
        assert_eq!(
            accepted(Kind::Fold, quote! { fn f<const N: usize>(p: &[f64; N], x: &X, a: &mut A) {} }),
            ""
        );
        refused(Kind::Map, quote! { fn f<T: Real>(p: T, x: &Dense<T>) -> T { p } }, "taken by reference");
    }

    #[test]
    fn conditions_of_the_function_hold_for_its_registration() {
        let written =
            accepted(Kind::Map, quote! { #[cfg(unix)] #[inline] fn f(p: &P, x: &X) -> R { g(p, x) } });
        assert_eq!(written.matches("cfg (unix)").count(), 2, "{written}");
        assert!(!written.contains("inline"));
    }

    #[test]
    fn functions_that_cannot_run_over_chunks_are_refused() {
        refused(Kind::Map, quote! { async fn f(p: &P, x: &X) -> R {} }, "async");
        refused(Kind::Map, quote! { unsafe fn f(p: &P, x: &X) -> R {} }, "unsafe");
        refused(Kind::Map, quote! { fn f(&self, x: &X) -> R {} }, "free function");
        refused(Kind::Fold, quote! { fn f(&mut self, p: &P, x: &X) {} }, "free function");
        refused(Kind::Map, quote! { fn f<'a>(p: &'a P, x: &'a X) -> R {} }, "leave the lifetimes out");
        refused(Kind::Map, quote! { struct F; }, "goes on a function");
    }

    #[test]
    fn wrong_numbers_of_arguments_are_counted() {
        refused(Kind::Map, quote! { fn f() -> R {} }, "takes no arguments");
        refused(Kind::Map, quote! { fn f(p: &P) -> R {} }, "takes 1 argument;");
        refused(
            Kind::Map,
            quote! { fn f(p: &P, x: &X, s: &mut S, c: &Ctx, d: &D) -> R {} },
            "takes 5 arguments",
        );
        refused(Kind::Fold, quote! { fn f(p: &P, x: &X) {} }, "takes 2 arguments");
    }

    #[test]
    fn arguments_that_are_not_references_are_refused() {
        refused(
            Kind::Map,
            quote! { fn f(p: Vec<f64>, x: &X) -> R {} },
            "the parameters are taken by reference",
        );
        refused(Kind::Map, quote! { fn f(p: &P, x: X) -> R {} }, "the chunk is taken by reference");
        refused(
            Kind::Map,
            quote! { fn f(p: &P, x: &X, c: Ctx) -> R {} },
            "the context is taken by reference",
        );
        refused(Kind::Map, quote! { fn f(p: &P, x: &mut X) -> R {} }, "not mutably");
        refused(
            Kind::Map,
            quote! { fn f(p: &P, x: &X, s: S, c: &Ctx) -> R {} },
            "the state is taken by reference",
        );
        refused(Kind::Map, quote! { fn f(p: &P, x: &X, c: &Ctx, s: &mut S) -> R {} }, "not mutably");
        refused(
            Kind::Map,
            quote! { fn f(p: &P, x: &X, s: &mut S, c: &mut Ctx) -> R {} },
            "only a state and a fold's accumulator",
        );
        refused(Kind::Fold, quote! { fn f(p: &P, x: &X, acc: &A) {} }, "by mutable reference");
        refused(Kind::Map, quote! { fn f(p: &impl Wire, x: &X) -> R {} }, "name the type");
        refused(Kind::Map, quote! { fn f(p: &P, x: &X) -> impl Reduce {} }, "name the type");
    }

    #[test]
    fn a_map_returns_and_a_fold_does_not() {
        refused(Kind::Map, quote! { fn f(p: &P, x: &X) {} }, "a map returns its result");
        refused(Kind::Fold, quote! { fn f(p: &P, x: &X, acc: &mut A) -> u32 {} }, "a fold returns nothing");
    }

    #[test]
    fn a_map_that_returns_a_result_is_told_to_panic() {
        for returned in [quote! { Result<f64, E> }, quote! { std::io::Result<u64> }] {
            refused(
                Kind::Map,
                quote! { fn f(p: &P, x: &X) -> #returned {} },
                "not a `Result`: to fail, panic",
            );
        }
    }

    #[test]
    fn arguments_of_the_attribute_are_read() {
        let written = |kind, args| register(kind, &args, &quote! { fn f(p: &P, x: &X, a: &mut A) {} });
        let fold =
            written(Kind::Fold, quote! { crate = jam, accumulator_bytes = 1 << 20 }).unwrap().to_string();
        assert!(fold.contains("jam :: register ! (f , accumulator_bytes = 1 << 20)"), "{fold}");
        assert!(!fold.contains("qjam"), "{fold}");
        let error = written(Kind::Map, quote! { accumulator_bytes = 8 }).unwrap_err().to_string();
        assert!(error.contains("takes `crate = …`"), "{error}");
        let generic = quote! { fn f<T: Real>(p: &P, x: &X<T>, a: &mut A<T>) {} };
        let error =
            register(Kind::Fold, &quote! { accumulator_bytes = 8 }, &generic).unwrap_err().to_string();
        assert!(error.contains("register!"), "{error}");
    }
}
