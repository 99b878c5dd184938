//! `#[tool]`: the function as it was, and beside it the constant that describes and calls it.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, Ident, ItemFn};

use crate::options::{Options, check_name};
use crate::parameter::{Parameter, option};
use crate::signature::{Described, describe};

/// Expands the attribute. With a mistake in it, the function stays, so that only the mistake is reported.
pub(crate) fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    let (function, constant) = expand(options, item);
    let constant = constant.unwrap_or_else(|error| error.into_compile_error());
    quote!(#function #constant)
}

/// The item as it goes on, and the constant beside it.
fn expand(options: TokenStream, item: TokenStream) -> (TokenStream, syn::Result<TokenStream>) {
    let mut function = match syn::parse2::<ItemFn>(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let is_function = item.clone().into_iter().any(|token| token.to_string() == "fn");
            let error = if is_function { error } else { Error::new(item.span(), "#[tool] goes on a function") };
            return (item, Err(error));
        }
    };
    let described = describe(&mut function);
    let constant = match (Options::parse(options), described) {
        (Ok(options), Ok(described)) => constant(&options, &described, &function),
        (Err(mut error), Err(more)) => {
            error.combine(more);
            Err(error)
        }
        (Err(error), _) | (_, Err(error)) => Err(error),
    };
    (quote!(#function), constant)
}

/// The name of the constant beside the function `ident`. rustc says it when `export!` names a function without
/// `#[tool]`: "cannot find value `tool_attribute_of_math`".
pub(crate) fn constant_name(ident: &Ident) -> Ident {
    format_ident!("tool_attribute_of_{}", ident.unraw(), span = ident.span())
}

fn constant(options: &Options, described: &Described, function: &ItemFn) -> syn::Result<TokenStream> {
    let (visibility, ident) = (&function.vis, &function.sig.ident);
    let name = match &options.name {
        Some(name) => name.value(),
        None => ident.unraw().to_string(),
    };
    check_name(&name, ident.span())?;
    let constant = constant_name(ident);
    let title = option(options.title.as_ref());
    let description = &described.description;
    let annotations = options.annotations();
    let entries = described.parameters.iter().filter_map(Parameter::entry);
    let values = described.parameters.iter().map(Parameter::value);
    // The span of the return type, so that a type which is no result is reported there.
    let span = match &function.sig.output {
        syn::ReturnType::Default => Span::call_site(),
        syn::ReturnType::Type(_, ty) => ty.span(),
    };
    let returned = quote!(#ident(#(#values),*));
    let converted = quote_spanned!(span=> ::toolcell_guest::IntoToolResult::into_returned(returned, context));
    Ok(quote! {
        #[doc(hidden)]
        #[allow(non_upper_case_globals, reason = "it is named after its function")]
        #visibility const #constant: ::toolcell_guest::Tool = ::toolcell_guest::Tool {
            name: #name,
            title: #title,
            description: #description,
            annotations: #annotations,
            parameters: &[#(#entries),*],
            run: |arguments, context| {
                let _ = arguments;
                let returned = #returned;
                ::core::result::Result::Ok(#converted)
            },
        };
    })
}

#[cfg(test)]
#[path = "expand_tests.rs"]
mod tests;
