//! Checks what a component says about its tools. Pure.

use std::collections::HashSet;

use serde_json::Value;
use toolcell_contract::limits::{DESCRIPTION_BYTES_MAX, SCHEMA_BYTES_MAX, TOOLS_PER_COMPONENT_MAX};
use toolcell_contract::{Annotations, Definition, check_schema, check_tool_name};

use crate::LoadError;
use crate::bindings::toolcell::tool::tool_types as wit;

/// The checked definitions of one component, in its order.
pub(crate) fn definitions(listed: Vec<wit::Definition>) -> Result<Vec<Definition>, LoadError> {
    if listed.len() > TOOLS_PER_COMPONENT_MAX {
        return Err(LoadError::TooManyTools { found: listed.len().to_string() });
    }
    if listed.is_empty() {
        return Err(LoadError::ListFailed { reason: "it returned no tool".into(), stderr: String::new() });
    }
    let mut names = HashSet::new();
    listed
        .into_iter()
        .map(|definition| {
            check_tool_name(&definition.name)?;
            if !names.insert(definition.name.clone()) {
                return Err(LoadError::DuplicateTool(definition.name));
            }
            checked(definition)
        })
        .collect()
}

fn checked(definition: wit::Definition) -> Result<Definition, LoadError> {
    let wit::Definition { name, title, description, input_schema, output_schema, annotations } = definition;
    let broken = |rule: String| LoadError::BadSchema { tool: name.clone(), rule };
    for (what, text) in [("title", title.as_deref().unwrap_or_default()), ("description", &description)] {
        if text.len() > DESCRIPTION_BYTES_MAX {
            return Err(broken(format!("its {what} has {} bytes, at most {DESCRIPTION_BYTES_MAX}", text.len())));
        }
    }
    let input_schema = schema(&input_schema).map_err(|rule| broken(format!("its input schema {rule}")))?;
    if input_schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(broken("its input schema must have \"type\": \"object\" at its root".into()));
    }
    let output_schema = output_schema
        .map(|text| schema(&text).map_err(|rule| broken(format!("its output schema {rule}"))))
        .transpose()?;
    let annotations = annotations.map(annotations_of);
    Ok(Definition { name, title, description, input_schema, output_schema, annotations })
}

fn annotations_of(hints: wit::Annotations) -> Annotations {
    Annotations {
        read_only: hints.read_only,
        destructive: hints.destructive,
        idempotent: hints.idempotent,
        open_world: hints.open_world,
    }
}

/// A schema that is small, flat enough and closed in itself; otherwise the rest of a sentence that says why not.
fn schema(text: &str) -> Result<Value, String> {
    if text.len() > SCHEMA_BYTES_MAX {
        return Err(format!("has {} bytes, at most {SCHEMA_BYTES_MAX}", text.len()));
    }
    // The parser stops at 128 levels by itself, so the check cannot go deep.
    let schema: Value = serde_json::from_str(text).map_err(|_| "is not JSON of at most 128 levels".to_owned())?;
    check_schema(&schema).map_err(|rule| rule.to_string())?;
    Ok(schema)
}

#[cfg(test)]
#[path = "definition_tests.rs"]
mod tests;
