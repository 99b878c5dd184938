//! What a component may say about its tools, and what is refused.

use serde_json::json;

use super::*;

fn tool(name: &str) -> wit::Definition {
    wit::Definition {
        name: name.into(),
        title: None,
        description: "Does it".into(),
        input_schema: r#"{"type": "object"}"#.into(),
        output_schema: None,
        annotations: None,
    }
}

fn with_schema(input_schema: impl Into<String>) -> wit::Definition {
    wit::Definition { input_schema: input_schema.into(), ..tool("math") }
}

fn refused(listed: Vec<wit::Definition>) -> (&'static str, String) {
    let error = definitions(listed).unwrap_err();
    (error.code(), error.to_string())
}

fn broken(rule: &str) -> (&'static str, String) {
    ("bad-schema", format!("the definition of tool \"math\" breaks a rule: {rule}"))
}

#[test]
fn a_good_definition_is_taken_whole() {
    let listed = wit::Definition {
        title: Some("Math".into()),
        output_schema: Some(r#"{"type": "number"}"#.into()),
        annotations: Some(wit::Annotations {
            read_only: true,
            destructive: false,
            idempotent: true,
            open_world: false,
        }),
        ..tool("math")
    };
    let expected = Definition {
        name: "math".into(),
        title: Some("Math".into()),
        description: "Does it".into(),
        input_schema: json!({"type": "object"}),
        output_schema: Some(json!({"type": "number"})),
        annotations: Some(Annotations { read_only: true, destructive: false, idempotent: true, open_world: false }),
    };
    assert_eq!(definitions(vec![listed]).unwrap(), [expected]);
}

#[test]
fn a_component_offers_1_to_64_tools_with_names_of_their_own() {
    let named = |count: usize| (0..count).map(|n| tool(&format!("tool-{n}"))).collect::<Vec<_>>();
    assert_eq!(definitions(named(64)).unwrap().len(), 64);
    assert_eq!(refused(named(65)).0, "too-many-tools");
    assert_eq!(refused(Vec::new()).0, "list-failed");
    assert_eq!(refused(vec![tool("a"), tool("a")]).0, "duplicate-tool");
    assert_eq!(refused(vec![tool("g\u{456}thub")]).0, "bad-name");
}

#[test]
fn texts_are_bounded() {
    let described = |bytes: usize| wit::Definition { description: "x".repeat(bytes), ..tool("math") };
    assert!(definitions(vec![described(1_024)]).is_ok());
    assert_eq!(refused(vec![described(1_025)]), broken("its description has 1025 bytes, at most 1024"));
    let titled = wit::Definition { title: Some("x".repeat(1_025)), ..tool("math") };
    assert_eq!(refused(vec![titled]), broken("its title has 1025 bytes, at most 1024"));
}

#[test]
fn an_input_schema_is_a_small_object_that_describes_an_object() {
    let large = format!("{{\"type\": \"object\", \"description\": \"{}\"}}", "x".repeat(16 << 10));
    let table = [
        ("{", "its input schema is not JSON of at most 128 levels"),
        ("true", "its input schema is not a JSON object"),
        ("{}", "its input schema must have \"type\": \"object\" at its root"),
        (r#"{"type": ["object"]}"#, "its input schema must have \"type\": \"object\" at its root"),
        (&large, "its input schema has 16421 bytes, at most 16384"),
    ];
    for (schema, rule) in table {
        assert_eq!(refused(vec![with_schema(schema)]), broken(rule));
    }
}

#[test]
fn depth_is_bounded_before_anything_walks_into_it() {
    let nested = |levels: usize| {
        format!("{{\"type\": \"object\", \"a\": {}1{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1))
    };
    assert!(definitions(vec![with_schema(nested(12))]).is_ok());
    assert_eq!(refused(vec![with_schema(nested(13))]), broken("its input schema is more than 12 levels deep"));
    let bomb = refused(vec![with_schema(nested(8_000))]);
    assert_eq!(bomb, broken("its input schema is not JSON of at most 128 levels"));
}

#[test]
fn references_stay_inside_and_lead_somewhere() {
    let schema = |target: &str| {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"$ref": target}, "b": {"$ref": "#/$defs/leaf"}, "$ref": {"type": "string"}},
            "$defs": {"leaf": {"type": "string"}, "knot": {"$ref": "#/$defs/loop"}, "loop": {"$ref": "#/$defs/knot"}},
        });
        vec![with_schema(schema.to_string())]
    };
    let cycle = "its input schema refers back to itself: recursive schemas are not taken";
    assert_eq!(refused(schema("#/$defs/leaf")), broken(cycle));
    assert_eq!(refused(schema("#")), broken(cycle));
    let outside = "its input schema has a $ref that leaves it: put the definition into its $defs";
    for target in ["http://169.254.169.254/", "file:///etc/passwd", "other.json#/a"] {
        assert_eq!(refused(schema(target)), broken(outside));
    }
    let nowhere = "its input schema has a $ref that leads nowhere: use #/$defs/…";
    assert_eq!(refused(schema("#/$defs/none")), broken(nowhere));
    let good = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/pair"}, "b": {"$ref": "#/$defs/pair"}},
        "$defs": {"leaf": {"type": "string"}, "pair": {"items": {"$ref": "#/$defs/leaf"}}},
    });
    assert!(definitions(vec![with_schema(good.to_string())]).is_ok());
}

