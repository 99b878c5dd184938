//! Tests of request bodies. Every body is checked against the provider's JSON Schema.

use std::num::NonZeroU32;

use toolcell_agent::{Prompt, Verbatim};
use toolcell_contract::ToolResult;
use toolcell_contract::limits::ARGUMENTS_BYTES_MAX;

use super::*;
use crate::ask::Exchange as _;
use crate::provider_error::ProviderError;
use crate::retry::RetryHints;
use crate::schema;
pub(in crate::responses) use crate::test_support::{call, media, results};
use crate::test_support::{own_turn, tool, turn};
use crate::vendor::{Wire, vendor_by_name};

fn quirks(vendor: &str) -> &'static ResponsesQuirks {
    match &vendor_by_name(vendor).unwrap().wire {
        Wire::Responses(quirks) => quirks,
        _ => panic!("{vendor} speaks another wire"),
    }
}

fn exchange<'a>(vendor: &str, messages: &'a [Message], tools: &'a [&'a Definition]) -> ResponsesExchange<'a> {
    let prompt = Prompt { system: None, messages, tools };
    ResponsesExchange::new(prompt, "m", quirks(vendor), None, Delivery::Streamed)
}

fn checked(exchange: &ResponsesExchange<'_>) -> Value {
    let body = encode(exchange, MediaUse::Sent).0;
    schema::check(schema::RESPONSES, &body);
    body
}

fn input_for(vendor: &str, messages: &[Message]) -> Value {
    checked(&exchange(vendor, messages, &[]))["input"].take()
}

/// The input that OpenAI gets, checked.
pub(in crate::responses) fn input(messages: &[Message]) -> Value {
    input_for("openai-responses", messages)
}

/// A turn that this wire made.
pub(in crate::responses) fn own(calls: &[CallRequest], items: Value) -> Message {
    own_turn(WIRE, "", calls, items)
}

pub(in crate::responses) fn wire_call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments})
}

/// The output of the only result, of a conversation with one call.
fn output_for(vendor: &str, result: ToolResult) -> Value {
    let history = [Message::user("?"), turn("", &[call("a", "t", "{}")]), results([("a", "t", result)])];
    input_for(vendor, &history)[2]["output"].take()
}

pub(in crate::responses) fn output_of(result: ToolResult) -> Value {
    output_for("openai-responses", result)
}

#[test]
fn the_schema_refuses_what_it_should() {
    schema::check_samples(schema::RESPONSES);
}

#[test]
fn a_plain_question_is_a_plain_request() {
    let prompt = Prompt { system: Some("Be brief."), messages: &[Message::user("2+2?")], tools: &[] };
    let quirks = quirks("openai-responses");
    let streamed = ResponsesExchange::new(prompt, "gpt-x", quirks, NonZeroU32::new(99), Delivery::Streamed);
    let mut expected = json!({
        "model": "gpt-x",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "2+2?"}]}],
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "instructions": "Be brief.",
        "stream": true,
        "max_output_tokens": 99,
    });
    assert_eq!(checked(&streamed), expected);
    let whole = ResponsesExchange::new(prompt, "gpt-x", quirks, NonZeroU32::new(99), Delivery::Whole);
    expected.as_object_mut().unwrap().remove("stream");
    assert_eq!(checked(&whole), expected);
}

#[test]
fn an_output_limit_below_the_least_is_raised_to_it() {
    let limit = |tokens| {
        let prompt = Prompt { system: None, messages: &[Message::user("hi")], tools: &[] };
        let quirks = quirks("openai-responses");
        checked(&ResponsesExchange::new(prompt, "m", quirks, NonZeroU32::new(tokens), Delivery::Streamed))["max_output_tokens"]
            .as_u64()
    };
    assert_eq!((limit(15), limit(16), limit(17)), (Some(16), Some(16), Some(17)));
}

#[test]
fn tools_are_flat_and_strict_where_their_schema_fits() {
    let open = tool("now", json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}));
    let closed = json!({"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"],
                        "additionalProperties": false});
    let math = tool("math", closed.clone());
    let (messages, tools) = ([Message::user("hi")], [&open, &math]);
    let body = checked(&exchange("openai-responses", &messages, &tools));
    assert_eq!(
        body["tools"],
        json!([
            {"type": "function", "name": "now", "description": "does now",
             "parameters": {"type": "object", "properties": {}}, "strict": false},
            {"type": "function", "name": "math", "description": "does math", "parameters": closed, "strict": true},
        ])
    );
    assert_eq!((body.get("tool_choice"), body.get("parallel_tool_calls")), (None, None));
}

