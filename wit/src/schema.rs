//! Schemas with which a check is quick and stays in one place. It never follows a reference out of a schema.

use std::collections::HashMap;

use serde_json::Value;

use crate::limits::{SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX};

/// Values of a schema with its references written out: as many as a schema of the same limit can have without any.
const SCHEMA_VALUES_MAX: usize = SCHEMA_BYTES_MAX / 2;

/// The references that were met, with the size of what they lead to; without it while that is counted.
type Sizes<'a> = HashMap<&'a str, Option<usize>>;

/// A rule that a schema breaks. The text is the rest of a sentence that begins with the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaRule {
    /// It is a value of another kind; also `true` and `false`, which are schemas elsewhere.
    #[error("is not a JSON object")]
    NoObject,
    /// It is deeper than [`SCHEMA_DEPTH_MAX`].
    #[error("is more than {SCHEMA_DEPTH_MAX} levels deep")]
    TooDeep,
    /// It says that it is written in draft 4, which other checkers read otherwise.
    #[error("is written in draft 4: write it in draft 2020-12")]
    Draft4,
    /// It sets a base of its own below its root, so that references would lead elsewhere than they seem to.
    #[error("has a {0} below its root: remove it")]
    Base(&'static str),
    /// With its references written out it is larger than any schema of [`SCHEMA_BYTES_MAX`] without them.
    #[error("has more than {SCHEMA_VALUES_MAX} values when its references are written out")]
    TooLarge,
    /// A reference leads back to itself.
    #[error("refers back to itself: recursive schemas are not taken")]
    Recursive,
    /// A reference leaves the schema.
    #[error("has a $ref that leaves it: put the definition into its $defs")]
    RefOutside,
    /// A reference leads to nothing.
    #[error("has a $ref that leads nowhere: use #/$defs/…")]
    RefNowhere,
}

/// Refuses a schema with which a check could take for ever, or lead elsewhere. The schema has at most 128 levels and
/// [`SCHEMA_BYTES_MAX`] bytes, which its reader has seen to.
///
/// # Errors
/// The [`SchemaRule`] that it breaks.
pub fn check_schema(schema: &Value) -> Result<(), SchemaRule> {
    let members = schema.as_object().ok_or(SchemaRule::NoObject)?;
    if depth(schema) > SCHEMA_DEPTH_MAX {
        return Err(SchemaRule::TooDeep);
    }
    // There `id` has the meaning of `$id`, but it is also a common name of a property.
    if members.get("$schema").and_then(Value::as_str).is_some_and(|draft| draft.contains("draft-04")) {
        return Err(SchemaRule::Draft4);
    }
    members.values().try_for_each(check_has_no_base)?;
    let mut sizes = HashMap::new();
    // Definitions cost nothing where they stand, but what is wrong with them is said.
    let is_aside = |(key, _): &(&String, &Value)| matches!(key.as_str(), "$defs" | "definitions");
    let (definitions, rest): (Vec<_>, Vec<_>) = members.iter().partition(is_aside);
    let size = members_written_out(schema, rest, &mut sizes)?;
    members_written_out(schema, definitions, &mut sizes)?;
    if size > SCHEMA_VALUES_MAX {
        return Err(SchemaRule::TooLarge);
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
fn check_has_no_base(value: &Value) -> Result<(), SchemaRule> {
    match value {
        Value::Object(map) => map.iter().try_for_each(|(key, value)| match (key.as_str(), value) {
            ("$id", Value::String(_)) => Err(SchemaRule::Base("$id")),
            ("$schema", Value::String(_)) => Err(SchemaRule::Base("$schema")),
            _ => check_has_no_base(value),
        }),
        Value::Array(items) => items.iter().try_for_each(check_has_no_base),
        _ => Ok(()),
    }
}

/// How many values a schema has when what it refers to stands in the place of every reference: as much work is a check.
/// References to references double it with each step, so a small text can be more than any machine could check.
fn written_out<'a>(schema: &'a Value, value: &'a Value, sizes: &mut Sizes<'a>) -> Result<usize, SchemaRule> {
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
) -> Result<usize, SchemaRule> {
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
fn follow<'a>(schema: &'a Value, reference: &'a str, sizes: &mut Sizes<'a>) -> Result<usize, SchemaRule> {
    match sizes.get(reference) {
        Some(Some(size)) => return Ok(*size),
        Some(None) => return Err(SchemaRule::Recursive),
        None => sizes.insert(reference, None),
    };
    let pointer = reference.strip_prefix('#').ok_or(SchemaRule::RefOutside)?;
    // A percent sign would be an escape to some readers, which then went elsewhere.
    let target = schema.pointer(pointer).filter(|_| !pointer.contains('%'));
    let size = written_out(schema, target.ok_or(SchemaRule::RefNowhere)?, sizes)?;
    sizes.insert(reference, Some(size));
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// `{"type": "object", "properties": {…}}` of so many levels.
    fn deep(levels: usize) -> Value {
        let inner = (3..levels).fold(json!({}), |inner, _| json!({"not": inner}));
        json!({"type": "object", "properties": {"a": inner}})
    }

    #[test]
    fn a_schema_that_is_small_and_closed_in_itself_is_taken() {
        let shared = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/point"}, "b": {"$ref": "#/$defs/point"}},
            "$defs": {"point": {"type": "number"}},
        });
        for schema in [json!({"type": "object"}), shared, deep(SCHEMA_DEPTH_MAX)] {
            assert_eq!(check_schema(&schema), Ok(()), "{schema}");
        }
    }

    #[test]
    fn a_schema_that_could_take_for_ever_or_leads_elsewhere_is_refused() {
        let with = |property: Value| json!({"type": "object", "properties": {"a": property}});
        let mut doubling = json!({"type": "object", "$ref": "#/$defs/d0", "$defs": {"d16": {"type": "null"}}});
        for n in 0..16 {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            doubling["$defs"][format!("d{n}")] = json!({"anyOf": [next.clone(), next]});
        }
        let table = [
            (json!(true), SchemaRule::NoObject),
            (deep(SCHEMA_DEPTH_MAX + 1), SchemaRule::TooDeep),
            (json!({"$schema": "http://json-schema.org/draft-04/schema#"}), SchemaRule::Draft4),
            (with(json!({"$id": "https://example.org"})), SchemaRule::Base("$id")),
            (with(json!({"$schema": "https://example.org"})), SchemaRule::Base("$schema")),
            (doubling, SchemaRule::TooLarge),
            (with(json!({"$ref": "#"})), SchemaRule::Recursive),
            (with(json!({"$ref": "https://example.org/a.json"})), SchemaRule::RefOutside),
            (with(json!({"$ref": "#/$defs/none"})), SchemaRule::RefNowhere),
            (with(json!({"$ref": "#/%24defs/a"})), SchemaRule::RefNowhere),
        ];
        for (schema, rule) in table {
            assert_eq!(check_schema(&schema), Err(rule), "{schema}");
        }
    }
}
