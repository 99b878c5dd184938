//! The function under `#[tool]`: what it must be, and what is read from it.

use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, ExprLit, FnArg, ItemFn, Lit, Meta, Signature};

use crate::parameter::Parameter;

/// Bytes of a description; the contract's limit.
const DESCRIPTION_BYTES_MAX: usize = 1 << 10;

/// What a tool function says about itself.
pub(crate) struct Described {
    /// The doc comment, which the model reads.
    pub(crate) description: String,
    /// One for each parameter, in order.
    pub(crate) parameters: Vec<Parameter>,
}

/// Reads a function and takes away what only the macro understands; every mistake is reported, not only the first.
pub(crate) fn describe(function: &mut ItemFn) -> syn::Result<Described> {
    let mut mistakes = Mistakes::default();
    check_kind(&function.sig, &mut mistakes);
    let description = mistakes.keep(description(function)).unwrap_or_default();
    let mut parameters = Vec::new();
    for input in &mut function.sig.inputs {
        match input {
            FnArg::Receiver(receiver) => {
                mistakes.push(receiver.span(), "a tool is a free function: remove self");
            }
            FnArg::Typed(typed) => parameters.extend(mistakes.keep(Parameter::take(typed))),
        }
    }
    if let Some(second) = parameters.iter().filter(|parameter| parameter.is_context()).nth(1) {
        mistakes.push(second.span, "a tool has one context: remove the second one");
    }
    mistakes.finish()?;
    Ok(Described { description, parameters })
}

fn check_kind(signature: &Signature, mistakes: &mut Mistakes) {
    if let Some(token) = &signature.asyncness {
        mistakes.push(token.span(), "a tool is called and returns: remove async");
    }
    if let Some(abi) = &signature.abi {
        mistakes.push(abi.span(), "a tool is an ordinary Rust function: remove extern");
    }
    if let Some(variadic) = &signature.variadic {
        mistakes.push(variadic.span(), "a tool has a fixed number of parameters");
    }
    if !signature.generics.params.is_empty() {
        let text = "a tool has one input schema, so its function cannot be generic: name the types";
        mistakes.push(signature.generics.span(), text);
    }
}

fn description(function: &ItemFn) -> syn::Result<String> {
    let span = function.sig.ident.span();
    match doc_comment(&function.attrs)? {
        Some(text) if text.len() > DESCRIPTION_BYTES_MAX => {
            let text =
                format!("the doc comment has {} bytes; a description has at most {DESCRIPTION_BYTES_MAX}", text.len());
            Err(Error::new(span, text))
        }
        Some(text) => Ok(text),
        None => Err(Error::new(
            span,
            "a tool needs a description: write a doc comment (///) above the function, the model reads it",
        )),
    }
}

/// The text of a doc comment, without the space that follows `///`. `None` when there is none, or only blanks.
pub(crate) fn doc_comment(attributes: &[Attribute]) -> syn::Result<Option<String>> {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        // `#[doc(hidden)]` and the like are no text.
        let Meta::NameValue(meta) = &attribute.meta else { continue };
        let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &meta.value else {
            return Err(Error::new(
                meta.value.span(),
                "write the text itself here: the macro cannot read it elsewhere",
            ));
        };
        lines.extend(text.value().lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned()));
        if text.value().is_empty() {
            lines.push(String::new());
        }
    }
    let text = lines.join("\n").trim().to_owned();
    Ok((!text.is_empty()).then_some(text))
}

/// Collects mistakes, so that one compilation shows all of them.
#[derive(Default)]
struct Mistakes(Option<Error>);

impl Mistakes {
    fn push(&mut self, span: proc_macro2::Span, text: &str) {
        self.add(Error::new(span, text));
    }

    fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            none => *none = Some(error),
        }
    }

    fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    fn finish(self) -> syn::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
