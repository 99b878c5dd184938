//! Any events, on every wire: what a server sends may make an answer fail, never the program.

use std::collections::VecDeque;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolcell_agent::{ModelReply, Prompt};

use crate::anthropic::AnthropicExchange;
use crate::ask::{Decode, Delivery, Exchange, Progress};
use crate::chat::ChatExchange;
use crate::gemini::GeminiExchange;
use crate::provider_error::Failed;
use crate::responses::ResponsesExchange;
use crate::sse::Event;
use crate::vendor::{VENDORS, Wire};

fn read(mut decoder: impl Decode, events: &[Event], whole: Option<&Value>) -> Result<ModelReply, Failed> {
    let mut out = VecDeque::new();
    for event in events {
        if decoder.event(event, &mut out)? == Progress::Done {
            break;
        }
    }
    if let Some(whole) = whole {
        decoder.whole(whole, &mut out)?;
    }
    decoder.finish()
}

fn read_by(wire: &'static Wire, events: &[Event], whole: Option<&Value>) -> Result<ModelReply, Failed> {
    let (model, output_tokens_max, delivery) = ("m", None, Delivery::Streamed);
    let prompt = Prompt { system: None, messages: &[], tools: &[] };
    match wire {
        Wire::Chat(quirks) => {
            let exchange = ChatExchange::new(prompt, model, quirks, output_tokens_max, delivery);
            read(exchange.decoder(), events, whole)
        }
        Wire::Responses(quirks) => {
            let exchange = ResponsesExchange::new(prompt, model, quirks, output_tokens_max, delivery);
            read(exchange.decoder(), events, whole)
        }
        Wire::Anthropic(quirks) => {
            let exchange = AnthropicExchange { prompt, model, quirks, output_tokens_max, delivery };
            read(exchange.decoder(), events, whole)
        }
        Wire::Gemini => read(GeminiExchange { prompt, model, output_tokens_max, delivery }.decoder(), events, whole),
    }
}