#[test]
fn results_follow_their_turn_as_plain_strings() {
    let history = [
        Message::user("?"),
        turn("Hm.", &[call("a", "math", r#"{"x":1}"#), call("b", "now", "{}")]),
        results([("a", "math", ToolResult::ok("4")), ("b", "now", ToolResult::error("no clock"))]),
        turn("It is 4.", &[]),
    ];
    let message = |text: &str| {
        json!({"type": "message", "role": "assistant", "status": "completed",
               "content": [{"type": "output_text", "text": text, "annotations": []}]})
    };
    assert_eq!(
        input(&history),
        json!([
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "?"}]},
            message("Hm."),
            wire_call("a", "math", r#"{"x":1}"#),
            wire_call("b", "now", "{}"),
            {"type": "function_call_output", "call_id": "a", "output": "4"},
            {"type": "function_call_output", "call_id": "b", "output": "Error: no clock"},
            message("It is 4."),
        ])
    );
}

#[test]
fn a_result_without_output_says_so() {
    assert_eq!(output_of(ToolResult::ok("")), "(no output)");
    assert_eq!(output_of(ToolResult::error("")), "Error: (no output)");
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,AQID", "detail": "auto"});
    assert_eq!(output_of(ToolResult::ok_with_parts("", [media("image/png")])), json!([image]));
}

#[test]
fn metadata_never_reaches_the_model() {
    assert_eq!(output_of(ToolResult::ok("4").with_metadata("rows", 3)), "4");
}

#[test]
fn a_result_carries_its_images_and_files() {
    let parts = [media("image/jpg"), ContentPart::text("axis: time"), media("application/pdf").named("a.pdf")];
    assert_eq!(
        output_of(ToolResult::ok_with_parts("a chart", parts)),
        json!([
            {"type": "input_text", "text": "a chart\naxis: time"},
            {"type": "input_image", "image_url": "data:image/jpeg;base64,AQID", "detail": "auto"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AQID"},
        ])
    );
}

#[test]
fn media_that_the_wire_does_not_carry_become_a_line_of_text_and_are_counted() {
    let parts = [
        media("audio/wav"),
        media("image/tiff"),
        ContentPart::from_bytes(vec![], "image/png").unwrap(),
        ContentPart::from_url("https://example.org/a.pdf").unwrap(),
    ];
    let history = [
        Message::user("?"),
        turn("", &[call("a", "t", "{}")]),
        results([("a", "t", ToolResult::ok_with_parts("done", parts))]),
    ];
    let exchange = exchange("openai-responses", &history, &[]);
    assert_eq!(
        checked(&exchange)["input"][2]["output"],
        "done\n[audio/wav, 3 bytes, not deliverable to this model]\
         \n[image/tiff, 3 bytes, not deliverable to this model]\
         \n[image/png, 0 bytes, not deliverable to this model]\
         \n[application/pdf at https://example.org/a.pdf, not deliverable to this model]"
    );
    let count = encode(&exchange, MediaUse::Sent).1;
    let described = ["audio/wav", "image/tiff", "image/png", "application/pdf"].map(str::to_owned).to_vec();
    assert_eq!(count, MediaCount { sent: 0, described });
}

#[test]
fn media_are_described_when_the_model_does_not_take_them() {
    let history = [
        Message::User { content: vec![media("image/png")] },
        turn("", &[call("a", "t", "{}")]),
        results([("a", "t", ToolResult::ok_with_parts("ok", [media("application/pdf")]))]),
    ];
    let (body, count) = encode(&exchange("openai-responses", &history, &[]), MediaUse::Described);
    schema::check(schema::RESPONSES, &body);
    let text = |mime_type: &str| format!("[{mime_type}, 3 bytes, not deliverable to this model]");
    assert_eq!(body["input"][0]["content"], json!([{"type": "input_text", "text": text("image/png")}]));
    assert_eq!(body["input"][2]["output"], format!("ok\n{}", text("application/pdf")));
    assert_eq!(count.sent, 0);
}

#[test]
fn no_provider_is_made_to_fetch_what_a_tool_names() {
    let image = ContentPart::from_url("https://example.org/a.png").unwrap();
    let text = "[image/png at https://example.org/a.png, not deliverable to this model]";
    let content = input(&[Message::User { content: vec![image] }])[0]["content"].take();
    assert_eq!(content, json!([{"type": "input_text", "text": text}]));
}

#[test]
fn media_of_a_person_stand_beside_the_text() {
    let content = vec![ContentPart::text("What is this?"), ContentPart::text(""), media("image/webp"), {
        media("application/pdf")
    }];
    assert_eq!(
        input(&[Message::User { content }])[0]["content"],
        json!([
            {"type": "input_text", "text": "What is this?"},
            {"type": "input_image", "image_url": "data:image/webp;base64,AQID", "detail": "auto"},
            {"type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,AQID"},
        ])
    );
    let empty = input(&[Message::User { content: vec![] }])[0]["content"].take();
    assert_eq!(empty, json!([{"type": "input_text", "text": ""}]));
}

#[test]
fn a_server_gets_only_what_it_takes() {
    let line = |mime_type: &str| json!(format!("ok\n[{mime_type}, 3 bytes, not deliverable to this model]"));
    let output = |vendor, mime_type| output_for(vendor, ToolResult::ok_with_parts("ok", [media(mime_type)]));
    assert_eq!(output("ollama-responses", "application/pdf"), line("application/pdf"));
    assert_eq!(output("ollama-responses", "image/gif"), line("image/gif"));
    assert_eq!(output("ollama-responses", "image/png")[1]["type"], "input_image");
    assert_eq!(output("llamacpp-responses", "application/pdf"), line("application/pdf"));
    assert_eq!(output("llamacpp-responses", "image/png"), "ok");
}

#[test]
fn where_results_are_text_only_their_media_follow_in_one_message() {
    let picture = || ToolResult::ok_with_parts("", [media("image/png")]);
    let history = [
        Message::user("?"),
        turn("", &[call("a", "chart", "{}"), call("b", "map", "{}")]),
        results([("a", "chart", picture()), ("b", "map", picture())]),
    ];
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,AQID", "detail": "auto"});
    assert_eq!(
        input_for("llamacpp-responses", &history).as_array().unwrap()[3..],
        [
            json!({"type": "function_call_output", "call_id": "a", "output": "(no output)"}),
            json!({"type": "function_call_output", "call_id": "b", "output": "(no output)"}),
            json!({"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "Media returned by chart (a):"}, image,
                {"type": "input_text", "text": "Media returned by map (b):"}, image,
            ]}),
        ]
    );
}

#[test]
fn the_own_turn_goes_back_unchanged_and_in_order() {
    let items = json!([
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "commentary",
         "content": [{"type": "output_text", "text": "Looking.", "annotations": [], "logprobs": []}]},
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "t", "arguments": "{ \"x\" : 1 }",
         "status": "completed"},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gBBB"},
        {"type": "function_call", "id": "fc_2", "call_id": "b", "name": "t", "arguments": "{}", "status": "completed"},
    ]);
    let calls = [call("a", "t", "{ \"x\" : 1 }"), call("b", "t", "{}")];
    let history = [
        Message::user("?"),
        own(&calls, items.clone()),
        results([("a", "t", ToolResult::ok("1")), ("b", "t", ToolResult::ok("2"))]),
    ];
    assert_eq!(input(&history).as_array().unwrap()[1..6], *items.as_array().unwrap());
}

