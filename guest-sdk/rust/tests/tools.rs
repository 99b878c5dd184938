//! Tools as an author writes them: what the host learns about them, and what a call with JSON gives.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolcell_guest::{
    Annotations, Context, Definition, Json, Request, ToolResult, argument, export, testing, tool, tool_of,
};

/// A unit of length.
#[argument]
#[derive(Debug, PartialEq)]
enum Unit {
    /// The one of SI.
    Metre,
    NauticalMile,
}

#[argument]
struct Stop {
    /// Its name.
    name: String,
    next: Vec<Stop>,
}

/// Everything that an argument can be.
#[tool(name = "all-kinds", title = "All kinds", read_only, open_world)]
#[allow(clippy::too_many_arguments, reason = "one of each")]
fn all_kinds(
    /// A text.
    text: String,
    flag: bool,
    small: u8,
    large: i64,
    real: f32,
    list: Vec<Option<String>>,
    any: Value,
    map: BTreeMap<String, u16>,
    /// A length.
    unit: Unit,
    maybe_unit: Option<Unit>,
    units: Vec<Unit>,
    #[default(Unit::Metre)] default_unit: Unit,
    #[default(vec![1, 2])] default_list: Vec<u32>,
    pair: (u8, bool),
    context: Context,
) -> Json<Value> {
    let _ = (flag, small, large, real, any, pair, context.call_id());
    Json(json!([text, list.len(), map.len(), unit, maybe_unit, units, default_unit, default_list]))
}

/// Follows a route.
#[tool]
fn route(
    /// Where it begins.
    start: Stop,
    end: Option<Stop>,
) -> String {
    let _ = end;
    let mut names = vec![start.name];
    names.extend(start.next.into_iter().map(|stop| stop.name));
    names.join(" - ")
}

mod inner {
    use super::*;

    /// Does nothing.
    #[tool(destructive = false)]
    pub(crate) fn nothing() {}
}

/// A keyword as a name.
#[tool]
fn r#type(r#match: u8) -> String {
    r#match.to_string()
}

/// Asks.
#[tool]
fn ask(context: &Context) -> ToolResult {
    match context.answer_text("seat") {
        Some(seat) => ToolResult::ok(format!("{seat} {:?}", context.state())),
        None => context.suspend(Request::approval("Which?"), [7_u8]),
    }
}

export!(all_kinds, route, inner::nothing, r#type, ask);

fn call(tool: &toolcell_guest::Tool, arguments: &str) -> ToolResult {
    tool.call(arguments, &testing::first_call())
}

#[test]
fn the_schema_follows_from_the_types_and_the_docs() {
    let unit_lines = "metre: The one of SI.";
    let schema = json!({
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "A text."},
            "flag": {"type": "boolean"},
            "small": {"type": "integer", "minimum": 0, "maximum": 255},
            "large": {"type": "integer"},
            "real": {"type": "number"},
            "list": {"type": "array", "items": {"type": ["string", "null"]}},
            "any": {},
            "map": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 65535}},
            "unit": {
                "type": "string",
                "enum": ["metre", "nautical_mile"],
                "description": format!("A length.\n{unit_lines}"),
            },
            "maybe_unit": {
                "type": ["string", "null"],
                "enum": ["metre", "nautical_mile", null],
                "description": format!("A unit of length.\n{unit_lines}"),
            },
            "units": {
                "type": "array",
                "items": {
                    "type": "string",
                    "enum": ["metre", "nautical_mile"],
                    "description": format!("A unit of length.\n{unit_lines}"),
                },
            },
            "default_unit": {
                "type": "string",
                "enum": ["metre", "nautical_mile"],
                "description": format!("A unit of length.\n{unit_lines}"),
                "default": "metre",
            },
            "default_list": {"type": "array", "items": {"type": "integer", "minimum": 0}, "default": [1, 2]},
            "pair": {
                "type": "array",
                "prefixItems": [{"type": "integer", "minimum": 0, "maximum": 255}, {"type": "boolean"}],
                "minItems": 2,
                "maxItems": 2,
            },
        },
        "additionalProperties": false,
        "required": ["text", "flag", "small", "large", "real", "list", "any", "map", "unit", "units", "pair"],
    });
    assert_eq!(
        tool_of!(all_kinds).definition(),
        Definition {
            name: "all-kinds".to_owned(),
            title: Some("All kinds".to_owned()),
            description: "Everything that an argument can be.".to_owned(),
            input_schema: schema,
            output_schema: None,
            annotations: Some(Annotations { read_only: true, destructive: false, idempotent: false, open_world: true }),
        }
    );
}

