//! OpenAI Responses against a server on this machine.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "what goes wrong in a test ends the test")]

#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use serde_json::{Value, json};
use toolcell_agent::{AssistantTurn, CallRequest, Message, ModelEvent, ToolReply, Usage};
use toolcell_contract::{ContentPart, ToolResult};
use toolcell_model::{Delivery, Provider, ProviderOptions};

use support::{KEY, Reply, Server, ask, ask_about, options, schema, vendor};

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.into())
}

async fn start(replies: impl IntoIterator<Item = Reply>) -> Server {
    Server::start(replies).await.with_schema(schema::RESPONSES)
}

fn provider(server: &Server, delivery: Delivery) -> Provider {
    let vendor = vendor("openai-responses");
    Provider::new(ProviderOptions { vendor, delivery, ..options(server) }).unwrap()
}

fn event(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
}

fn says(text: &str) -> String {
    event(&json!({"type": "response.output_text.delta", "output_index": 0, "delta": text}))
}

fn response(output: &Value) -> Value {
    json!({"id": "resp_1", "object": "response", "status": "completed", "error": null, "output": output,
           "usage": {"input_tokens": 7, "output_tokens": 2}})
}

fn completed(output: &Value) -> String {
    event(&json!({"type": "response.completed", "response": response(output)}))
}

fn answer() -> Value {
    json!([{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "It is 4.", "annotations": []}]}])
}

fn it_is_4() -> String {
    format!("{}{}{}", says("It is "), says("4."), completed(&answer()))
}

fn user(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

#[tokio::test]
async fn a_question_is_sent_with_the_key_and_its_answer_streamed() {
    let server = start([Reply::stream(&it_is_4())]).await;
    let answer = ask(&provider(&server, Delivery::Streamed)).await;
    assert_eq!(answer.events, [text("It is "), text("4.")]);
    assert_eq!(answer.end.unwrap().usage, Usage { input_tokens: 7, output_tokens: 2, ..Usage::default() });
    let request = server.requests().remove(0);
    assert!(request.head.starts_with("post /v1/responses http/1.1\r\n"), "{}", request.head);
    assert!(request.head.contains(&format!("authorization: bearer {KEY}\r\n")), "{}", request.head);
    assert_eq!(
        request.body,
        json!({
            "model": "gpt-x",
            "input": [user("hi")],
            "store": false,
            "include": ["reasoning.encrypted_content"],
            "stream": true,
        })
    );
}

#[tokio::test]
async fn an_answer_ends_at_its_last_event_and_not_with_the_connection() {
    let server = start([Reply::open().send(&it_is_4()).hang()]).await;
    assert_eq!(ask(&provider(&server, Delivery::Streamed)).await.text(), "It is 4.");
}

#[tokio::test]
async fn one_json_value_under_the_name_of_a_stream_is_read() {
    let stream = [("content-type", "text/event-stream")];
    let server = start([Reply::new(200, &stream, &response(&answer()).to_string())]).await;
    assert_eq!(ask(&provider(&server, Delivery::Streamed)).await.text(), "It is 4.");
}

#[tokio::test]
async fn an_answer_may_be_asked_for_whole() {
    let server = start([Reply::json(200, &[], &response(&answer()))]).await;
    let answer = ask(&provider(&server, Delivery::Whole)).await;
    assert_eq!(answer.events, [text("It is 4.")]);
    assert_eq!(answer.text(), "It is 4.");
    assert_eq!(server.requests()[0].body.get("stream"), None);
}

#[tokio::test]
async fn a_turn_with_calls_travels_there_and_back() {
    let turn = json!([
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "math", "arguments": "{\"x\":1}",
         "status": "completed"},
        {"type": "function_call", "id": "fc_2", "call_id": "call_b", "name": "math", "arguments": "{\"x\":",
         "status": "completed"},
    ]);
    for delivery in [Delivery::Streamed, Delivery::Whole] {
        let first = match delivery {
            Delivery::Streamed => Reply::stream(&completed(&turn)),
            Delivery::Whole => Reply::json(200, &[], &response(&turn)),
        };
        let server = start([first, Reply::stream(&it_is_4())]).await;
        let provider = provider(&server, delivery);
        let reply = ask(&provider).await.end.unwrap();
        let reply_to = |id: &str, result| ToolReply { call_id: id.into(), name: "math".into(), result };
        let messages = [
            Message::user("hi"),
            Message::Assistant(reply.turn),
            Message::Tool {
                replies: vec![
                    reply_to("call_a", ToolResult::ok("1")),
                    reply_to("call_b", ToolResult::error("not JSON")),
                ],
            },
        ];
        assert_eq!(ask_about(&provider, &messages).await.text(), "It is 4.");
        let mut echoed = turn.clone();
        echoed[2]["arguments"] = json!("{}");
        assert_eq!(
            server.requests()[1].body["input"],
            json!([
                user("hi"), echoed[0], echoed[1], echoed[2],
                {"type": "function_call_output", "call_id": "call_a", "output": "1"},
                {"type": "function_call_output", "call_id": "call_b", "output": "Error: not JSON"},
            ])
        );
    }
}

