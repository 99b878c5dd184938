//! Checks what a component says about its tools. Pure; it never follows a reference out of a schema.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use toolcell_contract::limits::{DESCRIPTION_BYTES_MAX, SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX, TOOLS_PER_COMPONENT_MAX};
use toolcell_contract::{Annotations, Definition, check_tool_name};

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
    // The parser stops at 128 levels by itself, so the walks below cannot go deep.
    let schema: Value = serde_json::from_str(text).map_err(|_| "is not JSON of at most 128 levels".to_owned())?;
    if !schema.is_object() {
        return Err("is not a JSON object".into());
    }
    if depth(&schema) > SCHEMA_DEPTH_MAX {
        return Err(format!("is more than {SCHEMA_DEPTH_MAX} levels deep"));
    }
    check_references(&schema)?;
    Ok(schema)
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Every `$ref` must be a JSON pointer into the schema itself that leads somewhere and never back.
fn check_references(schema: &Value) -> Result<(), String> {
    let mut found = Vec::new();
    references(schema, &mut found);
    let mut states = HashMap::new();
    found.into_iter().try_for_each(|reference| follow(schema, reference, &mut states))
}

fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(target) if key == "$ref" || key == "$dynamicRef" => found.push(target),
                    nested => references(nested, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// Depth first; a reference that is met again while it is still open is a cycle. The pointers of a schema of 16 KiB
/// are too few to make this deep or slow.
fn follow<'a>(schema: &'a Value, reference: &'a str, states: &mut HashMap<&'a str, bool>) -> Result<(), String> {
    const OPEN: bool = false;
    const CLOSED: bool = true;
    match states.get(reference) {
        Some(&CLOSED) => return Ok(()),
        Some(_) => return Err("refers back to itself: recursive schemas are not taken".into()),
        None => states.insert(reference, OPEN),
    };
    let pointer = reference.strip_prefix('#').ok_or("has a $ref that leaves it: put the definition into its $defs")?;
    let target = schema.pointer(pointer).ok_or("has a $ref that leads nowhere: use #/$defs/…")?;
    let mut found = Vec::new();
    references(target, &mut found);
    found.into_iter().try_for_each(|next| follow(schema, next, states))?;
    states.insert(reference, CLOSED);
    Ok(())
}

#[cfg(test)]
#[path = "definition_tests.rs"]
mod tests;
