//! Tests of request bodies. Every body is checked against the provider's JSON Schema.

use std::num::NonZeroU32;

use serde_json::json;
use toolcell_agent::{Prompt, Verbatim};
use toolcell_contract::ToolResult;

use super::*;
use crate::schema;
pub(in crate::chat) use crate::test_support::{call, media, results};
use crate::test_support::{own_turn, tool, turn};
use crate::vendor::{Wire, vendor_by_name};
use toolcell_contract::limits::ARGUMENTS_BYTES_MAX;

fn quirks(vendor: &str) -> &'static ChatQuirks {
    match &vendor_by_name(vendor).unwrap().wire {
        Wire::Chat(quirks) => quirks,
        other => panic!("{vendor} speaks {other:?}"),
    }
}

/// The body that a vendor gets, checked.
fn body_for(vendor: &str, messages: &[Message], tools: &[&Definition]) -> Value {
    let body = unchecked(vendor, messages, tools);
    schema::check(if vendor == "openai" { schema::OPENAI } else { schema::COMPATIBLE }, &body);
    body
}

/// The same for fields that the schema at hand does not know.
pub(in crate::chat) fn unchecked(vendor: &str, messages: &[Message], tools: &[&Definition]) -> Value {
    let quirks = quirks(vendor);
    let prompt = Prompt { system: None, messages, tools };
    let exchange = ChatExchange::new(prompt, "m", quirks, None, Delivery::Streamed);
    encode(&exchange, &quirks.media).0
}

pub(in crate::chat) fn messages_for(vendor: &str, messages: &[Message]) -> Value {
    body_for(vendor, messages, &[])["messages"].take()
}

/// A turn that this wire made.
pub(in crate::chat) fn verbatim(text: &str, calls: &[CallRequest], value: Value) -> Message {
    own_turn(WIRE, text, calls, value)
}

pub(in crate::chat) fn wire_call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

/// The content of the only result, of a conversation with one call.
fn content_of(result: ToolResult) -> Value {
    let history = [Message::user("?"), turn("", &[call("a", "t", "{}")]), results([("a", "t", result)])];
    messages_for("openai", &history)[2]["content"].take()
}

#[test]
fn the_schemas_refuse_what_they_should() {
    schema::check_samples(schema::OPENAI);
    schema::check_samples(schema::COMPATIBLE);
}

#[test]
fn a_plain_question_is_a_plain_request() {
    let prompt = Prompt { system: Some("Be brief."), messages: &[Message::user("2+2?")], tools: &[] };
    let quirks = quirks("openai");
    let exchange = ChatExchange::new(prompt, "gpt-x", quirks, NonZeroU32::new(99), Delivery::Streamed);
    let body = encode(&exchange, &quirks.media).0;
    schema::check(schema::OPENAI, &body);
    assert_eq!(
        body,
        json!({
            "model": "gpt-x",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}],
            "stream": true,
            "stream_options": {"include_usage": true},
            "max_completion_tokens": 99,
        })
    );
}

#[test]
fn compatible_servers_get_the_older_name_of_the_output_limit() {
    let prompt = Prompt { system: None, messages: &[Message::user("hi")], tools: &[] };
    let quirks = quirks("ollama");
    let exchange = ChatExchange::new(prompt, "m", quirks, NonZeroU32::new(9), Delivery::Streamed);
    let body = encode(&exchange, &quirks.media).0;
    schema::check(schema::COMPATIBLE, &body);
    assert_eq!(body["max_tokens"], json!(9));
}