#[tokio::test]
async fn a_model_without_reasoning_is_asked_again_without_it() {
    let message = "Encrypted content is not supported with this model.";
    let refused = || {
        Reply::json(
            400,
            &[],
            &json!({"error": {"message": message, "type": "invalid_request_error", "param": "include"}}),
        )
    };
    let server = start([refused(), Reply::stream(&it_is_4())]).await;
    let answer = ask(&provider(&server, Delivery::Streamed)).await;
    assert_eq!(answer.events, [text("It is "), text("4.")]);
    let requests = server.requests();
    assert_eq!(requests[0].body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(requests[1].body.get("include"), None);
    // The next question does not ask for it again.
    let server = start([refused(), Reply::stream(&it_is_4()), Reply::stream(&it_is_4())]).await;
    let same = provider(&server, Delivery::Streamed);
    assert_eq!(ask(&same).await.text(), "It is 4.");
    assert_eq!(ask(&same).await.text(), "It is 4.");
    assert_eq!(server.requests()[2].body.get("include"), None);
    // A server that goes on refusing is believed.
    let server = start([refused(), refused()]).await;
    let expected = format!("the provider refused the request (HTTP 400): {message}");
    assert_eq!(ask(&provider(&server, Delivery::Streamed)).await.error(), expected);
    assert_eq!(server.count(), 2);
}

#[tokio::test]
async fn what_was_given_up_stays_given_up() {
    let refused = |message: &str| Reply::json(400, &[], &json!({"error": {"message": message}}));
    let replies = [
        refused("Invalid content type: input_image is not supported"),
        refused("Encrypted content is not supported with this model."),
        Reply::stream(&it_is_4()),
    ];
    let server = start(replies).await;
    let picture = ContentPart::from_bytes(vec![1, 2, 3], "image/png").unwrap();
    let call = CallRequest { id: "a".into(), name: "chart".into(), arguments: "{}".into() };
    let result = ToolResult::ok_with_parts("drawn", [picture]);
    let messages = [
        Message::user("draw"),
        Message::Assistant(AssistantTurn { calls: vec![call], ..AssistantTurn::default() }),
        Message::Tool { replies: vec![ToolReply { call_id: "a".into(), name: "chart".into(), result }] },
    ];
    assert_eq!(ask_about(&provider(&server, Delivery::Streamed), &messages).await.text(), "It is 4.");
    let requests = server.requests();
    assert_eq!(requests[0].body["input"][2]["output"][1]["type"], "input_image");
    let described = "drawn\n[image/png, 3 bytes, not deliverable to this model]";
    for request in &requests[1..] {
        assert_eq!(request.body["input"][2]["output"], described);
    }
    assert_eq!(requests[2].body.get("include"), None);
}

#[tokio::test]
async fn a_failure_inside_a_stream_is_tried_again_like_its_code() {
    let failed = |code: &str| {
        let error = json!({"code": code, "message": "m"});
        event(&json!({"type": "response.failed", "response": {"status": "failed", "error": error}}))
    };
    for code in ["server_error", "rate_limit_exceeded"] {
        let server = start([Reply::stream(&failed(code)), Reply::stream(&it_is_4())]).await;
        assert_eq!(ask(&provider(&server, Delivery::Streamed)).await.text(), "It is 4.", "{code}");
    }
    let server = start([Reply::stream(&failed("invalid_prompt"))]).await;
    let error = ask(&provider(&server, Delivery::Streamed)).await.error();
    assert_eq!(error, "the provider refused the request (HTTP 400): m");
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn a_stream_that_breaks_starts_again_and_says_so() {
    let server = start([Reply::stream(&says("It was ")), Reply::stream(&it_is_4())]).await;
    let answer = ask(&provider(&server, Delivery::Streamed)).await;
    let restarted = ModelEvent::Restarted { reason: "the provider's stream broke off before its end".into() };
    assert_eq!(answer.events, [text("It was "), restarted, text("It is "), text("4.")]);
    assert_eq!(answer.text(), "It is 4.");
}

#[tokio::test]
async fn a_stream_cut_into_single_bytes_is_the_same() {
    let stream = it_is_4().replace("4.", "4 – vier 🦀.");
    let reply = stream.as_bytes().chunks(1).fold(Reply::open(), Reply::send_bytes).close();
    let server = start([reply]).await;
    assert_eq!(ask(&provider(&server, Delivery::Streamed)).await.text(), "It is 4 – vier 🦀.");
}
