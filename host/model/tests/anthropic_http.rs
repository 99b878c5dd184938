//! Anthropic Messages against a server on this machine: what is sent, and what is tried again.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "what goes wrong in a test ends the test")]
#![allow(dead_code, reason = "the other tests use the rest of what is shared")]

mod support;

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcell_agent::{AssistantTurn, CallRequest, Message, ModelEvent, ToolReply, Usage};
use toolcell_contract::{ContentPart, ToolResult};
use toolcell_model::{Delivery, Provider, ProviderOptions};

use support::{KEY, Reply, Server, ask, ask_about, schema, vendor};

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.into())
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

fn begin() -> String {
    let usage = json!({"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1});
    let block = json!({"type": "text", "text": ""});
    event(&json!({"type": "message_start", "message": {"content": [], "usage": usage}}))
        + &event(&json!({"type": "content_block_start", "index": 0, "content_block": block}))
}

fn says(text: &str) -> String {
    let delta = json!({"type": "text_delta", "text": text});
    event(&json!({"type": "content_block_delta", "index": 0, "delta": delta}))
}

fn end() -> String {
    let usage = json!({"output_tokens": 2});
    event(&json!({"type": "content_block_stop", "index": 0}))
        + &event(&json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}))
        + &event(&json!({"type": "message_stop"}))
}

fn it_is_4() -> String {
    begin() + &says("It is ") + &says("4.") + &end()
}

fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
}

async fn start(replies: impl IntoIterator<Item = Reply>) -> Server {
    Server::start(replies).await.with_schema(schema::ANTHROPIC)
}

fn options(server: &Server) -> ProviderOptions {
    ProviderOptions { vendor: vendor("anthropic"), model: "claude-x".to_owned(), ..support::options(server) }
}

fn provider(server: &Server) -> Provider {
    Provider::new(options(server)).unwrap()
}

#[tokio::test]
async fn one_json_value_under_the_name_of_a_stream_is_read() {
    let stream = [("content-type", "text/event-stream")];
    let body = json!({"type": "message", "content": [{"type": "text", "text": "It is 4."}], "stop_reason": "end_turn"});
    let failure = error("invalid_request_error", "no");
    let replies = [body.to_string(), format!("\u{feff}{body:#}\n"), failure.to_string()];
    let server = start(replies.map(|body| Reply::new(200, &stream, &body))).await;
    let provider = provider(&server);
    assert_eq!(ask(&provider).await.text(), "It is 4.");
    assert_eq!(ask(&provider).await.text(), "It is 4.");
    assert_eq!(ask(&provider).await.error(), "the provider refused the request (HTTP 200): no");
    assert_eq!(server.count(), 3);
}

