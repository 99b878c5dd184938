//! The host's side of `wit/tool.wit`, generated.
#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated; tool.wit documents every item")]

wasmtime::component::bindgen!({
    path: "../../wit/tool.wit",
    world: "tool",
    imports: {
        "toolcell:tool/http.fetch": async,
        "toolcell:tool/key-value.get": async,
        "toolcell:tool/key-value.set": async,
        "toolcell:tool/key-value.delete": async,
        "toolcell:tool/key-value.list-keys": async,
    },
    exports: { default: async },
});
