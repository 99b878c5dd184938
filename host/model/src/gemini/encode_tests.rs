//! Tests of request bodies. Every body is checked against the provider's JSON Schema.

use std::num::NonZeroU32;

use toolcell_agent::{Prompt, Verbatim};
use toolcell_contract::ToolResult;

use super::*;
use crate::ask::Delivery;
use crate::schema;
use crate::test_support::{call, media, own_turn, results, tool, turn};

const OLD: &str = "gemini-2.5-flash";
const NEW: &str = "gemini-3-pro";

fn encoded(model: &str, prompt: Prompt<'_>, media_use: MediaUse) -> (Value, RequestBody) {
    let exchange = GeminiExchange { prompt, model, output_tokens_max: None, delivery: Delivery::Streamed };
    let request = encode(&exchange, media_use);
    let body = serde_json::from_slice(&request.json).unwrap();
    schema::check(schema::GEMINI, &body);
    (body, request)
}

fn contents(model: &str, messages: &[Message]) -> Value {
    encoded(model, Prompt { system: None, messages, tools: &[] }, MediaUse::Sent).0["contents"].take()
}

/// A turn that this wire made.
fn own(calls: &[CallRequest], parts: Value) -> Message {
    own_turn(WIRE, "", calls, json!({"role": "model", "parts": parts}))
}

fn inline(mime_type: &str) -> Value {
    json!({"inlineData": {"mimeType": mime_type, "data": "AQID"}})
}

/// The parts of the message with the result of one call.
fn result_parts(model: &str, result: ToolResult) -> Value {
    let history = [Message::user("?"), turn("", &[call("a", "t", "{}")]), results([("a", "t", result)])];
    contents(model, &history)[2]["parts"].take()
}

#[test]
fn the_schema_refuses_what_it_should() {
    schema::check_samples(schema::GEMINI);
}

#[test]
fn a_plain_question_is_a_plain_request() {
    let prompt = Prompt { system: Some("Be brief."), messages: &[Message::user("2+2?")], tools: &[] };
    let exchange =
        GeminiExchange { prompt, model: OLD, output_tokens_max: NonZeroU32::new(99), delivery: Delivery::Whole };
    let body: Value = serde_json::from_slice(&encode(&exchange, MediaUse::Sent).json).unwrap();
    schema::check(schema::GEMINI, &body);
    assert_eq!(
        body,
        json!({
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [{"role": "user", "parts": [{"text": "2+2?"}]}],
            "generationConfig": {"maxOutputTokens": 99},
        })
    );
}

#[test]
fn all_tools_stand_in_one_object_and_a_weaker_schema_is_told() {
    let now = Definition { description: String::new(), ..tool("now", json!({"type": "object"})) };
    let odd = json!({"type": "integer", "multipleOf": 2});
    let math = tool("math", json!({"type": "object", "properties": {"x": odd}, "required": ["x"]}));
    let free = tool("free", json!({"type": "object", "properties": {"x": {"type": "object"}}}));
    let prompt = Prompt { system: None, messages: &[Message::user("?")], tools: &[&now, &math, &free] };
    let (body, request) = encoded(OLD, prompt, MediaUse::Sent);
    assert_eq!(
        body["tools"],
        json!([{"functionDeclarations": [
            {"name": "now", "description": "now"},
            {"name": "math", "description": "does math", "parameters": {
                "type": "OBJECT", "properties": {"x": {"type": "INTEGER"}}, "required": ["x"],
            }},
            {"name": "free", "description": "does free", "parametersJsonSchema": {
                "type": "object", "properties": {"x": {"type": "object"}},
            }},
        ]}])
    );
    let [warning] = request.warnings.as_slice() else { panic!("one warning") };
    assert_eq!(warning.kind, WarningKind::SchemaReduced);
    assert!(warning.message.starts_with("the model sees a weaker schema of \"math\" (multipleOf): "));
}

