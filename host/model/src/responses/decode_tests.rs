//! Tests of responses as they are put together.

use proptest::prelude::*;

use super::*;
use crate::test_support::{Decoded, decode, decode_whole, fresh, thought};
pub(in crate::responses) use crate::test_support::{called as call, text};

fn pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    decode(Decoder::new(fresh), pieces)
}

fn whole(body: &Value) -> Decoded {
    decode_whole(Decoder::new(fresh), body)
}

/// Events as OpenAI sends them: named, and numbered.
fn text_of(events: &[Value]) -> String {
    let line = |(number, event): (usize, &Value)| {
        let mut event = event.clone();
        event["sequence_number"] = json!(number);
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    };
    events.iter().enumerate().map(line).collect()
}

pub(in crate::responses) fn stream(events: &[Value]) -> Decoded {
    pieces([text_of(events).as_bytes()])
}

pub(in crate::responses) fn done(index: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

pub(in crate::responses) fn added(index: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

pub(in crate::responses) fn completed(output: &[Value]) -> Value {
    json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": output}})
}

fn incomplete(reason: &str, output: &[Value]) -> Value {
    json!({"type": "response.incomplete", "response": {
        "status": "incomplete", "incomplete_details": {"reason": reason}, "output": output,
    }})
}

fn delta(kind: &str, index: u64, delta: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "output_index": index, "item_id": format!("i{index}"),
           "delta": delta})
}

pub(in crate::responses) fn function_call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments,
           "status": "completed"})
}

pub(in crate::responses) fn message(id: &str, text: &str) -> Value {
    json!({"type": "message", "id": id, "role": "assistant", "status": "completed",
           "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

pub(in crate::responses) fn reasoning(id: &str) -> Value {
    json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "gAAA"})
}

const CUT: &str = "the provider's stream broke off before its end";

/// A turn with everything in it, as OpenAI streams it.
fn recorded() -> Vec<Value> {
    let rs = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA",
                    "summary": [{"type": "summary_text", "text": "Plan"}, {"type": "summary_text", "text": "Look"}]});
    let mut msg = message("msg_1", "Looking.");
    msg["phase"] = json!("commentary");
    let fc = function_call("call_1", "screenshot", "{\"url\":\"x\"}");
    let mut rs_begun = rs.clone();
    rs_begun["encrypted_content"] = json!("gA");
    let mut fc_begun = fc.clone();
    (fc_begun["arguments"], fc_begun["status"]) = (json!(""), json!("in_progress"));
    let part = |kind: &str, part: Value| json!({"type": kind, "output_index": 1, "content_index": 0, "part": part});
    let summary = |kind: &str, index: u64| {
        json!({"type": format!("response.reasoning_summary_part.{kind}"), "output_index": 0, "summary_index": index,
               "part": {"type": "summary_text", "text": ""}})
    };
    let end =
        |kind: &str, text: &str| json!({"type": format!("response.{kind}.done"), "output_index": 0, "text": text});
    vec![
        json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": [],
               "error": null, "incomplete_details": null}}),
        json!({"type": "response.queued", "response": {"status": "queued"}}),
        json!({"type": "response.in_progress", "response": {"status": "in_progress"}}),
        added(0, &rs_begun),
        summary("added", 0),
        delta("reasoning_summary_text", 0, "Pl"),
        delta("reasoning_summary_text", 0, "an"),
        end("reasoning_summary_text", "Plan"),
        summary("done", 0),
        summary("added", 1),
        delta("reasoning_summary_text", 0, "Look"),
        summary("done", 1),
        done(0, &rs),
        added(1, &json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []})),
        part("response.content_part.added", json!({"type": "output_text", "text": ""})),
        delta("output_text", 1, "Look"),
        json!({"type": "response.output_text.annotation.added", "output_index": 1, "annotation": {}}),
        delta("output_text", 1, "ing."),
        end("output_text", "Looking."),
        part("response.content_part.done", json!({"type": "output_text", "text": "Looking."})),
        done(1, &msg),
        added(2, &fc_begun),
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_call_1", "output_index": 2,
               "delta": "{\"url\":"}),
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_call_1", "output_index": 2,
               "delta": "\"x\"}"}),
        json!({"type": "response.function_call_arguments.done", "output_index": 2, "name": "screenshot",
               "arguments": "{\"url\":\"x\"}"}),
        done(2, &fc),
        json!({"type": "response.completed", "response": {
            "id": "resp_1", "status": "completed", "error": null, "incomplete_details": null,
            "output": [rs, msg, fc],
            "usage": {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
                      "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 14},
        }}),
    ]
}

