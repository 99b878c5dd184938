//! What went wrong elsewhere with Gemini. Each case names a public bug report.

use serde_json::json;
use toolcell_agent::StopReason;

use super::decode::tests::{call, parts, stream};

#[test]
fn a_malformed_call_is_a_failure_and_no_answer() {
    // langchain-ai/langgraph#6574, NousResearch/hermes-agent#83869: the run ended silently, saved as a success.
    // vellum-ai/vellum-assistant#43134: the tail of the broken call was taken for the answer.
    for reason in ["MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"] {
        let leaked = json!({"text": "]})"});
        let error = parts(&[leaked], reason).reply.unwrap_err();
        assert_eq!(
            error,
            format!("the provider is not available (HTTP 200): the model wrote a call that cannot be read ({reason})")
        );
    }
    let message = json!({"candidates": [
        {"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "Malformed function call: print("},
    ]});
    let error = stream(&[message]).reply.unwrap_err();
    assert!(error.ends_with("(MALFORMED_FUNCTION_CALL: Malformed function call: print()"), "{error}");
}

#[test]
fn content_without_parts_is_no_crash() {
    // inngest/agent-kit#178, BerriAI/litellm#24453.
    for content in [json!({}), json!({"role": "model"}), json!(null), json!({"parts": null})] {
        let reply = stream(&[json!({"candidates": [{"content": content, "finishReason": "STOP"}]})]).reply();
        assert_eq!((reply.turn.text.as_str(), reply.turn.calls.len(), reply.stop), ("", 0, StopReason::Finished));
    }
}

#[test]
fn every_call_keeps_its_own_signature() {
    // agnt-gg/agnt#35: one signature was kept for a turn with many calls.
    let list = [
        json!({"functionCall": {"name": "a", "args": {}}, "thoughtSignature": "one"}),
        json!({"functionCall": {"name": "b", "args": {}}}),
        json!({"functionCall": {"name": "c", "args": {}}, "thoughtSignature": "three"}),
    ];
    assert_eq!(parts(&list, "STOP").verbatim()["parts"], json!(list));
}

#[test]
fn calls_of_several_chunks_are_all_kept_although_the_reason_is_stop() {
    // 0xPlaygrounds/rig#2250: all but the last parallel call were lost; anomalyco/opencode#14972, vercel/workflow#1387:
    // calls were thrown away because of the reason.
    for reason in ["STOP", "OTHER", "UNKNOWN"] {
        let one = |id: &str| json!({"functionCall": {"id": id, "name": "t", "args": {"x": id}}});
        assert_eq!(
            parts(&[one("a"), one("b")], reason).calls(),
            [call("a", "t", r#"{"x":"a"}"#), call("b", "t", r#"{"x":"b"}"#)]
        );
    }
}

#[test]
fn a_turn_that_was_cut_at_its_limit_does_not_look_complete() {
    // zhayujie/CowAgent#3074.
    assert_eq!(parts(&[json!({"text": "half"})], "MAX_TOKENS").reply().stop, StopReason::Length);
}
