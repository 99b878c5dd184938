//! Small components, written in WAT around a memory image: a list of tools and one result for every call.

use serde_json::{Value, json};
use toolcell_contract::TOOL_WIT;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Where the image of constants begins in the guest's memory.
const BASE: usize = 1024;

/// A tool of a small component.
pub struct ToolSpec {
    pub name: String,
    pub input_schema: String,
    pub output_schema: Option<String>,
}

/// A tool that takes any object.
pub fn tool(name: &str) -> ToolSpec {
    with_schema(name, &json!({"type": "object"}))
}

/// A tool with this input schema.
pub fn with_schema(name: &str, schema: &Value) -> ToolSpec {
    ToolSpec { name: name.to_owned(), input_schema: schema.to_string(), output_schema: None }
}

/// A component with one tool that answers every call with this text. Another text makes another digest.
pub fn answering(name: &str, text: &str) -> Vec<u8> {
    Guest { tools: vec![tool(name)], text: text.to_owned(), ..Guest::default() }.build()
}

/// A component with these tools.
pub fn offering(tools: Vec<ToolSpec>) -> Vec<u8> {
    Guest { tools, ..Guest::default() }.build()
}

/// A component of a few hundred bytes.
#[derive(Default)]
pub struct Guest {
    pub tools: Vec<ToolSpec>,
    /// The output of every call.
    pub text: String,
    /// What `list-tools` does first, in WAT; it has a local variable `$n`.
    pub before_list: &'static str,
    /// Whether each call reports progress and counts to a hundred million before it answers.
    pub is_slow: bool,
}

impl Guest {
    pub fn build(&self) -> Vec<u8> {
        let mut image = Image::default();
        let definitions: Vec<u8> = self.tools.iter().flat_map(|tool| image.definition(tool)).collect();
        let count = u32::try_from(self.tools.len()).unwrap();
        let list = Span(image.place(&definitions), count).bytes();
        let list = image.place(&list);
        let text = image.text(&self.text);
        // The case `ok`, its output, and no metadata.
        let result = image.place(&[vec![0; 4], text, vec![0; 12]].concat());
        encode(TOOL_WIT, "tool", &self.module(&image, list, result))
    }

    fn module(&self, image: &Image, list: u32, result: u32) -> String {
        let data: String = image.0.iter().map(|byte| format!("\\{byte:02x}")).collect();
        let pages = (BASE + image.0.len()) / 65_536 + 4;
        let top = (BASE + image.0.len()).next_multiple_of(8);
        let (import, report, count) = if self.is_slow { (PROGRESS, REPORT, COUNT) } else { ("", "", "") };
        let before_list = self.before_list;
        format!(
            r#"(module
              {import}
              (memory (export "memory") {pages})
              (global $top (mut i32) (i32.const {top}))
              (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
                (local.set $at (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
                (global.set $top (i32.add (local.get $at) (local.get 3)))
                (local.get $at))
              (func (export "toolcell:tool/tools@0.1.0#list-tools") (result i32) (local $n i32)
                {before_list} (i32.const {list}))
              (func (export "toolcell:tool/tools@0.1.0#call-tool") (param i32) (result i32) (local $n i32)
                {report} {count} (i32.const {result}))
              (data (i32.const {BASE}) "{data}"))"#
        )
    }
}

const PROGRESS: &str = r#"(import "toolcell:tool/progress@0.1.0" "report"
    (func $report (param f64 i32 f64 i32 i32 i32)))"#;

const REPORT: &str =
    "(call $report (f64.const 1) (i32.const 0) (f64.const 0) (i32.const 0) (i32.const 0) (i32.const 0))";

/// Counts to a hundred million: some 50 ms.
pub const COUNT: &str = "(loop $again
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $n) (i32.const 100000000))))";

/// A component of another world: what the WIT text calls `world`, around this module.
pub fn encode(wit: &str, world: &str, module: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_source("test.wit", wit).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    let mut module = wat::parse_str(module).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap()
}

/// The constants in the guest's memory.
#[derive(Default)]
struct Image(Vec<u8>);

/// Address and length, or address and number of elements.
struct Span(u32, u32);

impl Span {
    fn bytes(&self) -> Vec<u8> {
        [self.0.to_le_bytes(), self.1.to_le_bytes()].concat()
    }
}

impl Image {
    /// Places bytes at a multiple of eight.
    fn place(&mut self, bytes: &[u8]) -> u32 {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        let at = BASE + self.0.len();
        self.0.extend_from_slice(bytes);
        u32::try_from(at).unwrap()
    }

    fn text(&mut self, text: &str) -> Vec<u8> {
        Span(self.place(text.as_bytes()), u32::try_from(text.len()).unwrap()).bytes()
    }

    fn option(&mut self, text: Option<&str>) -> Vec<u8> {
        match text {
            None => vec![0; 12],
            Some(text) => [vec![1, 0, 0, 0], self.text(text)].concat(),
        }
    }

    /// The 56 bytes of a `definition` in the canonical ABI.
    fn definition(&mut self, tool: &ToolSpec) -> Vec<u8> {
        [
            self.text(&tool.name),
            self.option(None),
            self.text("Does something"),
            self.text(&tool.input_schema),
            self.option(tool.output_schema.as_deref()),
            vec![0; 8],
        ]
        .concat()
    }
}
