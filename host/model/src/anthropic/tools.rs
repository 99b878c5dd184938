//! Definitions of tools as Anthropic takes them. One schema that it refuses would cost the whole request.

use serde_json::{Map, Value, json};
use toolcell_agent::{Message, ModelWarning, Prompt, WarningKind};
use toolcell_contract::Definition;

use crate::echo::wire_name;

/// What the root of an input schema may not hold.
const ROOT_UNIONS: [&str; 3] = ["oneOf", "anyOf", "allOf"];

/// The longest key of a property.
const KEY_CHARS_MAX: usize = 64;

/// The tools of a prompt, and what is told about those whose schema is not sent as it stands.
pub(super) fn tools(prompt: &Prompt<'_>) -> (Vec<Value>, Option<ModelWarning>) {
    let mut reduced = Vec::new();
    let tools = prompt.tools.iter().map(|tool| {
        let (schema, rest) = input_schema(&tool.input_schema);
        if !rest.is_empty() {
            reduced.push(tool.name.as_str());
        }
        json!({"name": tool.name, "description": description(tool, rest), "input_schema": schema})
    });
    let tools = tools.collect();
    (tools, warning(&reduced))
}

/// Stand-ins for the tools that a conversation has called, where none is offered any more: a conversation with calls is
/// refused without tools.
pub(super) fn tools_of_history(messages: &[Message]) -> Vec<Value> {
    let calls = messages.iter().filter_map(|message| match message {
        Message::Assistant(turn) => Some(&turn.calls),
        Message::User { .. } | Message::Tool { .. } => None,
    });
    let mut names: Vec<_> = calls.flatten().map(|call| wire_name(&call.name)).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| json!({"name": name, "input_schema": {"type": "object"}})).collect()
}

/// What the model reads about a tool: what its schema may not say is said here.
fn description(tool: &Definition, rest: Map<String, Value>) -> String {
    if rest.is_empty() {
        return tool.description.clone();
    }
    let rest = Value::Object(rest);
    format!("{}\n\nThe input must also fit this JSON Schema: {rest}", tool.description).trim_start().to_owned()
}

/// The schema that is sent, and what was taken out of it.
fn input_schema(schema: &Value) -> (Value, Map<String, Value>) {
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    let mut rest = Map::new();
    // The dialect says nothing to a model.
    schema.shift_remove("$schema");
    schema.insert("type".to_owned(), json!("object"));
    for union in ROOT_UNIONS {
        rest.extend(schema.shift_remove(union).map(|value| (union.to_owned(), value)));
    }
    if let Some(properties) = take_properties(&mut schema) {
        rest.insert("properties".to_owned(), Value::Object(properties.described));
        if !properties.required.is_empty() {
            rest.insert("required".to_owned(), Value::Array(properties.required));
        }
        // It would forbid what was taken out; the check of the arguments still knows it.
        schema.shift_remove("additionalProperties");
    }
    (Value::Object(schema), rest)
}

/// Properties whose keys the wire does not carry.
struct Taken {
    described: Map<String, Value>,
    required: Vec<Value>,
}

fn take_properties(schema: &mut Map<String, Value>) -> Option<Taken> {
    let properties = schema.get_mut("properties")?.as_object_mut()?;
    let (kept, described): (Map<_, _>, Map<_, _>) =
        std::mem::take(properties).into_iter().partition(|(key, _)| is_key(key));
    *properties = kept;
    if described.is_empty() {
        return None;
    }
    let mut required = Vec::new();
    if let Some(Value::Array(all)) = schema.get_mut("required") {
        let is_taken = |key: &Value| key.as_str().is_some_and(|key| described.contains_key(key));
        (required, *all) = std::mem::take(all).into_iter().partition(is_taken);
    }
    Some(Taken { described, required })
}

fn is_key(key: &str) -> bool {
    let is_key_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    !key.is_empty() && key.len() <= KEY_CHARS_MAX && key.chars().all(is_key_char)
}

fn warning(reduced: &[&str]) -> Option<ModelWarning> {
    let names = reduced.join(", ");
    let message = format!(
        "this provider does not take a part of the input schema of {names}, which stands in the description instead: \
         oneOf, anyOf and allOf at the root, and keys other than 1 to {KEY_CHARS_MAX} ASCII letters, digits, \"_\", \
         \".\" and \"-\"; a schema without them mends it"
    );
    (!reduced.is_empty()).then_some(ModelWarning { kind: WarningKind::SchemaReduced, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(schema: Value) -> (Value, Value) {
        let (sent, rest) = input_schema(&schema);
        (sent, Value::Object(rest))
    }

    #[test]
    fn a_plain_schema_is_sent_as_it_is_but_for_its_dialect() {
        let plain = json!({
            "type": "object", "properties": {"x.y-z_1": {"anyOf": [{"type": "null"}]}}, "required": ["x.y-z_1"],
            "additionalProperties": false, "$defs": {"a": {"oneOf": []}},
        });
        let mut with_dialect = plain.clone();
        with_dialect["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        assert_eq!(schema(with_dialect), (plain, json!({})));
    }

    #[test]
    fn unions_at_the_root_are_taken_out() {
        let union = json!([{"required": ["x"]}, {"required": ["y"]}]);
        for key in ROOT_UNIONS {
            let (sent, rest) = schema(json!({"type": "object", "properties": {"x": {}, "y": {}}, key: union}));
            assert_eq!(sent, json!({"type": "object", "properties": {"x": {}, "y": {}}}));
            assert_eq!(rest, json!({key: union}));
        }
    }

    #[test]
    fn keys_that_the_wire_does_not_carry_are_taken_out_and_not_forbidden() {
        let long = "k".repeat(KEY_CHARS_MAX + 1);
        for bad in ["größe", "a b", "", "a/b", &long] {
            let whole = json!({
                "type": "object", "properties": {"x": {}, bad: {"type": "number"}}, "required": ["x", bad],
                "additionalProperties": false,
            });
            let (sent, rest) = schema(whole);
            assert_eq!(sent, json!({"type": "object", "properties": {"x": {}}, "required": ["x"]}));
            assert_eq!(rest, json!({"properties": {bad: {"type": "number"}}, "required": [bad]}));
        }
        assert_eq!(schema(json!({"type": "object", "properties": {"k".repeat(KEY_CHARS_MAX): {}}})).1, json!({}));
    }

    #[test]
    fn what_is_no_object_schema_becomes_one() {
        assert_eq!(schema(json!(true)), (json!({"type": "object"}), json!({})));
    }
}
