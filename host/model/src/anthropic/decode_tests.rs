//! Tests of responses as they are put together.

use proptest::prelude::*;

use super::*;
pub(in crate::anthropic) use crate::test_support::called as call;
use crate::test_support::{Decoded, decode, decode_whole, text};

fn pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    decode(Decoder::default(), pieces)
}

fn whole(body: &Value) -> Decoded {
    decode_whole(Decoder::default(), body)
}

/// Decodes the text of a stream, as it would arrive.
pub(in crate::anthropic) fn stream(text: &str) -> Decoded {
    pieces([text.as_bytes()])
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

/// A stream of events between the beginning of a message and its end for that reason.
pub(in crate::anthropic) fn events(events: &[Value], stop_reason: &str) -> Decoded {
    let begin = json!({"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 1}}});
    let delta = json!({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 2}});
    let all = [begin].into_iter().chain(events.iter().cloned()).chain([delta, json!({"type": "message_stop"})]);
    stream(&all.map(|data| event(&data)).collect::<String>())
}

pub(in crate::anthropic) fn start(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

pub(in crate::anthropic) fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

pub(in crate::anthropic) fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

pub(in crate::anthropic) fn tool(index: u64, id: &str, name: &str) -> Value {
    start(index, json!({"type": "tool_use", "id": id, "name": name, "input": {}}))
}

pub(in crate::anthropic) fn input(index: u64, json: &str) -> Value {
    delta(index, json!({"type": "input_json_delta", "partial_json": json}))
}

/// A turn with a block of every kind and an event of every type.
const RECORDED: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":12,"cache_creation_input_tokens":30,"cache_read_input_tokens":400,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"think – 🦀."}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"Em4K"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"text","text":"","citations":[]}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Look"}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"type":"char_location","cited_text":"x"}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"ing."}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"shot","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"url\": \"gr"}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"üße\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: content_block_start
data: {"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_2","name":"now","input":{},"caller":{"type":"direct"}}}

event: content_block_delta
data: {"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_stop
data: {"type":"content_block_stop","index":4}

event: something_new
data: {"type":"something_new","index":4,"delta":{"x":1}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":null,"output_tokens":89,"output_tokens_details":{"thinking_tokens":40}}}

event: message_stop
data: {"type":"message_stop"}

"#;

#[test]
fn a_recorded_stream_becomes_a_turn() {
    let decoded = stream(RECORDED);
    let thought = |text: &str| ModelEvent::Reasoning(text.into());
    assert_eq!(decoded.events, [thought("Let me "), thought("think – 🦀."), text("Look"), text("ing.")]);
    let reply = decoded.reply();
    assert_eq!((reply.turn.text.as_str(), reply.stop), ("Looking.", StopReason::Finished));
    let calls: Vec<_> = reply.turn.calls.iter().map(|c| (&*c.id, &*c.name, &*c.arguments)).collect();
    assert_eq!(calls, [("toolu_1", "shot", "{\"url\": \"grüße\"}"), ("toolu_2", "now", "{}")]);
    assert_eq!(
        reply.usage,
        Usage {
            input_tokens: 442,
            cache_read_tokens: 400,
            cache_write_tokens: 30,
            output_tokens: 89,
            reasoning_tokens: 40
        }
    );
    let content = json!([
        {"type": "thinking", "thinking": "Let me think – 🦀.", "signature": "EqQB"},
        {"type": "redacted_thinking", "data": "Em4K"},
        {"type": "text", "text": "Looking.", "citations": [{"type": "char_location", "cited_text": "x"}]},
        {"type": "tool_use", "id": "toolu_1", "name": "shot", "input": {"url": "grüße"}},
        {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}, "caller": {"type": "direct"}},
    ]);
    let value = json!({"role": "assistant", "content": content});
    assert_eq!(reply.turn.verbatim, Some(Verbatim { wire: "anthropic-messages".into(), value }));
}

#[test]
fn thinking_that_is_not_shown_keeps_its_signature() {
    let decoded = events(
        &[
            start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "signature_delta", "signature": "s"})),
            stop(0),
        ],
        "end_turn",
    );
    assert_eq!(decoded.events, []);
    assert_eq!(decoded.verbatim()["content"], json!([{"type": "thinking", "thinking": "", "signature": "s"}]));
}

