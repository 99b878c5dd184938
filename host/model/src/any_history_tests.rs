//! Any conversation, over every wire of every vendor: the body fits the provider's schema, and each call has its result.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolcell_agent::{AssistantTurn, CallRequest, Message, Prompt, ToolReply, is_balanced};
use toolcell_contract::{ContentPart, Definition, ToolResult};

use crate::anthropic::AnthropicExchange;
use crate::ask::{Delivery, Exchange, MediaUse};
use crate::chat::ChatExchange;
use crate::gemini::GeminiExchange;
use crate::responses::ResponsesExchange;
use crate::schema;
use crate::vendor::{VENDORS, Vendor, Wire};

fn body(vendor: &'static Vendor, prompt: Prompt<'_>, media: MediaUse) -> Value {
    let (model, output_tokens_max, delivery) = ("m", None, Delivery::Streamed);
    let body = match &vendor.wire {
        Wire::Chat(quirks) => ChatExchange::new(prompt, model, quirks, output_tokens_max, delivery).encode(media),
        Wire::Responses(quirks) => {
            ResponsesExchange::new(prompt, model, quirks, output_tokens_max, delivery).encode(media)
        }
        Wire::Anthropic(quirks) => {
            AnthropicExchange { prompt, model, quirks, output_tokens_max, delivery }.encode(media)
        }
        Wire::Gemini => GeminiExchange { prompt, model, output_tokens_max, delivery }.encode(media),
    };
    serde_json::from_slice(&body.json).unwrap()
}

fn schema_of(vendor: &Vendor) -> &'static str {
    match (&vendor.wire, vendor.name) {
        (Wire::Chat(_), "openai") => schema::OPENAI,
        (Wire::Chat(_), _) => schema::COMPATIBLE,
        (Wire::Responses(_), _) => schema::RESPONSES,
        (Wire::Anthropic(_), "anthropic") => schema::ANTHROPIC,
        (Wire::Anthropic(_), _) => schema::ANTHROPIC_2023,
        (Wire::Gemini, _) => schema::GEMINI,
    }
}

/// The ids of the calls, and those of the results, in order of the body; Gemini matches by name and order.
fn pairs(wire: &Wire, body: &Value) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match wire {
        Wire::Chat(_) => {
            for message in list(&body["messages"]) {
                calls.extend(list(&message["tool_calls"]).iter().map(|call| text(&call["id"])));
                results.extend(message.get("tool_call_id").map(text));
            }
        }
        Wire::Responses(_) => {
            for item in list(&body["input"]) {
                match item["type"].as_str() {
                    Some("function_call") => calls.push(text(&item["call_id"])),
                    Some("function_call_output") => results.push(text(&item["call_id"])),
                    _ => {}
                }
            }
        }
        Wire::Anthropic(_) => {
            for block in list(&body["messages"]).iter().flat_map(|message| list(&message["content"])) {
                match block["type"].as_str() {
                    Some("tool_use") => calls.push(text(&block["id"])),
                    Some("tool_result") => results.push(text(&block["tool_use_id"])),
                    _ => {}
                }
            }
        }
        Wire::Gemini => {
            for part in list(&body["contents"]).iter().flat_map(|content| list(&content["parts"])) {
                calls.extend(part.get("functionCall").map(|call| text(&call["name"])));
                results.extend(part.get("functionResponse").map(|result| text(&result["name"])));
            }
        }
    }
    (calls, results)
}

/// The roles of a conversation's messages in the order of the body. Templates of models and some servers refuse two
/// messages of one role in a row; of Responses that holds for the person's messages, its other items stand alone.
fn roles(wire: &Wire, body: &Value) -> Vec<String> {
    let (key, alternating): (_, &[&str]) = match wire {
        Wire::Chat(_) | Wire::Anthropic(_) => ("messages", &["user", "assistant"]),
        Wire::Gemini => ("contents", &["user", "model"]),
        Wire::Responses(_) => ("input", &["user"]),
    };
    let role = |message: &Value| message["role"].as_str().filter(|role| alternating.contains(role)).map(str::to_owned);
    let list = body[key].as_array().unwrap().iter();
    list.map(|message| role(message).unwrap_or_default()).collect()
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just("  \n".to_owned()), Just("Hello.".to_owned()), "\\PC{0,20}", any::<String>()]
}

fn parts() -> impl Strategy<Value = ContentPart> {
    let media = prop_oneof![
        Just("image/png"),
        Just("image/jpg"),
        Just("image/svg+xml"),
        Just("application/pdf"),
        Just("audio/wav"),
        Just("audio/mpeg"),
        Just("audio/flac"),
        Just("text/csv"),
        Just("application/zip"),
    ];
    let bytes = prop_oneof![Just(Vec::new()), Just(b"\x89PNG\r\n\x1a\n".to_vec()), Just(b"%PDF-1.4".to_vec())];
    prop_oneof![
        texts().prop_map(ContentPart::text),
        (media.clone(), bytes).prop_map(|(mime_type, bytes)| ContentPart::from_bytes(bytes, mime_type).unwrap()),
        media.prop_map(|mime_type| ContentPart::from_url_as("https://example.org/a", mime_type).unwrap()),
    ]
}

