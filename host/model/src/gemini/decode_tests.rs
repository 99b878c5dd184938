//! Tests of responses as they are put together.

use proptest::prelude::*;

use super::*;
pub(in crate::gemini) use crate::test_support::called as call;
use crate::test_support::{Decoded, decode, decode_whole, fresh, text, thought};

fn whole(body: &Value) -> Decoded {
    decode_whole(Decoder::new(fresh), body)
}

/// A stream of chunks.
pub(in crate::gemini) fn stream(chunks: &[Value]) -> Decoded {
    let text: String = chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect();
    decode(Decoder::new(fresh), &[text.as_bytes()])
}

/// A stream of parts, a chunk for each, that ends with a reason.
pub(in crate::gemini) fn parts(parts: &[Value], reason: &str) -> Decoded {
    let mut chunks: Vec<_> = parts.iter().map(|part| chunk(&json!([part]))).collect();
    chunks.push(json!({"candidates": [{"finishReason": reason, "index": 0}]}));
    stream(&chunks)
}

fn chunk(parts: &Value) -> Value {
    json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}}]})
}

/// A stream of Gemini 3 with everything in it.
const RECORDED: &str = concat!(
    "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"**Plan**\",\"thought\": true}],\"role\": \"model\"},",
    "\"index\": 0}],\"usageMetadata\": {\"promptTokenCount\": 9,\"totalTokenCount\": 39,\"thoughtsTokenCount\": 30},",
    "\"modelVersion\": \"gemini-3-pro\",\"responseId\": \"r1\"}\r\n\r\n",
    "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \" ahead\",\"thought\": true}],\"role\": \"model\"}}]}\r\n\r\n",
    "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"Grüße \"}],\"role\": \"model\"},\"index\": 0}]}\r\n\r\n",
    "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"🦀.\"}],\"role\": \"model\"},\"index\": 0}]}\r\n\r\n",
    "data: {\"candidates\": [{\"content\": {\"parts\": [{\"functionCall\": {\"name\": \"shot\",\"args\": {\"n\": 3.0},",
    "\"id\": \"fc1\"},\"thoughtSignature\": \"c2ln\"},{\"functionCall\": {\"name\": \"now\"}}],\"role\": \"model\"}}]}\r\n\r\n",
    "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"\",\"thoughtSignature\": \"ZW5k\"}],\"role\": \"model\"},",
    "\"finishReason\": \"STOP\",\"index\": 0}],\"usageMetadata\": {\"promptTokenCount\": 9,\"candidatesTokenCount\": 7,",
    "\"toolUsePromptTokenCount\": 2,\"cachedContentTokenCount\": 4,\"thoughtsTokenCount\": 30,\"totalTokenCount\": 48}}",
    "\r\n\r\n",
);

#[test]
fn a_stream_with_everything_becomes_a_turn() {
    let decoded = decode(Decoder::new(fresh), &[RECORDED.as_bytes()]);
    assert_eq!(decoded.events, [thought("**Plan**"), thought(" ahead"), text("Grüße "), text("🦀.")]);
    let reply = decoded.reply();
    let value = json!({"role": "model", "parts": [
        {"text": "**Plan** ahead", "thought": true},
        {"text": "Grüße 🦀."},
        {"functionCall": {"name": "shot", "args": {"n": 3.0}, "id": "fc1"}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "now"}},
        {"text": "", "thoughtSignature": "ZW5k"},
    ]});
    let calls = [("fc1", "shot", r#"{"n":3}"#), ("call_fresh", "now", "{}")];
    let calls = calls.map(|(id, name, args)| CallRequest { id: id.into(), name: name.into(), arguments: args.into() });
    let verbatim = Some(Verbatim { wire: "gemini".into(), value });
    assert_eq!(reply.turn, AssistantTurn { text: "Grüße 🦀.".into(), calls: calls.to_vec(), verbatim });
    assert_eq!(reply.stop, StopReason::Finished);
    let expected = Usage {
        input_tokens: 11,
        cache_read_tokens: 4,
        cache_write_tokens: 0,
        output_tokens: 37,
        reasoning_tokens: 30,
    };
    assert_eq!(reply.usage, expected);
}

proptest! {
    #[test]
    fn any_split_of_a_stream_gives_the_same_turn(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let bytes = RECORDED.as_bytes();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let pieces: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(decode(Decoder::new(fresh), &pieces), decode(Decoder::new(fresh), &[bytes]));
    }
}

#[test]
fn texts_are_merged_only_where_nothing_is_lost() {
    let list = [
        json!({"text": "a"}),
        json!({"text": "b"}),
        json!({"text": "c", "thoughtSignature": "s"}),
        json!({"text": "d"}),
        json!({"text": "e", "thought": true}),
        json!({"text": ""}),
    ];
    let decoded = parts(&list, "STOP");
    assert_eq!(
        decoded.verbatim()["parts"],
        json!([{"text": "ab"}, {"text": "c", "thoughtSignature": "s"}, {"text": "d"}, {"text": "e", "thought": true}])
    );
}

#[test]
fn parts_that_are_not_read_are_kept() {
    let part = json!({"executableCode": {"language": "PYTHON", "code": "1"}});
    assert_eq!(parts(&[part.clone(), json!({}), json!(7)], "STOP").verbatim()["parts"], json!([part]));
}

#[test]
fn every_reason_to_stop_has_its_meaning() {
    let stop = |reason: &str| parts(&[json!({"text": "x"})], reason).reply().stop;
    for reason in ["STOP", "FUNCTION_CALL"] {
        assert_eq!(stop(reason), StopReason::Finished);
    }
    assert_eq!(stop("MAX_TOKENS"), StopReason::Length);
    for reason in [
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_OTHER",
        "MODEL_ARMOR",
    ] {
        assert_eq!(stop(reason), StopReason::Refused, "{reason}");
    }
    for reason in ["OTHER", "LANGUAGE", "TOO_MANY_TOOL_CALLS", "NEW_REASON"] {
        assert_eq!(stop(reason), StopReason::Other(reason.into()));
    }
}

#[test]
fn a_call_of_a_tool_that_was_not_offered_is_a_call() {
    let part = json!({"functionCall": {"name": "undeclared", "args": {}}});
    assert_eq!(parts(&[part], "UNEXPECTED_TOOL_CALL").calls(), [call("call_fresh", "undeclared", "{}")]);
    assert_eq!(
        parts(&[], "UNEXPECTED_TOOL_CALL").reply.unwrap_err(),
        "the provider is not available (HTTP 200): the model wrote a call that cannot be read (UNEXPECTED_TOOL_CALL)"
    );
}

#[test]
fn a_blocked_prompt_is_refused_in_words() {
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": []}, "usageMetadata": {}});
    let expected =
        "the provider refused the request (HTTP 200): the prompt was blocked by the provider's filter (SAFETY)";
    assert_eq!(stream(std::slice::from_ref(&blocked)).reply.unwrap_err(), expected);
    assert_eq!(whole(&blocked).reply.unwrap_err(), expected);
}

#[test]
fn a_stream_without_a_reason_was_cut_off() {
    let cut = "the provider's stream broke off before its end";
    assert_eq!(stream(&[chunk(&json!([{"text": "x"}]))]).reply.unwrap_err(), cut);
    assert_eq!(decode(Decoder::new(fresh), [b""]).reply.unwrap_err(), cut);
}

#[test]
fn a_failure_inside_a_stream_is_found_in_any_form() {
    let begin = format!("data: {}\n\n", chunk(&json!([{"text": "x"}])));
    let error = json!({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}});
    for end in [format!("data: {error}\n\n"), format!("{error}\n"), format!("{error:#}\n")] {
        let decoded = decode(Decoder::new(fresh), &[begin.as_bytes(), end.as_bytes()]);
        assert_eq!(decoded.reply.unwrap_err(), "the provider is not available (HTTP 503): overloaded", "{end}");
    }
}