#[test]
fn stop_reasons_keep_their_meaning() {
    for (word, reason) in [
        ("end_turn", StopReason::Finished),
        ("stop_sequence", StopReason::Finished),
        ("tool_use", StopReason::Finished),
        ("max_tokens", StopReason::Length),
        ("model_context_window_exceeded", StopReason::Length),
        ("pause_turn", StopReason::Paused),
        ("refusal", StopReason::Refused),
        ("new_word", StopReason::Other("new_word".into())),
    ] {
        assert_eq!(events(&[], word).reply().stop, reason, "{word}");
    }
}

#[test]
fn why_the_model_refused_is_shown() {
    let stop = json!({"type": "message_delta", "delta": {
        "stop_reason": "refusal", "stop_details": {"category": "cyber", "explanation": "Not this."},
    }});
    let begin = [start(0, json!({"type": "text", "text": "Well"})), stop];
    let text_of = |events: &[Value]| {
        let all = events.iter().cloned().chain([json!({"type": "message_stop"})]);
        let reply = stream(&all.map(|data| event(&data)).collect::<String>()).reply();
        (reply.turn.text, reply.stop)
    };
    assert_eq!(text_of(&begin), ("Well\n\nNot this.".into(), StopReason::Refused));
    assert_eq!(text_of(&begin[1..]), ("Not this.".into(), StopReason::Refused));
}

#[test]
fn a_call_that_was_cut_off_keeps_what_was_written_of_it() {
    let cut = |written: &str| events(&[tool(0, "a", "t"), input(0, written)], "max_tokens");
    let reply = cut("{\"x\": \"y").reply();
    assert_eq!((reply.turn.calls[0].arguments.as_str(), reply.stop), ("{\"x\": \"y", StopReason::Length));
    assert_eq!(cut("{\"x\": \"y").verbatim()["content"][0]["input"], json!({}));
    // Nothing is not the same as no arguments, but only for the call that was cut off.
    assert_eq!(cut("").calls(), [call("a", "t", "")]);
    let two = events(&[tool(0, "a", "t"), tool(1, "b", "t"), input(1, "{\"x\"")], "max_tokens");
    assert_eq!(two.calls(), [call("a", "t", "{}"), call("b", "t", "{\"x\"")]);
}

#[test]
fn arguments_that_are_no_json_stay_as_the_model_wrote_them() {
    let decoded = events(&[tool(0, "a", "t"), input(0, "{\"x\":}"), stop(0)], "tool_use");
    assert_eq!(decoded.calls(), [call("a", "t", "{\"x\":}")]);
}

#[test]
fn a_stream_without_its_end_is_cut_off() {
    let cut = "the provider's stream broke off before its end";
    for end in ["event: message_stop", "event: message_delta"] {
        let begin = &RECORDED[..RECORDED.find(end).unwrap()];
        assert_eq!(stream(begin).reply, Err(cut.into()));
        // The end marker alone does not say why the model stopped.
        assert_eq!(stream(&format!("{begin}data: [DONE]\n\n")).reply, Err(cut.into()));
    }
    assert_eq!(stream("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n").reply, Err(cut.into()));
    assert_eq!(stream("").reply, Err(cut.into()));
}