fn calls() -> impl Strategy<Value = (CallRequest, ToolResult)> {
    let ids = prop_oneof![
        Just(String::new()),
        Just("call_a".to_owned()),
        Just("chatcmpl-tool-0123456789012345678901234567890123456789".to_owned()),
        Just("toolu:x/y z".to_owned()),
        "[a-z]{1,9}",
    ];
    let names = prop_oneof![
        Just("draw".to_owned()),
        Just("no such tool!".to_owned()),
        Just("x".repeat(99)),
        Just(String::new())
    ];
    let arguments = prop_oneof![
        Just("{}".to_owned()),
        Just("{\"n\":3.0,\"s\":\"\\u0000\"}".to_owned()),
        Just("".to_owned()),
        Just("[1]".to_owned()),
        Just("{\"half\": ".to_owned()),
        Just(format!("{}{}", "[".repeat(500), "]".repeat(500))),
    ];
    let result = (texts(), any::<bool>(), prop::collection::vec(parts(), 0..3))
        .prop_map(|(output, is_error, parts)| ToolResult { output, is_error, parts, metadata: None });
    (ids, names, arguments, result)
        .prop_map(|(id, name, arguments, result)| (CallRequest { id, name, arguments }, result))
}

/// A balanced conversation, as a loop would make it.
fn histories() -> impl Strategy<Value = Vec<Message>> {
    let turn = (texts(), prop::collection::vec(calls(), 0..4));
    let exchange = (prop::option::of(prop::collection::vec(parts(), 0..3)), prop::option::of(turn));
    prop::collection::vec(exchange, 0..5).prop_map(|exchanges| {
        let mut messages = vec![Message::user("Begin.")];
        for (user, turn) in exchanges {
            messages.extend(user.map(|content| Message::User { content }));
            let Some((text, calls)) = turn else { continue };
            let (calls, results): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
            let reply = |(call, result): (&CallRequest, ToolResult)| ToolReply {
                call_id: call.id.clone(),
                name: call.name.clone(),
                result,
            };
            let replies: Vec<_> = calls.iter().zip(results).map(reply).collect();
            messages.push(Message::Assistant(AssistantTurn { text, calls, verbatim: None }));
            if !replies.is_empty() {
                messages.push(Message::Tool { replies });
            }
        }
        messages.push(Message::user("And now?"));
        messages
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_wire_can_send_it(messages in histories(), has_tools in any::<bool>(), described in any::<bool>()) {
        prop_assume!(is_balanced(&messages));
        let tool = Definition {
            name: "draw".into(),
            title: None,
            description: "Draws.".into(),
            input_schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
            output_schema: None,
            annotations: None,
        };
        let tools = if has_tools { vec![&tool] } else { vec![] };
        let prompt = Prompt { system: Some("Be brief."), messages: &messages, tools: &tools };
        let media = if described { MediaUse::Described } else { MediaUse::Sent };
        let asked = messages.iter().map(|message| match message {
            Message::Assistant(turn) => turn.calls.len(),
            _ => 0,
        });
        let asked: usize = asked.sum();
        for vendor in &VENDORS {
            let body = body(vendor, prompt, media);
            schema::check(schema_of(vendor), &body);
            let (calls, results) = pairs(&vendor.wire, &body);
            prop_assert_eq!(&calls, &results, "{}: {}", vendor.name, body);
            prop_assert_eq!(calls.len(), asked, "{}: {}", vendor.name, body);
            let roles = roles(&vendor.wire, &body);
            let repeats = roles.windows(2).any(|pair| pair[0] == pair[1] && !pair[0].is_empty());
            prop_assert!(!repeats, "{}: {}", vendor.name, body);
        }
    }
}

/// How a call of a turn ended that may have asked a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Plain,
    Approved,
    Declined,
    Expired,
    Cancelled,
}

impl Ended {
    const ALL: [Self; 5] = [Self::Plain, Self::Approved, Self::Declined, Self::Expired, Self::Cancelled];

    fn result(self) -> ToolResult {
        let no = |code: &str| ToolResult::error("declined/expired: Use the gpu?").with_metadata("code", code);
        match self {
            Self::Plain => ToolResult::ok("done"),
            Self::Approved => ToolResult::ok("approved: gpu"),
            Self::Declined => no("declined"),
            Self::Expired => no("expired"),
            Self::Cancelled => no("cancelled"),
        }
    }
}

#[test]
fn two_calls_of_one_turn_are_balanced_on_every_wire_however_each_was_decided() {
    // google/adk-python#6732, vercel/eve#236, dotnet/extensions#7533: a result was missing after a pause, and the provider
    // refused the conversation.
    for (first, second) in Ended::ALL.into_iter().flat_map(|first| Ended::ALL.map(|second| (first, second))) {
        let ended = [("c1", first), ("c2", second)];
        let calls = ended.map(|(id, _)| CallRequest { id: id.into(), name: "gpu".into(), arguments: "{}".into() });
        let replies =
            ended.map(|(id, ended)| ToolReply { call_id: id.into(), name: "gpu".into(), result: ended.result() });
        let messages = [
            Message::user("go"),
            Message::Assistant(AssistantTurn { calls: calls.into(), ..AssistantTurn::default() }),
            Message::Tool { replies: replies.into() },
        ];
        assert!(is_balanced(&messages));
        let prompt = Prompt { system: None, messages: &messages, tools: &[] };
        for vendor in &VENDORS {
            let body = body(vendor, prompt, MediaUse::Sent);
            schema::check(schema_of(vendor), &body);
            let (calls, results) = pairs(&vendor.wire, &body);
            assert_eq!((calls.len(), &calls), (2, &results), "{}: {first:?} {second:?}", vendor.name);
            // What the host keeps for itself is not sent.
            assert!(!body.to_string().contains("metadata\":{\"code"), "{}: {body}", vendor.name);
        }
    }
}
