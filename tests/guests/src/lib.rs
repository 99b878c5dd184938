//! One component with many tools, each of which does one hostile, faulty or harmless deed that its name tells.
//!
//! It uses the bindings of `wit/tool.wit` directly, so that it can return what the guest SDK would refuse to build.
//! `exhaust_*` use something up, `trap_*` crash, `exit_*` end the process, `flood_*` pass too much, `lie_*` return
//! what is no result, `deny_*` try what nothing grants, `with_*` use what is granted, and the rest behaves.
#![cfg(target_family = "wasm")]

mod bindings;
mod deny;
mod exhaust;
mod flood;
mod lie;
mod plain;
mod with;

use bindings::exports::toolcell::tool::tools::{CallContext, Definition, Guest, ToolResult};
use bindings::toolcell::tool::tool_types::Outcome;

/// What a tool does with its arguments and its context.
type Deed = fn(&str, CallContext) -> ToolResult;

/// Every tool. A tool that no test calls has no place here.
const TOOLS: [(&str, Deed); 48] = [
    ("echo", plain::echo),
    ("context", plain::context),
    ("ask", plain::ask),
    ("ask_with_data", plain::ask_with_data),
    ("ask_with_own_id", plain::ask_with_own_id),
    ("empty_strings", plain::empty_strings),
    ("print_and_fail", plain::print_and_fail),
    ("log_lines", plain::log_lines),
    ("report_progress", plain::report_progress),
    ("media", plain::media),
    ("sleep", plain::sleep),
    ("exhaust_cpu", exhaust::cpu),
    ("exhaust_memory", exhaust::memory),
    ("exhaust_stack", exhaust::stack),
    ("exhaust_handles", exhaust::handles),
    ("stack_then_host_call", exhaust::stack_then_host_call),
    ("survive_denied_growth", exhaust::survive_denied_growth),
    ("trap_unreachable", exhaust::trap_unreachable),
    ("trap_panic", exhaust::trap_panic),
    ("exit_zero", exhaust::exit_zero),
    ("exit_one", exhaust::exit_one),
    ("flood_output", flood::output),
    ("largest_parts", flood::largest_parts),
    ("flood_log", flood::log),
    ("flood_log_lines", flood::log_lines),
    ("flood_progress", flood::progress),
    ("flood_stdout", flood::stdout),
    ("flood_zeroes", flood::zeroes),
    ("flood_random", flood::random),
    ("flood_list", flood::list),
    ("lie_metadata_pending", lie::metadata_pending),
    ("lie_metadata_not_object", lie::metadata_not_object),
    ("lie_metadata_deep", lie::metadata_deep),
    ("lie_mime", lie::mime),
    ("lie_request", lie::request),
    ("many_parts", lie::many_parts),
    ("long_error", lie::long_error),
    ("imitate_host_error", lie::imitate_host_error),
    ("deny_file", deny::file),
    ("deny_http", deny::http),
    ("deny_key_value", deny::key_value),
    ("deny_env", deny::env),
    ("deny_socket", deny::socket),
    ("with_files", with::files),
    ("with_environment", with::environment),
    ("with_keys", with::keys),
    ("with_requests", with::requests),
    ("with_wasi_requests", with::wasi_requests),
];

struct Guests;

impl Guest for Guests {
    fn list_tools() -> Vec<Definition> {
        TOOLS.iter().map(|(name, _)| definition(name)).collect()
    }

    fn call_tool(name: String, arguments: String, context: CallContext) -> ToolResult {
        match TOOLS.iter().find(|(known, _)| *known == name) {
            Some((_, deed)) => deed(&arguments, context),
            None => fail(format!("this component has no tool {name}")),
        }
    }
}

fn definition(name: &str) -> Definition {
    Definition {
        name: name.into(),
        title: None,
        description: format!("Does what {name} says"),
        input_schema: r#"{"type": "object"}"#.into(),
        output_schema: None,
        annotations: None,
    }
}

/// A plain text result.
fn say(output: impl Into<String>) -> ToolResult {
    ToolResult::Ok(Outcome { output: output.into(), metadata: None })
}

/// A plain error.
fn fail(output: impl Into<String>) -> ToolResult {
    ToolResult::Error(Outcome { output: output.into(), metadata: None })
}

bindings::export!(Guests with_types_in bindings);