#[test]
fn tools_are_offered_as_functions_whose_schema_has_properties() {
    let time = tool("now", json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}));
    let math = tool("math", json!({"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}));
    let body = body_for("openai", &[Message::user("hi")], &[&time, &math]);
    assert_eq!(
        body["tools"],
        json!([
            {"type": "function", "function": {
                "name": "now", "description": "does now", "parameters": {"type": "object", "properties": {}},
            }},
            {"type": "function", "function": {
                "name": "math", "description": "does math",
                "parameters": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
            }},
        ])
    );
    assert_eq!((body.get("tool_choice"), body.get("parallel_tool_calls")), (None, None));
}

#[test]
fn results_follow_their_turn_as_plain_strings() {
    let history = [
        Message::user("?"),
        turn("", &[call("a", "math", r#"{"x":1}"#), call("b", "now", "{}")]),
        results([("a", "math", ToolResult::ok("4")), ("b", "now", ToolResult::error("no clock"))]),
        turn("It is 4.", &[]),
    ];
    assert_eq!(
        messages_for("openai", &history),
        json!([
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": null,
             "tool_calls": [wire_call("a", "math", r#"{"x":1}"#), wire_call("b", "now", "{}")]},
            {"role": "tool", "tool_call_id": "a", "content": "4"},
            {"role": "tool", "tool_call_id": "b", "content": "Error: no clock"},
            {"role": "assistant", "content": "It is 4."},
        ])
    );
}

#[test]
fn an_error_says_so_once() {
    assert_eq!(content_of(ToolResult::error("no clock")), "Error: no clock");
    assert_eq!(content_of(ToolResult::error("Error: no clock")), "Error: no clock");
    assert_eq!(content_of(ToolResult::error("tool error [timeout]: x")), "tool error [timeout]: x");
    assert_eq!(content_of(ToolResult::error("ärgerlich")), "Error: ärgerlich");
    assert_eq!(content_of(ToolResult::ok("error-free")), "error-free");
}

#[test]
fn a_result_without_output_says_so() {
    assert_eq!(content_of(ToolResult::ok("")), "(no output)");
    assert_eq!(content_of(ToolResult::ok(" \n")), "(no output)");
    assert_eq!(content_of(ToolResult::error("")), "Error: (no output)");
}

#[test]
fn metadata_never_reaches_the_model() {
    let history = |result| [Message::user("?"), turn("", &[call("a", "t", "{}")]), results([("a", "t", result)])];
    let plain = messages_for("openai", &history(ToolResult::ok("4")));
    assert_eq!(messages_for("openai", &history(ToolResult::ok("4").with_metadata("rows", 3))), plain);
}

#[test]
fn media_of_results_follow_all_results_in_one_message() {
    let picture = ToolResult::ok_with_parts("a chart", [media("image/png"), ContentPart::text("axis: time")]);
    let sounds = ToolResult::ok_with_parts(
        "",
        [media("audio/wav"), media("audio/mpeg"), media("application/pdf").named("a.pdf")],
    );
    let history = [
        Message::user("?"),
        turn("", &[call("a", "chart", "{}"), call("b", "now", "{}"), call("c", "record", "{}")]),
        results([("a", "chart", picture), ("b", "now", ToolResult::ok("12:00")), ("c", "record", sounds)]),
    ];
    assert_eq!(
        messages_for("openai", &history).as_array().unwrap()[2..],
        [
            json!({"role": "tool", "tool_call_id": "a", "content": "a chart\naxis: time"}),
            json!({"role": "tool", "tool_call_id": "b", "content": "12:00"}),
            json!({"role": "tool", "tool_call_id": "c", "content": "(no output)"}),
            json!({"role": "user", "content": [
                {"type": "text", "text": "Media returned by chart (a):"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQID"}},
                {"type": "text", "text": "Media returned by record (c):"},
                {"type": "input_audio", "input_audio": {"data": "AQID", "format": "wav"}},
                {"type": "input_audio", "input_audio": {"data": "AQID", "format": "mp3"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AQID"}},
            ]}),
        ]
    );
}

#[test]
fn media_that_the_wire_does_not_carry_become_a_line_of_text() {
    let parts = [
        media("audio/ogg"),
        media("image/tiff"),
        media("text/csv"),
        ContentPart::from_bytes(vec![], "image/png").unwrap(),
        ContentPart::from_url("https://example.org/a.pdf").unwrap(),
    ];
    assert_eq!(
        content_of(ToolResult::ok_with_parts("done", parts)),
        "done\n[audio/ogg, 3 bytes, not deliverable to this model]\
         \n[image/tiff, 3 bytes, not deliverable to this model]\
         \n[text/csv, 3 bytes, not deliverable to this model]\
         \n[image/png, 0 bytes, not deliverable to this model]\
         \n[application/pdf at https://example.org/a.pdf, not deliverable to this model]"
    );
}

#[test]
fn media_that_a_vendor_does_not_take_become_a_line_of_text() {
    let history = |part| {
        let result = ToolResult::ok_with_parts("ok", [part]);
        [Message::user("?"), turn("", &[call("a", "t", "{}")]), results([("a", "t", result)])]
    };
    let count = |vendor, part| messages_for(vendor, &history(part)).as_array().unwrap().len();
    let (with_media, without) = (4, 3);
    for (vendor, mime_type, expected) in [
        ("ollama", "image/png", with_media),
        ("ollama", "image/gif", without),
        ("ollama", "application/pdf", without),
        ("ollama", "audio/x-wav", with_media),
        ("ollama", "audio/mp3", without),
        ("deepseek", "image/png", without),
        ("lmstudio", "audio/wav", without),
        ("llamacpp", "image/gif", with_media),
        ("vllm", "application/pdf", without),
        ("openrouter", "application/pdf", with_media),
    ] {
        assert_eq!(count(vendor, media(mime_type)), expected, "{vendor} {mime_type}");
    }
}

#[test]
fn no_provider_is_made_to_fetch_what_a_tool_names() {
    let image = || ContentPart::from_url("https://example.org/a.png").unwrap();
    let content = |vendor| messages_for(vendor, &[Message::User { content: vec![image()] }])[0]["content"].take();
    let text = "[image/png at https://example.org/a.png, not deliverable to this model]";
    for vendor in ["openai", "vllm"] {
        assert_eq!(content(vendor), json!([{"type": "text", "text": text}]), "{vendor}");
    }
}

#[test]
fn media_of_a_person_stand_beside_the_text() {
    let content = vec![ContentPart::text("What is this?"), ContentPart::text(""), media("image/jpg")];
    assert_eq!(
        messages_for("openai", &[Message::User { content }])[0]["content"],
        json!([
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AQID"}},
        ])
    );
}

#[test]
fn texts_of_a_person_are_one_string() {
    let content = vec![ContentPart::text("a"), ContentPart::text("b")];
    assert_eq!(messages_for("ollama", &[Message::User { content }])[0]["content"], "a\n\nb");
    assert_eq!(messages_for("ollama", &[Message::User { content: vec![] }])[0]["content"], "");
}

#[test]
fn the_own_turn_goes_back_unchanged() {
    let value = json!({
        "role": "assistant", "content": "Hm.", "reasoning_content": "think",
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}],
        "tool_calls": [wire_call("a", "t", "{ \"x\" : 1 }")],
    });
    let calls = [call("a", "t", "{ \"x\" : 1 }")];
    let history =
        [Message::user("?"), verbatim("Hm.", &calls, value.clone()), results([("a", "t", ToolResult::ok("1"))])];
    assert_eq!(messages_for("openrouter", &history)[1], value);
}

#[test]
fn fields_that_openai_does_not_know_stay_away_from_it() {
    let mut foreign = wire_call("a", "t", "{}");
    foreign["extra_content"] = json!({"google": {"thought_signature": "s"}});
    let value = json!({
        "role": "assistant", "content": null, "reasoning_content": "think", "annotations": [], "tool_calls": [foreign],
    });
    let history =
        [Message::user("?"), verbatim("", &[call("a", "t", "{}")], value), results([("a", "t", ToolResult::ok("1"))])];
    assert_eq!(
        messages_for("openai", &history)[1],
        json!({"role": "assistant", "content": null, "tool_calls": [wire_call("a", "t", "{}")]})
    );
}

#[test]
fn deepseek_gets_a_reasoning_with_every_turn_that_has_calls() {
    let history = [
        Message::user("?"),
        turn("", &[call("a", "t", "{}")]),
        results([("a", "t", ToolResult::ok("1"))]),
        turn("done", &[]),
    ];
    let messages = messages_for("deepseek", &history);
    assert_eq!(messages[1]["reasoning_content"], "");
    assert_eq!(messages[3], json!({"role": "assistant", "content": "done"}));
}

#[test]
fn a_turn_of_another_wire_is_rebuilt() {
    let foreign = Verbatim { wire: "other".into(), value: json!({"role": "model", "parts": []}) };
    let calls = vec![call("a", "t", "{}")];
    let turn = Message::Assistant(AssistantTurn { text: "Hm.".into(), calls, verbatim: Some(foreign) });
    let history = [Message::user("?"), turn, results([("a", "t", ToolResult::ok("1"))])];
    assert_eq!(
        messages_for("openai", &history)[1],
        json!({"role": "assistant", "content": "Hm.", "tool_calls": [wire_call("a", "t", "{}")]})
    );
}

#[test]
fn a_turn_that_was_changed_is_rebuilt() {
    let value = json!({"role": "assistant", "content": null, "tool_calls": [wire_call("a", "t", r#"{"to":"x"}"#)]});
    let changed = [call("a", "t", r#"{"to":"y"}"#)];
    let history = [Message::user("?"), verbatim("", &changed, value), results([("a", "t", ToolResult::ok("1"))])];
    assert_eq!(messages_for("openai", &history)[1]["tool_calls"], json!([wire_call("a", "t", r#"{"to":"y"}"#)]));
}

#[test]
fn arguments_that_are_no_object_go_back_as_an_empty_one() {
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(ARGUMENTS_BYTES_MAX));
    for arguments in ["", "{\"a\":", "[1]", "null", "not json", &long] {
        let calls = [call("a", "t", arguments)];
        let own = json!({"role": "assistant", "content": null, "tool_calls": [wire_call("a", "t", arguments)]});
        for turn in [turn("", &calls), verbatim("", &calls, own)] {
            let history = [Message::user("?"), turn, results([("a", "t", ToolResult::error("bad"))])];
            assert_eq!(messages_for("ollama", &history)[1]["tool_calls"], json!([wire_call("a", "t", "{}")]));
        }
    }
}

#[test]
fn a_name_that_a_model_made_up_goes_back_as_a_name() {
    let history = [
        Message::user("?"),
        turn("", &[call("a", "files.read all", "{}")]),
        results([("a", "files.read all", ToolResult::error("unknown"))]),
    ];
    assert_eq!(messages_for("openai", &history)[1]["tool_calls"], json!([wire_call("a", "files_read_all", "{}")]));
}

#[test]
fn an_id_that_is_too_long_is_replaced_in_the_call_and_in_its_result() {
    // vLLM's ids have 46 characters; OpenAI takes 40.
    let long = "chatcmpl-tool-0123456789abcdef0123456789abcdef";
    let history = [
        Message::user("?"),
        turn("", &[call("a", "t", "{}"), call(long, "t", "{}")]),
        results([("a", "t", ToolResult::ok("1")), (long, "t", ToolResult::ok("2"))]),
    ];
    let messages = messages_for("openai", &history);
    assert_eq!(messages[1]["tool_calls"], json!([wire_call("a", "t", "{}"), wire_call("call_1_1", "t", "{}")]));
    assert_eq!(messages[3], json!({"role": "tool", "tool_call_id": "call_1_1", "content": "2"}));
    assert_eq!(messages_for("vllm", &history)[3]["tool_call_id"], long);
}

#[test]
fn what_a_person_says_in_two_messages_is_sent_as_one() {
    let user = |text: &str| json!({"role": "user", "content": text});
    assert_eq!(messages_for("llamacpp", &[Message::user("a"), Message::user("b")]), json!([user("a\n\nb")]));
    let picture = Message::User { content: vec![media("image/png")] };
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AQID"}});
    assert_eq!(
        messages_for("openai", &[Message::user("a"), picture, Message::user("b")]),
        json!([{"role": "user", "content": [{"type": "text", "text": "a"}, image, {"type": "text", "text": "b"}]}])
    );
    // A run that failed after its calls leaves the media of their results before the next question.
    let result = ToolResult::ok_with_parts("", vec![media("image/png")]);
    let history =
        [Message::user("?"), turn("", &[call("a", "t", "{}")]), results([("a", "t", result)]), Message::user("Well?")];
    let content =
        json!([{"type": "text", "text": "Media returned by t (a):"}, image, {"type": "text", "text": "Well?"}]);
    assert_eq!(messages_for("openai", &history)[3], json!({"role": "user", "content": content}));
    assert_eq!(messages_for("openai", &history).as_array().unwrap().len(), 4);
}

#[test]
fn a_turn_that_went_on_is_sent_as_one_with_its_calls() {
    let calls = [call("a", "t", "{}")];
    let wire_calls = json!([wire_call("a", "t", "{}")]);
    let thought = verbatim("x", &[], json!({"role": "assistant", "content": "x", "reasoning": "hm"}));
    let history = [Message::user("?"), thought, turn("", &calls), results([("a", "t", ToolResult::ok("1"))])];
    let expected = json!({"role": "assistant", "content": "x", "reasoning": "hm", "tool_calls": wire_calls});
    let sent = unchecked("ollama", &history, &[])["messages"].take();
    assert_eq!((&sent[1], sent.as_array().unwrap().len()), (&expected, 3));
}

#[test]
fn a_turn_that_was_paused_is_sent_as_one_and_loses_nothing_of_what_the_model_thought() {
    let detail = |text: &str| json!({"type": "reasoning.text", "text": text, "signature": text, "index": 0});
    let thought = |text: &str, name: &str| {
        json!({
            "role": "assistant", "content": text, "reasoning_content": format!("c{name}"), "reasoning": format!("r{name}"),
            "reasoning_details": [detail(name)], "refusal": null, "extra_content": {name: 1},
        })
    };
    let mut last = thought("lo", "2");
    last["tool_calls"] = json!([wire_call("a", "t", "{}")]);
    let history = [
        Message::user("?"),
        verbatim("Hel", &[], thought("Hel", "1")),
        verbatim("lo", &[call("a", "t", "{}")], last),
        results([("a", "t", ToolResult::ok("1"))]),
    ];
    let sent = unchecked("openrouter", &history, &[])["messages"].take();
    assert_eq!(sent.as_array().unwrap().len(), 3);
    assert_eq!(
        sent[1],
        json!({
            "role": "assistant", "content": "Hello", "reasoning_content": "c1c2", "reasoning": "r1r2",
            "reasoning_details": [detail("1"), detail("2")], "refusal": null, "extra_content": {"1": 1, "2": 1},
            "tool_calls": [wire_call("a", "t", "{}")],
        })
    );
}

#[test]
fn an_empty_reasoning_does_not_replace_what_the_model_thought() {
    let history = [
        Message::user("?"),
        verbatim("Hel", &[], json!({"role": "assistant", "content": "Hel", "reasoning_content": "why"})),
        turn("lo", &[call("a", "t", "{}")]),
        results([("a", "t", ToolResult::ok("1"))]),
    ];
    let sent = messages_for("deepseek", &history);
    assert_eq!((&sent[1]["content"], &sent[1]["reasoning_content"]), (&json!("Hello"), &json!("why")));
}