#[test]
fn a_recorded_stream_of_openai_becomes_a_turn() {
    let events = recorded();
    let output = events.last().unwrap()["response"]["output"].clone();
    let decoded = stream(&events);
    assert_eq!(
        decoded.events,
        [thought("Pl"), thought("an"), thought("\n\n"), thought("Look"), text("Look"), text("ing.")]
    );
    let arguments = "{\"url\":\"x\"}".to_owned();
    let calls = vec![CallRequest { id: "call_1".into(), name: "screenshot".into(), arguments }];
    let verbatim = Some(Verbatim { wire: "openai-responses".into(), value: output });
    let usage =
        Usage { input_tokens: 9, cache_read_tokens: 4, cache_write_tokens: 2, output_tokens: 5, reasoning_tokens: 3 };
    let turn = AssistantTurn { text: "Looking.".into(), calls, verbatim };
    assert_eq!(decoded.reply(), ModelReply { turn, stop: StopReason::Finished, usage });
}

#[test]
fn events_that_say_nothing_of_the_turn_are_passed_over() {
    let kinds = [
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
        "response.compaction.compacting",
        "response.audio.delta",
        "response.audio.done",
        "response.audio.transcript.delta",
        "response.audio.transcript.done",
        "response.reasoning_text.done",
        "response.refusal.done",
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
        "response.file_search_call.searching",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call_code.delta",
        "response.image_generation_call.partial_image",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_list_tools.completed",
        "response.shell_call_command.delta",
        "response.of_tomorrow",
        "keepalive",
    ];
    let mut events: Vec<_> = kinds.iter().map(|kind| json!({"type": kind, "delta": "x", "text": "x"})).collect();
    events.push(completed(&[message("m", "4")]));
    let decoded = stream(&events);
    assert_eq!(decoded.events, [text("4")]);
    let odd = "data: null\n\ndata: []\n\ndata: 7\n\ndata: {}\n\ndata:\n\ndata: {\"type\":7}\n\n\
               data: {\"type\":\"response.output_item.done\"}\n\ndata: {\"type\":\"response.output_item.done\",\"item\":7}\n\n\
               data: {\"type\":\"response.output_text.delta\",\"delta\":{}}\n\n";
    let all = format!("{odd}{}", text_of(&[completed(&[])]));
    let decoded = pieces([all.as_bytes()]);
    assert_eq!((decoded.events.len(), decoded.reply().turn.text), (0, String::new()));
}

#[test]
fn nothing_but_the_type_is_needed() {
    // llama.cpp: no numbers, and a marker after the end.
    let plain = |event: Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    let rs = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "",
                    "content": [{"type": "reasoning_text", "text": "Hm"}], "status": "completed"});
    let (msg, fc) = (message("msg_1", "4"), function_call("call_1", "t", "{}"));
    let all: String = [
        json!({"type": "response.created", "response": {"id": "resp_1", "object": "response", "status": "in_progress"}}),
        json!({"type": "response.output_item.added", "item": {"type": "reasoning", "id": "rs_1", "summary": []}}),
        json!({"type": "response.reasoning_text.delta", "delta": "Hm", "item_id": "rs_1"}),
        json!({"type": "response.output_item.done", "item": rs}),
        json!({"type": "response.output_text.delta", "delta": "4", "item_id": "msg_1"}),
        json!({"type": "response.output_item.done", "item": msg}),
        json!({"type": "response.function_call_arguments.delta", "delta": "{}", "item_id": "fc_call_1"}),
        json!({"type": "response.output_item.done", "item": fc}),
        json!({"type": "response.completed", "response": {"status": "completed", "output": []}}),
    ]
    .map(plain)
    .concat();
    let decoded = pieces([format!("{all}data: [DONE]\n\n").as_bytes()]);
    assert_eq!(decoded.events, [thought("Hm"), text("4")]);
    assert_eq!(decoded.verbatim(), json!([rs, msg, fc]));
}

