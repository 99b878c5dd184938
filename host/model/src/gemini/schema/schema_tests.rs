//! Tests of schemas in the form that Gemini takes.

use proptest::prelude::*;

use super::*;
use crate::schema;

/// The field, what stands in it, and what is lost, checked as a part of a request.
fn reduced(schema: &Value) -> (&'static str, Value, Vec<&'static str>) {
    let Reduced { parameters, lost } = reduce(schema);
    let (key, value) = parameters.unwrap_or(("none", Value::Null));
    let mut declaration = json!({"name": "t", "description": "d"});
    if key != "none" {
        declaration[key] = value.clone();
    }
    let contents = json!([{"role": "user", "parts": [{"text": "?"}]}]);
    schema::check(schema::GEMINI, &json!({"contents": contents, "tools": [{"functionDeclarations": [declaration]}]}));
    (key, value, lost.into_iter().collect())
}

/// The only property of a schema, and the field in which it is sent.
fn property(schema: &Value) -> (&'static str, Value) {
    let (key, mut value, _) = reduced(&json!({"type": "object", "properties": {"x": schema}}));
    (key, value["properties"]["x"].take())
}

fn subset(value: Value) -> (&'static str, Value) {
    ("parameters", value)
}

fn whole(value: Value) -> (&'static str, Value) {
    ("parametersJsonSchema", value)
}

#[test]
fn a_plain_schema_goes_into_the_subset_with_types_in_capitals() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Query", "type": "object", "additionalProperties": false, "required": ["city", "gone"],
        "properties": {
            "city": {"type": "string", "description": "where", "minLength": 1, "pattern": "^[A-Z]"},
            "days": {"type": ["integer", "null"], "format": "uint32", "minimum": 0, "default": 3},
            "unit": {"enum": ["C", "F"]},
            "tags": {"type": "array", "items": {"type": "string", "format": "date-time"}, "maxItems": 4},
        },
    });
    assert_eq!(
        reduced(&schema),
        (
            "parameters",
            json!({
                "type": "OBJECT", "title": "Query", "required": ["city"],
                "properties": {
                    "city": {"type": "STRING", "description": "where", "minLength": 1, "pattern": "^[A-Z]"},
                    "days": {"type": "INTEGER", "nullable": true, "default": 3, "minimum": 0},
                    "unit": {"type": "STRING", "enum": ["C", "F"]},
                    "tags": {"type": "ARRAY", "items": {"type": "STRING", "format": "date-time"}, "maxItems": 4},
                },
            }),
            vec![]
        )
    );
}

#[test]
fn a_tool_without_parameters_has_none() {
    for schema in [json!({"type": "object"}), json!({"type": "object", "properties": {}}), json!(true), json!(7)] {
        assert_eq!(reduced(&schema), ("none", Value::Null, vec![]), "{schema}");
    }
}

#[test]
fn what_the_subset_cannot_say_goes_into_json_schema() {
    assert_eq!(property(&json!({"type": "object"})), whole(json!({"type": "object"})));
    assert_eq!(property(&json!({})), whole(json!({})));
    assert_eq!(
        property(&json!({"type": "object", "additionalProperties": {"type": "number"}})),
        whole(json!({"type": "object", "additionalProperties": {"type": "number"}}))
    );
    assert_eq!(property(&json!({"enum": [1, 2]})), whole(json!({"type": "number", "enum": [1, 2]})));
    assert_eq!(
        property(&json!({"type": "string", "enum": [1]})),
        whole(json!({"type": "string", "enum": [1]})),
        "a number would make Gemini refuse the subset"
    );
    assert_eq!(property(&json!({"type": "array"})), whole(json!({"type": "array", "items": {}})));
    assert_eq!(
        property(&json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]})),
        whole(json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]}))
    );
    assert_eq!(property(&json!({"type": ["string", "integer"]})), whole(json!({"type": ["string", "integer"]})));
    assert_eq!(
        property(&json!({"description": "d", "oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]})),
        whole(json!({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}], "description": "d"}))
    );
}

#[test]
fn a_union_with_null_is_a_type_that_may_be_null() {
    assert_eq!(
        property(&json!({"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d", "default": null})),
        subset(json!({"type": "STRING", "nullable": true, "description": "d", "default": null}))
    );
    assert_eq!(
        property(&json!({"enum": ["a", null]})),
        subset(json!({"type": "STRING", "nullable": true, "enum": ["a"]}))
    );
}

#[test]
fn constants_become_enumerations() {
    assert_eq!(property(&json!({"const": "a"})), subset(json!({"type": "STRING", "enum": ["a"]})));
}