#[test]
fn an_error_anywhere_is_an_error() {
    let overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\
                      \"Overloaded\"},\"request_id\":\"req_1\"}\n\n";
    let expected = Err("the provider is not available (HTTP 529): Overloaded".to_owned());
    for end in ["event: ping", "event: message_delta", "event: message_stop"] {
        let begin = &RECORDED[..RECORDED.find(end).unwrap()];
        assert_eq!(stream(&format!("{begin}{overloaded}")).reply, expected);
    }
    for (data, message) in [
        (
            r#"{"error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
            "the provider refused the key (HTTP 401): invalid x-api-key",
        ),
        (
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}"#,
            "the conversation is too long for the model: prompt is too long: 9 tokens > 8 maximum",
        ),
        (r#"{"type":"error"}"#, "the provider is not available (HTTP 200): {\"type\":\"error\"}"),
    ] {
        assert_eq!(stream(&format!("data: {data}\n\n")).reply, Err(message.into()));
        assert_eq!(whole(&serde_json::from_str(data).unwrap()).reply, Err(message.into()));
    }
}

#[test]
fn pieces_of_an_unknown_kind_are_kept_for_blocks_of_an_unknown_kind_only() {
    let decoded = events(
        &[
            start(0, json!({"type": "compaction", "content": "a"})),
            delta(0, json!({"type": "compaction_delta", "content": "b", "size": 2})),
            start(1, json!({"type": "text", "text": "c"})),
            delta(1, json!({"type": "new_delta", "text": "d"})),
        ],
        "end_turn",
    );
    assert_eq!(
        decoded.verbatim()["content"],
        json!([{"type": "compaction", "content": "ab", "size": 2}, {"type": "text", "text": "c"}])
    );
}

#[test]
fn text_without_a_beginning_is_kept_and_a_call_without_one_refused() {
    let decoded = events(
        &[
            delta(0, json!({"type": "thinking_delta", "thinking": "a"})),
            delta(1, json!({"type": "text_delta", "text": "b"})),
        ],
        "end_turn",
    );
    assert_eq!(
        decoded.verbatim()["content"],
        json!([{"type": "thinking", "thinking": "a"}, {"type": "text", "text": "b"}])
    );
    let bad = |what: &str| Err(format!("the provider sent a response that cannot be read: {what}"));
    assert_eq!(
        events(&[input(0, "{}")], "tool_use").reply,
        bad("it holds a piece of a content block that never began")
    );
    assert_eq!(events(&[tool(0, "a", "")], "tool_use").reply, bad("it holds a tool call without a name"));
    assert_eq!(
        stream("event: ping\ndata: {no\n\n").reply,
        bad("an event is not JSON (key must be a string at line 1 column 2): {no")
    );
}

#[test]
fn a_turn_may_have_as_many_blocks_as_the_limit_and_no_more() {
    let blocks = |count: u64| {
        let list: Vec<_> = (0..count).map(|n| start(n, json!({"type": "text", "text": "a"}))).collect();
        events(&list, "end_turn").reply.map(|reply| reply.turn.text.len())
    };
    assert_eq!(blocks(1024), Ok(1024));
    let refused = "the provider sent a response that cannot be read: it holds more than 1024 content blocks";
    assert_eq!(blocks(1025), Err(refused.into()));
}