#[test]
fn the_name_of_an_event_stands_for_a_type_that_is_missing() {
    let all = "event: response.output_text.delta\ndata: {\"delta\":\"4\"}\n\n\
               event: response.completed\ndata: {\"response\":{}}\n\n";
    let reply = pieces([all.as_bytes()]).reply();
    assert_eq!(reply.turn.text, "4");
    let echoed = items::message("4");
    assert_eq!(reply.turn.verbatim.unwrap().value, json!([echoed]), "what was said goes back");
}

#[test]
fn items_come_in_the_order_of_their_numbers() {
    let decoded = stream(&[
        done(2, &function_call("b", "t", "{}")),
        done(0, &reasoning("rs_1")),
        done(1, &function_call("a", "t", "{}")),
        completed(&[]),
    ]);
    assert_eq!(
        decoded.verbatim(),
        json!([reasoning("rs_1"), function_call("a", "t", "{}"), function_call("b", "t", "{}")])
    );
}

#[test]
fn an_item_that_the_final_response_leaves_out_is_kept_in_its_place() {
    let (rs, a, b) = (reasoning("rs_1"), function_call("a", "t", "{}"), function_call("b", "t", "{}"));
    for output in [vec![], vec![a.clone()], vec![rs.clone(), b.clone()], vec![b.clone()], vec![rs.clone(), a.clone()]] {
        let decoded = stream(&[done(0, &rs), done(1, &a), done(2, &b), completed(&output)]);
        assert_eq!(decoded.verbatim(), json!([rs, a, b]), "{output:?}");
    }
    // The other way round: what only the final response tells.
    assert_eq!(stream(&[done(0, &rs), completed(&[rs.clone(), a.clone()])]).verbatim(), json!([rs, a]));
}

#[test]
fn an_id_that_changes_from_event_to_event_does_not_double_an_item() {
    let decoded = stream(&[
        done(0, &reasoning("rs_x")),
        done(1, &message("msg_x", "4")),
        completed(&[reasoning("rs_y"), message("msg_y", "4")]),
    ]);
    assert_eq!(decoded.verbatim(), json!([reasoning("rs_y"), message("msg_y", "4")]));
    let both = [message("m1", "a"), message("m2", "b")];
    assert_eq!(stream(&[done(0, &both[0]), done(1, &both[1]), completed(&both[1..])]).verbatim(), json!(both));
}

#[test]
fn two_messages_are_told_apart_as_they_are_shown() {
    let items = [message("m1", "Looking."), message("m2", "It is 4.")];
    let decoded = stream(&[
        delta("output_text", 0, "Looking."),
        done(0, &items[0]),
        delta("output_text", 1, ""),
        delta("output_text", 1, "It is "),
        delta("output_text", 1, "4."),
        completed(&items),
    ]);
    assert_eq!(decoded.events, [text("Looking."), text("\n\n"), text("It is "), text("4.")]);
    assert_eq!(decoded.reply().turn.text, "Looking.\n\nIt is 4.");
}

#[test]
fn what_was_not_streamed_is_shown_at_the_end() {
    let rs = json!({"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm"}]});
    let decoded = stream(&[delta("output_text", 1, "It is"), completed(&[rs, message("m", "It is 4.")])]);
    assert_eq!(decoded.events, [text("It is"), thought("Hm"), text(" 4.")]);
    // What was shown otherwise cannot be taken back; the turn holds what the response says.
    let decoded = stream(&[delta("output_text", 0, "It was"), completed(&[message("m", "It is 4.")])]);
    assert_eq!(decoded.events, [text("It was")]);
    assert_eq!(decoded.reply().turn.text, "It is 4.");
}

