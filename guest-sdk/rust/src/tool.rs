//! One tool as a value: what it says about itself, and how it is called with JSON.

use serde_json::Value;
use toolcell_contract::{Annotations, Definition};

use crate::Context;
use crate::arguments::{ArgumentError, Arguments};
use crate::result::Returned;
use crate::schema::{self, SchemaText};

/// One tool, as [`#[tool]`](macro@crate::tool) makes it of a function and [`tool_of!`](crate::tool_of) names it.
pub struct Tool {
    /// What the model calls it by.
    pub name: &'static str,
    /// For people.
    pub title: Option<&'static str>,
    /// For the model.
    pub description: &'static str,
    /// Hints about behaviour; none counts as destructive.
    pub annotations: Option<Annotations>,
    /// The arguments, in the order of the function's parameters.
    pub parameters: &'static [Parameter],
    /// Reads the arguments and calls the function.
    #[doc(hidden)]
    pub run: fn(&Arguments<'_>, &Context) -> Result<Returned, ArgumentError>,
}

/// One argument of a tool.
pub struct Parameter {
    /// Its key in the JSON object of the arguments.
    pub name: &'static str,
    /// For the model.
    pub description: Option<&'static str>,
    /// Whether a call without it is refused.
    pub required: bool,
    /// As JSON, what it is when it is left out.
    #[doc(hidden)]
    pub default: Option<fn() -> String>,
    /// Writes the schema of its type.
    #[doc(hidden)]
    pub schema: fn(&mut SchemaText, Option<&str>),
}

impl Tool {
    /// The JSON Schema of the arguments, as the host reads it.
    #[must_use]
    pub fn input_schema(&self) -> String {
        schema::of_parameters(self.parameters)
    }

    /// What the host learns about the tool.
    #[must_use]
    pub fn definition(&self) -> Definition {
        let text = self.input_schema();
        Definition {
            name: self.name.to_owned(),
            title: self.title.map(str::to_owned),
            description: self.description.to_owned(),
            // What is no JSON is shown as it is: an empty schema in its place would allow everything and hide the
            // mistake. The host reads the text itself, and refuses such a tool.
            input_schema: serde_json::from_str(&text).unwrap_or(Value::String(text)),
            output_schema: None,
            annotations: self.annotations,
        }
    }

    /// Calls the function with a JSON object, as the host does. An argument that does not fit is an error result
    /// that names it.
    #[cfg(not(target_family = "wasm"))]
    #[must_use]
    pub fn call(&self, arguments: &str, context: &Context) -> toolcell_contract::ToolResult {
        self.run_with(arguments, context).unwrap_or_else(|error| crate::result::error(error.to_string()))
    }

    pub(crate) fn run_with(&self, arguments: &str, context: &Context) -> Result<Returned, ArgumentError> {
        (self.run)(&Arguments::parse(arguments)?, context)
    }
}

/// Fails to compile when two tools of a component have the same name.
pub const fn assert_names_differ(tools: &[Tool]) {
    let mut left = 0;
    while left < tools.len() {
        let mut right = left + 1;
        while right < tools.len() {
            let same = are_equal(tools[left].name.as_bytes(), tools[right].name.as_bytes());
            assert!(!same, "two tools of this component have the same name");
            right += 1;
        }
        left += 1;
    }
}

const fn are_equal(left: &[u8], right: &[u8]) -> bool {
    let mut at = 0;
    while at < left.len() && at < right.len() && left[at] == right[at] {
        at += 1;
    }
    at == left.len() && at == right.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROKEN: Tool = Tool {
        name: "broken",
        title: None,
        description: "Has a default that is no JSON.",
        annotations: None,
        parameters: &[Parameter {
            name: "a",
            description: None,
            required: false,
            default: Some(|| "[".to_owned()),
            schema: |_, _| {},
        }],
        run: |_, _| Err(ArgumentError::Missing("a")),
    };

    #[test]
    fn a_schema_that_is_no_json_is_shown_and_not_replaced() {
        let text = r#"{"type":"object","properties":{"a":{"default":[}},"additionalProperties":false}"#;
        assert_eq!(BROKEN.definition().input_schema, Value::String(text.to_owned()));
    }
}
