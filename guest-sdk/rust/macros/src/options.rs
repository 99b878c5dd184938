//! What stands in the parentheses of `#[tool(…)]`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::{Error, LitBool, LitStr, Token};

/// Bytes of a tool's name; the contract's limit.
const NAME_BYTES_MAX: usize = 64;
/// Bytes of a title; the contract's limit.
const TITLE_BYTES_MAX: usize = 1 << 10;

/// The options, and where each one stands.
#[derive(Default)]
pub(crate) struct Options {
    /// Another name than the function's.
    pub(crate) name: Option<LitStr>,
    /// For people.
    pub(crate) title: Option<LitStr>,
    read_only: Option<Flag>,
    destructive: Option<Flag>,
    idempotent: Option<Flag>,
    open_world: Option<Flag>,
}

struct Flag {
    value: bool,
    span: Span,
}

impl Options {
    /// Reads the tokens between the parentheses.
    pub(crate) fn parse(tokens: TokenStream) -> syn::Result<Self> {
        let mut options = Self::default();
        syn::meta::parser(|meta| options.read_one(&meta)).parse2(tokens)?;
        options.check()?;
        Ok(options)
    }

    fn read_one(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let word = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match word.as_str() {
            "name" => once(&mut self.name, meta, meta.value()?.parse()?),
            "title" => once(&mut self.title, meta, meta.value()?.parse()?),
            "read_only" => once(&mut self.read_only, meta, flag(meta)?),
            "destructive" => once(&mut self.destructive, meta, flag(meta)?),
            "idempotent" => once(&mut self.idempotent, meta, flag(meta)?),
            "open_world" => once(&mut self.open_world, meta, flag(meta)?),
            _ => Err(meta.error(
                "unknown option: use name = \"…\", title = \"…\", read_only, destructive, idempotent or open_world",
            )),
        }
    }

    fn check(&self) -> syn::Result<()> {
        if let Some(name) = &self.name {
            check_name(&name.value(), name.span())?;
        }
        if let Some(title) = &self.title
            && !(1..=TITLE_BYTES_MAX).contains(&title.value().len())
        {
            return Err(Error::new(title.span(), format!("a title has 1 to {TITLE_BYTES_MAX} bytes")));
        }
        if let (Some(Flag { value: true, .. }), Some(Flag { value: true, span })) = (&self.read_only, &self.destructive)
        {
            return Err(Error::new(*span, "a tool that is read_only destroys nothing: remove one of the two"));
        }
        Ok(())
    }

    /// The annotations as an expression. Silence is not a promise: a tool that says something, but not whether it
    /// is destructive, counts as destructive unless it is read-only.
    pub(crate) fn annotations(&self) -> TokenStream {
        let flags = [&self.read_only, &self.destructive, &self.idempotent, &self.open_world];
        if flags.iter().all(|flag| flag.is_none()) {
            return quote!(::core::option::Option::None);
        }
        let is = |flag: &Option<Flag>| flag.as_ref().is_some_and(|flag| flag.value);
        let read_only = is(&self.read_only);
        let destructive = self.destructive.as_ref().map_or(!read_only, |flag| flag.value);
        let (idempotent, open_world) = (is(&self.idempotent), is(&self.open_world));
        quote! {
            ::core::option::Option::Some(::toolcell_guest::Annotations {
                read_only: #read_only,
                destructive: #destructive,
                idempotent: #idempotent,
                open_world: #open_world,
            })
        }
    }
}

/// Refuses what is no tool name for some provider.
pub(crate) fn check_name(name: &str, span: Span) -> syn::Result<()> {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if fits {
        return Ok(());
    }
    let text = format!(
        "\"{}\" is not a tool name: use 1 to {NAME_BYTES_MAX} of A-Z a-z 0-9 _ -, as in #[tool(name = \"my-tool\")]",
        name.escape_debug()
    );
    Err(Error::new(span, text))
}

fn once<T>(place: &mut Option<T>, meta: &ParseNestedMeta<'_>, value: T) -> syn::Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error("this option is given twice")),
    }
}

/// `read_only`, or `read_only = false`.
fn flag(meta: &ParseNestedMeta<'_>) -> syn::Result<Flag> {
    let span = meta.path.get_ident().map_or_else(Span::call_site, syn::Ident::span);
    let value = if meta.input.peek(Token![=]) { meta.value()?.parse::<LitBool>()?.value } else { true };
    Ok(Flag { value, span })
}