#[test]
fn a_refusal_is_shown_and_kept_as_one() {
    let item = json!({"type": "message", "id": "m", "role": "assistant",
                      "content": [{"type": "refusal", "refusal": "I cannot."}]});
    let decoded = stream(&[delta("refusal", 0, "I can"), delta("refusal", 0, "not."), completed(&[item])]);
    assert_eq!(decoded.events, [text("I can"), text("not.")]);
    let reply = decoded.reply();
    assert_eq!((reply.turn.text.as_str(), reply.stop), ("I cannot.", StopReason::Refused));
}

#[test]
fn why_the_model_stopped_is_kept() {
    let stop = |event: Value| stream(&[event]).reply().stop;
    assert_eq!(stop(completed(&[message("m", "x")])), StopReason::Finished);
    assert_eq!(stop(incomplete("max_output_tokens", &[])), StopReason::Length);
    assert_eq!(stop(incomplete("content_filter", &[])), StopReason::Refused);
    // What was cut off for a reason of tomorrow does not look complete.
    assert_eq!(stop(incomplete("max_patience", &[])), StopReason::Length);
    assert_eq!(stop(json!({"type": "response.incomplete"})), StopReason::Length);
    let mut contradicting = incomplete("max_output_tokens", &[]);
    contradicting["type"] = json!("response.completed");
    assert_eq!(stop(contradicting), StopReason::Length);
}

#[test]
fn a_call_that_was_cut_off_never_runs() {
    let mut half = function_call("b", "wipe", "{}");
    half["status"] = json!("incomplete");
    let whole = function_call("a", "t", "{}");
    // As the last one it is told as a call that did not begin, whatever its arguments seem to be.
    for end in [incomplete("max_output_tokens", &[]), completed(&[])] {
        let decoded = stream(&[done(0, &whole), done(1, &half), end]);
        let reply = decoded.reply();
        let arguments: Vec<_> = reply.turn.calls.iter().map(|call| call.arguments.as_str()).collect();
        assert_eq!((arguments, reply.stop), (vec!["{}", ""], StopReason::Length));
    }
    // Elsewhere it is left out, also of what goes back.
    let decoded = stream(&[done(0, &half), done(1, &whole), completed(&[])]);
    assert_eq!(decoded.verbatim(), json!([whole]));
}

#[test]
fn arguments_that_did_not_begin_before_the_output_limit_are_not_none() {
    let begun = function_call("a", "wipe", "");
    assert_eq!(stream(&[completed(std::slice::from_ref(&begun))]).calls(), [call("a", "wipe", "{}")]);
    assert_eq!(stream(&[incomplete("max_output_tokens", &[begun])]).calls(), [call("a", "wipe", "")]);
}

#[test]
fn a_call_that_began_and_never_came_is_a_broken_stream() {
    let begun = function_call("a", "t", "");
    assert_eq!(stream(&[added(0, &begun), completed(&[])]).reply, Err(CUT.into()));
    assert_eq!(stream(&[added(0, &begun), incomplete("max_output_tokens", &[])]).reply().turn.calls, []);
}

#[test]
fn ids_that_are_missing_or_taken_are_replaced_in_the_turn_and_in_what_goes_back() {
    let mut nameless = function_call("", "t", "{}");
    nameless.as_object_mut().unwrap().remove("call_id");
    let mut bare = nameless.clone();
    bare.as_object_mut().unwrap().remove("id");
    let mut taken = function_call("a", "u", "{}");
    taken["id"] = json!("");
    let output = [function_call("a", "t", "{}"), nameless, bare, taken];
    let reply = stream(&[completed(&output)]).reply();
    let ids: Vec<_> = reply.turn.calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["a", "fc_", "call_fresh", "call_fresh"]);
    let items = reply.turn.verbatim.unwrap().value;
    let echoed: Vec<_> = items.as_array().unwrap().iter().map(|item| item["call_id"].as_str().unwrap()).collect();
    assert_eq!(echoed, ids);
}

