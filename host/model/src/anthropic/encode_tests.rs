//! Tests of request bodies. Every body is checked against Anthropic's JSON Schema.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use toolcell_agent::{Prompt, Verbatim, WarningKind};
use toolcell_contract::ToolResult;
use toolcell_contract::limits::ARGUMENTS_BYTES_MAX;

use super::*;
use crate::schema;
pub(in crate::anthropic) use crate::test_support::{call, turn};
use crate::test_support::{own_turn, tool};

pub(in crate::anthropic) const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

const PROMPT: Prompt<'_> = Prompt { system: None, messages: &[], tools: &[] };

fn exchange<'a>(prompt: Prompt<'a>, quirks: &'a AnthropicQuirks) -> AnthropicExchange<'a> {
    AnthropicExchange { prompt, model: "m", quirks, output_tokens_max: None, delivery: Delivery::Streamed }
}

/// A body and its warnings, checked.
fn encoded(prompt: Prompt<'_>, quirks: &AnthropicQuirks) -> (Value, MediaCount, Vec<ModelWarning>) {
    let encoded = encode(&exchange(prompt, quirks), MediaUse::Sent);
    let is_newest = quirks.version == AnthropicQuirks::ANTHROPIC.version;
    if is_newest {
        schema::check(schema::ANTHROPIC, &encoded.0);
    }
    if !quirks.unsigned_thinking {
        schema::check(schema::ANTHROPIC_2023, &encoded.0);
    }
    encoded
}

fn body(prompt: Prompt<'_>) -> Value {
    encoded(prompt, &AnthropicQuirks::ANTHROPIC).0
}

/// The messages that Anthropic gets, without the mark for its cache.
pub(in crate::anthropic) fn messages(messages: &[Message]) -> Value {
    unmarked(body(Prompt { messages, ..PROMPT })["messages"].take())
}

fn unmarked(mut messages: Value) -> Value {
    for block in messages.as_array_mut().unwrap().iter_mut().flat_map(|m| m["content"].as_array_mut().unwrap()) {
        block.as_object_mut().unwrap().shift_remove("cache_control");
    }
    messages
}

/// A turn that this wire made.
pub(in crate::anthropic) fn own(text: &str, calls: &[CallRequest], content: Value) -> Message {
    own_turn(WIRE, text, calls, json!({"role": "assistant", "content": content}))
}

pub(in crate::anthropic) fn results(results: impl IntoIterator<Item = (&'static str, ToolResult)>) -> Message {
    let reply = |(id, result): (&str, ToolResult)| ToolReply { call_id: id.into(), name: "t".into(), result };
    Message::Tool { replies: results.into_iter().map(reply).collect() }
}

pub(in crate::anthropic) fn picture() -> ContentPart {
    ContentPart::from_bytes(PNG, "image/png").unwrap()
}

pub(in crate::anthropic) fn picture_block() -> Value {
    json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BASE64.encode(PNG)}})
}

fn pdf() -> ContentPart {
    ContentPart::from_bytes(b"%PDF-1.7".to_vec(), "application/pdf").unwrap().named("a.pdf")
}

fn pdf_block() -> Value {
    let source = json!({"type": "base64", "media_type": "application/pdf", "data": BASE64.encode("%PDF-1.7")});
    json!({"type": "document", "source": source, "title": "a.pdf"})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn wire_call(id: &str, name: &str, input: Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

/// The blocks after one call that gave that result.
pub(in crate::anthropic) fn blocks_of(result: ToolResult) -> Value {
    let history = [Message::user("?"), turn("", &[call("a", "t", "{}")]), results([("a", result)])];
    messages(&history)[2]["content"].take()
}

fn content_of(result: ToolResult) -> Value {
    blocks_of(result)[0]["content"].take()
}

#[test]
fn the_schemas_refuse_what_they_should() {
    schema::check_samples(schema::ANTHROPIC);
    schema::check_samples(schema::ANTHROPIC_2023);
}

#[test]
fn a_plain_question_is_a_plain_request() {
    let prompt = Prompt { system: Some("Be brief."), messages: &[Message::user("2+2?")], tools: &[] };
    let cached = |text: &str| json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]);
    let expected = json!({
        "model": "m", "max_tokens": 16_384, "stream": true, "system": cached("Be brief."),
        "messages": [{"role": "user", "content": cached("2+2?")}],
    });
    assert_eq!(body(prompt), expected);
    // The older version of the wire has no other form.
    assert_eq!(encoded(prompt, &AnthropicQuirks::COMPATIBLE).0, expected);
    schema::check(schema::ANTHROPIC_2023, &expected);
}

