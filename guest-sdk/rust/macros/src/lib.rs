//! The macros of `toolcell-guest`; every one is documented there, where it is used from.
//!
//! Each macro is a function from tokens to tokens in a module of its own, so that it is tested without a compiler.

mod argument;
mod expand;
mod export;
mod options;
mod parameter;
mod signature;

use proc_macro::TokenStream;

/// Makes a tool of a function; documented in `toolcell_guest`.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::tool(options.into(), item.into()).into()
}

/// Makes a type usable as an argument; documented in `toolcell_guest`.
#[proc_macro_attribute]
pub fn argument(options: TokenStream, item: TokenStream) -> TokenStream {
    argument::argument(options.into(), item.into()).into()
}

/// Makes a component of tools; documented in `toolcell_guest`.
#[proc_macro]
pub fn export(tools: TokenStream) -> TokenStream {
    export::export(tools.into()).into()
}

/// Names the tool that a function is; documented in `toolcell_guest`.
#[proc_macro]
pub fn tool_of(function: TokenStream) -> TokenStream {
    export::tool_of(function.into()).into()
}
