//! Tests of responses as they are put together.

use super::*;
pub(in crate::chat) use crate::test_support::called as call;
use crate::test_support::{Decoded, decode, decode_whole, fresh, text};

/// Decodes the text of a stream, as it would arrive.
pub(in crate::chat) fn stream(text: &str) -> Decoded {
    decode(Decoder::new(fresh), [text.as_bytes()])
}

fn whole(body: &Value) -> Decoded {
    decode_whole(Decoder::new(fresh), body)
}

/// A stream of deltas that ends with `finish_reason` and `[DONE]`.
pub(in crate::chat) fn deltas(deltas: &[Value], finish_reason: &str) -> Decoded {
    let chunk = |delta: &Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let mut text: String = deltas.iter().map(|delta| format!("data: {}\n\n", chunk(delta))).collect();
    let last = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]});
    text.push_str(&format!("data: {last}\n\ndata: [DONE]\n\n"));
    stream(&text)
}

/// A stream whose deltas are pieces of calls.
pub(in crate::chat) fn pieces(lists: &[Value], finish_reason: &str) -> Decoded {
    let lists: Vec<_> = lists.iter().map(|list| json!({"tool_calls": list})).collect();
    deltas(&lists, finish_reason)
}

#[test]
fn a_recorded_stream_of_openai_becomes_a_turn() {
    let decoded = stream(concat!(
        "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":",
        "{\"role\":\"assistant\",\"content\":null,\"refusal\":null},\"logprobs\":null,\"finish_reason\":null}],",
        "\"usage\":null,\"obfuscation\":\"x\"}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Look\"},\"finish_reason\":null}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ing.\"},\"finish_reason\":null}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_a\",\"type\":\"function\",",
        "\"function\":{\"name\":\"shot\",\"arguments\":\"\"}}]},\"finish_reason\":null}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":",
        "\"{\\\"url\\\":\"}}]},\"finish_reason\":null}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":",
        "\"\\\"x\\\"}\"}}]},\"finish_reason\":null}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":5,\"total_tokens\":14,",
        "\"prompt_tokens_details\":{\"cached_tokens\":0}}}\n\n",
        "data: [DONE]\n\n",
    ));
    assert_eq!(decoded.events, [text("Look"), text("ing.")]);
    let arguments = r#"{"url":"x"}"#;
    let calls =
        vec![toolcell_agent::CallRequest { id: "call_a".into(), name: "shot".into(), arguments: arguments.into() }];
    let value = json!({
        "role": "assistant",
        "content": "Looking.",
        "tool_calls": [{"id": "call_a", "type": "function", "function": {"name": "shot", "arguments": arguments}}],
    });
    let verbatim = Some(Verbatim { wire: "openai-chat".into(), value });
    assert_eq!(
        decoded.reply(),
        ModelReply {
            turn: AssistantTurn { text: "Looking.".into(), calls, verbatim },
            stop: StopReason::Finished,
            usage: Usage { input_tokens: 9, output_tokens: 5, ..Usage::default() },
        }
    );
}

#[test]
fn a_turn_without_content_goes_back_as_null_beside_calls_and_as_text_alone() {
    let content = |decoded: Decoded| decoded.reply().turn.verbatim.unwrap().value["content"].take();
    let one = json!([{"index": 0, "id": "a", "function": {"name": "t", "arguments": "{}"}}]);
    assert_eq!(content(pieces(&[one], "tool_calls")), Value::Null);
    assert_eq!(content(deltas(&[], "stop")), "");
}

#[test]
fn why_the_model_stopped_is_kept() {
    let stop = |reason: &str| deltas(&[json!({"content": "x"})], reason).reply().stop;
    assert_eq!(stop("stop"), StopReason::Finished);
    assert_eq!(stop("tool_calls"), StopReason::Finished);
    for word in ["length", "model_length", "max_tokens"] {
        assert_eq!(stop(word), StopReason::Length, "{word}");
    }
    assert_eq!(stop("content_filter"), StopReason::Refused);
    assert_eq!(stop("repetition"), StopReason::Other("repetition".into()));
}

#[test]
fn a_refusal_is_shown_and_kept_as_one() {
    let decoded = deltas(&[json!({"refusal": "I can"}), json!({"refusal": "not."})], "stop");
    assert_eq!(decoded.events, [text("I can"), text("not.")]);
    let reply = decoded.reply();
    assert_eq!((reply.turn.text.as_str(), reply.stop), ("I cannot.", StopReason::Refused));
    assert_eq!(
        reply.turn.verbatim.unwrap().value,
        json!({"role": "assistant", "content": null, "refusal": "I cannot."})
    );
}