#[test]
fn the_longest_answer_and_the_delivery_can_be_chosen() {
    let quirks = AnthropicQuirks::ANTHROPIC;
    let prompt = Prompt { messages: &[Message::user("hi")], ..PROMPT };
    let chosen = AnthropicExchange {
        output_tokens_max: NonZeroU32::new(9),
        delivery: Delivery::Whole,
        ..exchange(prompt, &quirks)
    };
    let body = encode(&chosen, MediaUse::Sent).0;
    schema::check(schema::ANTHROPIC, &body);
    assert_eq!((&body["max_tokens"], body.get("stream")), (&json!(9), None));
}

#[test]
fn a_blank_system_text_is_left_out() {
    let prompt = Prompt { system: Some(" \n"), messages: &[Message::user("hi")], tools: &[] };
    assert_eq!(body(prompt).get("system"), None);
}

#[test]
fn tools_are_offered_in_their_order() {
    let time = tool("now", json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}));
    let schema = json!({"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]});
    let math = tool("math", schema.clone());
    let body = body(Prompt { messages: &[Message::user("hi")], tools: &[&time, &math], ..PROMPT });
    assert_eq!(
        body["tools"],
        json!([
            {"name": "now", "description": "does now", "input_schema": {"type": "object"}},
            {"name": "math", "description": "does math", "input_schema": schema},
        ])
    );
    assert_eq!(body.get("tool_choice"), None);
}

#[test]
fn a_schema_that_would_be_refused_is_reduced_with_a_warning_and_told_in_words() {
    let either =
        tool("either", json!({"type": "object", "properties": {"x": {}, "größe": {}}, "anyOf": [{"required": ["x"]}]}));
    let plain = tool("plain", json!({"type": "object"}));
    let prompt = Prompt { messages: &[Message::user("hi")], tools: &[&either, &plain], ..PROMPT };
    let (body, _, warnings) = encoded(prompt, &AnthropicQuirks::ANTHROPIC);
    let description = "does either\n\nThe input must also fit this JSON Schema: \
                       {\"anyOf\":[{\"required\":[\"x\"]}],\"properties\":{\"größe\":{}}}";
    assert_eq!(
        body["tools"][0],
        json!({
            "name": "either", "description": description, "input_schema": {"type": "object", "properties": {"x": {}}},
        })
    );
    assert_eq!(body["tools"][1]["description"], "does plain");
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!(warning.kind, WarningKind::SchemaReduced);
    assert!(warning.message.contains("the input schema of either, which"), "{}", warning.message);
}

#[test]
fn a_conversation_with_calls_has_tools_although_none_is_offered_any_more() {
    let history = [
        Message::user("?"),
        turn("", &[call("a", "files.read", "{}"), call("b", "now", "{}")]),
        results([("a", ToolResult::ok("1")), ("b", ToolResult::ok("2"))]),
    ];
    let body = body(Prompt { messages: &history, ..PROMPT });
    let stand_in = |name: &str| json!({"name": name, "input_schema": {"type": "object"}});
    assert_eq!(body["tools"], json!([stand_in("files_read"), stand_in("now")]));
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
}

#[test]
fn only_the_system_text_and_the_last_block_of_the_last_user_message_are_marked_for_the_cache() {
    let thinking = json!({"type": "thinking", "thinking": "", "signature": "s"});
    let calls = [call("a", "t", "{}"), call("b", "t", "{}")];
    let content = json!([thinking, wire_call("a", "t", json!({})), wire_call("b", "t", json!({}))]);
    let history = [
        Message::user("?"),
        own("", &calls, content),
        results([("a", ToolResult::ok("1")), ("b", ToolResult::ok(""))]),
        // A turn that was paused follows the marked message.
        turn("Going on", &[]),
    ];
    let body = body(Prompt { system: Some("s"), messages: &history, tools: &[] });
    assert_eq!(body.to_string().matches("cache_control").count(), 2);
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        (&body["system"][0]["cache_control"], &body["messages"][2]["content"][1]["cache_control"]),
        (&mark, &mark)
    );
}

