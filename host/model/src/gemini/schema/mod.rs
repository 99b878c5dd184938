//! From a tool's JSON Schema to what Gemini takes for the parameters of a function.
//!
//! Gemini has two fields for them. `parameters` is a subset of OpenAPI 3.0 that every model and gateway reads, and that
//! refuses the whole request for one keyword it does not know. `parametersJsonSchema` is JSON Schema, which newer
//! servers read. A schema goes into the first where that can say it, and into the second where the first would change
//! its meaning: free objects and maps, unions, tuples and enumerations of numbers, for which a model would be made to
//! write arguments that never fit. In both, references are put in place and only keywords stand that the field is
//! known to take. Whatever is left out, arguments are checked against the whole schema after the model wrote them.

mod flat;
mod kinds;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use flat::is_annotation;
use kinds::kinds;

/// Bytes of a schema as it is sent, roughly. References multiply a schema; a tool's own is limited to a quarter of it.
const BYTES_MAX: usize = 64 << 10;

/// How deep schemas are followed into each other.
const DEPTH_MAX: usize = 32;

/// What a schema costs of [`BYTES_MAX`] before its keywords.
const NODE_BYTES: usize = 24;

/// Keywords that limit values, and that neither field is known to take.
const LOST: [&str; 17] = [
    "not",
    "if",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "contains",
    "minContains",
    "maxContains",
    "uniqueItems",
    "multipleOf",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "additionalItems",
    "$dynamicRef",
    "$recursiveRef",
];

/// A schema in a form that Gemini takes.
#[derive(Debug, PartialEq)]
pub(super) struct Reduced {
    /// The field of the declaration and what stands in it; `None` for a tool without parameters.
    pub(super) parameters: Option<(&'static str, Value)>,
    /// The keywords that the model is not told of.
    pub(super) lost: BTreeSet<&'static str>,
}

/// Reduces the input schema of a tool. Any JSON is taken.
pub(super) fn reduce(schema: &Value) -> Reduced {
    let mut pass = Pass {
        root: schema,
        room: BYTES_MAX,
        active: vec!["#".to_owned()],
        lost: BTreeSet::new(),
        is_beyond_subset: false,
    };
    let root = pass.root_map();
    let node = pass.build(root, 0);
    let is_empty = node.get("properties").is_none() && node.get("additionalProperties").is_none();
    let parameters = match node {
        // An object without properties is refused; a function without parameters is not.
        _ if is_empty => None,
        node if pass.is_beyond_subset => Some(("parametersJsonSchema", node)),
        node => Some(("parameters", open_api(&node))),
    };
    Reduced { parameters, lost: pass.lost }
}

/// One walk over a schema.
struct Pass<'s> {
    root: &'s Value,
    /// What is left of [`BYTES_MAX`].
    room: usize,
    /// The references that are being followed.
    active: Vec<String>,
    lost: BTreeSet<&'static str>,
    /// Something was met that `parameters` cannot say.
    is_beyond_subset: bool,
}

