//! What went wrong elsewhere: calls lost, glued or emptied because a server numbers, names or cuts them in its own way,
//! and results that a server refuses or misreads. Each case names a public bug report.

use serde_json::{Value, json};
use toolcell_agent::{Message, StopReason};
use toolcell_contract::{ContentPart, ToolResult};

use super::decode::tests::{call, deltas, pieces, stream};
use super::encode::tests as encoded;

/// The messages after the turn, of a conversation with one call.
fn after_the_turn(vendor: &str, result: ToolResult) -> Vec<Value> {
    let turn = encoded::verbatim(
        "",
        &[encoded::call("a", "t", "{}")],
        json!({"role": "assistant", "content": null, "tool_calls": [encoded::wire_call("a", "t", "{}")]}),
    );
    let messages = encoded::messages_for(vendor, &[Message::user("?"), turn, encoded::results([("a", "t", result)])]);
    messages.as_array().unwrap()[2..].to_vec()
}

#[test]
fn interleaved_pieces_of_parallel_calls_are_all_kept() {
    // 0xPlaygrounds/rig#2250, mozilla-ai/any-llm PR 1305, QwenLM/Qwen-Agent PR 943: a piece without an id was added to
    // the call that was begun last.
    let decoded = pieces(
        &[
            json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "t", "arguments": ""}}]),
            json!([{"index": 1, "id": "b", "type": "function", "function": {"name": "u", "arguments": ""}}]),
            json!([{"index": 0, "function": {"arguments": "{\"x\""}}]),
            json!([{"index": 1, "function": {"arguments": "{\"y\":"}}]),
            json!([{"index": 0, "function": {"arguments": ":1}"}}, {"index": 1, "function": {"arguments": "2}"}}]),
        ],
        "tool_calls",
    );
    assert_eq!(decoded.calls(), [call("a", "t", r#"{"x":1}"#), call("b", "u", r#"{"y":2}"#)]);
}

#[test]
fn a_call_that_comes_whole_in_one_piece_is_kept() {
    // 0xPlaygrounds/rig#679: with Ollama the call was received and never run.
    let whole =
        json!([{"id": "a", "index": 0, "type": "function", "function": {"name": "t", "arguments": "{\"x\":1}"}}]);
    assert_eq!(pieces(&[whole], "tool_calls").calls(), [call("a", "t", r#"{"x":1}"#)]);
}

#[test]
fn arguments_that_follow_an_empty_piece_are_kept() {
    // jeremychone/rust-genai#127: with DeepSeek the arguments ended up empty.
    let decoded = pieces(
        &[
            json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "t", "arguments": ""}}]),
            json!([{"index": 0, "function": {"arguments": ""}}]),
            json!([{"index": 0, "function": {"arguments": "{\"x\":1"}}]),
            json!([{"index": 0, "function": {"arguments": "}"}}]),
            json!([{"index": 0, "function": {"name": null, "arguments": null}}]),
        ],
        "tool_calls",
    );
    assert_eq!(decoded.calls(), [call("a", "t", r#"{"x":1}"#)]);
}

#[test]
fn a_call_after_one_without_arguments_keeps_its_own() {
    // vllm-project/vllm#47901.
    let decoded = pieces(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "now", "arguments": ""}}]),
            json!([{"index": 1, "id": "b", "function": {"name": "t", "arguments": ""}}]),
            json!([{"index": 1, "function": {"arguments": "{\"x\":1}"}}]),
        ],
        "tool_calls",
    );
    assert_eq!(decoded.calls(), [call("a", "now", "{}"), call("b", "t", r#"{"x":1}"#)]);
}

#[test]
fn calls_that_share_a_number_are_told_apart_by_their_ids() {
    // huggingface/smolagents#1569, mcowger/plexus#691: the arguments were glued together.
    let decoded = pieces(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "t", "arguments": ""}}]),
            json!([{"index": 0, "function": {"arguments": "{\"x\":1}"}}]),
            json!([{"index": 0, "id": "b", "function": {"name": "t", "arguments": ""}}]),
            json!([{"index": 0, "function": {"arguments": "{\"x\":"}}]),
            json!([{"index": 0, "function": {"arguments": "2}"}}]),
        ],
        "tool_calls",
    );
    assert_eq!(decoded.calls(), [call("a", "t", r#"{"x":1}"#), call("b", "t", r#"{"x":2}"#)]);
}

#[test]
fn calls_with_number_zero_and_an_object_for_arguments_are_kept_although_the_reason_is_stop() {
    // BerriAI/litellm PR 37792.
    let decoded = pieces(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "t", "arguments": {"x": 1}}}]),
            json!([{"index": 0, "id": "b", "function": {"name": "t", "arguments": {}}}]),
        ],
        "stop",
    );
    assert_eq!(decoded.calls(), [call("a", "t", r#"{"x":1}"#), call("b", "t", "{}")]);
}

#[test]
fn arguments_that_are_cut_within_a_character_are_whole() {
    let piece = |arguments: &str| {
        let call = format!(r#"{{"index":0,"id":"a","function":{{"name":"t","arguments":"{arguments}"}}}}"#);
        format!("data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{call}]}}}}]}}\n\n")
    };
    let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n";
    // The character itself, and its escape within the arguments, which are JSON within JSON.
    for (begin, rest, arguments) in [
        (r#"{\"x\":\"\ud83d"#, r#"\ude00\"}"#, r#"{"x":"😀"}"#),
        (r#"{\"x\":\"\\ud83d"#, r#"\\ude00\"}"#, r#"{"x":"\ud83d\ude00"}"#),
    ] {
        let decoded = stream(&format!("{}{}{end}", piece(begin), piece(rest)));
        assert_eq!(decoded.calls(), [call("a", "t", arguments)]);
    }
}

#[test]
fn an_id_for_every_piece_does_not_cut_a_call() {
    let decoded = pieces(
        &[
            json!([{"index": 0, "id": "a1", "function": {"name": "t", "arguments": "{\"x\""}}]),
            json!([{"index": 0, "id": "a2", "function": {"arguments": ":\"}\""}}]),
            json!([{"index": 0, "id": "a3", "function": {"arguments": "}"}}]),
            json!([{"index": 0, "id": "b1", "function": {"name": "u", "arguments": "{}"}}]),
        ],
        "tool_calls",
    );
    assert_eq!(decoded.calls(), [call("a1", "t", r#"{"x":"}"}"#), call("b1", "u", "{}")]);
}

#[test]
fn an_id_repeated_in_every_piece_is_one_call() {
    let piece = |arguments: &str| json!([{"index": 0, "id": "a", "function": {"name": "t", "arguments": arguments}}]);
    let decoded = pieces(&[piece("{\"x\""), piece(":1}"), piece("")], "tool_calls");
    assert_eq!(decoded.calls(), [call("a", "t", r#"{"x":1}"#)]);
}

#[test]
fn pieces_without_a_number_are_found_by_their_id() {
    let piece = |id: &str, arguments: &str| json!([{"id": id, "function": {"arguments": arguments}}]);
    let decoded = pieces(
        &[
            json!([{"id": "a", "function": {"name": "t", "arguments": ""}}]),
            json!([{"id": "b", "function": {"name": "u", "arguments": ""}}]),
            piece("a", "{\"x\":1}"),
            piece("b", "{\"y\":"),
            json!([{"function": {"arguments": "2}"}}]),
        ],
        "tool_calls",
    );
    assert_eq!(decoded.calls(), [call("a", "t", r#"{"x":1}"#), call("b", "u", r#"{"y":2}"#)]);
}

#[test]
fn calls_without_number_and_id_are_told_apart_by_being_complete() {
    let whole = |name: &str, arguments: &str| json!({"function": {"name": name, "arguments": arguments}});
    let expected =
        [call("call_fresh", "t", r#"{"x":1}"#), call("call_fresh", "t", r#"{"x":2}"#), call("call_fresh", "u", "{}")];
    let (one, two, three) = (whole("t", r#"{"x":1}"#), whole("t", r#"{"x":2}"#), whole("u", ""));
    assert_eq!(pieces(&[json!([one]), json!([two]), json!([three])], "stop").calls(), expected);
    assert_eq!(pieces(&[json!([one, two, three])], "stop").calls(), expected);
    // Two calls without arguments in one list.
    let now = whole("now", "");
    let expected = [call("call_fresh", "now", "{}"), call("call_fresh", "now", "{}")];
    assert_eq!(pieces(&[json!([now, now])], "stop").calls(), expected);
}

#[test]
fn a_call_that_is_no_list_is_read() {
    let one = json!({"id": "a", "function": {"name": "t", "arguments": "{}"}});
    assert_eq!(pieces(&[one], "stop").calls(), [call("a", "t", "{}")]);
}

#[test]
fn the_second_call_of_a_message_is_not_lost() {
    // endolith/open-interpreter#315.
    let both = json!([
        {"index": 0, "id": "a", "function": {"name": "t", "arguments": "{}"}},
        {"index": 1, "id": "b", "function": {"name": "t", "arguments": "{}"}},
    ]);
    assert_eq!(pieces(&[both], "tool_calls").calls(), [call("a", "t", "{}"), call("b", "t", "{}")]);
}

#[test]
fn ids_that_are_missing_or_taken_are_replaced_in_the_turn_and_in_what_goes_back() {
    let both = json!([
        {"index": 0, "id": "a", "function": {"name": "t", "arguments": "{}"}},
        {"index": 1, "id": "a", "function": {"name": "u", "arguments": "{}"}},
    ]);
    let turn = pieces(&[both], "tool_calls").reply().turn;
    let ids: Vec<_> = turn.calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["a", "call_fresh"]);
    let echoed = turn.verbatim.unwrap().value["tool_calls"].take();
    assert_eq!((&echoed[0]["id"], &echoed[1]["id"]), (&json!("a"), &json!("call_fresh")));
}

#[test]
fn arguments_in_another_form_become_the_text_that_they_mean() {
    let arguments = |arguments: serde_json::Value| {
        let list = json!([{"index": 0, "id": "a", "function": {"name": "t", "arguments": arguments}}]);
        pieces(&[list], "tool_calls").calls().remove(0).2
    };
    assert_eq!(arguments(json!("")), "{}");
    assert_eq!(arguments(json!(null)), "{}");
    assert_eq!(arguments(json!("null")), "{}");
    assert_eq!(arguments(json!({"x": {"y": 1}})), r#"{"x":{"y":1}}"#);
    // JSON in JSON.
    assert_eq!(arguments(json!("\"{\\\"x\\\":1}\"")), r#"{"x":1}"#);
    // What is wrong stays as the model wrote it, so that the error can say what.
    assert_eq!(arguments(json!("{\"x\":")), "{\"x\":");
    assert_eq!(arguments(json!("\"text\"")), "\"text\"");
    assert_eq!(arguments(json!("[1]")), "[1]");
}

#[test]
fn a_reason_for_calls_without_calls_is_an_end() {
    // mastra-ai/mastra#12581: the loop never ended.
    let reply = deltas(&[json!({"content": "done"})], "tool_calls").reply();
    assert_eq!((reply.turn.calls, reply.stop), (vec![], StopReason::Finished));
}

#[test]
fn calls_are_kept_whatever_the_reason_is() {
    // anomalyco/opencode#14972, vercel/workflow#1387: the calls were thrown away.
    for reason in ["stop", "other", "unknown", "function_call", "eos"] {
        let one = json!([{"index": 0, "id": "a", "function": {"name": "t", "arguments": "{}"}}]);
        assert_eq!(pieces(&[one], reason).calls(), [call("a", "t", "{}")], "{reason}");
    }
}

#[test]
fn a_turn_that_was_cut_at_its_limit_does_not_look_complete() {
    // zhayujie/CowAgent PR 3074: the reason was thrown away.
    let half = json!([{"index": 0, "id": "a", "function": {"name": "t", "arguments": "{\"x\":"}}]);
    let reply = pieces(&[half], "length").reply();
    assert_eq!((reply.turn.calls[0].arguments.as_str(), reply.stop), ("{\"x\":", StopReason::Length));
}

#[test]
fn a_call_that_gemini_could_not_write_is_no_end_and_no_success() {
    // langchain-ai/langgraph#6574, NousResearch/hermes-agent#83869: the run ended silently, or was saved as a success.
    let broke_off = "the provider is not available (HTTP 200): the model broke off";
    for reason in
        ["MALFORMED_FUNCTION_CALL", "malformed_function_call", "function_call_filter: MALFORMED_FUNCTION_CALL"]
    {
        assert_eq!(deltas(&[], reason).reply, Err(broke_off.into()), "{reason}");
    }
    let behind = json!({"choices": [{"delta": {}, "finish_reason": "stop",
                                     "native_finish_reason": "MALFORMED_FUNCTION_CALL"}]});
    assert_eq!(stream(&format!("data: {behind}\n\n")).reply, Err(broke_off.into()));
}

#[test]
fn content_that_is_an_empty_object_is_none() {
    // inngest/agent-kit PR 178: the parser crashed.
    assert_eq!(deltas(&[json!({"content": {}}), json!({"content": [{}]})], "stop").reply().turn.text, "");
}

#[test]
fn each_call_keeps_its_own_signature_while_a_person_is_asked() {
    // microsoft/agent-framework#6963: the call was rebuilt after the approval, without its signature. agnt-gg/agnt#35:
    // one signature was kept for many calls. A run that waits is kept as JSON.
    let signed = |index: u64, id: &str, signature: &str| {
        json!({"index": index, "id": id, "type": "function", "function": {"name": "t", "arguments": "{}"},
               "extra_content": {"google": {"thought_signature": signature}}})
    };
    let turn = pieces(&[json!([signed(0, "a", "s1")]), json!([signed(1, "b", "s2")])], "tool_calls").reply().turn;
    let turn = serde_json::from_value(serde_json::to_value(Message::Assistant(turn)).unwrap()).unwrap();
    let ok = || ToolResult::ok("1");
    let history = [Message::user("?"), turn, encoded::results([("a", "t", ok()), ("b", "t", ok())])];
    let calls = encoded::unchecked("openrouter", &history, &[])["messages"][1]["tool_calls"].take();
    let signature = |at: usize| calls[at]["extra_content"]["google"]["thought_signature"].clone();
    assert_eq!((signature(0), signature(1)), (json!("s1"), json!("s2")));
}

#[test]
fn results_follow_the_whole_turn() {
    // openai/openai-agents-python#1797: a result stood before its call.
    let turn = deltas(
        &[
            json!({"reasoning": "Hm"}),
            json!({"content": "Looking."}),
            json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "t", "arguments": "{}"}}]}),
        ],
        "tool_calls",
    );
    let turn = Message::Assistant(turn.reply().turn);
    let history = [Message::user("?"), turn, encoded::results([("a", "t", ToolResult::ok("1"))])];
    let messages = encoded::messages_for("openrouter", &history);
    let roles: Vec<_> = messages.as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool"]);
    assert_eq!((&messages[1]["reasoning"], &messages[1]["content"]), (&json!("Hm"), &json!("Looking.")));
}

#[test]
fn a_result_is_a_plain_string_and_its_image_an_image() {
    // apache/maka#5277, decolua/9router#2122, anomalyco/opencode#28861, open-webui/open-webui#29208: as JSON in a text
    // the image cost 100000 tokens. LostRuins/koboldcpp#2374, MayDay-wpf/snow-app PR 132: servers want a string in a
    // result, and its images in one message after all results.
    let picture = ContentPart::from_bytes(vec![7; 30_000], "image/png").unwrap();
    let messages = after_the_turn("openai", ToolResult::ok_with_parts("a chart", [picture]));
    assert_eq!(messages[0], json!({"role": "tool", "tool_call_id": "a", "content": "a chart"}));
    assert_eq!((messages.len(), &messages[1]["role"]), (2, &json!("user")));
    assert_eq!(messages[1]["content"][1]["type"], "image_url");
}

#[test]
fn an_image_of_an_error_is_no_part_of_the_error() {
    // vellum-ai/vellum-assistant PR 18387: refused with an image in an error.
    let result = ToolResult { is_error: true, ..ToolResult::ok_with_parts("no page", [encoded::media("image/png")]) };
    let messages = after_the_turn("openai", result);
    assert_eq!((&messages[0]["content"], messages.len()), (&json!("Error: no page"), 2));
}

#[test]
fn no_empty_text_stands_beside_an_image() {
    // anthropics/claude-code#50010.
    let messages = after_the_turn("openai", ToolResult::ok_with_parts("", [encoded::media("image/png")]));
    assert_eq!(messages[0]["content"], "(no output)");
    let content = vec![ContentPart::text(""), encoded::media("image/png")];
    let messages = encoded::messages_for("openai", &[Message::User { content }]);
    assert_eq!(
        (messages[0]["content"].as_array().unwrap().len(), &messages[0]["content"][0]["type"]),
        (1, &json!("image_url"))
    );
}

#[test]
fn what_is_no_image_never_becomes_one() {
    // openclaw/openclaw#90710: sounds and resources became image blocks that every later request was refused for.
    let parts = [encoded::media("audio/ogg"), encoded::media("text/plain"), encoded::media("audio/wav")];
    let messages = after_the_turn("openai", ToolResult::ok_with_parts("", parts));
    assert_eq!(
        messages[0]["content"],
        "[audio/ogg, 3 bytes, not deliverable to this model]\n[text/plain, 3 bytes, not deliverable to this model]"
    );
    assert_eq!(messages[1]["content"][1]["type"], "input_audio");
}

#[test]
fn a_model_that_reads_text_only_gets_no_image() {
    // openclaw/openclaw#102324.
    let messages = after_the_turn("deepseek", ToolResult::ok_with_parts("drawn", [encoded::media("image/png")]));
    let described = "drawn\n[image/png, 3 bytes, not deliverable to this model]";
    assert_eq!(messages, [json!({"role": "tool", "tool_call_id": "a", "content": described})]);
}

#[test]
fn a_turn_may_have_as_many_calls_as_go_back_and_no_more() {
    let calls = |count: usize| {
        let one = |n: usize| json!([{"index": n, "id": format!("c{n}"), "function": {"name": "t", "arguments": "{}"}}]);
        pieces(&(0..count).map(one).collect::<Vec<_>>(), "tool_calls").reply.map(|reply| reply.turn.calls.len())
    };
    assert_eq!(calls(128), Ok(128));
    let refused = "the provider sent a response that cannot be read: it holds more than 128 tool calls";
    assert_eq!(calls(129), Err(refused.into()));
}

#[test]
fn a_call_without_a_name_is_refused_and_an_empty_one_passed_over() {
    let nameless = json!([{"index": 0, "id": "a", "function": {"arguments": "{}"}}]);
    assert_eq!(
        pieces(&[nameless], "tool_calls").reply,
        Err("the provider sent a response that cannot be read: it holds a tool call without a name".into())
    );
    assert_eq!(pieces(&[json!([{"index": 0}]), json!([7, null])], "stop").calls(), []);
}

#[test]
fn very_long_arguments_are_put_together_in_linear_time() {
    let piece = json!([{"index": 0, "id": "a", "function": {"arguments": "}}}}\"x\":{{{{"}}]);
    let begin = json!([{"index": 0, "id": "a", "function": {"name": "t", "arguments": "{\"x\":\""}}]);
    let list: Vec<_> = std::iter::once(begin).chain(std::iter::repeat_n(piece, 50_000)).collect();
    let begun = std::time::Instant::now();
    assert_eq!(pieces(&list, "length").calls()[0].2.len(), 6 + 50_000 * 12);
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
}