#[test]
fn one_json_value_becomes_the_same_turn() {
    let content = json!([
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "a", "name": "t", "input": {"x": 1}},
        {"type": "tool_use", "id": "b", "name": "now", "input": {}},
    ]);
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "content": content, "stop_reason": "tool_use",
        "usage": {"input_tokens": 12, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 3, "output_tokens": 40},
    });
    let decoded = whole(&body);
    assert_eq!(decoded.events, [ModelEvent::Reasoning("Hm.".into()), text("Looking.")]);
    let reply = decoded.reply.as_ref().unwrap();
    let usage = Usage { input_tokens: 15, cache_read_tokens: 3, output_tokens: 40, ..Usage::default() };
    assert_eq!((reply.usage, &reply.stop, &*reply.turn.text), (usage, &StopReason::Finished, "Looking."));
    assert_eq!(reply.turn.verbatim.as_ref().unwrap().value["content"], content);
    assert_eq!(decoded.calls(), [call("a", "t", r#"{"x":1}"#), call("b", "now", "{}")]);
}

#[test]
fn a_json_value_that_is_no_message_is_a_bad_response() {
    for body in [json!({}), json!([]), json!(7), json!({"content": "text"})] {
        let expected = "the provider sent a response that cannot be read: it has no content";
        assert_eq!(whole(&body).reply, Err(expected.into()));
    }
}

#[test]
fn nothing_that_a_server_sends_makes_it_panic() {
    for odd in [json!(null), json!(7), json!("x"), json!([]), json!({"type": 7}), json!({"type": "text", "text": 7})] {
        for data in [start(0, odd.clone()), delta(0, odd.clone()), json!({"type": "message_delta", "delta": odd})] {
            let _ = events(&[start(0, json!({"type": "text", "text": ""})), data], "end_turn");
        }
        let _ = (whole(&json!({"content": [odd.clone()]})), stream(&format!("data: {odd}\n\n")));
    }
    let _ = events(&[json!({"type": "message_start", "message": {"usage": {"input_tokens": -1}}})], "end_turn");
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events_and_the_same_turn(
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let bytes = RECORDED.as_bytes();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let whole = stream(RECORDED);
        prop_assert_eq!(pieces(at.windows(2).map(|pair| &bytes[pair[0]..pair[1]])), whole);
    }
}

#[test]
fn single_bytes_give_the_same_turn() {
    assert_eq!(pieces(RECORDED.as_bytes().chunks(1)), stream(RECORDED));
}

#[test]
fn arguments_in_another_form_become_the_text_that_they_mean() {
    let written = |piece: Value| {
        let piece = delta(0, json!({"type": "input_json_delta", "partial_json": piece}));
        let decoded = events(&[tool(0, "a", "t"), piece, stop(0)], "tool_use");
        let input =
            decoded.reply.as_ref().unwrap().turn.verbatim.as_ref().unwrap().value["content"][0]["input"].clone();
        (decoded.calls(), input)
    };
    let meant = (vec![call("a", "t", r#"{"x":1}"#)], json!({"x": 1}));
    // An object where a text should be, and a text of a text.
    assert_eq!(written(json!({"x": 1})), meant);
    assert_eq!(written(json!(r#""{\"x\":1}""#)), meant);
    assert_eq!(written(json!("null")), (vec![call("a", "t", "{}")], json!({})));
    let at_once = start(0, json!({"type": "tool_use", "id": "a", "name": "t", "input": r#"{"x":1}"#}));
    let decoded = events(&[at_once], "tool_use");
    assert_eq!(decoded.verbatim()["content"][0]["input"], json!({"x": 1}));
}

#[test]
fn a_piece_of_another_kind_than_its_block_is_refused() {
    // Kept, it would give the block a field that Anthropic refuses, with this question and with every later one.
    let pieces = |kind: &str| match kind {
        "text" => json!({"type": "text_delta", "text": "a"}),
        "thinking" => json!({"type": "thinking_delta", "thinking": "a"}),
        "signature" => json!({"type": "signature_delta", "signature": "a"}),
        "input" => json!({"type": "input_json_delta", "partial_json": "{}"}),
        _ => json!({"type": "citations_delta", "citation": {}}),
    };
    let bad =
        "the provider sent a response that cannot be read: it holds a piece of another kind than its content block";
    for (block, fitting) in [
        (json!({"type": "text", "text": ""}), &["text", "citation"][..]),
        (json!({"type": "thinking", "thinking": ""}), &["thinking", "signature"]),
        (json!({"type": "redacted_thinking", "data": "x"}), &[]),
        (json!({"type": "tool_use", "id": "a", "name": "t", "input": {}}), &["input"]),
        (json!({"type": "new_block"}), &["text", "thinking", "signature", "input", "citation"]),
    ] {
        for kind in ["text", "thinking", "signature", "input", "citation"] {
            let reply = events(&[start(0, block.clone()), delta(0, pieces(kind))], "end_turn").reply;
            let expected = if fitting.contains(&kind) { None } else { Some(bad.to_owned()) };
            assert_eq!(reply.err(), expected, "{kind} for {block}");
        }
    }
}
