//! The types of a schema, declared or to be seen from its other keywords.

use serde_json::{Map, Value};

/// The types of JSON without `null`.
pub(super) const KINDS: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];

/// The types that a schema allows, declared or to be seen from its other keywords.
pub(super) fn kinds(map: &Map<String, Value>, values: Option<&[Value]>, is_nullable: &mut bool) -> Vec<&'static str> {
    let known = |name: &str| KINDS.into_iter().find(|kind| *kind == name);
    let declared: Vec<&str> = match map.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    *is_nullable |= declared.contains(&"null");
    let mut kinds: Vec<_> = declared.into_iter().filter_map(known).collect();
    kinds.dedup();
    if !kinds.is_empty() {
        return kinds;
    }
    let has = |keys: &[&str]| keys.iter().any(|key| map.contains_key(*key));
    let all = |fits: fn(&Value) -> bool| values.is_some_and(|values| !values.is_empty() && values.iter().all(fits));
    let inferred = if all(Value::is_string) || has(&["pattern", "minLength", "maxLength"]) {
        Some("string")
    } else if all(Value::is_number) || has(&["minimum", "maximum"]) {
        Some("number")
    } else if has(&["properties", "additionalProperties", "required"]) {
        Some("object")
    } else {
        has(&["items", "prefixItems"]).then_some("array")
    };
    inferred.into_iter().collect()
}