#[test]
fn the_own_turn_goes_back_unchanged_and_results_have_its_ids_only() {
    // microsoft/agent-framework#6963, nearai/ironclaw#1510: the signature was lost when the call was rebuilt.
    let parts = json!([
        {"text": "plan", "thought": true},
        {"functionCall": {"id": "fc1", "name": "t", "args": {"n": 3.0}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "u"}},
        {"text": "", "thoughtSignature": "ZW5k"},
    ]);
    let calls = [call("fc1", "t", r#"{"n":3}"#), call("call_made_up", "u", "{}")];
    let replies = results([("fc1", "t", ToolResult::ok("1")), ("call_made_up", "u", ToolResult::error("no clock"))]);
    let history = [Message::user("?"), own(&calls, parts.clone()), replies];
    for model in [OLD, NEW] {
        let contents = contents(model, &history);
        assert_eq!(contents[1], json!({"role": "model", "parts": parts}));
        assert_eq!(
            contents[2],
            json!({"role": "user", "parts": [
                {"functionResponse": {"id": "fc1", "name": "t", "response": {"output": "1"}}},
                {"functionResponse": {"name": "u", "response": {"error": "no clock"}}},
            ]})
        );
    }
}

#[test]
fn a_foreign_turn_is_rebuilt_without_ids_and_signed_where_that_is_wanted() {
    let foreign = Verbatim { wire: "openai-chat".into(), value: json!({"role": "assistant"}) };
    let calls = vec![call("call_a", "t", r#"{"x":1}"#), call("call_b", "t", "{}")];
    let turn = Message::Assistant(AssistantTurn { text: "Hm.".into(), calls, verbatim: Some(foreign) });
    let replies = results([("call_a", "t", ToolResult::ok("1")), ("call_b", "t", ToolResult::ok(" "))]);
    let history = [Message::user("?"), turn, replies];
    let rebuilt = |signature: Value| {
        let mut first = json!({"functionCall": {"name": "t", "args": {"x": 1}}});
        if signature.is_string() {
            first["thoughtSignature"] = signature;
        }
        json!([{"text": "Hm."}, first, {"functionCall": {"name": "t", "args": {}}}])
    };
    assert_eq!(contents(OLD, &history)[1]["parts"], rebuilt(Value::Null));
    let new = contents(NEW, &history);
    assert_eq!(new[1]["parts"], rebuilt(json!("skip_thought_signature_validator")));
    assert_eq!(new[2]["parts"][1], json!({"functionResponse": {"name": "t", "response": {"output": "(no output)"}}}));
}

#[test]
fn a_turn_that_was_changed_is_rebuilt() {
    let parts = json!([{"functionCall": {"id": "a", "name": "t", "args": {"to": "x"}}, "thoughtSignature": "c2ln"}]);
    let changed = [call("a", "t", r#"{"to":"y"}"#)];
    let history = [Message::user("?"), own(&changed, parts), results([("a", "t", ToolResult::ok("1"))])];
    let expected = json!([{"functionCall": {"name": "t", "args": {"to": "y"}}}]);
    assert_eq!(contents(OLD, &history)[1]["parts"], expected);
}

#[test]
fn arguments_and_names_that_gemini_would_refuse_are_mended() {
    for arguments in ["", "{\"a\":", "[1]", "null"] {
        let calls = [call("a", "9 lives.x", arguments)];
        let history = [Message::user("?"), turn("", &calls), results([("a", "9 lives.x", ToolResult::error("bad"))])];
        let contents = contents(OLD, &history);
        assert_eq!(contents[1]["parts"], json!([{"functionCall": {"name": "__lives_x", "args": {}}}]));
        assert_eq!(contents[2]["parts"][0]["functionResponse"]["name"], "__lives_x");
    }
    let parts = json!([{"functionCall": {"name": "t", "args": [1]}}]);
    let history =
        [Message::user("?"), own(&[call("a", "t", "[1]")], parts), results([("a", "t", ToolResult::error("bad"))])];
    assert_eq!(contents(OLD, &history)[1]["parts"][0]["functionCall"]["args"], json!({}));
}

#[test]
fn results_of_gemini_3_carry_pictures_and_documents_and_sounds_stand_beside_them() {
    let result = ToolResult::ok_with_parts(
        "drawn",
        [media("image/png"), ContentPart::text("axis: time"), media("application/pdf"), media("audio/mpeg")],
    );
    assert_eq!(
        result_parts(NEW, result.clone()),
        json!([
            {"functionResponse": {
                "name": "t",
                "response": {"output": "drawn\naxis: time\n[audio/mpeg: see part 1 after the results]"},
                "parts": [inline("image/png"), inline("application/pdf")],
            }},
            inline("audio/mp3"),
        ])
    );
    let old = result_parts(OLD, result);
    assert_eq!(old[0]["functionResponse"].get("parts"), None);
    assert_eq!(old.as_array().unwrap()[1..], [inline("image/png"), inline("application/pdf"), inline("audio/mp3")]);
}

#[test]
fn media_of_parallel_results_stand_after_all_results() {
    let history = [
        Message::user("?"),
        turn("", &[call("a", "t", "{}"), call("b", "u", "{}")]),
        results([
            ("a", "t", ToolResult::ok_with_parts("", [media("audio/wav")])),
            ("b", "u", ToolResult::ok_with_parts("", [media("audio/x-flac")])),
        ]),
    ];
    let parts = contents(NEW, &history)[2]["parts"].take();
    let kinds: Vec<_> = parts.as_array().unwrap().iter().map(|part| part.get("inlineData").is_some()).collect();
    assert_eq!(kinds, [false, false, true, true]);
    let output = &parts[1]["functionResponse"]["response"]["output"];
    assert_eq!(output, "[audio/x-flac: see part 2 after the results]");
}

#[test]
fn what_gemini_does_not_take_becomes_a_line_of_text() {
    let url = ContentPart::from_url("https://example.org/a.png").unwrap();
    let empty = ContentPart::from_bytes(vec![], "image/png").unwrap();
    let result = ToolResult::ok_with_parts("", [media("image/gif"), media("text/csv"), url, empty]);
    assert_eq!(
        result_parts(NEW, result),
        json!([{"functionResponse": {"name": "t", "response": {"output":
            "[image/gif, 3 bytes, not deliverable to this model]\n[text/csv, 3 bytes, not deliverable to this model]\n\
             [image/png at https://example.org/a.png, not deliverable to this model]\n\
             [image/png, 0 bytes, not deliverable to this model]"}}}])
    );
    let messages = [Message::User { content: vec![media("image/png")] }];
    let prompt = Prompt { system: None, messages: &messages, tools: &[] };
    let (body, request) = encoded(NEW, prompt, MediaUse::Described);
    let described = json!([{"text": "[image/png, 3 bytes, not deliverable to this model]"}]);
    assert_eq!(body["contents"][0]["parts"], described);
    assert_eq!((request.media.sent, request.media.described), (0, vec!["image/png".to_owned()]));
}

#[test]
fn a_person_may_send_pictures_sounds_and_documents() {
    let content = vec![
        ContentPart::text("What is this?"),
        ContentPart::text(""),
        media("image/jpg"),
        media("audio/wav"),
        media("application/pdf"),
    ];
    assert_eq!(
        contents(OLD, &[Message::User { content }])[0]["parts"],
        json!([{"text": "What is this?"}, inline("image/jpeg"), inline("audio/wav"), inline("application/pdf")])
    );
    let empty = contents(OLD, &[Message::User { content: vec![] }]);
    assert_eq!(empty[0]["parts"], json!([{"text": "(empty message)"}]));
}

#[test]
fn a_turn_that_says_nothing_is_left_out() {
    let history = [Message::user("?"), own(&[], json!([])), turn("", &[]), Message::user("!")];
    assert_eq!(contents(NEW, &history), json!([{"role": "user", "parts": [{"text": "?"}, {"text": "!"}]}]));
}

#[test]
fn what_one_side_says_in_two_messages_is_sent_as_one() {
    let history = [Message::user("a"), Message::user("b"), turn("c", &[]), turn("d", &[]), Message::user("e")];
    assert_eq!(
        contents(NEW, &history),
        json!([
            {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
            {"role": "model", "parts": [{"text": "c"}, {"text": "d"}]},
            {"role": "user", "parts": [{"text": "e"}]},
        ])
    );
}

#[test]
fn a_text_of_arguments_goes_back_as_the_arguments() {
    let arguments = r#"{"x":1}"#;
    let value = json!({"role": "model", "parts": [
        {"functionCall": {"name": "t", "args": arguments}, "thoughtSignature": "s"},
    ]});
    let history = [
        Message::user("?"),
        own_turn(WIRE, "", &[call("a", "t", arguments)], value),
        results([("a", "t", ToolResult::ok("1"))]),
    ];
    let part = json!({"functionCall": {"name": "t", "args": {"x": 1}}, "thoughtSignature": "s"});
    assert_eq!(contents(NEW, &history)[1], json!({"role": "model", "parts": [part]}));
}
