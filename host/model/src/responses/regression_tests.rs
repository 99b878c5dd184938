//! What went wrong elsewhere. Each case names a public bug report.

use serde_json::json;
use toolcell_agent::{Message, StopReason};
use toolcell_contract::{ContentPart, ToolResult};

use super::decode::tests::{added, call, completed, done, function_call, message, reasoning, stream};
use super::encode::tests as encoded;

#[test]
fn parallel_calls_are_all_kept() {
    // 0xPlaygrounds/rig#2250, endolith/open-interpreter#315: all but one call were lost.
    let (a, b) = (function_call("a", "t", r#"{"x":1}"#), function_call("b", "t", r#"{"x":2}"#));
    let events = [added(0, &a), added(1, &b), done(1, &b), done(0, &a), completed(&[])];
    assert_eq!(stream(&events).calls(), [call("a", "t", r#"{"x":1}"#), call("b", "t", r#"{"x":2}"#)]);
}

#[test]
fn arguments_are_kept_although_their_pieces_have_no_content_index() {
    // 0xPlaygrounds/rig#1827: the pieces were dropped because a field was demanded that the wire does not have.
    let a = function_call("a", "t", r#"{"x":1}"#);
    let delta = json!({"type": "response.function_call_arguments.delta", "item_id": "fc_a", "output_index": 0,
                       "delta": "{\"x\":1}"});
    assert_eq!(stream(&[delta, done(0, &a), completed(&[])]).calls(), [call("a", "t", r#"{"x":1}"#)]);
}

#[test]
fn calls_that_share_a_number_are_told_apart() {
    // mcowger/plexus#691, huggingface/smolagents#1569: a proxy gives every call the number 0.
    let (a, b) = (function_call("a", "t", r#"{"x":1}"#), function_call("b", "t", r#"{"x":2}"#));
    let events = [added(0, &a), done(0, &a), added(0, &b), done(0, &b), completed(&[])];
    assert_eq!(stream(&events).calls(), [call("a", "t", r#"{"x":1}"#), call("b", "t", r#"{"x":2}"#)]);
}

#[test]
fn a_call_after_one_without_arguments_keeps_its_own() {
    // vllm-project/vllm#47901, jeremychone/rust-genai#127.
    let (a, b) = (function_call("a", "now", ""), function_call("b", "t", r#"{"x":1}"#));
    assert_eq!(
        stream(&[done(0, &a), done(1, &b), completed(&[])]).calls(),
        [call("a", "now", "{}"), call("b", "t", r#"{"x":1}"#)]
    );
}

#[test]
fn calls_are_kept_although_the_status_says_completed() {
    // anomalyco/opencode#14972, vercel/workflow#1387: the calls were thrown away because of the word for the end.
    let reply = stream(&[completed(&[message("m", "Looking."), function_call("a", "t", "{}")])]).reply();
    assert_eq!((reply.turn.calls.len(), reply.stop), (1, StopReason::Finished));
}

#[test]
fn a_turn_that_was_cut_at_its_limit_does_not_look_complete() {
    // zhayujie/CowAgent PR 3074: the reason was thrown away.
    let cut = json!({"type": "response.incomplete", "response": {
        "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": [message("m", "It i")],
    }});
    assert_eq!(stream(&[cut]).reply().stop, StopReason::Length);
}

#[test]
fn reasoning_goes_back_encrypted_because_nothing_is_stored() {
    // openai/openai-agents-python#919: 404, the item was not found. The item that is done counts, not the one that
    // began.
    let (begun, rs, fc) =
        (json!({"type": "reasoning", "id": "rs_1", "summary": []}), reasoning("rs_1"), function_call("a", "t", "{}"));
    let decoded = stream(&[added(0, &begun), done(0, &rs), done(1, &fc), completed(&[begun.clone(), fc.clone()])]);
    let turn = decoded.reply().turn;
    let history = [Message::user("?"), Message::Assistant(turn), encoded::results([("a", "t", ToolResult::ok("1"))])];
    assert_eq!(encoded::input(&history).as_array().unwrap()[1..3], [rs, fc]);
}

#[test]
fn reasoning_that_cannot_be_found_again_does_not_go_back_and_nothing_depends_on_it() {
    // openai/openai-agents-python#919.
    let bare = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let items = json!([bare, message("msg_1", "Looking."), function_call("a", "t", "{}")]);
    let history = [
        Message::user("?"),
        encoded::own(&[encoded::call("a", "t", "{}")], items),
        encoded::results([("a", "t", ToolResult::ok("1"))]),
    ];
    let input = encoded::input(&history);
    let kinds: Vec<_> = input.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "message", "function_call", "function_call_output"]);
    assert!(input.as_array().unwrap().iter().all(|item| item.get("id").is_none()));
}

#[test]
fn encrypted_reasoning_is_kept_beside_a_summary() {
    // microsoft/agent-framework#4644.
    let rs = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA",
                    "summary": [{"type": "summary_text", "text": "Hm"}]});
    let turn = stream(&[done(0, &rs), completed(&[rs.clone(), message("m", "4")])]).reply().turn;
    let history = [Message::user("?"), Message::Assistant(turn), Message::user("?")];
    assert_eq!(encoded::input(&history)[1], rs);
}

#[test]
fn an_approval_between_two_turns_loses_nothing_of_the_turn() {
    // microsoft/agent-framework#6963: the call was rebuilt, and what the vendor had put beside it was lost. A run that
    // waits is kept as JSON.
    let items = [reasoning("rs_1"), function_call("a", "t", "{}"), reasoning("rs_2"), function_call("b", "t", "{}")];
    let turn = Message::Assistant(stream(&[completed(&items)]).reply().turn);
    let turn = serde_json::from_value(serde_json::to_value(&turn).unwrap()).unwrap();
    let ok = || ToolResult::ok("1");
    let history = [Message::user("?"), turn, encoded::results([("a", "t", ok()), ("b", "t", ok())])];
    // agnt-gg/agnt#35: each call has its own.
    assert_eq!(encoded::input(&history).as_array().unwrap()[1..5], items);
}

#[test]
fn results_follow_the_whole_turn() {
    // openai/openai-agents-python#1797: a result stood before its call.
    let items = [reasoning("rs_1"), message("m", "Looking."), function_call("a", "t", "{}")];
    let turn = Message::Assistant(stream(&[completed(&items)]).reply().turn);
    let input = encoded::input(&[Message::user("?"), turn, encoded::results([("a", "t", ToolResult::ok("1"))])]);
    let kinds: Vec<_> = input.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "reasoning", "message", "function_call", "function_call_output"]);
}

#[test]
fn an_image_of_a_result_is_an_image_and_no_text() {
    // apache/maka#5277, decolua/9router#2122, anomalyco/opencode#28861, open-webui/open-webui#29208: as JSON in a text
    // it cost 100000 tokens.
    let picture = ContentPart::from_bytes(vec![7; 30_000], "image/png").unwrap();
    let output = encoded::output_of(ToolResult::ok_with_parts("a chart", [picture]));
    assert_eq!(output[0], json!({"type": "input_text", "text": "a chart"}));
    assert_eq!(output[1]["type"], "input_image");
    assert!(output[1]["image_url"].is_string());
}

#[test]
fn a_sound_is_described_and_never_an_image() {
    // openclaw/openclaw#90710: it became an image block that every later request was refused for.
    let parts = [encoded::media("audio/wav"), encoded::media("text/plain")];
    assert_eq!(
        encoded::output_of(ToolResult::ok_with_parts("", parts)),
        "[audio/wav, 3 bytes, not deliverable to this model]\n[text/plain, 3 bytes, not deliverable to this model]"
    );
}

#[test]
fn an_image_of_an_error_stands_beside_its_text() {
    // vellum-ai/vellum-assistant PR 18387, anthropics/claude-code#50010: refused with an image in an error, and with an
    // empty text beside an image.
    let result = |output: &str, is_error| ToolResult {
        is_error,
        ..ToolResult::ok_with_parts(output, [encoded::media("image/png")])
    };
    let failed = encoded::output_of(result("no page", true));
    assert_eq!((&failed[0]["text"], &failed[1]["type"]), (&json!("Error: no page"), &json!("input_image")));
    let silent = encoded::output_of(result("", false));
    assert_eq!((silent.as_array().unwrap().len(), &silent[0]["type"]), (1, &json!("input_image")));
}
