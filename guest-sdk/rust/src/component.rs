//! What a component does with its tools when the host calls it; `export!` leads here.

use crate::Tool;
use crate::bindings::exports::toolcell::tool::tools as exports;
use crate::result::{self, Returned};
use crate::wire;

/// Describes the tools.
#[must_use]
pub fn list_tools(tools: &[Tool]) -> Vec<exports::Definition> {
    tools.iter().map(wire::definition).collect()
}

/// Calls one of the tools.
#[must_use]
pub fn call_tool(tools: &[Tool], name: &str, arguments: &str, context: exports::CallContext) -> Returned {
    let context = wire::context(context);
    match tools.iter().find(|tool| tool.name == name) {
        Some(tool) => tool.run_with(arguments, &context).unwrap_or_else(|error| result::error(error.to_string())),
        None => result::error(format!("this component has no tool \"{name}\"")),
    }
}