#[tokio::test]
async fn a_question_is_sent_with_key_and_version_and_its_answer_streamed() {
    let server = start([Reply::stream(&it_is_4())]).await;
    let answer = ask(&provider(&server)).await;
    assert_eq!(answer.events, [text("It is "), text("4.")]);
    let usage = Usage { input_tokens: 7, cache_read_tokens: 2, output_tokens: 2, ..Usage::default() };
    assert_eq!(answer.end.unwrap().usage, usage);
    let request = server.requests().remove(0);
    assert!(request.head.starts_with("post /v1/messages http/1.1\r\n"), "{}", request.head);
    assert!(request.head.contains(&format!("\r\nx-api-key: {KEY}\r\n")), "{}", request.head);
    assert!(request.head.contains("\r\nanthropic-version: 2026-10-21\r\n"), "{}", request.head);
    assert!(!request.head.contains("authorization"), "{}", request.head);
    let content = json!([{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]);
    assert_eq!(
        request.body,
        json!({
            "model": "claude-x", "max_tokens": 16384, "stream": true,
            "messages": [{"role": "user", "content": content}],
        })
    );
}

#[tokio::test]
async fn an_answer_can_be_asked_for_whole() {
    let body = json!({
        "type": "message", "role": "assistant", "content": [{"type": "text", "text": "It is 4."}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 7, "output_tokens": 2},
    });
    let server = start([Reply::json(200, &[], &body)]).await;
    let options =
        ProviderOptions { delivery: Delivery::Whole, output_tokens_max: NonZeroU32::new(9), ..options(&server) };
    let answer = ask(&Provider::new(options).unwrap()).await;
    assert_eq!(answer.events, [text("It is 4.")]);
    assert_eq!(answer.end.unwrap().usage, Usage { input_tokens: 7, output_tokens: 2, ..Usage::default() });
    let request = server.requests().remove(0);
    assert_eq!((request.body.get("stream"), &request.body["max_tokens"]), (None, &json!(9)));
}

#[tokio::test]
async fn a_compatible_server_gets_the_first_version_and_a_bearer_key_or_none() {
    for (key, header) in [(options(&start([]).await).key, true), (None, false)] {
        let server = start([Reply::stream(&it_is_4())]).await.with_schema(schema::ANTHROPIC_2023);
        let options = ProviderOptions { vendor: vendor("anthropic-compatible"), key, ..options(&server) };
        assert_eq!(ask(&Provider::new(options).unwrap()).await.text(), "It is 4.");
        let head = server.requests().remove(0).head;
        assert!(head.contains("\r\nanthropic-version: 2023-06-01\r\n"), "{head}");
        assert_eq!(head.contains(&format!("\r\nauthorization: bearer {KEY}\r\n")), header, "{head}");
        assert!(!head.contains("x-api-key"), "{head}");
    }
}

#[tokio::test]
async fn an_overloaded_server_is_asked_again_after_the_time_that_it_names() {
    let overloaded = Reply::json(529, &[("retry-after", "0.08")], &error("overloaded_error", "Overloaded"));
    let server = start([overloaded, Reply::stream(&it_is_4())]).await;
    let begun = Instant::now();
    assert_eq!(ask(&provider(&server)).await.text(), "It is 4.");
    assert!(begun.elapsed() >= Duration::from_millis(80), "{:?}", begun.elapsed());
    assert_eq!(server.count(), 2);
}

#[tokio::test]
async fn an_overload_in_the_middle_of_an_answer_starts_it_again() {
    let overloaded = event(&error("overloaded_error", "Overloaded"));
    let shown = Reply::open().send(&(begin() + &says("It was "))).wait(Duration::from_millis(20)).send(&overloaded);
    let server = start([shown.close(), Reply::stream(&it_is_4())]).await;
    let answer = ask(&provider(&server)).await;
    let reason = "the provider is not available (HTTP 529): Overloaded".to_owned();
    assert_eq!(answer.events, [text("It was "), ModelEvent::Restarted { reason }, text("It is "), text("4.")]);
    assert_eq!(answer.text(), "It is 4.");
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_asked_for_again() {
    let half = begin() + &says("It was ");
    let server = start([Reply::open().send(&half), Reply::stream(&half), Reply::stream(&it_is_4())]).await;
    assert_eq!(ask(&provider(&server)).await.text(), "It is 4.");
    assert_eq!(server.count(), 3);
}

#[tokio::test]
async fn what_would_fail_again_is_not_sent_again() {
    for (status, body, expected) in [
        (
            400,
            error("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
            "the conversation is too long for the model: prompt is too long: 9 tokens > 8 maximum",
        ),
        (
            400,
            error("invalid_request_error", "input length and `max_tokens` exceed context limit: 7 + 2 > 8"),
            "the conversation is too long for the model: input length and `max_tokens` exceed context limit: 7 + 2 > 8",
        ),
        (
            400,
            error("invalid_request_error", "Your credit balance is too low"),
            "the provider refused the request (HTTP 400): Your credit balance is too low",
        ),
        (402, error("billing_error", "pay"), "the provider refused the request (HTTP 402): pay"),
        (403, error("permission_error", "not you"), "the provider refused the key (HTTP 403): not you"),
        (413, error("request_too_large", "32 MB"), "the provider refused the request (HTTP 413): 32 MB"),
        (200, error("authentication_error", "who?"), "the provider refused the key (HTTP 401): who?"),
    ] {
        let server = start([Reply::json(status, &[], &body)]).await;
        assert_eq!(ask(&provider(&server)).await.error(), expected);
        assert_eq!(server.count(), 1);
    }
}

#[tokio::test]
async fn a_limit_that_does_not_say_when_it_ends_is_not_asked_for_ever() {
    // A spend limit says nothing but this.
    let limited = || Reply::json(429, &[], &error("rate_limit_error", "This would exceed your limit"));
    let server = start(std::iter::repeat_with(limited).take(9)).await;
    let expected = "the provider is not available (HTTP 429): This would exceed your limit";
    assert_eq!(ask(&provider(&server)).await.error(), expected);
    assert_eq!(server.count(), 4);
}

#[tokio::test]
async fn the_key_is_in_no_error_although_the_provider_quotes_it() {
    let refused = Reply::json(401, &[], &error("authentication_error", &format!("invalid x-api-key {KEY}")));
    let inside = Reply::stream(&event(&error("invalid_request_error", KEY)));
    let junk = Reply::stream(&format!("data: {{{KEY}\n\n"));
    let server = start([refused, inside, junk]).await;
    let provider = provider(&server);
    let errors = [ask(&provider).await.error(), ask(&provider).await.error(), ask(&provider).await.error()];
    assert_eq!(errors[0], "the provider refused the key (HTTP 401): invalid x-api-key (key)");
    assert!(errors.iter().all(|error| error.contains("(key)") && !error.contains(KEY)), "{errors:?}");
    assert!(!format!("{provider:?}").contains(KEY));
}

#[tokio::test]
async fn a_picture_that_is_refused_is_described() {
    let refused = Reply::json(400, &[], &error("invalid_request_error", "messages.2: Could not process image"));
    let server = start([refused, Reply::stream(&it_is_4())]).await;
    let picture = ContentPart::from_bytes(b"\x89PNG\r\n\x1a\n".to_vec(), "image/png").unwrap();
    let call = CallRequest { id: "toolu_1".into(), name: "chart".into(), arguments: "{}".into() };
    let result = ToolResult::ok_with_parts("drawn", [picture]);
    let messages = [
        Message::user("draw"),
        Message::Assistant(AssistantTurn { calls: vec![call], ..AssistantTurn::default() }),
        Message::Tool { replies: vec![ToolReply { call_id: "toolu_1".into(), name: "chart".into(), result }] },
    ];
    let answer = ask_about(&provider(&server), &messages).await;
    assert!(matches!(answer.events.first(), Some(ModelEvent::Warning(_))), "{:?}", answer.events);
    assert_eq!(answer.text(), "It is 4.");
    let contents: Vec<_> =
        server.requests().iter().map(|r| r.body["messages"][2]["content"][0]["content"].clone()).collect();
    assert_eq!(contents[0][1]["type"], "image");
    assert_eq!(contents[1], "drawn\n[image/png, 8 bytes, not deliverable to this model]");
}

#[tokio::test]
async fn thoughts_and_calls_travel_there_and_back() {
    let events = [
        json!({"type": "message_start", "message": {"content": [], "usage": {}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}}),
        json!({"type": "content_block_start", "index": 1, "content_block": {
            "type": "tool_use", "id": "toolu_1", "name": "math", "input": {},
        }}),
        json!({"type": "content_block_delta", "index": 1, "delta": {
            "type": "input_json_delta", "partial_json": "{\"x\": 1}",
        }}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ];
    let asks: String = events.iter().map(event).collect();
    let server = start([Reply::stream(&asks), Reply::stream(&it_is_4())]).await;
    let provider = provider(&server);
    let reply = ask(&provider).await.end.unwrap();
    let result = ToolResult::error("x is too small");
    let messages = [
        Message::user("hi"),
        Message::Assistant(reply.turn),
        Message::Tool { replies: vec![ToolReply { call_id: "toolu_1".into(), name: "math".into(), result }] },
    ];
    assert_eq!(ask_about(&provider, &messages).await.text(), "It is 4.");
    assert_eq!(
        server.requests()[1].body["messages"].as_array().unwrap()[1..],
        [
            json!({"role": "assistant", "content": [
                {"type": "thinking", "thinking": "", "signature": "s"},
                {"type": "tool_use", "id": "toolu_1", "name": "math", "input": {"x": 1}},
            ]}),
            json!({"role": "user", "content": [{
                "type": "tool_result", "tool_use_id": "toolu_1", "is_error": true, "content": "x is too small",
                "cache_control": {"type": "ephemeral"},
            }]}),
        ]
    );
}
