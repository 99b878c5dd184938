//! What the bytes of a file are, told before they are compiled, in words that help whoever built them.

use wasmparser::{
    CompositeInnerType, Encoding, FuncValidatorAllocations, Parser, Payload, TypeSectionReader, ValidPayload,
    Validator, WasmFeatures,
};

use crate::LoadError;
use crate::effort::{ARITY_MAX, Effort};

/// Characters of a foreign text that are quoted in an error.
const QUOTE_CHARS_MAX: usize = 200;

/// Functions of all modules of a component. CPython has 15,000.
const FUNCTIONS_MAX: usize = 200_000;

/// Bytes of one function body. The evaluation loop of CPython has 200 KiB.
const FUNCTION_BYTES_MAX: usize = 2 << 20;

/// Modules and components inside a component. A Rust tool has three modules, a Python tool a dozen.
const NESTED_MAX: usize = 256;

/// Refuses what is no component, and what would take too long to compile.
pub(crate) fn inspect(bytes: &[u8], bytes_max: usize) -> Result<(), LoadError> {
    if bytes.len() > bytes_max {
        let rule = format!("its file has {} bytes, and a component may have {bytes_max}", bytes.len());
        return Err(LoadError::TooLarge(rule));
    }
    if !bytes.starts_with(b"\0asm") {
        return Err(LoadError::NotAComponent(describe_foreign(bytes).into()));
    }
    count(bytes)
}

fn describe_foreign(bytes: &[u8]) -> &'static str {
    let text = bytes.trim_ascii_start();
    if bytes.is_empty() {
        "the file is empty"
    } else if text.starts_with(b"(") || text.starts_with(b";;") {
        "this is WebAssembly text: turn it into binary with `wasm-tools parse`"
    } else if bytes.starts_with(b"\x7fELF") {
        "this is native machine code, which is never loaded from a file: give the .wasm it was made from"
    } else {
        "the file does not begin with the bytes of WebAssembly"
    }
}

/// Walks over the sections and, because a short body can take minutes to compile, over every instruction.
fn count(bytes: &[u8]) -> Result<(), LoadError> {
    let mut counts = Counts::default();
    let mut validator = Validator::new_with_features(WasmFeatures::all());
    let mut allocations = FuncValidatorAllocations::default();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(|error| damaged(&error))?;
        counts.add_section(&payload)?;
        match validator.payload(&payload).map_err(|error| damaged(&error))? {
            ValidPayload::Func(function, body) => {
                let index = function.index;
                let effort = Effort::of(function, &body, &mut allocations).map_err(|error| damaged(&error))?;
                counts.add_function(index, effort)?;
            }
            ValidPayload::Ok | ValidPayload::Parser(_) | ValidPayload::End(_) => {}
        }
    }
    Ok(())
}

/// What was met so far in a component.
#[derive(Default)]
struct Counts {
    functions: usize,
    nested: usize,
    modules: usize,
    effort: Effort,
}

