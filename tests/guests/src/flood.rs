//! Tools that pass more to the host than it takes.

use crate::bindings::exports::toolcell::tool::tools::{CallContext, ToolResult};
use crate::bindings::toolcell::tool::tool_types::{ContentPart, Media, RichOutcome, Source};
use crate::bindings::toolcell::tool::{log as host_log, progress as host_progress};
use crate::say;

/// As many bytes as a flood has when its arguments do not say.
const FLOOD_BYTES: usize = 100 << 20;

fn count(arguments: &str, otherwise: usize) -> usize {
    arguments.parse().unwrap_or(otherwise)
}

/// Returns a text of as many bytes as the arguments say.
pub(crate) fn output(arguments: &str, _: CallContext) -> ToolResult {
    say("a".repeat(count(arguments, FLOOD_BYTES)))
}

/// Returns as much as a result may have.
pub(crate) fn largest_parts(_: &str, _: CallContext) -> ToolResult {
    let media = Media { mime_type: "image/png".into(), source: Source::Bytes(vec![7; 4 << 20]), name: None };
    let parts = vec![ContentPart::Image(media.clone()), ContentPart::Image(media)];
    ToolResult::Parts(RichOutcome { output: "a".repeat(256 << 10), parts, metadata: None })
}

/// Passes a huge text to the log.
pub(crate) fn log(arguments: &str, _: CallContext) -> ToolResult {
    host_log::write(host_log::Level::Info, &"a".repeat(count(arguments, FLOOD_BYTES)));
    say("logged")
}

/// Writes many log lines.
pub(crate) fn log_lines(arguments: &str, _: CallContext) -> ToolResult {
    for _ in 0..count(arguments, 10_000_000) {
        host_log::write(host_log::Level::Info, "x");
    }
    say("logged")
}

/// Reports progress many times.
pub(crate) fn progress(arguments: &str, _: CallContext) -> ToolResult {
    for _ in 0..count(arguments, 1_000_000) {
        host_progress::report(1.0, None, None);
    }
    say("reported")
}

/// Prints many lines.
pub(crate) fn stdout(arguments: &str, _: CallContext) -> ToolResult {
    for line in 0..count(arguments, 10_000_000) {
        println!("line {line}");
    }
    say("printed")
}

/// Returns very many empty texts: 8 bytes each in the guest, three times as many in the host.
pub(crate) fn list(arguments: &str, _: CallContext) -> ToolResult {
    let parts = (0..count(arguments, 1_000_000)).map(|_| ContentPart::Text(String::new())).collect();
    ToolResult::Parts(RichOutcome { output: String::new(), parts, metadata: None })
}

/// Asks for as many random bytes as the arguments say.
pub(crate) fn random(arguments: &str, _: CallContext) -> ToolResult {
    let asked = arguments.parse().unwrap_or(1u64 << 63);
    let mut bytes = [0usize; 2];
    // SAFETY: the host writes a pointer and a length, or traps before it does.
    unsafe { wasi::raw_get_random_bytes(asked, bytes.as_mut_ptr().cast()) };
    say(bytes[1].to_string())
}

/// Asks the host to write more zeroes to stdout than there can be.
pub(crate) fn zeroes(arguments: &str, _: CallContext) -> ToolResult {
    let asked = arguments.parse().unwrap_or(u64::MAX);
    let mut result = [0u8; 12];
    // SAFETY: the host writes a result of 12 bytes, or traps before it does.
    unsafe { wasi::raw_write_zeroes(wasi::raw_get_stdout(), asked, result.as_mut_ptr()) };
    say(result[0].to_string())
}

mod wasi {
    //! Three functions of WASI, by hand: the standard library never asks for so much.

    #[link(wasm_import_module = "wasi:random/random@0.2.0")]
    unsafe extern "C" {
        #[link_name = "get-random-bytes"]
        pub(super) fn raw_get_random_bytes(len: u64, result: *mut u8);
    }

    #[link(wasm_import_module = "wasi:cli/stdout@0.2.0")]
    unsafe extern "C" {
        #[link_name = "get-stdout"]
        pub(super) fn raw_get_stdout() -> i32;
    }

    #[link(wasm_import_module = "wasi:io/streams@0.2.0")]
    unsafe extern "C" {
        #[link_name = "[method]output-stream.write-zeroes"]
        pub(super) fn raw_write_zeroes(stream: i32, len: u64, result: *mut u8);
    }
}