#[test]
fn a_character_that_a_server_cut_in_two_is_whole_on_every_wire() {
    // Node's strings are cut by UTF-16 units; what is cut within a character is not JSON by itself.
    const HALVES: [&str; 2] = [r"a\ud83d", r"\ude00b"];
    let event = |data: String| Event { name: String::new(), data };
    let events = |begin: &[&str], half: &dyn Fn(&str) -> String, end: &[&str]| -> Vec<Event> {
        let begin = begin.iter().map(|data| (*data).to_owned());
        let end = end.iter().map(|data| (*data).to_owned());
        begin.chain(HALVES.map(half)).chain(end).map(event).collect()
    };
    for vendor in &VENDORS {
        let events = match &vendor.wire {
            Wire::Chat(_) => events(
                &[],
                &|half| format!(r#"{{"choices":[{{"delta":{{"content":"{half}"}}}}]}}"#),
                &[r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#],
            ),
            Wire::Responses(_) => events(
                &[],
                &|half| format!(r#"{{"type":"response.output_text.delta","output_index":0,"delta":"{half}"}}"#),
                &[r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#],
            ),
            Wire::Anthropic(_) => events(
                &[r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#],
                &|half| {
                    let delta = format!(r#"{{"type":"text_delta","text":"{half}"}}"#);
                    format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#)
                },
                &[r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#, r#"{"type":"message_stop"}"#],
            ),
            Wire::Gemini => events(
                &[],
                &|half| format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{half}"}}]}}}}]}}"#),
                &[r#"{"candidates":[{"finishReason":"STOP"}]}"#],
            ),
        };
        let reply = read_by(&vendor.wire, &events, None).map_err(|failed| failed.error.to_string());
        assert_eq!(reply.map(|reply| reply.turn.text), Ok("a😀b".to_owned()), "{}", vendor.name);
    }
}

/// Words that mean something to one of the wires.
const WORDS: [&str; 62] = [
    "",
    "{}",
    "{\"a\":",
    "stop",
    "STOP",
    "length",
    "tool_calls",
    "tool_use",
    "error",
    "text",
    "thinking",
    "assistant",
    "completed",
    "incomplete",
    "message",
    "function_call",
    "reasoning",
    "MAX_TOKENS",
    "MALFORMED_FUNCTION_CALL",
    "SAFETY",
    "end_turn",
    "pause_turn",
    "refusal",
    "input_json_delta",
    "text_delta",
    "thinking_delta",
    "signature_delta",
    "citations_delta",
    "redacted_thinking",
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "ping",
    "response.created",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.delta",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.refusal.delta",
    "response.reasoning_text.delta",
    "response.reasoning_summary_text.delta",
    "response.content_part.done",
    "call_a",
    "fc_1",
    "rs_1",
    "draw",
    "max_output_tokens",
    "content_filter",
    "output_text",
    "type",
    "reasoning.text",
    "summary",
    "function",
    "UNAVAILABLE",
    "34s",
];

/// Keys of all wires.
const KEYS: [&str; 61] = [
    "type",
    "id",
    "index",
    "delta",
    "text",
    "content",
    "choices",
    "message",
    "finish_reason",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "usage",
    "prompt_tokens",
    "error",
    "code",
    "status",
    "refusal",
    "reasoning_content",
    "reasoning_details",
    "extra_content",
    "content_block",
    "partial_json",
    "thinking",
    "signature",
    "input",
    "stop_reason",
    "stop_details",
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "citation",
    "citations",
    "candidates",
    "parts",
    "role",
    "functionCall",
    "args",
    "thoughtSignature",
    "thought",
    "finishReason",
    "usageMetadata",
    "promptTokenCount",
    "thoughtsTokenCount",
    "promptFeedback",
    "blockReason",
    "details",
    "response",
    "output",
    "item",
    "item_id",
    "output_index",
    "call_id",
    "encrypted_content",
    "summary",
    "incomplete_details",
    "reason",
    "output_tokens_details",
    "reasoning_tokens",
    "retryDelay",
];

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => prop::sample::select(WORDS.as_slice()).prop_map(Value::from),
        2 => (0..3_i64).prop_map(Value::from),
        1 => prop_oneof![Just(json!(null)), Just(json!(true)), Just(json!(-1)), Just(json!(1e300)), Just(json!(u64::MAX))],
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => prop::collection::vec((prop::sample::select(KEYS.as_slice()), inner), 0..6).prop_map(|entries| {
                Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
            }),
        ]
    })
}

/// An event whose kind is known to some wire, around anything.
fn events() -> impl Strategy<Value = Event> {
    let named = (prop::sample::select(WORDS.as_slice()), values()).prop_map(|(name, mut value)| {
        if let Some(object) = value.as_object_mut() {
            object.insert("type".to_owned(), json!(name));
        }
        Event { name: name.to_owned(), data: value.to_string() }
    });
    let choice = values().prop_map(|value| json!({"choices": [value]}).to_string());
    let candidate = values().prop_map(|value| json!({"candidates": [value]}).to_string());
    let data = prop_oneof![choice, candidate, Just("[DONE]".to_owned()), Just("not json".to_owned())];
    prop_oneof![3 => named, 2 => data.prop_map(|data| Event { name: String::new(), data })]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_events_make_a_decoder_panic(
        events in prop::collection::vec(events(), 0..12),
        whole in prop::option::of(values()),
    ) {
        for vendor in &VENDORS {
            if let Ok(reply) = read_by(&vendor.wire, &events, whole.as_ref()) {
                // Whatever came: the loop can find each result's call.
                let mut ids: Vec<_> = reply.turn.calls.iter().map(|call| &call.id).collect();
                ids.sort();
                ids.dedup();
                prop_assert_eq!(ids.len(), reply.turn.calls.len(), "{}: {:?}", vendor.name, reply.turn.calls);
            }
        }
    }
}
