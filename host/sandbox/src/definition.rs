//! Checks what a component says about its tools. Pure; it never follows a reference out of a schema.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use toolcell_contract::limits::{DESCRIPTION_BYTES_MAX, SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX, TOOLS_PER_COMPONENT_MAX};
use toolcell_contract::{Annotations, Definition, check_tool_name};

use crate::LoadError;
use crate::bindings::toolcell::tool::tool_types as wit;

/// Values of a schema with its references written out: as many as a schema of the same limit can have without any.
const SCHEMA_VALUES_MAX: usize = SCHEMA_BYTES_MAX / 2;

/// The references that were met, with the size of what they lead to; without it while that is counted.
type Sizes<'a> = HashMap<&'a str, Option<usize>>;

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
    check_schema(&schema)?;
    Ok(schema)
}

/// Refuses a schema with which a check could take for ever; the error is the rest of a sentence that says why.
pub(crate) fn check_schema(schema: &Value) -> Result<(), String> {
    let members = schema.as_object().ok_or("is not a JSON object")?;
    if depth(schema) > SCHEMA_DEPTH_MAX {
        return Err(format!("is more than {SCHEMA_DEPTH_MAX} levels deep"));
    }
    // There `id` has the meaning of `$id`, but it is also a common name of a property.
    if members.get("$schema").and_then(Value::as_str).is_some_and(|draft| draft.contains("draft-04")) {
        return Err("is written in draft 4: write it in draft 2020-12".into());
    }
    members.values().try_for_each(check_has_no_base)?;
    let mut sizes = HashMap::new();
    // Definitions cost nothing where they stand, but what is wrong with them is said.
    let is_aside = |(key, _): &(&String, &Value)| matches!(key.as_str(), "$defs" | "definitions");
    let (definitions, rest): (Vec<_>, Vec<_>) = members.iter().partition(is_aside);
    let size = members_written_out(schema, rest, &mut sizes)?;
    members_written_out(schema, definitions, &mut sizes)?;
    if size > SCHEMA_VALUES_MAX {
        return Err(format!("has more than {SCHEMA_VALUES_MAX} values when its references are written out"));
    }
    Ok(())
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Below its root a schema sets no base of its own, from which references would lead elsewhere than they seem to.
fn check_has_no_base(value: &Value) -> Result<(), String> {
    match value {
        Value::Object(map) => map.iter().try_for_each(|(key, value)| match (key.as_str(), value) {
            ("$id" | "$schema", Value::String(_)) => Err(format!("has a {key} below its root: remove it")),
            _ => check_has_no_base(value),
        }),
        Value::Array(items) => items.iter().try_for_each(check_has_no_base),
        _ => Ok(()),
    }
}

/// How many values a schema has when what it refers to stands in the place of every reference: as much work is a check.
/// References to references double it with each step, so a small text can be more than any machine could check.
fn written_out<'a>(schema: &'a Value, value: &'a Value, sizes: &mut Sizes<'a>) -> Result<usize, String> {
    match value {
        Value::Object(map) => members_written_out(schema, map, sizes),
        Value::Array(items) => items.iter().try_fold(1usize, |size, item| {
            let more = written_out(schema, item, sizes)?;
            Ok(size.saturating_add(more))
        }),
        _ => Ok(1),
    }
}

fn members_written_out<'a>(
    schema: &'a Value,
    members: impl IntoIterator<Item = (&'a String, &'a Value)>,
    sizes: &mut Sizes<'a>,
) -> Result<usize, String> {
    members.into_iter().try_fold(1usize, |size, (key, value)| {
        let more = match (key.as_str(), value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target)) => follow(schema, target, sizes)?,
            _ => written_out(schema, value, sizes)?,
        };
        Ok(size.saturating_add(more))
    })
}

/// The size of what a reference leads to: it must be a JSON pointer into the schema itself that leads somewhere and
/// never back. The pointers of a schema of 16 KiB are too few to make this deep.
fn follow<'a>(schema: &'a Value, reference: &'a str, sizes: &mut Sizes<'a>) -> Result<usize, String> {
    match sizes.get(reference) {
        Some(Some(size)) => return Ok(*size),
        Some(None) => return Err("refers back to itself: recursive schemas are not taken".into()),
        None => sizes.insert(reference, None),
    };
    let pointer = reference.strip_prefix('#').ok_or("has a $ref that leaves it: put the definition into its $defs")?;
    // A percent sign would be an escape to some readers, which then went elsewhere.
    let target = schema.pointer(pointer).filter(|_| !pointer.contains('%'));
    let size = written_out(schema, target.ok_or("has a $ref that leads nowhere: use #/$defs/…")?, sizes)?;
    sizes.insert(reference, Some(size));
    Ok(size)
}

#[cfg(test)]
#[path = "definition_tests.rs"]
mod tests;