impl Counts {
    fn add_section(&mut self, payload: &Payload<'_>) -> Result<(), LoadError> {
        match payload {
            Payload::Version { encoding: Encoding::Module, range, .. } if range.start == 0 => {
                return Err(LoadError::NotAComponent(CORE_MODULE.into()));
            }
            Payload::Version { encoding: Encoding::Module, .. } => self.modules += 1,
            Payload::TypeSection(types) => check_types(types.clone())?,
            Payload::CodeSectionStart { count, .. } => {
                self.functions = self.functions.saturating_add(*count as usize);
                within("it", self.functions, "functions", FUNCTIONS_MAX)?;
            }
            Payload::CodeSectionEntry(body) => {
                within("a function", body.range().len(), "bytes", FUNCTION_BYTES_MAX)?;
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                self.nested += 1;
                within("it", self.nested, "modules", NESTED_MAX)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn add_function(&mut self, index: u32, effort: Effort) -> Result<(), LoadError> {
        let module = self.modules.saturating_sub(1);
        effort
            .check()
            .map_err(|rule| LoadError::CompileLimit(format!("function {index} of core module {module} {rule}")))?;
        self.effort += effort;
        self.effort.check_total().map_err(|rule| LoadError::CompileLimit(format!("it {rule}")))
    }
}

/// A type may be named in two bytes wherever a function is called or a block begins, so what it holds is bounded first.
fn check_types(types: TypeSectionReader<'_>) -> Result<(), LoadError> {
    for group in types {
        for ty in group.map_err(|error| damaged(&error))?.types() {
            if let CompositeInnerType::Func(signature) = &ty.composite_type.inner {
                let arity = signature.params().len() + signature.results().len();
                within("a function type", arity, "parameters and results", ARITY_MAX)?;
            }
        }
    }
    Ok(())
}

const CORE_MODULE: &str =
    "this is a core module: build it for wasm32-wasip2 or wrap it with `wasm-tools component new`";

fn within(what: &str, has: usize, of: &str, max: usize) -> Result<(), LoadError> {
    if has <= max {
        return Ok(());
    }
    Err(LoadError::CompileLimit(format!("{what} has {has} {of}, and the host compiles at most {max}")))
}

fn damaged(error: &wasmparser::BinaryReaderError) -> LoadError {
    LoadError::NotAComponent(format!("its bytes are damaged at offset {}: {}", error.offset(), quote(error.message())))
}

/// Explains why the engine refuses bytes that passed [`inspect`]: a feature that is off, or damage.
pub(crate) fn explain(bytes: &[u8], refusal: &wasmtime::Error) -> LoadError {
    match Validator::new_with_features(WasmFeatures::all()).validate_all(bytes) {
        Ok(_) => LoadError::UnsupportedFeature(quote(&refusal.root_cause().to_string())),
        Err(error) => damaged(&error),
    }
}

/// A foreign text, escaped and cut.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted: String = text.chars().take(QUOTE_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(QUOTE_CHARS_MAX).is_some() {
        quoted.push('…');
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(bytes: &[u8]) -> String {
        inspect(bytes, 1 << 20).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_component_is_named() {
        let table: [(&[u8], &str); 6] = [
            (b"", "the file is empty"),
            (b"  (component)", "this is WebAssembly text: turn it into binary with `wasm-tools parse`"),
            (
                b"\x7fELF\x02\x01",
                "this is native machine code, which is never loaded from a file: give the .wasm it was made from",
            ),
            (b"#!/bin/sh", "the file does not begin with the bytes of WebAssembly"),
            (b"\0asm\x01\0\0\0", CORE_MODULE),
            (b"\0asm\x0d\0\x01", "its bytes are damaged at offset 4: unexpected end-of-file"),
        ];
        for (bytes, expected) in table {
            assert_eq!(refusal(bytes), format!("not a WebAssembly component: {expected}"));
        }
    }

    #[test]
    fn a_file_is_refused_one_byte_above_its_limit() {
        let component = b"\0asm\x0d\0\x01\0";
        assert!(inspect(component, 8).is_ok());
        assert_eq!(
            inspect(component, 7).unwrap_err().to_string(),
            "the component is too large: its file has 8 bytes, and a component may have 7"
        );
    }

    #[test]
    fn foreign_text_is_escaped_and_cut() {
        assert_eq!(quote("\u{1b}[2J\n"), "\\u{1b}[2J\\n");
        assert_eq!(quote(&"x".repeat(201)), format!("{}…", "x".repeat(200)));
    }

    #[test]
    fn what_would_take_too_long_to_compile_is_refused_before() {
        let limit = |text: String| match inspect(&wat::parse_str(text).unwrap(), 64 << 20) {
            Err(LoadError::CompileLimit(rule)) => rule,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            limit(format!("(component {})", "(core module)".repeat(257))),
            "it has 257 modules, and the host compiles at most 256"
        );
        assert_eq!(
            limit(format!("(component (core module (func {})))", "nop ".repeat(2 << 20))),
            "a function has 2097154 bytes, and the host compiles at most 2097152"
        );
        assert_eq!(
            limit(format!("(component (core module {}))", "(func)".repeat(200_001))),
            "it has 200001 functions, and the host compiles at most 200000"
        );
    }

    #[test]
    fn short_functions_that_would_compile_for_minutes_are_refused() {
        let check = |text: String| match inspect(&wat::parse_str(text).unwrap(), 64 << 20) {
            Ok(()) => "fine".to_owned(),
            Err(LoadError::CompileLimit(rule)) => rule,
            Err(other) => panic!("{other:?}"),
        };
        let function = |body: String| format!("(component (core module (func (param i32) {body})))");
        let nested = |open: &str, times| function(format!("{} {}", open.repeat(times), "end ".repeat(times)));
        let joined = |locals: usize, blocks: usize| {
            let body = "block local.get 0 br_if 0 end ".repeat(blocks);
            function(format!("(local {}) {body}", "i32 ".repeat(locals - 1)))
        };
        let calls = |types: &str, times| {
            format!("(component (core module (func $f {types} {} unreachable)))", "unreachable call $f ".repeat(times))
        };
        let pair = "(param i32)";
        let rule =
            |rule: &str, max| format!("function 0 of core module 0 has {rule}, and the host compiles at most {max}");
        let table = [
            (nested("loop ", 100), "fine".to_owned()),
            (nested("loop ", 101), rule("101 loops inside each other", 100)),
            (nested("block ", 3_200), "fine".to_owned()),
            (nested("block ", 3_201), rule("3201 blocks inside each other", 3_200)),
            // Each block has its begin, its branch with an operand, and its end; then the function ends.
            (joined(1, 17_333), "fine".to_owned()),
            (joined(1, 17_334), rule("52003 branches and ends of blocks", 52_000)),
            (joined(99, 10_033), "fine".to_owned()),
            (
                joined(100, 10_000),
                rule("3010100 values alive at its branches (locals and operands, counted at each)", 3_000_000),
            ),
            (calls(pair, 31_999), "fine".to_owned()),
            (calls(pair, 32_000), rule("32001 parameters and results in its calls", 32_000)),
            (
                calls(&format!("(param {})", "i32 ".repeat(101)), 0),
                "a function type has 101 parameters and results, and the host compiles at most 100".to_owned(),
            ),
        ];
        for (text, expected) in table {
            assert_eq!(check(text), expected);
        }
    }

    #[test]
    fn many_functions_that_are_each_fine_are_refused_together() {
        let function = format!("(func (local {}) {})", "i32 ".repeat(1_000), "block end ".repeat(1_400));
        let bytes = wat::parse_str(format!("(component (core module {}))", function.repeat(19))).unwrap();
        assert_eq!(
            inspect(&bytes, 64 << 20).unwrap_err().to_string(),
            "compiling the component exceeds a limit: it has 53219000 values alive at branches (locals and operands, \
             counted at each), and the host compiles at most 52000000"
        );
    }
}
