//! One parameter of a tool function: an argument that the model gives, or the context of the call.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, GenericArgument, Pat, PatType, PathArguments, Type, TypeReference};

use crate::signature::doc_comment;

/// One parameter.
pub(crate) struct Parameter {
    /// Where it stands.
    pub(crate) span: Span,
    source: Source,
}

/// Where the value of a parameter comes from.
enum Source {
    Argument(Box<Argument>),
    /// `Context`.
    OwnedContext,
    /// `&Context`.
    BorrowedContext,
}

struct Argument {
    name: String,
    description: Option<String>,
    /// As written, `Option` included.
    ty: Type,
    presence: Presence,
}

enum Presence {
    Required,
    Optional,
    Default(Box<Expr>),
}

impl Parameter {
    /// Reads a parameter and takes away its doc comment and its `#[default(…)]`, which rustc does not allow there.
    pub(crate) fn take(typed: &mut PatType) -> syn::Result<Self> {
        let attributes = std::mem::take(&mut typed.attrs);
        let (own, kept): (Vec<_>, Vec<_>) = attributes.into_iter().partition(is_own);
        typed.attrs = kept;
        let span = typed.pat.span();
        let source = match context_of(&typed.ty) {
            Some(context) if own.is_empty() => context,
            Some(_) => {
                return Err(Error::new(span, "the context is not an argument: it has neither description nor default"));
            }
            None => Source::Argument(Box::new(Argument::read(typed, &own)?)),
        };
        Ok(Self { span, source })
    }

    /// Whether it is the context of the call.
    pub(crate) fn is_context(&self) -> bool {
        !matches!(self.source, Source::Argument(_))
    }

    /// The expression that gives the value, from `arguments` and `context`.
    pub(crate) fn value(&self) -> TokenStream {
        match &self.source {
            Source::Argument(argument) => argument.value(),
            Source::OwnedContext => quote!(::core::clone::Clone::clone(context)),
            Source::BorrowedContext => quote!(context),
        }
    }

    /// The entry in the tool's table of parameters; none for the context.
    pub(crate) fn entry(&self) -> Option<TokenStream> {
        match &self.source {
            Source::Argument(argument) => Some(argument.entry()),
            Source::OwnedContext | Source::BorrowedContext => None,
        }
    }
}

impl Argument {
    fn read(typed: &PatType, own: &[Attribute]) -> syn::Result<Self> {
        let name = name_of(&typed.pat)?;
        check_type(&typed.ty)?;
        let is_option = is_option(&typed.ty);
        let presence = match default_of(own)? {
            Some(default) if is_option => {
                let text = "with a default the value is always there: remove the Option or the default";
                return Err(Error::new(default.span(), text));
            }
            Some(default) => Presence::Default(Box::new(default)),
            None if is_option => Presence::Optional,
            None => Presence::Required,
        };
        Ok(Self { name, description: doc_comment(own)?, ty: (*typed.ty).clone(), presence })
    }

    fn value(&self) -> TokenStream {
        let Self { name, ty, .. } = self;
        let span = ty.span();
        match &self.presence {
            Presence::Required => quote_spanned!(span=> arguments.required::<#ty>(#name)?),
            Presence::Optional => quote_spanned!(span=> arguments.optional::<#ty>(#name)?),
            Presence::Default(default) => quote_spanned!(span=> arguments.or_else::<#ty>(#name, || #default)?),
        }
    }

    fn entry(&self) -> TokenStream {
        let Self { name, ty, .. } = self;
        let description = option(self.description.as_ref());
        let required = matches!(self.presence, Presence::Required);
        let default = match &self.presence {
            Presence::Default(default) => quote_spanned!(ty.span()=>
                ::core::option::Option::Some(|| ::toolcell_guest::__private::to_json::<#ty>(&#default))
            ),
            Presence::Required | Presence::Optional => quote!(::core::option::Option::None),
        };
        // The span of the type, so that a type which cannot be an argument is reported there.
        let probe = quote_spanned!(ty.span()=> ::toolcell_guest::__private::Probe::<#ty>::NEW);
        let schema = quote! {
            |schema, description| {
                #[allow(unused_imports, reason = "which of the two is used depends on the type")]
                use ::toolcell_guest::__private::{BySchemars as _, ByText as _};
                (&#probe).write(schema, description);
            }
        };
        quote! {
            ::toolcell_guest::Parameter {
                name: #name,
                description: #description,
                required: #required,
                default: #default,
                schema: #schema,
            }
        }
    }
}

/// `Some("…")` or `None` as an expression.
pub(crate) fn option<T: quote::ToTokens>(value: Option<T>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

fn is_own(attribute: &Attribute) -> bool {
    attribute.path().is_ident("doc") || attribute.path().is_ident("default")
}

fn default_of(attributes: &[Attribute]) -> syn::Result<Option<Expr>> {
    let mut defaults = attributes.iter().filter(|attribute| attribute.path().is_ident("default"));
    let Some(first) = defaults.next() else { return Ok(None) };
    if let Some(second) = defaults.next() {
        return Err(Error::new(second.span(), "a parameter has one default"));
    }
    let expression = first.parse_args::<Expr>();
    expression
        .map(Some)
        .map_err(|_| Error::new(first.span(), "write the default value in parentheses, as in #[default(10)]"))
}

fn name_of(pattern: &Pat) -> syn::Result<String> {
    let text = "a parameter needs a plain name here, which becomes the name of the argument: take it apart in the body";
    let Pat::Ident(pattern) = pattern else { return Err(Error::new(pattern.span(), text)) };
    if pattern.by_ref.is_some() || pattern.subpat.is_some() {
        return Err(Error::new(pattern.span(), text));
    }
    let name = pattern.ident.unraw().to_string();
    // Providers refuse other property names.
    if name.is_ascii() { Ok(name) } else { Err(Error::new(pattern.span(), "the name of an argument is plain ASCII")) }
}

fn context_of(ty: &Type) -> Option<Source> {
    match ty {
        Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Context") => {
            Some(Source::OwnedContext)
        }
        Type::Reference(TypeReference { elem, mutability: None, .. }) => {
            matches!(context_of(elem), Some(Source::OwnedContext)).then_some(Source::BorrowedContext)
        }
        _ => None,
    }
}

fn check_type(ty: &Type) -> syn::Result<()> {
    let text = match ty {
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => "an argument is owned: write String in place of &str",
            Type::Slice(_) => "an argument is owned: write Vec<…> in place of a slice",
            Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Context") => {
                "the context cannot be changed: write &Context"
            }
            _ => "an argument is owned: remove the &",
        },
        Type::ImplTrait(_) => "a tool has one input schema, so an argument cannot be impl Trait: name the type",
        Type::Never(_) | Type::Ptr(_) | Type::FnPtr(_) | Type::TraitObject(_) => "this type cannot be an argument",
        _ => return Ok(()),
    };
    Err(Error::new(ty.span(), text))
}

fn is_option(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.segments.last().is_some_and(|last| {
        last.ident == "Option"
            && matches!(&last.arguments, PathArguments::AngleBracketed(inner)
                if matches!(inner.args.first(), Some(GenericArgument::Type(_))))
    })
}