#[test]
fn items_that_are_not_known_go_back_as_well() {
    let items = json!([
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "x"}},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"},
        {"type": "custom_tool_call", "id": "ct_1", "call_id": "c", "name": "sql", "input": "select 1"},
    ]);
    // The schema at hand knows only the items of functions.
    let (messages, tools) = ([Message::user("?"), own(&[], items.clone())], []);
    let input = encode(&exchange("openai-responses", &messages, &tools), MediaUse::Sent).0["input"].take();
    assert_eq!(input.as_array().unwrap()[1..], *items.as_array().unwrap());
}

#[test]
fn a_turn_of_another_wire_is_rebuilt_without_its_ids() {
    let foreign = Verbatim { wire: "other".into(), value: json!([{"type": "reasoning", "id": "rs_1", "summary": []}]) };
    let calls = vec![call("a", "t", "{}")];
    let turn = Message::Assistant(AssistantTurn { text: String::new(), calls, verbatim: Some(foreign) });
    let history = [Message::user("?"), turn, results([("a", "t", ToolResult::ok("1"))])];
    assert_eq!(input(&history)[1], wire_call("a", "t", "{}"));
}

#[test]
fn a_turn_that_was_changed_is_rebuilt() {
    let items = json!([
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        wire_call("a", "t", r#"{"to":"x"}"#),
    ]);
    let changed = [call("a", "t", r#"{"to":"y"}"#)];
    let history = [Message::user("?"), own(&changed, items), results([("a", "t", ToolResult::ok("1"))])];
    let input = input(&history);
    assert_eq!((input.as_array().unwrap().len(), &input[1]), (3, &wire_call("a", "t", r#"{"to":"y"}"#)));
}

#[test]
fn reasoning_that_nothing_follows_stays_away() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"});
    let empty = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "incomplete", "content": []});
    let text = json!({"type": "input_text", "text": "?"});
    let user = json!({"type": "message", "role": "user", "content": [text, text]});
    for items in [json!([reasoning]), json!([empty])] {
        let history = [Message::user("?"), own(&[], items), Message::user("?")];
        assert_eq!(input(&history), json!([user]));
    }
}

#[test]
fn reasoning_in_plain_text_goes_back_to_the_server_that_wrote_it() {
    let items = json!([
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "",
         "content": [{"type": "reasoning_text", "text": "Hm"}]},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "4"}]},
    ]);
    let history = [Message::user("?"), own(&[], items.clone()), Message::user("?")];
    assert_eq!(input_for("llamacpp-responses", &history).as_array().unwrap()[1..3], *items.as_array().unwrap());
}