#[test]
fn reasoning_is_told_from_text_and_goes_back() {
    let decoded =
        deltas(&[json!({"reasoning_content": "Hm"}), json!({"reasoning_content": null, "content": "4"})], "stop");
    assert_eq!(decoded.events, [ModelEvent::Reasoning("Hm".into()), text("4")]);
    assert_eq!(
        decoded.reply().turn.verbatim.unwrap().value,
        json!({"role": "assistant", "content": "4", "reasoning_content": "Hm"})
    );
}

#[test]
fn content_as_a_list_of_parts_is_read() {
    let content = json!([
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]},
        {"type": "text", "text": "4"},
    ]);
    let decoded = deltas(&[json!({"content": content})], "stop");
    assert_eq!(decoded.events, [ModelEvent::Reasoning("Hm".into()), text("4")]);
    assert_eq!(decoded.reply().turn.text, "4");
}

#[test]
fn what_only_a_vendor_understands_goes_back_with_its_call() {
    let signature = json!({"google": {"thought_signature": "s"}});
    let decoded = pieces(
        &[json!([{"index": 0, "id": "a", "function": {"name": "t", "arguments": "{}"}, "extra_content": signature}])],
        "tool_calls",
    );
    assert_eq!(decoded.reply().turn.verbatim.unwrap().value["tool_calls"][0]["extra_content"], signature);
}

#[test]
fn the_last_usage_counts_and_odd_numbers_count_as_none() {
    let usage = |list: &[Value]| {
        let chunks: String = list.iter().map(|u| format!("data: {}\n\n", json!({"choices": [], "usage": u}))).collect();
        let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        let usage = stream(&format!("{chunks}{end}")).reply().usage;
        (usage.input_tokens, usage.output_tokens)
    };
    assert_eq!(usage(&[]), (0, 0));
    assert_eq!(
        usage(&[
            json!({"prompt_tokens": 1, "completion_tokens": 1}),
            json!({"prompt_tokens": 2, "completion_tokens": 3}),
            json!(null)
        ]),
        (2, 3)
    );
    assert_eq!(usage(&[json!({"prompt_tokens": -5, "completion_tokens": 1.5})]), (0, 0));
    assert_eq!(usage(&[json!({"prompt_tokens": u64::MAX, "completion_tokens": "7"})]), (u64::MAX, 0));
}

#[test]
fn a_stream_without_its_end_is_cut_off() {
    let cut = "the provider's stream broke off before its end";
    let chunk = |finish: Value| {
        let call = json!([{"index": 0, "id": "a", "function": {"name": "t", "arguments": "{\"a\":"}}]);
        format!("data: {}\n\n", json!({"choices": [{"delta": {"tool_calls": call}, "finish_reason": finish}]}))
    };
    assert_eq!(stream("").reply, Err(cut.into()));
    assert_eq!(stream(&chunk(json!(null))).reply, Err(cut.into()));
    // Older Ollama sends an empty reason with every piece.
    assert_eq!(stream(&chunk(json!(""))).reply, Err(cut.into()));
    // Gateways send the marker when the model behind them broke off.
    assert_eq!(stream(&format!("{}data: [DONE]\n\n", chunk(json!(null)))).reply, Err(cut.into()));
    // Ollama's failure in the middle: an empty delta and the end of the body.
    let empty = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";
    assert_eq!(stream(empty).reply, Err(cut.into()));
}

#[test]
fn arguments_that_did_not_begin_before_the_output_limit_are_not_none() {
    let begun = || [json!([{"index": 0, "id": "a", "function": {"name": "wipe", "arguments": ""}}])];
    assert_eq!(pieces(&begun(), "tool_calls").calls(), [call("a", "wipe", "{}")]);
    assert_eq!(pieces(&begun(), "length").calls(), [call("a", "wipe", "")]);
    let half = [json!([{"index": 0, "id": "a", "function": {"name": "wipe", "arguments": "{\"a"}}])];
    assert_eq!(pieces(&half, "length").calls(), [call("a", "wipe", "{\"a")]);
}

#[test]
fn the_end_of_the_body_is_enough_after_a_finish_reason() {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"4\"},\"finish_reason\":\"stop\"}]}\n\n";
    assert_eq!(stream(text).reply().turn.text, "4");
}

#[test]
fn nothing_after_the_end_marker_counts() {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"4\"},\"finish_reason\":\"stop\"}]}\n\ndata:[DONE]\n\ndata: junk\n\n";
    assert_eq!(stream(text).reply().turn.text, "4");
}

