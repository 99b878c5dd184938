//! The guest's side of `wit/tool.wit` and of what WASI it uses by hand, generated.
#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated; tool.wit documents every item")]

wit_bindgen::generate!({
    path: "../../wit/tool.wit",
    world: "tool",
    pub_export_macro: true,
});