#[test]
fn one_json_value_is_read_as_an_answer_and_a_list_as_a_stream() {
    let part = |text: &str, reason: Value| {
        let content = json!({"parts": [{"text": text}], "role": "model"});
        json!({"candidates": [{"content": content, "finishReason": reason}]})
    };
    assert_eq!(whole(&part("x", json!("MAX_TOKENS"))).reply().stop, StopReason::Length);
    let list = json!([part("a", json!(null)), part("b", json!("STOP"))]);
    let decoded = whole(&list);
    assert_eq!(decoded.events, [text("a"), text("b")]);
    assert_eq!(decoded.verbatim()["parts"], json!([{"text": "ab"}]));
    let failed = json!([part("a", json!(null)), {"error": {"code": 503, "message": "no"}}]);
    assert_eq!(whole(&failed).reply.unwrap_err(), "the provider is not available (HTTP 503): no");
    let none = "the provider sent a response that cannot be read: it has no candidates";
    for body in [json!({}), json!([]), json!(null), json!({"candidates": []})] {
        assert_eq!(whole(&body).reply.unwrap_err(), none, "{body}");
    }
}

#[test]
fn arguments_that_are_no_object_are_kept_for_the_error() {
    let list =
        [json!({"functionCall": {"name": "t", "args": [1.0]}}), json!({"functionCall": {"name": "t", "args": "x"}})];
    let calls = parts(&list, "STOP").calls();
    assert_eq!(calls, [call("call_fresh", "t", "[1]"), call("call_fresh", "t", "\"x\"")]);
}

#[test]
fn a_turn_may_have_as_many_calls_as_the_limit_and_no_more() {
    let calls = |count: usize| parts(&vec![json!({"functionCall": {"name": "t"}}); count], "STOP").reply;
    assert_eq!(calls(CALLS_MAX).unwrap().turn.calls.len(), CALLS_MAX);
    assert!(calls(CALLS_MAX + 1).unwrap_err().ends_with("more than 128 tool calls"));
    let nameless = parts(&[json!({"functionCall": {"args": {}}})], "STOP").reply.unwrap_err();
    assert!(nameless.ends_with("it holds a tool call without a name"));
}

#[test]
fn a_text_of_arguments_is_read_like_the_arguments() {
    let list = [json!({"functionCall": {"name": "t", "args": "{\"x\":1}"}})];
    assert_eq!(parts(&list, "STOP").calls(), [call("call_fresh", "t", r#"{"x":1}"#)]);
}

#[test]
fn a_turn_may_have_as_many_parts_as_the_limit_and_no_more() {
    let signed = |count: usize| parts(&vec![json!({"text": "a", "thoughtSignature": "s"}); count], "STOP").reply;
    assert_eq!(signed(1024).unwrap().turn.text.len(), 1024);
    let refused = "the provider sent a response that cannot be read: it holds more than 1024 parts";
    assert_eq!(signed(1025).unwrap_err(), refused);
}

#[test]
fn a_reason_that_is_none_does_not_end_a_turn() {
    assert_eq!(
        parts(&[json!({"text": "a"})], "FINISH_REASON_UNSPECIFIED").reply,
        Err("the provider's stream broke off before its end".into())
    );
}