#[test]
fn arguments_that_are_no_object_go_back_as_an_empty_one() {
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(ARGUMENTS_BYTES_MAX));
    for arguments in ["", "{\"a\":", "[1]", "null", "not json", &long] {
        let calls = [call("a", "t", arguments)];
        for turn in [turn("", &calls), own(&calls, json!([wire_call("a", "t", arguments)]))] {
            let history = [Message::user("?"), turn, results([("a", "t", ToolResult::error("bad"))])];
            assert_eq!(input(&history)[1], wire_call("a", "t", "{}"));
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
    assert_eq!(input(&history)[1], wire_call("a", "files_read_all", "{}"));
}

#[test]
fn an_id_that_does_not_fit_is_replaced_in_the_call_and_in_its_result() {
    let (longest, too_long): (&'static str, &'static str) = (
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        concat!("0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef0"),
    );
    let calls = [call(longest, "t", "{}"), call(too_long, "t", "{}"), call("", "t", "{}")];
    let items: Vec<_> = calls.iter().map(function_call).collect();
    let ok = || ToolResult::ok("1");
    for turn in [turn("", &calls), own(&calls, json!(items))] {
        let results = results([(longest, "t", ok()), (too_long, "t", ok()), ("", "t", ok())]);
        let input = input(&[Message::user("?"), turn, results]);
        let ids: Vec<_> = (1..7).map(|at| input[at]["call_id"].as_str().unwrap()).collect();
        assert_eq!(ids, [longest, "call_1_1", "call_1_2", longest, "call_1_1", "call_1_2"]);
    }
}

#[test]
fn encrypted_reasoning_is_given_up_once_and_only_when_it_was_refused() {
    let refused = |status, message: &str| {
        let body = json!({"error": {"message": message}}).to_string();
        ProviderError::from_body(body.as_bytes()).classify(status, RetryHints::default())
    };
    let (messages, tools) = ([Message::user("hi")], []);
    let mut exchange = exchange("openai-responses", &messages, &tools);
    let words = "Encrypted content is not supported with this model.";
    assert!(!exchange.concede(&refused(400, "no such model")));
    assert!(!exchange.concede(&refused(503, words)));
    assert_eq!(checked(&exchange)["include"], json!(["reasoning.encrypted_content"]));
    assert!(exchange.concede(&refused(400, words)));
    assert_eq!(checked(&exchange).get("include"), None);
    assert!(!exchange.concede(&refused(400, words)));
}

#[test]
fn what_a_person_says_in_two_messages_is_sent_as_one() {
    let text = |text: &str| json!({"type": "input_text", "text": text});
    assert_eq!(
        input(&[Message::user("a"), Message::user("b")]),
        json!([{"type": "message", "role": "user", "content": [text("a"), text("b")]}])
    );
}
