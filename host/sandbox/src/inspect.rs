//! What the bytes of a file are, told before they are compiled, in words that help whoever built them.

use wasmparser::{Encoding, Parser, Payload, Validator, WasmFeatures};

use crate::LoadError;

/// Characters of a foreign text that are quoted in an error.
const QUOTE_CHARS_MAX: usize = 200;

/// Functions of all modules of a component. CPython has 15,000.
const FUNCTIONS_MAX: u32 = 200_000;

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

/// Walks over the sections without looking into function bodies.
fn count(bytes: &[u8]) -> Result<(), LoadError> {
    let mut functions = 0u32;
    let mut nested = 0usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(|error| damaged(&error))? {
            Payload::Version { encoding: Encoding::Module, range, .. } if range.start == 0 => {
                return Err(LoadError::NotAComponent(CORE_MODULE.into()));
            }
            Payload::CodeSectionStart { count, .. } => functions = functions.saturating_add(count),
            Payload::CodeSectionEntry(body) if body.range().len() > FUNCTION_BYTES_MAX => {
                return Err(compile_limit("a function", body.range().len(), "bytes", FUNCTION_BYTES_MAX));
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => nested += 1,
            _ => {}
        }
    }
    if functions > FUNCTIONS_MAX {
        return Err(compile_limit("it", functions as usize, "functions", FUNCTIONS_MAX as usize));
    }
    if nested > NESTED_MAX {
        return Err(compile_limit("it", nested, "modules", NESTED_MAX));
    }
    Ok(())
}

const CORE_MODULE: &str =
    "this is a core module: build it for wasm32-wasip2 or wrap it with `wasm-tools component new`";

fn compile_limit(what: &str, has: usize, of: &str, max: usize) -> LoadError {
    LoadError::CompileLimit(format!("{what} has {has} {of}, and the host compiles at most {max}"))
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
}