#[test]
fn results_are_one_message_straight_after_their_turn() {
    let history = [
        Message::user("?"),
        turn("Looking.", &[call("a", "shot", r#"{"url":"x"}"#), call("b", "now", "{}")]),
        results([("a", ToolResult::ok("seen")), ("b", ToolResult::error("no clock"))]),
        Message::user("And now?"),
    ];
    assert_eq!(
        messages(&history),
        json!([
            {"role": "user", "content": [text("?")]},
            {"role": "assistant", "content": [
                text("Looking."), wire_call("a", "shot", json!({"url": "x"})), wire_call("b", "now", json!({})),
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "seen"},
                {"type": "tool_result", "tool_use_id": "b", "is_error": true, "content": "no clock"},
                text("And now?"),
            ]},
        ])
    );
}

#[test]
fn messages_of_one_role_become_one() {
    let history = [Message::user("a"), Message::user("b"), turn("c", &[]), turn("d", &[])];
    assert_eq!(
        messages(&history),
        json!([
            {"role": "user", "content": [text("a"), text("b")]},
            {"role": "assistant", "content": [text("c"), text("d")]},
        ])
    );
}

#[test]
fn a_result_without_output_says_so() {
    for result in [ToolResult::ok(""), ToolResult::ok(" \n"), ToolResult::error(""), ToolResult::ok_with_parts("", [])]
    {
        assert_eq!(content_of(result), "(no output)");
    }
}

#[test]
fn metadata_never_reaches_the_model() {
    assert_eq!(content_of(ToolResult::ok("4").with_metadata("rows", 3)), "4");
}

#[test]
fn media_of_a_result_stand_in_it_in_their_order() {
    let parts = [picture(), ContentPart::text("axis: time"), ContentPart::text(" "), pdf()];
    assert_eq!(
        content_of(ToolResult::ok_with_parts("a chart", parts)),
        json!([text("a chart"), picture_block(), text("axis: time"), pdf_block()])
    );
    assert_eq!(content_of(ToolResult::ok_with_parts("", [picture()])), json!([picture_block()]));
    assert_eq!(content_of(ToolResult::ok_with_parts("a", [ContentPart::text("b")])), "a\nb");
}

#[test]
fn media_that_the_wire_does_not_carry_become_a_line_of_text_and_a_warning() {
    let parts = [
        ContentPart::from_bytes(vec![1, 2, 3], "audio/wav").unwrap(),
        ContentPart::from_bytes(vec![1, 2, 3], "image/png").unwrap(),
        ContentPart::from_url("https://example.org/a.png").unwrap(),
    ];
    let result = ToolResult::ok_with_parts("done", parts);
    let history = [Message::user("?"), turn("", &[call("a", "t", "{}")]), results([("a", result)])];
    let (body, media, _) = encoded(Prompt { messages: &history, ..PROMPT }, &AnthropicQuirks::ANTHROPIC);
    assert_eq!(
        body["messages"][2]["content"][0]["content"],
        "done\n[audio/wav, 3 bytes, not deliverable to this model]\
         \n[image/png, 3 bytes, not deliverable to this model]\
         \n[image/png at https://example.org/a.png, not deliverable to this model]"
    );
    assert_eq!(media, MediaCount { sent: 0, described: vec!["audio/wav".into(), "image/png".into()] });
    assert!(media.warning().is_some());
}

#[test]
fn media_are_described_where_the_model_refused_them_and_documents_where_the_server_does_not_take_them() {
    let content = vec![ContentPart::text("?"), picture(), pdf()];
    let messages = [Message::User { content }];
    let prompt = Prompt { messages: &messages, ..PROMPT };
    let described = encode(&exchange(prompt, &AnthropicQuirks::ANTHROPIC), MediaUse::Described);
    let (image, file) = (
        text("[image/png, 8 bytes, not deliverable to this model]"),
        text("[application/pdf, 8 bytes, not deliverable to this model]"),
    );
    let blocks = |mut body: Value| unmarked(body["messages"].take())[0]["content"].take();
    assert_eq!(blocks(described.0), json!([text("?"), image, file]));
    let (body, media, _) = encoded(prompt, &AnthropicQuirks::COMPATIBLE);
    assert_eq!(blocks(body), json!([text("?"), picture_block(), file]));
    assert_eq!(media, MediaCount { sent: 1, described: vec!["application/pdf".into()] });
}

#[test]
fn media_of_a_person_stand_beside_the_text() {
    let content = vec![ContentPart::text("What is this?"), ContentPart::text(" "), picture(), pdf()];
    assert_eq!(
        messages(&[Message::User { content }])[0]["content"],
        json!([text("What is this?"), picture_block(), pdf_block()])
    );
}

#[test]
fn a_message_without_words_is_still_a_message() {
    for content in [vec![], vec![ContentPart::text(" \n")]] {
        assert_eq!(messages(&[Message::User { content }])[0]["content"], json!([text("(empty message)")]));
    }
}

#[test]
fn the_own_turn_goes_back_unchanged() {
    let content = json!([
        {"type": "thinking", "thinking": "", "signature": "s1"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "Hm.", "citations": [{"type": "char_location", "cited_text": "x"}]},
        {"type": "thinking", "thinking": "more", "signature": "s2"},
        {"type": "tool_use", "id": "a", "name": "t", "input": {"x": 1}, "caller": {"type": "direct"}},
    ]);
    let history = [
        Message::user("?"),
        own("Hm.", &[call("a", "t", r#"{ "x" : 1 }"#)], content.clone()),
        results([("a", ToolResult::ok("1"))]),
    ];
    assert_eq!(messages(&history)[1]["content"], content);
}

#[test]
fn blocks_of_an_own_turn_that_would_be_refused_stay_away() {
    let content = json!([
        {"type": "thinking", "thinking": "cut", "signature": ""},
        {"type": "thinking", "thinking": "never signed"},
        {"type": "redacted_thinking", "data": ""},
        {"type": "text", "text": "\n\n"},
        {"type": "text", "text": "Hm."},
        {"type": "thinking", "thinking": "last", "signature": "s"},
    ]);
    let history = [Message::user("?"), own("\n\nHm.", &[], content), Message::user("Go on")];
    assert_eq!(messages(&history)[1]["content"], json!([text("Hm.")]));
}

#[test]
fn a_server_that_signs_nothing_gets_its_thoughts_back() {
    let thinking = json!({"type": "thinking", "thinking": "a", "signature": ""});
    let content = json!([thinking, wire_call("a", "t", json!({}))]);
    let history =
        [Message::user("?"), own("", &[call("a", "t", "{}")], content.clone()), results([("a", ToolResult::ok("1"))])];
    let body = encoded(Prompt { messages: &history, ..PROMPT }, &AnthropicQuirks::COMPATIBLE).0;
    assert_eq!(body["messages"][1]["content"], content);
}

#[test]
fn a_turn_without_content_is_left_out() {
    let thought = json!([{"type": "thinking", "thinking": "a", "signature": "s"}]);
    for empty in [turn("", &[]), turn(" \n", &[]), own("", &[], json!([])), own("", &[], thought)] {
        let history = [Message::user("a"), empty, Message::user("b")];
        assert_eq!(messages(&history), json!([{"role": "user", "content": [text("a"), text("b")]}]));
    }
}

#[test]
fn a_turn_of_another_wire_is_rebuilt() {
    let value = json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "signature": "s"}]});
    let foreign = Some(Verbatim { wire: "other".into(), value });
    let calls = vec![call("a", "t", r#"{"x":1}"#)];
    let turn = Message::Assistant(AssistantTurn { text: "Hm.".into(), calls, verbatim: foreign });
    let history = [Message::user("?"), turn, results([("a", ToolResult::ok("1"))])];
    assert_eq!(messages(&history)[1]["content"], json!([text("Hm."), wire_call("a", "t", json!({"x": 1}))]));
}

#[test]
fn a_turn_that_was_changed_is_rebuilt() {
    let signed = json!({"type": "thinking", "thinking": "x", "signature": "s"});
    let content = json!([signed, text("Hm."), wire_call("a", "t", json!({"to": "x"}))]);
    let history = |text, changed| {
        [Message::user("?"), own(text, &[changed], content.clone()), results([("a", ToolResult::ok("1"))])]
    };
    let same = call("a", "t", r#"{"to":"x"}"#);
    assert_eq!(messages(&history("Hm.", same.clone()))[1]["content"], content);
    assert_eq!(
        messages(&history("Ah.", same))[1]["content"],
        json!([text("Ah."), wire_call("a", "t", json!({"to": "x"}))])
    );
    assert_eq!(
        messages(&history("Hm.", call("a", "u", r#"{"to":"x"}"#)))[1]["content"],
        json!([text("Hm."), wire_call("a", "u", json!({"to": "x"}))])
    );
    // Other arguments leave the signed thoughts as they are.
    assert_eq!(
        messages(&history("Hm.", call("a", "t", r#"{"to":"y"}"#)))[1]["content"],
        json!([signed, text("Hm."), wire_call("a", "t", json!({"to": "y"}))])
    );
}

#[test]
fn a_broken_verbatim_turn_is_rebuilt() {
    for value in [json!(null), json!([]), json!({"content": [7]}), json!({"role": "assistant", "content": "Hm."})] {
        let verbatim = Some(Verbatim { wire: WIRE.into(), value });
        let turn = Message::Assistant(AssistantTurn { text: "Hm.".into(), calls: vec![], verbatim });
        assert_eq!(messages(&[Message::user("?"), turn])[1]["content"], json!([text("Hm.")]));
    }
}

#[test]
fn arguments_that_are_no_object_go_back_as_an_empty_one() {
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(ARGUMENTS_BYTES_MAX));
    for arguments in ["", "{\"a\":", "[1]", "null", "not json", &long] {
        let calls = [call("a", "t", arguments)];
        for turn in [turn("", &calls), own("", &calls, json!([wire_call("a", "t", json!({}))]))] {
            let history = [Message::user("?"), turn, results([("a", ToolResult::error("bad"))])];
            assert_eq!(messages(&history)[1]["content"], json!([wire_call("a", "t", json!({}))]));
        }
    }
}

#[test]
fn ids_and_names_that_would_be_refused_are_replaced_in_the_call_and_in_its_result() {
    let calls = [call("fc|1:2", "files.read all", "{}"), call("", "t", "{}"), call("ok_1-A", "t", "{}")];
    let content = json!([
        wire_call("fc|1:2", "files.read all", json!({})),
        wire_call("", "t", json!({})),
        wire_call("ok_1-A", "t", json!({})),
    ]);
    for turn in [turn("", &calls), own("", &calls, content)] {
        let done = || ToolResult::ok("1");
        let history = [Message::user("?"), turn, results([("fc|1:2", done()), ("", done()), ("ok_1-A", done())])];
        let messages = messages(&history);
        let column = |message: usize, key: &str| {
            let blocks = messages[message]["content"].as_array().unwrap().iter();
            blocks.map(|block| block[key].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(column(1, "id"), ["call_1_0", "call_1_1", "ok_1-A"]);
        assert_eq!(column(2, "tool_use_id"), column(1, "id"));
        assert_eq!(column(1, "name"), ["files_read_all", "t", "t"]);
    }
}

#[test]
fn an_id_that_comes_again_in_a_later_turn_is_replaced() {
    let round = |n: &'static str| [turn("", &[call("call_0", "t", "{}")]), results([("call_0", ToolResult::ok(n))])];
    let history: Vec<_> = [Message::user("?")].into_iter().chain(round("1")).chain(round("2")).collect();
    let messages = messages(&history);
    assert_eq!(
        (&messages[1]["content"][0]["id"], &messages[3]["content"][0]["id"]),
        (&json!("call_0"), &json!("call_3_0"))
    );
    assert_eq!(messages[4]["content"][0]["tool_use_id"], "call_3_0");
}