#[test]
fn an_error_in_the_middle_ends_the_stream_in_every_shape() {
    let end = |data: &str| {
        let begin = "data: {\"choices\":[{\"delta\":{\"content\":\"4\"}}]}\n\n";
        let decoded = stream(&format!("{begin}{data}\n\ndata: [DONE]\n\n"));
        assert_eq!(decoded.events, [text("4")]);
        decoded.reply.unwrap_err()
    };
    let inside = |status: u16, message: &str| format!("the provider is not available (HTTP {status}): {message}");
    assert_eq!(end(r#"data: {"error":{"message":"m","type":"server_error","code":null}}"#), inside(200, "m"));
    assert_eq!(end(r#"data: {"error":{"code":500,"message":"m","type":"server_error"}}"#), inside(500, "m"));
    assert_eq!(end(r#"data: {"error":"m"}"#), inside(200, "m"));
    assert_eq!(end("event: error\ndata: {\"code\":500,\"message\":\"m\",\"type\":\"server_error\"}"), inside(500, "m"));
    assert_eq!(end(r#"{"error":{"message":"m"}}"#), inside(200, "m"));
    assert_eq!(
        end(
            r#"data: {"choices":[{"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"m"}}]}"#
        ),
        inside(502, "m")
    );
    assert_eq!(end(r#"data: {"choices":[{"delta":{},"finish_reason":"error"}]}"#), inside(200, "the model broke off"));
    assert_eq!(
        end(r#"data: {"choices":[{"delta":{},"finish_reason":"insufficient_system_resource"}]}"#),
        inside(200, "the model broke off")
    );
    assert_eq!(
        end(r#"data: {"choices":[{"delta":{},"finish_reason":"stop","native_finish_reason":"error"}]}"#),
        inside(200, "the model broke off")
    );
}

#[test]
fn what_is_not_json_is_a_bad_response() {
    let error = stream("data: {\"choices\": oops}\n\n").reply.unwrap_err();
    let expected = "the provider sent a response that cannot be read: an event is not JSON (expected value at line 1 \
                    column 13): {\"choices\": oops}";
    assert_eq!(error, expected);
}

#[test]
fn chunks_that_say_nothing_are_passed_over() {
    let odd = "data: {}\n\ndata: null\n\ndata: []\n\ndata: 7\n\ndata: {\"choices\":null}\n\ndata:\n\n\
               data: {\"choices\":[{\"delta\":null}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":7,\"tool_calls\":null}}]}\n\n";
    let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let decoded = stream(&format!("{odd}{end}"));
    assert_eq!(decoded.events, []);
    assert_eq!(decoded.reply().turn.text, "");
}

#[test]
fn other_choices_than_the_first_are_passed_over() {
    let text = "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}},{\"index\":0,\"delta\":{\"content\":\"a\"},\
                \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    assert_eq!(stream(text).reply().turn.text, "a");
}

#[test]
fn a_whole_message_is_read_like_a_stream() {
    let decoded = whole(&json!({
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "Hm.", "refusal": null, "annotations": ["x"],
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "t", "arguments": ""}},
                {"type": "function", "function": {"name": "u", "arguments": {"x": 1}}},
            ],
        }}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    }));
    assert_eq!(decoded.events, [text("Hm.")]);
    let reply = decoded.reply();
    assert_eq!(reply.usage, Usage { input_tokens: 1, output_tokens: 2, ..Usage::default() });
    assert_eq!(
        reply.turn.verbatim.unwrap().value,
        json!({
            "role": "assistant", "content": "Hm.", "annotations": ["x"],
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "t", "arguments": "{}"}},
                {"id": "call_fresh", "type": "function", "function": {"name": "u", "arguments": "{\"x\":1}"}},
            ],
        })
    );
}

#[test]
fn a_whole_message_may_lack_a_finish_reason_but_not_itself() {
    assert_eq!(whole(&json!({"choices": [{"message": {"content": "4"}}]})).reply().stop, StopReason::Finished);
    let error = |body: Value| whole(&body).reply.unwrap_err();
    let bad = "the provider sent a response that cannot be read: ";
    assert_eq!(error(json!({"choices": []})), format!("{bad}it has no choices"));
    assert_eq!(error(json!({"choices": [{}]})), format!("{bad}its choice has no message"));
    assert_eq!(error(json!({"error": {"message": "m", "code": 429}})), "the provider is not available (HTTP 429): m");
}

#[test]
fn reasoning_may_have_as_many_details_as_the_limit_and_no_more() {
    let details = |count: usize| {
        let list = vec![json!({"type": "reasoning.encrypted", "data": "x"}); count];
        let reply = deltas(&[json!({"content": "4", "reasoning_details": list})], "stop").reply;
        reply.map(|reply| reply.turn.verbatim.unwrap().value["reasoning_details"].as_array().unwrap().len())
    };
    assert_eq!(details(16_384), Ok(16_384));
    let refused = "the provider sent a response that cannot be read: its reasoning has more than 16384 details";
    assert_eq!(details(16_385), Err(refused.into()));
}

#[test]
fn details_of_reasoning_that_are_none_do_not_go_back() {
    let detail = json!({"type": "reasoning.encrypted", "data": "x"});
    let decoded = deltas(&[json!({"content": "4", "reasoning_details": [null, 7, detail, "x"]})], "stop");
    assert_eq!(decoded.reply().turn.verbatim.unwrap().value["reasoning_details"], json!([detail]));
}
