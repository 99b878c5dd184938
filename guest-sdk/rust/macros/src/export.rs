//! `export!` and `tool_of!`: from the name of a function to its tool, and from tools to a component.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Error, Path, Token};

use crate::expand::constant_name;

/// Expands `export!(one, two)`. The exports exist only on wasm, so that a native test links; the list is looked at
/// everywhere, so that a function used by nothing else is not called dead.
pub(crate) fn export(tools: TokenStream) -> TokenStream {
    let paths = match Punctuated::<Path, Token![,]>::parse_terminated.parse2(tools) {
        Ok(paths) if !paths.is_empty() => paths,
        Ok(_) => {
            let text = "name the functions that are tools, as in export!(math)";
            return Error::new(proc_macro2::Span::call_site(), text).into_compile_error();
        }
        Err(error) => return error.into_compile_error(),
    };
    let constants = paths.iter().map(constant_path);
    quote! {
        const _: () = {
            const TOOLS: &[::toolcell_guest::Tool] = &[#(#constants),*];
            const _: () = ::toolcell_guest::__private::assert_names_differ(TOOLS);

            #[cfg(target_family = "wasm")]
            const _: () = {
                struct Component;

                impl ::toolcell_guest::__private::Guest for Component {
                    fn list_tools() -> ::std::vec::Vec<::toolcell_guest::__private::Definition> {
                        ::toolcell_guest::__private::list_tools(TOOLS)
                    }

                    fn call_tool(
                        name: ::std::string::String,
                        arguments: ::std::string::String,
                        context: ::toolcell_guest::__private::CallContext,
                    ) -> ::toolcell_guest::__private::ToolResult {
                        ::toolcell_guest::__private::call_tool(TOOLS, &name, &arguments, context)
                    }
                }

                ::toolcell_guest::__private::export_component!(
                    Component with_types_in ::toolcell_guest::__private::bindings
                );
            };
        };
    }
}

/// Expands `tool_of!(function)`.
pub(crate) fn tool_of(function: TokenStream) -> TokenStream {
    match syn::parse2::<Path>(function) {
        Ok(path) => {
            let constant = constant_path(&path);
            quote!(#constant)
        }
        Err(error) => error.into_compile_error(),
    }
}

fn constant_path(path: &Path) -> Path {
    let mut path = path.clone();
    if let Some(last) = path.segments.last_mut() {
        last.ident = constant_name(&last.ident);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_needs_a_tool() {
        let tokens = export(TokenStream::new()).to_string();
        assert!(tokens.contains("name the functions that are tools, as in export!(math)"), "{tokens}");
    }

    #[test]
    fn a_function_in_a_module_is_found_by_its_path() {
        assert_eq!(tool_of(quote!(text::search)).to_string(), "text :: tool_attribute_of_search");
        assert_eq!(tool_of(quote!(r#type)).to_string(), "tool_attribute_of_type");
    }

    #[test]
    fn every_tool_of_the_list_is_exported() {
        let tokens = export(quote!(math, text::search,)).to_string();
        assert!(tokens.contains("& [tool_attribute_of_math , text :: tool_attribute_of_search]"), "{tokens}");
    }
}
