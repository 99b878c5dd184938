//! What went wrong elsewhere: calls lost, conversations that every later request was refused for. Each case names a
//! public bug report.

use serde_json::json;
use toolcell_agent::{Message, StopReason};
use toolcell_contract::{ContentPart, ToolResult};

use super::decode::tests::{call, delta, events, input, start, stop, tool};
use super::encode::tests::{blocks_of, call as request, messages, own, picture, picture_block, results, turn};

#[test]
fn interleaved_pieces_of_parallel_calls_are_all_kept() {
    // 0xPlaygrounds/rig#2250: one slot for the call in flight, and all but the last were lost.
    let decoded = events(
        &[
            tool(0, "a", "t"),
            tool(1, "b", "u"),
            input(0, "{\"x\""),
            input(1, "{\"y\":"),
            input(0, ":1}"),
            stop(0),
            input(1, "2}"),
            stop(1),
        ],
        "tool_use",
    );
    assert_eq!(decoded.calls(), [call("a", "t", r#"{"x":1}"#), call("b", "u", r#"{"y":2}"#)]);
}

#[test]
fn a_call_after_one_without_arguments_keeps_its_own() {
    // vllm-project/vllm#47901, jeremychone/rust-genai#127.
    let decoded =
        events(&[tool(0, "a", "now"), stop(0), tool(1, "b", "t"), input(1, ""), input(1, "{\"x\":1}")], "tool_use");
    assert_eq!(decoded.calls(), [call("a", "now", "{}"), call("b", "t", r#"{"x":1}"#)]);
}

#[test]
fn calls_that_share_a_number_are_told_apart_by_their_beginnings() {
    // huggingface/smolagents#1569, mcowger/plexus#691: the arguments were glued together.
    let decoded = events(
        &[tool(0, "a", "t"), input(0, "{\"x\":1}"), stop(0), tool(0, "b", "t"), input(0, "{\"x\":2}"), stop(0)],
        "tool_use",
    );
    assert_eq!(decoded.calls(), [call("a", "t", r#"{"x":1}"#), call("b", "t", r#"{"x":2}"#)]);
}

#[test]
fn an_input_that_comes_whole_with_the_beginning_is_kept() {
    // BerriAI/litellm PR 37792: the arguments came as an object.
    let block = json!({"type": "tool_use", "id": "a", "name": "t", "input": {"x": 1}});
    assert_eq!(events(&[start(0, block), stop(0)], "end_turn").calls(), [call("a", "t", r#"{"x":1}"#)]);
}

#[test]
fn ids_that_are_missing_or_taken_are_replaced_in_the_turn_and_in_what_goes_back() {
    let turn = events(&[tool(0, "a", "t"), tool(1, "a", "t"), tool(2, "", "t")], "tool_use").reply().turn;
    let ids: Vec<_> = turn.calls.iter().map(|call| call.id.clone()).collect();
    assert_eq!(ids, ["a", "call_1", "call_2"]);
    let content = &turn.verbatim.unwrap().value["content"];
    assert_eq!([&content[0]["id"], &content[1]["id"], &content[2]["id"]], ["a", "call_1", "call_2"]);
}

#[test]
fn a_reason_for_calls_without_calls_is_an_end() {
    // mastra-ai/mastra#12581: the loop never ended.
    let reply = events(&[start(0, json!({"type": "text", "text": "done"}))], "tool_use").reply();
    assert_eq!((reply.turn.calls, reply.stop), (vec![], StopReason::Finished));
}

#[test]
fn calls_are_kept_whatever_the_reason_is() {
    // anomalyco/opencode#14972, vercel/workflow#1387: the calls were thrown away.
    for reason in ["end_turn", "stop_sequence", "other"] {
        assert_eq!(events(&[tool(0, "a", "t"), stop(0)], reason).calls(), [call("a", "t", "{}")], "{reason}");
    }
}

#[test]
fn every_signature_stays_with_its_own_thought() {
    // agnt-gg/agnt#35, microsoft/agent-framework#6963, nearai/ironclaw#1510: one signature for a turn with many, or none.
    let thought = |index: u64| {
        [
            start(index, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(index, json!({"type": "signature_delta", "signature": format!("s{index}")})),
            stop(index),
        ]
    };
    let list = thought(0).into_iter().chain([tool(1, "a", "t")]).chain(thought(2)).chain([tool(3, "b", "t")]);
    let reply = events(&list.collect::<Vec<_>>(), "tool_use").reply();
    let content = reply.turn.verbatim.as_ref().unwrap().value["content"].clone();
    assert_eq!((&content[0]["signature"], &content[2]["signature"]), (&json!("s0"), &json!("s2")));
    let done = || ToolResult::ok("1");
    let history = [Message::user("?"), Message::Assistant(reply.turn), results([("a", done()), ("b", done())])];
    assert_eq!(messages(&history)[1]["content"], content);
}

#[test]
fn a_turn_with_thoughts_stays_before_its_results() {
    // openai/openai-agents-python#1797: the results came before their calls.
    let content = json!([
        {"type": "thinking", "thinking": "x", "signature": "s"},
        {"type": "tool_use", "id": "a", "name": "t", "input": {}},
    ]);
    let turn = own("", &[request("a", "t", "{}")], content.clone());
    let messages = messages(&[Message::user("?"), turn, results([("a", ToolResult::ok("1"))])]);
    let roles: Vec<_> = messages.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!((roles.as_slice(), &messages[1]["content"]), (&["user", "assistant", "user"][..], &content));
}

#[test]
fn nothing_stands_after_the_calls_of_a_rebuilt_turn() {
    // anthropics/claude-code#15205: text after the calls of a turn was refused for good.
    let messages = messages(&[
        Message::user("?"),
        turn("later", &[request("a", "t", "{}")]),
        results([("a", ToolResult::ok(""))]),
    ]);
    assert_eq!(messages[1]["content"][1]["type"], "tool_use");
}

#[test]
fn a_picture_of_a_failure_follows_all_results() {
    // vellum-ai/vellum-assistant PR 18387: a failure that held a picture was refused.
    let mut failed = ToolResult::error("half drawn");
    failed.parts = vec![picture(), ContentPart::text("at line 3")];
    assert_eq!(
        blocks_of(failed),
        json!([
            {"type": "tool_result", "tool_use_id": "a", "is_error": true, "content": "half drawn\nat line 3"},
            {"type": "text", "text": "Media returned by t (a):"},
            picture_block(),
        ])
    );
}

#[test]
fn a_sound_is_no_picture() {
    // openclaw/openclaw#90710: a sound became a malformed picture, and the conversation was refused for good.
    let sound = ContentPart::from_bytes(b"RIFF\x01\x02\x03\x04WAVE".to_vec(), "audio/wav").unwrap();
    let content = "[audio/wav, 12 bytes, not deliverable to this model]";
    assert_eq!(
        blocks_of(ToolResult::ok_with_parts("", [sound])),
        json!([{"type": "tool_result", "tool_use_id": "a", "content": content}])
    );
}

#[test]
fn a_picture_is_never_text() {
    // apache/maka#5277, decolua/9router#2122, anomalyco/opencode#28861, open-webui/open-webui#29208: 100 000 tokens.
    let blocks = blocks_of(ToolResult::ok_with_parts("a chart", [picture()]));
    assert_eq!(blocks[0]["content"], json!([{"type": "text", "text": "a chart"}, picture_block()]));
}

#[test]
fn no_empty_text_stands_beside_a_picture() {
    // anthropics/claude-code#50010.
    let content = vec![ContentPart::text(""), picture()];
    assert_eq!(messages(&[Message::User { content }])[0]["content"], json!([picture_block()]));
    let blocks = blocks_of(ToolResult::ok_with_parts("", [picture(), ContentPart::text("")]));
    assert_eq!(blocks[0]["content"], json!([picture_block()]));
}

#[test]
fn a_turn_that_was_cut_at_its_limit_does_not_look_complete() {
    // zhayujie/CowAgent PR 3074: the reason was thrown away.
    let reply = events(&[tool(0, "a", "t"), input(0, "{\"x\":")], "max_tokens").reply();
    assert_eq!((reply.turn.calls[0].arguments.as_str(), reply.stop), ("{\"x\":", StopReason::Length));
}