#[test]
fn a_type_that_holds_itself_is_defined_once() {
    let schema = tool_of!(route).definition().input_schema;
    let stop = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Its name."},
            "next": {"type": "array", "items": {"$ref": "#/$defs/Stop"}},
        },
        "additionalProperties": false,
        "required": ["name", "next"],
    });
    assert_eq!(schema["$defs"], json!({ "Stop": stop }));
    assert_eq!(schema["properties"]["start"]["description"], json!("Where it begins."));
    assert_eq!(
        call(&tool_of!(route), r#"{"start": {"name": "A", "next": [{"name": "B", "next": []}]}}"#),
        ToolResult::ok("A - B")
    );
}

#[test]
fn a_call_reads_the_arguments_and_fills_in_the_defaults() {
    let arguments = json!({
        "text": "a \"b\" \u{1F600}", "flag": true, "small": 255, "large": -5, "real": 0.5, "list": [null, "x"],
        "any": {"deep": []}, "map": {"k": 1}, "unit": "nautical_mile", "units": ["metre"], "pair": [1, false],
    });
    assert_eq!(
        call(&tool_of!(all_kinds), &arguments.to_string()),
        ToolResult::ok(
            json!(["a \"b\" \u{1F600}", 2, 1, "nautical_mile", null, ["metre"], "metre", [1, 2]]).to_string()
        )
    );
}

#[test]
fn a_tool_without_parameters_is_called_with_an_empty_object() {
    assert_eq!(call(&tool_of!(inner::nothing), "{}"), ToolResult::ok(""));
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    assert_eq!(tool_of!(inner::nothing).definition().input_schema, schema);
    let hints = Annotations { read_only: false, destructive: false, idempotent: false, open_world: false };
    assert_eq!(tool_of!(inner::nothing).annotations, Some(hints));
}

#[test]
fn keywords_can_be_names() {
    assert_eq!(tool_of!(r#type).name, "type");
    assert_eq!(call(&tool_of!(r#type), r#"{"match": 5}"#), ToolResult::ok("5"));
}

#[test]
fn an_argument_that_does_not_fit_is_an_error_that_names_it() {
    let tool = tool_of!(r#type);
    for (arguments, error) in [
        (r#"{"match": "5"}"#, r#"the argument "match" does not fit: invalid type: string "5", expected u8"#),
        (r#"{"match": 256}"#, r#"the argument "match" does not fit: invalid value: integer `256`, expected u8"#),
        ("{}", r#"the argument "match" is missing"#),
        ("[]", "the arguments are not a JSON object: invalid type: sequence, expected an object at line 1 column 0"),
        ("", "the arguments are not a JSON object: EOF while parsing a value at line 1 column 0"),
        (r#"{"match": 5"#, "the arguments are not a JSON object: EOF while parsing an object at line 1 column 11"),
    ] {
        assert_eq!(call(&tool, arguments), ToolResult::error(error), "{arguments}");
    }
    let unknown = call(&tool_of!(route), r#"{"start": {"name": "A", "nxt": []}}"#);
    assert_eq!(
        unknown,
        ToolResult::error(r#"the argument "start" does not fit: unknown field `nxt`, expected `name` or `next`"#)
    );
}

#[test]
fn of_two_arguments_with_one_name_the_last_counts_as_everywhere_in_json() {
    assert_eq!(call(&tool_of!(r#type), r#"{"match": 1, "match": 2}"#), ToolResult::ok("2"));
}

#[test]
fn deeply_nested_arguments_are_refused_and_do_not_exhaust_the_stack() {
    let deep = format!(r#"{{"match": {}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert!(call(&tool_of!(r#type), &deep).is_error);
}

#[test]
fn an_answer_reaches_the_tool_with_its_state() {
    let first = testing::first_call();
    let asked = tool_of!(ask).call("{}", &first);
    assert_eq!(asked.pending_of().unwrap().prompt, "Which?");
    let data = toolcell_guest::Object::from_iter([("seat".to_owned(), json!("4A"))]);
    let retry = testing::retry(&first, toolcell_guest::Answer::approve("x").with_data(data));
    assert_eq!(tool_of!(ask).call("{}", &retry), ToolResult::ok("4A Some([7])"));
}