#[test]
fn arguments_in_another_form_become_the_text_that_they_mean() {
    let arguments = |arguments: Value| {
        let mut item = function_call("a", "t", "");
        item["arguments"] = arguments;
        stream(&[completed(&[item])]).calls().remove(0).2
    };
    assert_eq!(arguments(json!(null)), "{}");
    assert_eq!(arguments(json!({"x": 1})), r#"{"x":1}"#);
    assert_eq!(arguments(json!("\"{\\\"x\\\":1}\"")), r#"{"x":1}"#);
    // What is wrong stays as the model wrote it, so that the error can say what.
    assert_eq!(arguments(json!("{\"x\":")), "{\"x\":");
}

#[test]
fn a_call_without_a_name_is_refused_and_an_empty_one_passed_over() {
    let bad = "the provider sent a response that cannot be read: it holds a tool call without a name";
    assert_eq!(stream(&[completed(&[function_call("a", "", "{}")])]).reply, Err(bad.into()));
    assert_eq!(stream(&[completed(&[function_call("a", "", "")])]).verbatim(), json!([]));
}

#[test]
fn a_turn_may_have_as_many_calls_and_items_as_the_limits_and_no_more() {
    let calls = |count: usize| {
        let output: Vec<_> = (0..count).map(|n| function_call(&format!("c{n}"), "t", "{}")).collect();
        stream(&[completed(&output)]).reply.map(|reply| reply.turn.calls.len())
    };
    let bad = "the provider sent a response that cannot be read: ";
    assert_eq!(calls(128), Ok(128));
    assert_eq!(calls(129), Err(format!("{bad}it holds more than 128 tool calls")));
    let numbered = |count: u64| (0..count).map(|n| message(&format!("m{n}"), "x")).collect::<Vec<_>>();
    let streamed = |count: u64| {
        let items = numbered(count);
        let mut events: Vec<_> = items.iter().zip(0..).map(|(item, n)| done(n, item)).collect();
        events.push(completed(&[]));
        stream(&events).reply.map(|_| ())
    };
    assert_eq!(streamed(1024), Ok(()));
    assert_eq!(streamed(1025), Err(format!("{bad}it holds more than 1024 items")));
    assert_eq!(stream(&[completed(&numbered(1025))]).reply, Err(format!("{bad}it holds more than 1024 items")));
}

#[test]
fn a_number_at_the_edge_loses_no_item() {
    let items = [message("m1", "a"), message("m2", "b"), message("m3", "c")];
    let unnumbered = json!({"type": "response.output_item.done", "item": items[2]});
    let decoded = stream(&[done(u64::MAX, &items[0]), done(u64::MAX, &items[1]), unnumbered, completed(&[])]);
    assert_eq!(decoded.verbatim(), json!(items));
}

#[test]
fn a_stream_without_its_end_is_cut_off() {
    let begin = [delta("output_text", 0, "It is "), done(0, &function_call("a", "t", "{}"))];
    assert_eq!(stream(&[]).reply, Err(CUT.into()));
    assert_eq!(stream(&begin).reply, Err(CUT.into()));
    let marked = format!("{}data: [DONE]\n\n", text_of(&begin));
    assert_eq!(pieces([marked.as_bytes()]).reply, Err(CUT.into()));
}

#[test]
fn nothing_after_the_end_counts() {
    let all = format!("{}data: [DONE]\n\ndata: junk\n\n", text_of(&[completed(&[message("m", "4")])]));
    assert_eq!(pieces([all.as_bytes()]).reply().turn.text, "4");
}

#[test]
fn a_failure_ends_the_stream_in_every_shape() {
    let end = |event: Value| {
        let decoded = stream(&[delta("output_text", 0, "4"), event]);
        assert_eq!(decoded.events, [text("4")]);
        decoded.reply.unwrap_err()
    };
    let failed = |error: Value| json!({"type": "response.failed", "response": {"status": "failed", "error": error}});
    let unavailable = |status: u16, message: &str| format!("the provider is not available (HTTP {status}): {message}");
    let refused = |message: &str| format!("the provider refused the request (HTTP 400): {message}");
    assert_eq!(end(failed(json!({"code": "server_error", "message": "m"}))), unavailable(200, "m"));
    assert_eq!(end(failed(json!({"code": "rate_limit_exceeded", "message": "m"}))), unavailable(429, "m"));
    assert_eq!(end(failed(json!({"code": "invalid_prompt", "message": "m"}))), refused("m"));
    assert_eq!(end(failed(json!({"code": "image_too_large", "message": "m"}))), refused("m"));
    assert_eq!(end(failed(json!(null))), unavailable(200, "the model broke off"));
    assert_eq!(end(json!({"type": "response.failed"})), unavailable(200, "the model broke off"));
    assert_eq!(
        end(json!({"type": "error", "code": "rate_limit_exceeded", "message": "m", "param": null})),
        unavailable(429, "m")
    );
    assert_eq!(
        end(json!({"type": "error", "error": {"type": "invalid_request_error", "code": null, "message": "m"}})),
        "the provider refused the request (HTTP 200): m"
    );
    assert_eq!(
        end(json!({"type": "error", "code": "context_length_exceeded", "message": "m"})),
        "the conversation is too long for the model: m"
    );
    assert_eq!(end(json!({"type": "error"})), unavailable(200, "the model broke off"));
    assert_eq!(end(json!({"error": {"code": 503, "message": "m"}})), unavailable(503, "m"));
    let mut contradicting = failed(json!({"code": "server_error", "message": "m"}));
    contradicting["type"] = json!("response.completed");
    assert_eq!(end(contradicting), unavailable(200, "m"));
}

#[test]
fn what_is_not_json_is_a_bad_response() {
    let error = pieces([b"data: {\"type\": oops}\n\n".as_slice()]).reply.unwrap_err();
    assert!(error.starts_with("the provider sent a response that cannot be read: an event is not JSON"), "{error}");
}

#[test]
fn a_whole_response_is_read_like_a_stream() {
    let rs = json!({"type": "reasoning", "id": "rs", "encrypted_content": "g",
                    "summary": [{"type": "summary_text", "text": "Hm"}]});
    let output = json!([rs, message("m", "Looking."), function_call("a", "t", "{}")]);
    let decoded = whole(&json!({
        "id": "resp_1", "object": "response", "status": "completed", "error": null, "output": output,
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }));
    assert_eq!(decoded.events, [thought("Hm"), text("Looking.")]);
    let reply = decoded.reply();
    assert_eq!(reply.usage, Usage { input_tokens: 1, output_tokens: 2, ..Usage::default() });
    assert_eq!((reply.turn.calls.len(), reply.stop), (1, StopReason::Finished));
    assert_eq!(reply.turn.verbatim.unwrap().value, output);
}

#[test]
fn a_whole_response_that_is_none_is_told() {
    let error = |body: Value| whole(&body).reply.unwrap_err();
    let bad = "the provider sent a response that cannot be read: ";
    assert_eq!(error(json!({})), format!("{bad}it has no output"));
    assert_eq!(
        error(json!({"status": "in_progress", "output": []})),
        format!("{bad}it is not complete: its status is in_progress")
    );
    assert_eq!(
        error(json!({"status": "failed", "error": {"code": "server_error", "message": "m"}, "output": []})),
        "the provider is not available (HTTP 200): m"
    );
    let cut = json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []});
    assert_eq!(whole(&cut).reply().stop, StopReason::Length);
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_gives_the_same_turn(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..24)) {
        let all = text_of(&recorded()).replace("Looking", "Grüße 🦀");
        let bytes = all.as_bytes();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let split: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let expected = pieces([bytes]);
        prop_assert!(expected.reply.is_ok());
        prop_assert_eq!(pieces(split), expected);
    }

    #[test]
    fn no_order_and_no_omission_of_events_panics(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        stripped in prop::collection::vec(any::<bool>(), 40),
    ) {
        let recorded = recorded();
        let events: Vec<_> = picks.iter().zip(stripped).map(|(pick, strip)| {
            let mut event = recorded[pick.index(recorded.len())].clone();
            if strip {
                event.as_object_mut().unwrap().retain(|key, _| matches!(key.as_str(), "type" | "item" | "delta"));
            }
            event
        }).collect();
        let _ = stream(&events);
    }
}

#[test]
fn what_is_no_item_does_not_go_back() {
    let good = message("m", "4");
    let decoded = stream(&[done(0, &good), completed(&[json!(null), json!(7), good.clone(), json!("x"), json!([])])]);
    assert_eq!(decoded.verbatim(), json!([good]));
    assert_eq!(whole(&json!({"output": [[], good, {}]})).verbatim(), json!([good]));
}
