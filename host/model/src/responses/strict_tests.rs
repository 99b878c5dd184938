//! Tests of which schemas fit the strict mode.

use serde_json::json;

use super::*;

fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// An object whose only property has that schema.
fn property(schema: Value) -> Value {
    object(json!({"a": schema}), &["a"])
}

/// Objects inside each other.
fn nested(levels: usize) -> Value {
    (1..levels).fold(object(json!({}), &[]), |inner, _| property(inner))
}

#[test]
fn a_closed_object_fits() {
    assert!(fits_strict(&object(json!({}), &[])));
    assert!(fits_strict(&object(
        json!({
            "city": {"type": "string", "description": "Where", "pattern": "^[A-Z]"},
            "unit": {"enum": ["c", "f"]},
            "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 9},
            "at": {"type": "string", "format": "date-time"},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
            "either": {"anyOf": [{"type": "number"}, object(json!({}), &[])]},
        }),
        &["unit", "city", "days", "at", "tags", "either"],
    )));
}

#[test]
fn definitions_and_recursion_fit() {
    let mut schema = property(json!({"$ref": "#/$defs/node"}));
    schema["$defs"] = json!({"node": object(
        json!({"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}), &["next"],
    )});
    assert!(fits_strict(&schema));
    schema["$defs"]["node"]["additionalProperties"] = json!(true);
    assert!(!fits_strict(&schema));
}

#[test]
fn an_open_object_does_not_fit() {
    let x = || json!({"x": {"type": "number"}});
    assert!(fits_strict(&object(x(), &["x"])));
    assert!(!fits_strict(&object(x(), &[])), "an optional property");
    assert!(!fits_strict(&object(x(), &["x", "y"])), "a required one that is not described");
    assert!(!fits_strict(&json!({"type": "object", "properties": x(), "required": ["x"]})), "further properties");
    assert!(!fits_strict(&json!({"type": "object", "properties": {}, "additionalProperties": false})), "no list");
    assert!(!fits_strict(&property(json!({"type": "object"}))), "inside");
    assert!(!fits_strict(&property(json!({"type": ["object", "null"], "properties": {}}))), "inside a union");
}

#[test]
fn what_the_mode_does_not_know_does_not_fit() {
    for schema in [
        json!({}),
        json!(true),
        json!({"type": "text"}),
        json!({"type": []}),
        json!({"type": "array"}),
        json!({"type": "string", "minLength": 1}),
        json!({"type": "string", "format": "uri"}),
        json!({"type": "string", "pattern": "^(?!a)"}),
        json!({"type": "string", "default": "a"}),
        json!({"type": "integer", "format": "uint32"}),
        json!({"oneOf": [{"type": "string"}]}),
        json!({"anyOf": []}),
        json!({"enum": []}),
        json!({"allOf": [{"type": "string"}]}),
        json!({"type": "string", "not": {"const": "a"}}),
        json!({"$ref": "https://example.org/schema"}),
    ] {
        assert!(!fits_strict(&property(schema.clone())), "{schema}");
    }
}

#[test]
fn the_root_is_an_object_and_nothing_else() {
    for schema in [json!(null), json!({}), json!({"type": "string"}), json!({"type": ["object"]})] {
        assert!(!fits_strict(&schema), "{schema}");
    }
    let mut either = object(json!({}), &[]);
    either["anyOf"] = json!([{"type": "object"}]);
    assert!(!fits_strict(&either));
}

#[test]
fn a_schema_may_be_as_large_as_the_limits_and_no_larger() {
    assert!(fits_strict(&nested(LEVELS_MAX)));
    assert!(!fits_strict(&nested(LEVELS_MAX + 1)));

    let values = |count: usize| property(json!({"enum": (0..count).collect::<Vec<_>>()}));
    assert!(fits_strict(&values(ENUM_VALUES_MAX)));
    assert!(!fits_strict(&values(ENUM_VALUES_MAX + 1)));

    let chars = |count: usize| property(json!({"const": "é".repeat(count)}));
    assert!(fits_strict(&chars(CHARS_MAX - "a".len())));
    assert!(!fits_strict(&chars(CHARS_MAX)));

    let properties = |count: usize| {
        let names: Vec<_> = (0..count).map(|n| format!("p{n}")).collect();
        let each: Map<_, _> = names.iter().map(|name| (name.clone(), json!({"type": "null"}))).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        object(Value::Object(each), &names)
    };
    assert!(fits_strict(&properties(PROPERTIES_MAX)));
    assert!(!fits_strict(&properties(PROPERTIES_MAX + 1)));
}