impl Pass<'_> {
    fn node(&mut self, schema: &Value, depth: usize) -> Value {
        let mark = self.active.len();
        let map = self.flat(schema, depth);
        let node = self.build(map, depth);
        self.active.truncate(mark);
        node
    }

    /// The reduced form of a schema that is flat.
    fn build(&mut self, mut map: Map<String, Value>, depth: usize) -> Value {
        for key in LOST {
            if map.contains_key(key) {
                self.lost.insert(key);
            }
        }
        let mut is_nullable = map.get("nullable") == Some(&Value::Bool(true));
        let union = ["anyOf", "oneOf"].into_iter().find_map(|key| map.shift_remove(key));
        if map.shift_remove("oneOf").is_some() {
            self.lost.insert("oneOf");
        }
        if let Some(Value::Array(mut variants)) = union {
            let count = variants.len();
            variants.retain(|variant| !matches!(variant, Value::Bool(false)) && !is_null(variant));
            is_nullable |= variants.len() < count;
            match variants.as_slice() {
                [] => {}
                [only] if depth < DEPTH_MAX => {
                    let only = self.flat(only, depth + 1);
                    self.merge(&mut map, only);
                    if is_nullable {
                        map.insert("nullable".to_owned(), json!(true));
                    }
                    return self.build(map, depth + 1);
                }
                variants => return self.union(&map, variants, is_nullable, depth),
            }
        }
        self.single(&map, is_nullable, depth)
    }

    /// A union, with what stands beside it put into each variant: Gemini wants `anyOf` alone.
    fn union(&mut self, map: &Map<String, Value>, variants: &[Value], is_nullable: bool, depth: usize) -> Value {
        self.is_beyond_subset = true;
        let mut beside = map.clone();
        let description = beside.shift_remove("description");
        beside.retain(|key, _| !is_annotation(key));
        let beside = Value::Object(beside);
        let mut list: Vec<Value> = Vec::new();
        for variant in variants {
            if self.room < NODE_BYTES || depth >= DEPTH_MAX {
                self.lost.insert("its size");
                break;
            }
            list.push(self.node(&json!({"allOf": [variant, beside]}), depth + 1));
        }
        if is_nullable {
            list.push(json!({"type": "null"}));
        }
        let mut out = Map::new();
        if !list.is_empty() {
            out.insert("anyOf".to_owned(), Value::Array(list));
        }
        self.keep(&mut out, "description", description.as_ref(), Value::is_string);
        Value::Object(out)
    }

    fn single(&mut self, map: &Map<String, Value>, mut is_nullable: bool, depth: usize) -> Value {
        let values = self.values(map, &mut is_nullable);
        let kinds = kinds(map, values.as_deref(), &mut is_nullable);
        let mut out = Map::new();
        match (kinds.as_slice(), is_nullable) {
            // Any value at all.
            ([], _) => self.is_beyond_subset = true,
            ([kind], false) => {
                out.insert("type".to_owned(), json!(kind));
            }
            (kinds, is_nullable) => {
                self.is_beyond_subset |= kinds.len() > 1;
                let null = is_nullable.then_some("null");
                out.insert("type".to_owned(), kinds.iter().copied().chain(null).collect());
            }
        }
        for key in ["title", "description"] {
            self.keep(&mut out, key, map.get(key), Value::is_string);
        }
        self.keep(&mut out, "default", map.get("default"), |_| true);
        if let Some(values) = values.filter(|values| !values.is_empty()) {
            self.is_beyond_subset |= kinds != ["string"] || !values.iter().all(Value::is_string);
            self.keep(&mut out, "enum", Some(&Value::Array(values)), |_| true);
        }
        for kind in kinds {
            self.keywords(kind, map, &mut out, depth);
        }
        Value::Object(out)
    }

    /// The values that are allowed, of `enum` or `const`. Gemini takes neither `null` nor the empty text among them,
    /// and texts and numbers only.
    fn values(&mut self, map: &Map<String, Value>, is_nullable: &mut bool) -> Option<Vec<Value>> {
        let mut values = match (map.get("const"), map.get("enum")) {
            (Some(value), _) => vec![value.clone()],
            (None, Some(Value::Array(values))) => values.clone(),
            (None, _) => return None,
        };
        *is_nullable |= values.contains(&Value::Null);
        values.retain(|value| !value.is_null());
        if !values.iter().all(|value| value.is_number() || value.as_str().is_some_and(|text| !text.is_empty())) {
            self.lost.insert("enum");
            return None;
        }
        Some(values)
    }

    fn keywords(&mut self, kind: &str, map: &Map<String, Value>, out: &mut Map<String, Value>, depth: usize) {
        let format = |known: &'static [&'static str]| {
            move |value: &Value| value.as_str().is_some_and(|format| known.contains(&format))
        };
        let mut keep = |key: &'static str, fits: &dyn Fn(&Value) -> bool| {
            self.keep(out, key, map.get(key), fits);
        };
        match kind {
            "string" => {
                keep("format", &format(&["date-time"]));
                keep("minLength", &Value::is_u64);
                keep("maxLength", &Value::is_u64);
                keep("pattern", &Value::is_string);
            }
            "number" | "integer" => {
                keep("format", &format(if kind == "number" { &["float", "double"] } else { &["int32", "int64"] }));
                keep("minimum", &Value::is_number);
                keep("maximum", &Value::is_number);
            }
            "array" => {
                keep("minItems", &Value::is_u64);
                keep("maxItems", &Value::is_u64);
                self.items(map, out, depth);
            }
            "object" => {
                keep("minProperties", &Value::is_u64);
                keep("maxProperties", &Value::is_u64);
                self.properties(map, out, depth);
            }
            _ => {}
        }
    }

    fn items(&mut self, map: &Map<String, Value>, out: &mut Map<String, Value>, depth: usize) {
        // Before draft 2020-12 a tuple was a list in `items`.
        let tuple = ["prefixItems", "items"].into_iter().find_map(|key| map.get(key)?.as_array());
        if let Some(tuple) = tuple {
            let tuple = tuple.iter().map(|item| self.node(item, depth + 1)).collect();
            out.insert("prefixItems".to_owned(), tuple);
            self.is_beyond_subset = true;
        }
        match map.get("items").filter(|items| items.is_object()) {
            Some(items) => {
                let items = self.node(items, depth + 1);
                out.insert("items".to_owned(), items);
            }
            None => {
                self.is_beyond_subset = true;
                if tuple.is_none() {
                    out.insert("items".to_owned(), json!({}));
                }
            }
        }
    }

    fn properties(&mut self, map: &Map<String, Value>, out: &mut Map<String, Value>, depth: usize) {
        let mut properties = Map::new();
        for (name, schema) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            // A property that must not be there is not offered.
            if *schema == Value::Bool(false) {
                continue;
            }
            if !self.spend(name.len()) {
                self.lost.insert("its size");
                break;
            }
            let schema = self.node(schema, depth + 1);
            properties.insert(name.clone(), schema);
        }
        if let Some(further @ Value::Object(_)) = map.get("additionalProperties") {
            self.is_beyond_subset = true;
            let further = self.node(further, depth + 1);
            out.insert("additionalProperties".to_owned(), further);
        }
        if properties.is_empty() {
            if map.get("additionalProperties") == Some(&Value::Bool(true)) {
                self.is_beyond_subset = true;
                out.insert("additionalProperties".to_owned(), json!(true));
            }
            // The root of a tool without parameters is left out altogether.
            self.is_beyond_subset |= depth > 0;
            return;
        }
        let mut required: Vec<Value> = Vec::new();
        for name in map.get("required").and_then(Value::as_array).into_iter().flatten() {
            // Gemini refuses to require what is no property.
            if name.as_str().is_some_and(|name| properties.contains_key(name)) && !required.contains(name) {
                required.push(name.clone());
            }
        }
        out.insert("properties".to_owned(), Value::Object(properties));
        if !required.is_empty() {
            out.insert("required".to_owned(), Value::Array(required));
        }
    }

    /// Copies a keyword whose value is what it should be.
    fn keep(
        &mut self,
        out: &mut Map<String, Value>,
        key: &'static str,
        value: Option<&Value>,
        fits: impl Fn(&Value) -> bool,
    ) {
        let Some(value) = value.filter(|value| fits(value)) else { return };
        if self.spend(key.len() + value.to_string().len()) {
            out.insert(key.to_owned(), value.clone());
        } else {
            self.lost.insert("its size");
        }
    }

    fn spend(&mut self, bytes: usize) -> bool {
        let left = self.room.checked_sub(bytes);
        self.room = left.unwrap_or(self.room);
        left.is_some()
    }
}

fn is_null(schema: &Value) -> bool {
    let null = |value: Option<&Value>| value.is_some_and(|value| value == "null");
    null(schema.get("type")) || schema.get("const").is_some_and(Value::is_null)
}

/// The same schema in the subset of OpenAPI: types in capitals, and `nullable` instead of the type `null`.
fn open_api(node: &Value) -> Value {
    let Some(map) = node.as_object() else { return node.clone() };
    let mut out = Map::new();
    for (key, value) in map {
        match (key.as_str(), value) {
            ("type", Value::String(kind)) => {
                out.insert(key.clone(), json!(kind.to_ascii_uppercase()));
            }
            ("type", Value::Array(kinds)) => {
                let kind = kinds.first().and_then(Value::as_str).unwrap_or("string");
                out.insert(key.clone(), json!(kind.to_ascii_uppercase()));
                out.insert("nullable".to_owned(), json!(true));
            }
            ("items", items) => {
                out.insert(key.clone(), open_api(items));
            }
            ("properties", Value::Object(properties)) => {
                let properties = properties.iter().map(|(name, schema)| (name.clone(), open_api(schema)));
                out.insert(key.clone(), Value::Object(properties.collect()));
            }
            _ => {
                out.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(out)
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
