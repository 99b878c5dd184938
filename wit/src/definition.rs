//! What a model and a person learn about a tool before they use it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::NAME_BYTES_MAX;

/// What a model and a person learn about a tool before they use it.
///
/// In JSON with the keys of the Model Context Protocol: `inputSchema`, `outputSchema`, `annotations.readOnlyHint` ….
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// 1 to 64 of `A-Z a-z 0-9 _ -`.
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// For the model.
    pub description: String,
    /// A JSON Schema (draft 2020-12) whose root describes an object.
    pub input_schema: Value,
    /// A JSON Schema of the output, when that is JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Hints about behaviour; none counts as destructive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
}

/// Hints about behaviour, not promises (Model Context Protocol, revision 2025-06-18).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "four independent hints, named by the protocol")]
pub struct Annotations {
    /// It changes nothing.
    #[serde(rename = "readOnlyHint")]
    pub read_only: bool,
    /// It may destroy or overwrite. Meaningful only when not read-only.
    #[serde(rename = "destructiveHint")]
    pub destructive: bool,
    /// Calling it twice with the same arguments has the effect of calling it once.
    #[serde(rename = "idempotentHint")]
    pub idempotent: bool,
    /// It talks to the world outside the host.
    #[serde(rename = "openWorldHint")]
    pub open_world: bool,
}

/// Why a text is not the name of a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" is not a tool name: use 1 to {NAME_BYTES_MAX} of A-Z a-z 0-9 _ -", .0.escape_debug())]
pub struct NameError(String);

/// Checks that a text can be the name of a tool for every provider.
///
/// # Errors
/// [`NameError`] when it is empty, too long or holds another character; look-alikes are never mended.
pub fn check_tool_name(name: &str) -> Result<(), NameError> {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if fits { Ok(()) } else { Err(NameError(name.chars().take(NAME_BYTES_MAX).collect())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_plain_ascii_of_bounded_length() {
        for good in ["math", "a", "A-1_b", &"x".repeat(64)] {
            assert_eq!(check_tool_name(good), Ok(()), "{good}");
        }
        for bad in ["", "has space", "g\u{456}thub", "trailing ", "dot.ted", "zero\u{200b}width", &"x".repeat(65)] {
            assert!(check_tool_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bad_name_is_shown_escaped() {
        let error = check_tool_name("\u{1b}[2J").unwrap_err();
        assert_eq!(error.to_string(), r#""\u{1b}[2J" is not a tool name: use 1 to 64 of A-Z a-z 0-9 _ -"#);
    }

    #[test]
    fn a_definition_has_the_keys_of_the_protocol() {
        let definition = Definition {
            name: "math".into(),
            title: None,
            description: "Evaluates an expression".into(),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            annotations: Some(Annotations { read_only: true, destructive: false, idempotent: true, open_world: false }),
        };
        let text = json!({
            "name": "math",
            "description": "Evaluates an expression",
            "inputSchema": {"type": "object"},
            "annotations": {
                "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false,
            },
        });
        assert_eq!(serde_json::to_value(&definition).unwrap(), text);
        assert_eq!(serde_json::from_value::<Definition>(text).unwrap(), definition);
    }
}
