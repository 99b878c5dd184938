//! Whether a schema fits OpenAI's strict mode as it is. A schema that does not is sent without the mode, unchanged.
//!
//! The rules are those of "Supported schemas" in OpenAI's guide to structured outputs. A keyword that is not known to be
//! supported counts as one that is not: a refused request is worse than a looser mode.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Levels of nesting.
const LEVELS_MAX: usize = 10;
/// Properties of all objects together.
const PROPERTIES_MAX: usize = 5_000;
/// Values of all enumerations together.
const ENUM_VALUES_MAX: usize = 1_000;
/// Characters of all names, enumerations and constants together.
const CHARS_MAX: usize = 120_000;

/// Keywords that only describe, or narrow a number or a list.
const PLAIN_KEYWORDS: [&str; 9] = [
    "title",
    "description",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
];

/// Formats of a text.
const FORMATS: [&str; 9] = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];

/// Whether the schema of a tool's arguments fits.
pub(super) fn fits_strict(schema: &Value) -> bool {
    let mut size = Size::default();
    let is_plain_object = schema.get("type").is_some_and(|kind| kind == "object") && schema.get("anyOf").is_none();
    is_plain_object && size.fits(schema, 1) && size.is_within_limits()
}

/// How much a schema holds.
#[derive(Default)]
struct Size {
    properties: usize,
    enum_values: usize,
    chars: usize,
}

impl Size {
    fn is_within_limits(&self) -> bool {
        self.properties <= PROPERTIES_MAX && self.enum_values <= ENUM_VALUES_MAX && self.chars <= CHARS_MAX
    }

    fn fits(&mut self, schema: &Value, level: usize) -> bool {
        let Some(schema) = schema.as_object() else { return false };
        level <= LEVELS_MAX
            && says_what_it_is(schema)
            && (!is_of_type(schema, "object") || is_closed(schema))
            && (!is_of_type(schema, "array") || schema.contains_key("items"))
            && schema.iter().all(|(keyword, value)| self.keyword_fits(keyword, value, level))
    }

    fn keyword_fits(&mut self, keyword: &str, value: &Value, level: usize) -> bool {
        match keyword {
            "properties" => {
                self.properties += value.as_object().map_or(0, Map::len);
                self.all_fit(value, level + 1)
            }
            // Definitions are counted where they stand, not where they are used.
            "$defs" | "definitions" => self.all_fit(value, 1),
            "items" => self.fits(value, level + 1),
            "anyOf" => {
                value.as_array().is_some_and(|any| !any.is_empty() && any.iter().all(|s| self.fits(s, level + 1)))
            }
            "enum" => {
                let values = value.as_array().map_or(&[][..], Vec::as_slice);
                self.enum_values += values.len();
                self.chars += values.iter().map(chars_of).sum::<usize>();
                !values.is_empty()
            }
            "const" => {
                self.chars += chars_of(value);
                true
            }
            "$ref" => value.as_str().is_some_and(|target| target.starts_with('#')),
            "format" => value.as_str().is_some_and(|format| FORMATS.contains(&format)),
            // Look-around and the like begin so.
            "pattern" => value.as_str().is_some_and(|pattern| !pattern.contains("(?")),
            // Looked at in `fits`.
            "type" | "required" | "additionalProperties" => true,
            _ => PLAIN_KEYWORDS.contains(&keyword),
        }
    }

    fn all_fit(&mut self, schemas: &Value, level: usize) -> bool {
        schemas.as_object().is_some_and(|schemas| {
            schemas.iter().all(|(name, schema)| {
                self.chars += name.chars().count();
                self.fits(schema, level)
            })
        })
    }
}

fn says_what_it_is(schema: &Map<String, Value>) -> bool {
    let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match schema.get("type") {
        Some(Value::Array(types)) => !types.is_empty() && types.iter().all(is_type),
        Some(one) => is_type(one),
        None => ["anyOf", "$ref", "enum", "const"].iter().any(|keyword| schema.contains_key(*keyword)),
    }
}

/// Whether an object has all of its properties and no others.
fn is_closed(schema: &Map<String, Value>) -> bool {
    let (Some(properties), Some(required)) =
        (schema.get("properties").and_then(Value::as_object), schema.get("required").and_then(Value::as_array))
    else {
        return false;
    };
    let required: HashSet<_> = required.iter().filter_map(Value::as_str).collect();
    let names: HashSet<_> = properties.keys().map(String::as_str).collect();
    required == names && schema.get("additionalProperties") == Some(&Value::Bool(false))
}

fn is_of_type(schema: &Map<String, Value>, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(|one| one == name),
        Some(one) => one == name,
        None => false,
    }
}

fn chars_of(value: &Value) -> usize {
    value.as_str().map_or_else(|| value.to_string().len(), |text| text.chars().count())
}

#[cfg(test)]
#[path = "strict_tests.rs"]
mod tests;