#[test]
fn a_long_chain_of_references_is_no_deep_recursion() {
    let mut defs = serde_json::Map::new();
    for n in 0..500 {
        defs.insert(n.to_string(), json!({"$ref": format!("#/$defs/{}", n + 1)}));
    }
    defs.insert("500".into(), json!({}));
    let schema = json!({"type": "object", "$defs": defs}).to_string();
    assert!(definitions(vec![with_schema(schema)]).is_ok());
}

#[test]
fn references_to_references_do_not_multiply_beyond_the_limit() {
    let doubled = |steps: usize| {
        let mut defs = serde_json::Map::new();
        for n in 0..steps {
            let next = json!({"$ref": format!("#/$defs/{}", n + 1)});
            defs.insert(n.to_string(), json!({"allOf": [next, next]}));
        }
        defs.insert(steps.to_string(), json!({}));
        vec![with_schema(json!({"type": "object", "$ref": "#/$defs/0", "$defs": defs}).to_string())]
    };
    assert!(definitions(doubled(8)).is_ok());
    let rule = "its input schema has more than 8192 values when its references are written out";
    for steps in [14, 60] {
        assert_eq!(refused(doubled(steps)), broken(rule));
    }
    let flat = format!("{{\"type\": \"object\", \"enum\": [{}1]}}", "1,".repeat(8_000));
    assert!(definitions(vec![with_schema(flat)]).is_ok());
}

#[test]
fn references_lead_where_they_seem_to() {
    let refused_for = |schema: serde_json::Value, rule: &str| {
        let input = with_schema(schema.to_string());
        assert_eq!(refused(vec![input]), broken(&format!("its input schema {rule}")));
    };
    let moved = json!({"type": "object", "$defs": {"a": {"$id": "http://e.example/", "$ref": "#/$defs/a"}}});
    refused_for(moved, "has a $id below its root: remove it");
    let other = json!({"type": "object", "properties": {"a": {"$schema": "http://json-schema.org/draft-04/schema#"}}});
    refused_for(other, "has a $schema below its root: remove it");
    let old = json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"});
    refused_for(old, "is written in draft 4: write it in draft 2020-12");
    let recursive = json!({"type": "object", "properties": {"a": {"$recursiveRef": "#"}}});
    refused_for(recursive, "refers back to itself: recursive schemas are not taken");
    let escaped =
        json!({"type": "object", "allOf": [{"$ref": "#/%24defs/a"}], "%24defs": {"a": {}}, "$defs": {"a": {}}});
    refused_for(escaped, "has a $ref that leads nowhere: use #/$defs/…");
    let good = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://e.example/a", "type": "object",
        "properties": {"$id": {"type": "string"}, "$schema": {"type": "string"}, "id": {"default": "x"}},
    });
    assert!(definitions(vec![with_schema(good.to_string())]).is_ok());
}
