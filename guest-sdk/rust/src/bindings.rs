//! What `wit-bindgen` makes of `wit/tool.wit`: the imports, the types that cross the wall, and the export macro.
#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated code")]

wit_bindgen::generate!({
    path: "../../wit/tool.wit",
    world: "tool",
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "::toolcell_guest::__private::bindings",
});
