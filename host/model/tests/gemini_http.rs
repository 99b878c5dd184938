//! Gemini against a server on this machine: what is sent, and what is tried again.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "what goes wrong in a test ends the test")]
#![allow(dead_code, reason = "the other wires use what this one does not")]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcell_agent::{ModelEvent, Usage};
use toolcell_model::{ApiKey, Delivery, Provider, ProviderOptions};

use support::{Reply, Server, ask, options, schema, vendor};

/// A real one has capitals, too; the server of the tests writes heads in lower case.
const KEY: &str = "aizasy-very-secret-key-0123456789";

fn provider(server: &Server, delivery: Delivery) -> Provider {
    let (vendor, model, key) = (vendor("gemini"), "models/gemini-3-pro".to_owned(), ApiKey::new(KEY).ok());
    Provider::new(ProviderOptions { vendor, model, key, delivery, ..options(server) }).unwrap()
}

fn answer(text: &str, reason: Value) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": reason, "index": 0}],
        "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2, "thoughtsTokenCount": 3},
    })
}

fn event(chunk: &Value) -> String {
    format!("data: {chunk}\r\n\r\n")
}

fn it_is_4(delivery: Delivery) -> Reply {
    match delivery {
        Delivery::Streamed => {
            Reply::stream(&(event(&answer("It is ", json!(null))) + &event(&answer("4.", json!("STOP")))))
        }
        Delivery::Whole => Reply::json(200, &[], &answer("It is 4.", json!("STOP"))),
    }
}

fn one(delivery: Delivery, chunk: &Value) -> Reply {
    match delivery {
        Delivery::Streamed => Reply::stream(&event(chunk)),
        Delivery::Whole => Reply::json(200, &[], chunk),
    }
}

async fn server(replies: impl IntoIterator<Item = Reply>) -> Server {
    Server::start(replies).await.with_schema(schema::GEMINI)
}

const BOTH: [Delivery; 2] = [Delivery::Streamed, Delivery::Whole];

#[tokio::test]
async fn a_question_is_sent_with_the_key_in_its_header_only() {
    for (delivery, path) in [
        (Delivery::Streamed, "/v1/models/gemini-3-pro:streamgeneratecontent?alt=sse"),
        (Delivery::Whole, "/v1/models/gemini-3-pro:generatecontent"),
    ] {
        let server = server([it_is_4(delivery)]).await;
        let reply = ask(&provider(&server, delivery)).await.end.unwrap();
        assert_eq!(reply.turn.text, "It is 4.");
        let usage = Usage { input_tokens: 7, output_tokens: 5, reasoning_tokens: 3, ..Usage::default() };
        assert_eq!(reply.usage, usage);
        let request = server.requests().remove(0);
        assert!(request.head.starts_with(&format!("post {path} http/1.1\r\n")), "{}", request.head);
        assert!(request.head.contains(&format!("x-goog-api-key: {KEY}\r\n")), "{}", request.head);
        assert_eq!(request.head.matches(KEY).count(), 1);
        assert!(!request.head.contains("authorization"));
        assert_eq!(request.body, json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}));
    }
}

#[tokio::test]
async fn a_key_that_is_refused_is_not_shown() {
    let error = json!({"error": {
        "code": 400, "message": format!("API key not valid: {KEY}."), "status": "INVALID_ARGUMENT",
        "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
    }});
    let server = server([Reply::json(400, &[], &error)]).await;
    let error = ask(&provider(&server, Delivery::Streamed)).await.error();
    assert_eq!(error, "the provider refused the key (HTTP 400): API key not valid: (key).");
    assert_eq!(server.count(), 1);
}

fn limited(quota: &str, delay: &str) -> Reply {
    let details = json!([
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
    ]);
    let error = json!({"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED", "details": details});
    Reply::json(429, &[], &json!({"error": error}))
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_as_long_as_its_details_say() {
    let quota = "GenerateRequestsPerMinutePerProjectPerModel";
    let server = server([limited(quota, "0.08s"), it_is_4(Delivery::Streamed)]).await;
    let begun = Instant::now();
    assert_eq!(ask(&provider(&server, Delivery::Streamed)).await.text(), "It is 4.");
    assert!(begun.elapsed() >= Duration::from_millis(80), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_quota_of_the_day_is_not_waited_for() {
    let server = server([limited("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "0.01s")]).await;
    let error = ask(&provider(&server, Delivery::Streamed)).await.error();
    assert_eq!(error, "the provider refused the request (HTTP 429): slow down");
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn a_malformed_call_is_asked_for_again_and_given_up_in_the_end() {
    let malformed = json!({"candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL"}]});
    for delivery in BOTH {
        let mended = server([one(delivery, &malformed), it_is_4(delivery)]).await;
        assert_eq!(ask(&provider(&mended, delivery)).await.text(), "It is 4.");
        assert_eq!(mended.count(), 2);
        let always = server(std::iter::repeat_with(|| one(delivery, &malformed)).take(9)).await;
        let error = ask(&provider(&always, delivery)).await.error();
        assert!(error.ends_with("the model wrote a call that cannot be read (MALFORMED_FUNCTION_CALL)"), "{error}");
        assert_eq!(always.count(), 4);
    }
}

#[tokio::test]
async fn a_failure_inside_a_stream_starts_the_answer_again() {
    let failure = json!({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}});
    for failure in [event(&failure), format!("{failure:#}\n")] {
        let broken = Reply::open()
            .send(&event(&answer("It was ", json!(null))))
            .wait(Duration::from_millis(20))
            .send(&failure)
            .close();
        let server = server([broken, it_is_4(Delivery::Streamed)]).await;
        let answer = ask(&provider(&server, Delivery::Streamed)).await;
        let reason = "the provider is not available (HTTP 503): overloaded".to_owned();
        let text = |text: &str| ModelEvent::Text(text.into());
        assert_eq!(answer.events, [text("It was "), ModelEvent::Restarted { reason }, text("It is "), text("4.")]);
        assert_eq!(answer.text(), "It is 4.");
    }
}

#[tokio::test]
async fn a_blocked_prompt_is_an_error_at_once() {
    for delivery in BOTH {
        let server = server([one(delivery, &json!({"promptFeedback": {"blockReason": "SAFETY"}}))]).await;
        let error = ask(&provider(&server, delivery)).await.error();
        assert!(error.ends_with("the prompt was blocked by the provider's filter (SAFETY)"), "{error}");
        assert_eq!(server.count(), 1);
    }
}

#[tokio::test]
async fn a_list_instead_of_a_stream_is_read() {
    let list = json!([answer("It is ", json!(null)), answer("4.", json!("STOP"))]);
    let server = server([Reply::json(200, &[], &list)]).await;
    assert_eq!(ask(&provider(&server, Delivery::Streamed)).await.text(), "It is 4.");
}