#[test]
fn references_and_all_of_are_put_in_place() {
    let schema = json!({
        "type": "object",
        "$defs": {
            "Named": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        },
        "properties": {
            "a": {"$ref": "#/$defs/Named", "description": "own"},
            "b": {"allOf": [{"$ref": "#/$defs/Named"}, {"properties": {"age": {"type": "integer"}}}]},
        },
    });
    let name = json!({"type": "STRING"});
    let (key, value, lost) = reduced(&schema);
    assert_eq!((key, lost), ("parameters", vec![]));
    assert_eq!(
        value["properties"],
        json!({
            "a": {"type": "OBJECT", "description": "own", "properties": {"name": name}, "required": ["name"]},
            "b": {"type": "OBJECT", "properties": {"name": name, "age": {"type": "INTEGER"}}, "required": ["name"]},
        })
    );
}

#[test]
fn a_schema_within_itself_ends_with_its_type() {
    let schema = json!({
        "type": "object",
        "$defs": {"Node": {"type": "object", "properties": {
            "value": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
        }}},
        "properties": {"tree": {"$ref": "#/$defs/Node"}, "self": {"$ref": "#"}, "lost": {"$ref": "other.json"}},
    });
    let (key, value, lost) = reduced(&schema);
    assert_eq!((key, lost), ("parametersJsonSchema", vec!["$ref"]));
    assert_eq!(value["properties"]["tree"]["properties"]["children"]["items"], json!({"type": "object"}));
    assert_eq!(value["properties"]["self"], json!({"type": "object"}));
    assert_eq!(value["properties"]["lost"], json!({}));
}

#[test]
fn references_that_multiply_are_cut_at_a_limit() {
    let mut definitions = Map::new();
    for level in 0..24 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions.insert(
            format!("d{level}"),
            json!({"type": "object", "properties": {"a": next, "b": next}, "allOf": [next, next]}),
        );
    }
    let (_, value, lost) =
        reduced(&json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}));
    assert!(lost.contains(&"its size"));
    assert!(value.to_string().len() < 4 * BYTES_MAX, "{}", value.to_string().len());
}

#[test]
fn what_is_left_out_is_named() {
    let schema = json!({"type": "object", "not": {}, "properties": {
        "a": {"type": "array", "items": {"type": "number", "multipleOf": 2}, "uniqueItems": true},
        "b": {"type": "string", "enum": ["x", ""]},
        "c": false,
    }, "anyOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"d": {"type": "boolean"}}}]});
    let (key, value, lost) = reduced(&schema);
    assert_eq!((key, lost), ("parameters", vec!["anyOf", "enum", "multipleOf", "not", "uniqueItems"]));
    assert_eq!(
        value,
        json!({"type": "OBJECT", "properties": {
            "a": {"type": "ARRAY", "items": {"type": "NUMBER"}}, "b": {"type": "STRING"}, "d": {"type": "BOOLEAN"},
        }})
    );
}

#[test]
fn a_property_with_the_name_of_a_keyword_is_a_property() {
    // mnfst/llm-gateway#1860, decolua/9router#3018: a list of keywords was applied to the names of properties.
    let schema = json!({"type": "object", "properties": {
        "$ref": {"type": "string"}, "not": {"type": "string"}, "type": {"type": "string"}, "items": {"type": "string"},
    }, "required": ["not"]});
    let (key, value, lost) = reduced(&schema);
    assert_eq!((key, lost), ("parameters", vec![]));
    assert_eq!(value["properties"].as_object().unwrap().len(), 4);
    assert_eq!(value["required"], json!(["not"]));
}

/// Schemas made of what matters here, well formed and not.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(false)),
        Just(json!(null)),
        Just(json!("string")),
        Just(json!("#")),
        Just(json!("#/$defs/a")),
        Just(json!("#/properties/a")),
        Just(json!(["string", "null"])),
        Just(json!([1, null, "a", ""])),
        Just(json!(3)),
        Just(json!({})),
    ];
    let key = prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "prefixItems",
        "anyOf",
        "oneOf",
        "allOf",
        "$ref",
        "$defs",
        "enum",
        "const",
        "required",
        "additionalProperties",
        "minimum",
        "minLength",
        "pattern",
        "format",
        "description",
        "nullable",
        "default",
        "not",
        "a",
    ]);
    let kind = prop::sample::select(super::kinds::KINDS.to_vec()).prop_map(|kind| json!({"type": kind}));
    prop_oneof![leaf, kind].prop_recursive(6, 80, 6, move |inner| {
        prop_oneof![
            prop::collection::vec((key.clone(), inner.clone()), 0..6).prop_map(|pairs| {
                Value::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
            prop::collection::vec(inner, 0..4).prop_map(Value::Array),
        ]
    })
}

proptest! {
    #[test]
    fn any_schema_becomes_one_that_gemini_takes(schema in any_schema(), inner in any_schema()) {
        for schema in [schema.clone(), json!({"type": "object", "properties": {"a": inner}, "$defs": {"a": schema}})] {
            let (_, value, _) = reduced(&schema);
            prop_assert!(value.to_string().len() < 4 * BYTES_MAX);
        }
    }
}
