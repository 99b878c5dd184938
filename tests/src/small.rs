//! Small components made of WebAssembly text, for deeds that no compiler would produce.

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// A tool component around the text of a core module.
///
/// The module exports `memory`, `cabi_realloc`, and by the names of the canonical ABI `list-tools` (no parameter,
/// returns a pointer to a list) and `call-tool` (a pointer to its parameters, returns a pointer to a `tool-result`).
///
/// # Panics
/// When the text is no module, or not of this shape.
#[must_use]
pub fn tool(module: &str) -> Vec<u8> {
    in_world(module, "", "toolcell:tool/tool@0.1.0")
}

/// The same in another world: `wit` is a further package, and `world` the full name of a world in it.
///
/// # Panics
/// As for [`tool`], and when `wit` does not parse.
#[must_use]
pub fn in_world(module: &str, wit: &str, world: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let mut package = resolve.push_str("tool.wit", toolcell_contract::TOOL_WIT).expect("tool.wit parses");
    if !wit.is_empty() {
        package = resolve.push_str("more.wit", wit).unwrap_or_else(|error| panic!("{error:#}"));
    }
    let world = resolve.select_world(&[package], Some(world)).unwrap_or_else(|error| panic!("{error:#}"));
    let mut module = wat::parse_str(module).unwrap_or_else(|error| panic!("{error}"));
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("metadata can be embedded");
    let encode = || ComponentEncoder::default().validate(true).module(&module)?.encode();
    encode().unwrap_or_else(|error| panic!("{error:#}"))
}

/// The text of a tool module, of which a test replaces what it is about.
#[derive(Debug, Clone)]
pub struct Module {
    /// More fields of the module: imports first, then memories, tables, functions, post-return functions.
    pub imports: String,
    /// Further fields.
    pub fields: String,
    /// Pages of the first memory, or its limits.
    pub memory: String,
    /// The body of `cabi_realloc`; its parameters are `$old`, `$old_size`, `$align` and `$size`.
    pub realloc: String,
    /// The body of `list-tools`.
    pub list: String,
    /// The body of `call-tool`; its parameter is `$parameters`.
    pub call: String,
}

impl Default for Module {
    /// A module with one tool `small`, which answers `fine`.
    fn default() -> Self {
        Self {
            imports: String::new(),
            fields: String::new(),
            memory: "1".into(),
            realloc: "(global.set $heap (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
                (global.get $heap)
                (global.set $heap (i32.add (global.get $heap) (local.get $size)))"
                .into(),
            list: "(i32.const 2048)".into(),
            call: "(i32.const 3072)".into(),
        }
    }
}

impl Module {
    /// The component.
    ///
    /// # Panics
    /// As for [`tool`].
    #[must_use]
    pub fn tool(&self) -> Vec<u8> {
        tool(&self.text())
    }

    /// The text of the module. Its data: at 2048 a list of one definition, at 3072 an ok result `fine`.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { imports, fields, memory, realloc, list, call } = self;
        format!(
            r#"(module
  {imports}
  (memory (export "memory") {memory})
  (global $heap (mut i32) (i32.const 8192))
  (data (i32.const 1024) "small")
  (data (i32.const 1040) "{{\"type\":\"object\"}}")
  (data (i32.const 1072) "fine")
  ;; the list: pointer 2056, length 1
  (data (i32.const 2048) "\08\08\00\00\01\00\00\00")
  ;; the definition: name, no title, description, input-schema, no output-schema, no annotations
  (data (i32.const 2056) "\00\04\00\00\05\00\00\00" "\00\00\00\00\00\00\00\00\00\00\00\00"
    "\00\04\00\00\05\00\00\00" "\10\04\00\00\11\00\00\00")
  ;; ok(outcome): case 0, output, no metadata
  (data (i32.const 3072) "\00\00\00\00" "\30\04\00\00\04\00\00\00")
  (func (export "cabi_realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32)
    (result i32)
    {realloc})
  (func (export "toolcell:tool/tools@0.1.0#list-tools") (result i32)
    {list})
  (func (export "toolcell:tool/tools@0.1.0#call-tool") (param $parameters i32) (result i32)
    {call})
  {fields})"#
        )
    }
}
