//! A provider against a server on this machine: what is sent, what is made of every kind of reply, and what is tried
//! again.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "what goes wrong in a test ends the test")]

mod support;

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use serde_json::{Value, json};
use toolcell_agent::{
    AssistantTurn, CallRequest, Message, Model as _, ModelError, ModelEvent, Prompt, ToolReply, Usage,
};
use toolcell_contract::{ContentPart, Definition, ToolResult};
use toolcell_model::{BaseUrl, Provider, ProviderOptions};

use support::{KEY, Reply, Server, ask, ask_about, chunk, end, it_is_4, options, provider, says, schema, vendor};

const CUT: &str = "the provider's stream broke off before its end";

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.into())
}

fn overloaded() -> Reply {
    Reply::json(503, &[], &json!({"error": {"message": "overloaded"}}))
}

#[test]
fn the_checks_of_requests_refuse_what_they_should() {
    schema::check_samples(schema::OPENAI);
    schema::check_samples(schema::COMPATIBLE);
}

#[tokio::test]
async fn a_question_is_sent_with_the_key_and_its_answer_streamed() {
    let server = Server::start([Reply::stream(&it_is_4())]).await;
    let answer = ask(&provider(&server)).await;
    assert_eq!(answer.events, [text("It is "), text("4.")]);
    assert_eq!(answer.end.unwrap().usage, Usage { input_tokens: 7, output_tokens: 2, ..Usage::default() });
    let request = server.requests().remove(0);
    assert!(request.head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{}", request.head);
    assert!(request.head.contains(&format!("authorization: bearer {KEY}\r\n")), "{}", request.head);
    assert_eq!(
        request.body,
        json!({
            "model": "gpt-x",
            "messages": [{"role": "user", "content": "hi"}],
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
}

#[tokio::test]
async fn without_a_key_none_is_sent() {
    let server = Server::start([Reply::stream(&it_is_4())]).await.with_schema(schema::COMPATIBLE);
    let options = ProviderOptions { vendor: vendor("ollama"), key: None, ..options(&server) };
    assert_eq!(ask(&Provider::new(options).unwrap()).await.text(), "It is 4.");
    assert!(!server.requests()[0].head.contains("authorization"));
}

#[tokio::test]
async fn a_stream_cut_into_single_bytes_is_the_same() {
    let stream = format!(": wait\r\n\r\n{}", it_is_4().replace("4.", "4 – vier 🦀."));
    let reply = stream.as_bytes().chunks(1).fold(Reply::open(), Reply::send_bytes).close();
    let server = Server::start([reply]).await;
    let answer = ask(&provider(&server)).await;
    assert_eq!(answer.events, [text("It is "), text("4 – vier 🦀.")]);
    assert_eq!(answer.text(), "It is 4 – vier 🦀.");
}

#[tokio::test]
async fn two_questions_use_one_connection() {
    // The end of the body comes after the end marker, in a piece of its own.
    let late_end = Reply::open().send(&it_is_4()).wait(Duration::from_millis(20)).close();
    let server = Server::start([late_end, Reply::stream(&it_is_4())]).await;
    let provider = provider(&server);
    assert_eq!(ask(&provider).await.text(), "It is 4.");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(ask(&provider).await.text(), "It is 4.");
    let connections: Vec<_> = server.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0, 0]);
}

#[tokio::test]
async fn an_answer_ends_at_its_marker_and_not_with_the_connection() {
    let server = Server::start([Reply::open().send(&it_is_4()).hang()]).await;
    let begun = Instant::now();
    assert_eq!(ask(&provider(&server)).await.text(), "It is 4.");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_as_long_as_it_says() {
    let limited = Reply::json(429, &[("retry-after-ms", "80")], &json!({"error": {"message": "slow down"}}));
    let server = Server::start([limited, Reply::stream(&it_is_4())]).await;
    let begun = Instant::now();
    assert_eq!(ask(&provider(&server)).await.text(), "It is 4.");
    assert!(begun.elapsed() >= Duration::from_millis(80), "{:?}", begun.elapsed());
    assert_eq!(server.count(), 2);
}

#[tokio::test]
async fn retry_after_in_seconds_is_understood() {
    let limited = Reply::json(429, &[("retry-after", "0.08")], &json!({"error": {"message": "slow down"}}));
    let server = Server::start([limited, Reply::stream(&it_is_4())]).await;
    let begun = Instant::now();
    assert_eq!(ask(&provider(&server)).await.text(), "It is 4.");
    assert!(begun.elapsed() >= Duration::from_millis(80), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn who_wants_to_be_asked_in_an_hour_is_not_waited_for() {
    let limited = Reply::json(429, &[("retry-after", "3600")], &json!({"error": {"message": "slow down"}}));
    let server = Server::start([limited]).await;
    assert_eq!(ask(&provider(&server)).await.error(), "the provider is not available (HTTP 429): slow down");
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn a_failure_that_stays_is_reported_after_all_retries() {
    let server = Server::start(std::iter::repeat_with(overloaded).take(9)).await;
    assert_eq!(ask(&provider(&server)).await.error(), "the provider is not available (HTTP 503): overloaded");
    assert_eq!(server.count(), 4);
}

#[tokio::test]
async fn what_would_fail_again_is_not_sent_again() {
    let error = |message: &str, code: &str| json!({"error": {"message": message, "type": "x", "code": code}});
    for (reply, expected) in [
        (Reply::json(400, &[], &error("bad", "")), "the provider refused the request (HTTP 400): bad"),
        (
            Reply::json(400, &[], &error("too long", "context_length_exceeded")),
            "the conversation is too long for the model: too long",
        ),
        (Reply::json(403, &[], &error("not you", "")), "the provider refused the key (HTTP 403): not you"),
        (
            Reply::json(429, &[], &error("no money", "insufficient_quota")),
            "the provider refused the request (HTTP 429): no money",
        ),
        (
            Reply::json(500, &[("x-should-retry", "false")], &error("broken", "")),
            "the provider is not available (HTTP 500): broken",
        ),
    ] {
        let server = Server::start([reply]).await;
        assert_eq!(ask(&provider(&server)).await.error(), expected);
        assert_eq!(server.count(), 1);
    }
}

#[tokio::test]
async fn the_key_is_in_no_error_although_the_provider_quotes_it() {
    let refused = Reply::json(401, &[], &json!({"error": {"message": format!("Incorrect API key: {KEY}.")}}));
    let inside = Reply::stream(&format!("data: {}\n\n", json!({"error": {"code": 400, "message": KEY}})));
    let junk = Reply::stream(&format!("data: {{{KEY}\n\n"));
    let server = Server::start([refused, inside, junk]).await;
    let provider = provider(&server);
    let error = ask(&provider).await.error();
    assert_eq!(error, "the provider refused the key (HTTP 401): Incorrect API key: (key).");
    assert_eq!(ask(&provider).await.error(), "the provider refused the request (HTTP 400): (key)");
    let error = ask(&provider).await.error();
    assert!(error.ends_with(": {(key)"), "{error}");
    assert!(!format!("{provider:?}").contains(KEY));
}

#[tokio::test]
async fn no_part_of_the_key_is_in_an_error_that_quotes_an_event() {
    // Wherever the quotation ends, it must not end within the key.
    for before in (0..120).chain(440..520) {
        let junk = format!("data: {{{}{KEY}\n\n", "x".repeat(before));
        let server = Server::start([Reply::stream(&junk)]).await;
        let error = ask(&provider(&server)).await.error();
        assert!(!error.contains(&KEY[..6]), "{before}: {error}");
    }
}

#[tokio::test]
async fn no_limit_is_a_limit_that_can_be_set() {
    let wait = (u64::MAX / 2).to_string();
    let far = Reply::json(429, &[("retry-after", &wait)], &json!({"error": {"message": "never"}}));
    let server = Server::start([Reply::stream(&it_is_4()), overloaded(), Reply::stream(&it_is_4()), far]).await;
    let mut options = options(&server);
    let http = &mut options.http;
    (http.connect_timeout, http.idle_timeout, http.attempt_timeout) = (Duration::MAX, Duration::MAX, Duration::MAX);
    (http.retry.wait_max, http.retry.retry_after_max) = (Duration::MAX, Duration::MAX);
    let provider = Provider::new(options).unwrap();
    assert_eq!(ask(&provider).await.text(), "It is 4.");
    assert_eq!(ask(&provider).await.text(), "It is 4.");
    // It waits, for as long as it was told to.
    let waited = tokio::time::timeout(Duration::from_millis(50), ask(&provider)).await;
    assert!(waited.is_err());
}

#[tokio::test]
async fn a_body_that_is_compressed_although_nobody_asked_for_that_is_named() {
    let gzip = "\u{1f}\u{8b}\u{8}\u{0}junk";
    let stream = [("content-type", "text/event-stream"), ("content-encoding", "gzip")];
    let server = Server::start([Reply::new(200, &stream, gzip), Reply::new(400, &stream, gzip)]).await;
    let provider = provider(&server);
    let words = "its body is compressed (gzip), which was not asked for";
    let bad = format!("the provider sent a response that cannot be read: {words}");
    assert_eq!(ask(&provider).await.error(), bad);
    assert_eq!(ask(&provider).await.error(), format!("the provider refused the request (HTTP 400): {words}"));
    assert!(server.requests()[0].head.contains("accept-encoding: identity\r\n"));
}

#[tokio::test]
async fn the_words_of_a_failure_are_not_waited_for_longer_than_a_server_may_be_silent() {
    let refused = "HTTP/1.1 400 Bad\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n";
    let drip = (0..80).fold(Reply::raw(refused), |reply, _| reply.send("no ").wait(Duration::from_millis(20)));
    let server = Server::start([drip.hang()]).await;
    let mut options = options(&server);
    (options.http.idle_timeout, options.http.attempt_timeout) =
        (Duration::from_millis(200), Duration::from_millis(900));
    let error = ask(&Provider::new(options).unwrap()).await.error();
    assert!(error.starts_with("the provider refused the request (HTTP 400): no"), "{error}");
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn an_answer_in_one_json_value_may_be_as_long_as_the_limit_and_no_longer() {
    let head = [("content-type", "application/json")];
    let answer = |size: usize| {
        let text = |pad: usize| json!({"choices": [{"message": {"content": "x".repeat(pad)}}]}).to_string();
        text(size - text(0).len())
    };
    let (limit, bad) = (16 << 20, "the provider sent a response that cannot be read: ");
    let server = Server::start([limit, limit + 1].map(|size| Reply::new(200, &head, &answer(size)))).await;
    let provider = provider(&server);
    assert!(ask(&provider).await.end.is_ok());
    assert_eq!(ask(&provider).await.error(), format!("{bad}it is a JSON value longer than {limit} bytes"));
}

#[tokio::test]
async fn without_a_key_a_refusal_says_which_to_set() {
    let refused = Reply::json(401, &[], &json!({"error": {"message": "who are you?"}}));
    let server = Server::start([refused]).await;
    let error = ask(&Provider::new(ProviderOptions { key: None, ..options(&server) }).unwrap()).await.error();
    let expected = "the provider refused the key (HTTP 401): who are you? (no key was sent; set OPENAI_API_KEY)";
    assert_eq!(error, expected);
}

#[tokio::test]
async fn a_wrong_address_is_pointed_out() {
    let server = Server::start([Reply::new(404, &[("content-type", "text/plain")], "404 page not found")]).await;
    let expected = format!(
        "the provider refused the request (HTTP 404): 404 page not found (if this is no model's name, check the base \
         URL {})",
        server.url().trim_end_matches('/')
    );
    assert_eq!(ask(&provider(&server)).await.error(), expected);
}

#[tokio::test]
async fn a_long_message_does_not_hide_the_hint() {
    let refused = Reply::json(401, &[], &json!({"error": {"message": "no ".repeat(999)}}));
    let server = Server::start([refused]).await;
    let error = ask(&Provider::new(ProviderOptions { key: None, ..options(&server) }).unwrap()).await.error();
    assert!(error.ends_with("no no… (no key was sent; set OPENAI_API_KEY)"), "{error}");
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    let other = Server::start([]).await;
    let server = Server::start([Reply::new(307, &[("location", &other.url())], "")]).await;
    let expected = format!(
        "the provider refused the request (HTTP 307): no message (it redirects to {}; is the base URL right?)",
        other.url()
    );
    assert_eq!(ask(&provider(&server)).await.error(), expected);
    assert_eq!(other.count(), 0);
}

#[tokio::test]
async fn a_page_instead_of_an_answer_is_named() {
    let html = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>";
    let page = |status| Reply::new(status, &[("content-type", "text/html")], html);
    let server = Server::start([page(200)]).await;
    assert_eq!(
        ask(&provider(&server)).await.error(),
        "the provider sent a response that cannot be read: it is an HTML page, \"Sign in\"; is the base URL right?"
    );
    let server = Server::start([page(502), Reply::stream(&it_is_4())]).await;
    assert_eq!(ask(&provider(&server)).await.text(), "It is 4.");
}

#[tokio::test]
async fn one_json_value_is_accepted_where_a_stream_was_asked_for() {
    let body = json!({
        "choices": [{"message": {"role": "assistant", "content": "It is 4."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2},
    });
    let server = Server::start([Reply::json(200, &[], &body)]).await;
    let answer = ask(&provider(&server)).await;
    assert_eq!(answer.events, [text("It is 4.")]);
    assert_eq!(answer.end.unwrap().usage, Usage { input_tokens: 7, output_tokens: 2, ..Usage::default() });
}

#[tokio::test]
async fn an_error_with_status_200_is_an_error() {
    let body = json!({"error": {"message": "no such model", "code": 404}});
    let server = Server::start([Reply::json(200, &[], &body)]).await;
    assert_eq!(ask(&provider(&server)).await.error(), "the provider refused the request (HTTP 404): no such model");
}

#[tokio::test]
async fn a_stream_under_another_name_is_read() {
    let server =
        Server::start([Reply::new(200, &[("content-type", "text/plain")], &format!("\r\n{}", it_is_4()))]).await;
    assert_eq!(ask(&provider(&server)).await.text(), "It is 4.");
}

#[tokio::test]
async fn garbage_with_status_200_is_a_bad_response() {
    let garbage = |body: &str| Reply::new(200, &[("content-type", "application/json")], body);
    let bad = "the provider sent a response that cannot be read: ";
    for (body, expected) in [
        (
            "{\"choices\":",
            format!("{bad}it is neither a stream of events nor JSON: EOF while parsing a value at line 1 column 11"),
        ),
        ("{}", format!("{bad}it has no choices")),
    ] {
        let server = Server::start([garbage(body)]).await;
        assert_eq!(ask(&provider(&server)).await.error(), expected);
    }
    let server = Server::start(std::iter::repeat_with(|| garbage("\u{0}\u{1}junk")).take(4)).await;
    assert_eq!(ask(&provider(&server)).await.error(), CUT);
}

#[tokio::test]
async fn an_endless_line_is_a_bad_response() {
    let megabyte = "x".repeat(1 << 20);
    let reply = (0..9).fold(Reply::open().send("data: "), |reply, _| reply.send(&megabyte));
    let server = Server::start([reply.hang()]).await;
    assert_eq!(
        ask(&provider(&server)).await.error(),
        "the provider sent a response that cannot be read: a line of the stream is longer than 8388608 bytes"
    );
}

#[tokio::test]
async fn a_stream_that_breaks_before_anything_was_shown_is_asked_for_again() {
    let half_a_call = chunk(
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "t", "arguments": "{\"x\":"}}]}),
        json!(null),
    );
    // The connection breaks; then the body ends properly, but without finish reason and end marker.
    let broken = [Reply::open().send(&half_a_call), Reply::stream(&half_a_call), Reply::stream(&it_is_4())];
    let server = Server::start(broken).await;
    assert_eq!(ask(&provider(&server)).await.text(), "It is 4.");
    assert_eq!(server.count(), 3);
}

#[tokio::test]
async fn a_stream_that_breaks_after_text_was_shown_starts_again_and_says_so() {
    let restarted = ModelEvent::Restarted { reason: CUT.to_owned() };
    for reply in [Reply::open().send(&says("It was ")), Reply::stream(&says("It was "))] {
        let server = Server::start([reply, Reply::stream(&it_is_4())]).await;
        let answer = ask(&provider(&server)).await;
        assert_eq!(answer.events, [text("It was "), restarted.clone(), text("It is "), text("4.")]);
        assert_eq!(answer.text(), "It is 4.");
        assert_eq!(server.count(), 2);
    }
}

#[tokio::test]
async fn a_stream_that_always_breaks_is_an_error_in_the_end() {
    let server = Server::start((0..4).map(|_| Reply::stream(&says("It is ")))).await;
    assert_eq!(ask(&provider(&server)).await.error(), CUT);
    assert_eq!(server.count(), 4);
}

#[tokio::test]
async fn a_failure_inside_a_stream_is_tried_again_like_its_code() {
    let failure = format!("data: {}\n\n", json!({"error": {"message": "overloaded", "code": 503}}));
    let server = Server::start([Reply::stream(&failure), Reply::stream(&it_is_4())]).await;
    assert_eq!(ask(&provider(&server)).await.text(), "It is 4.");
    let refused = format!("data: {}\n\n", json!({"error": {"message": "no", "code": 403}}));
    let shown = Reply::open().send(&says("It is ")).wait(Duration::from_millis(20)).send(&refused).close();
    let server = Server::start([shown]).await;
    let answer = ask(&provider(&server)).await;
    assert_eq!(answer.events, [text("It is ")]);
    assert_eq!(answer.error(), "the provider refused the key (HTTP 403): no");
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_given_up_and_tried_again() {
    let drip = |reply: Reply| reply.send(&says("x")).wait(Duration::from_millis(50));
    let slow = (0..40).fold(Reply::open(), |reply, _| drip(reply));
    let server = Server::start([slow, Reply::stream(&it_is_4())]).await;
    let mut options = options(&server);
    options.http.attempt_timeout = Duration::from_millis(300);
    let answer = ask(&Provider::new(options).unwrap()).await;
    assert!(answer.events.iter().any(|event| matches!(event, ModelEvent::Restarted { .. })));
    assert_eq!(answer.text(), "It is 4.");
}

#[tokio::test]
async fn a_server_that_falls_silent_is_given_up() {
    let shown = Reply::open().send(&says("It is ")).hang();
    let nothing = Reply::open().hang();
    for (reply, events) in [(shown, vec![text("It is ")]), (nothing, vec![])] {
        let server = Server::start([reply]).await;
        let mut options = options(&server);
        options.http.idle_timeout = Duration::from_millis(60);
        let answer = ask(&Provider::new(options).unwrap()).await;
        assert_eq!(answer.events, events);
        assert!(matches!(answer.end, Err(ModelError::Idle { seconds: 0 })));
        assert_eq!(server.count(), 1);
    }
}

#[tokio::test]
async fn comments_keep_a_slow_server_alive() {
    let wait = Duration::from_millis(60);
    let slow = (0..5).fold(Reply::open(), |reply, _| reply.send(": still at it\n\n").wait(wait));
    let server = Server::start([slow.send(&it_is_4()).close()]).await;
    let mut options = options(&server);
    options.http.idle_timeout = Duration::from_millis(200);
    assert_eq!(ask(&Provider::new(options).unwrap()).await.text(), "It is 4.");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_at_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let unused = Server::start([]).await;
    let base_url = BaseUrl::parse(&format!("http://127.0.0.1:{port}/v1")).unwrap();
    let mut options = ProviderOptions { base_url, ..options(&unused) };
    (options.http.retry.wait_first, options.http.retry.wait_max) = (Duration::from_secs(60), Duration::from_secs(60));
    let error = ask(&Provider::new(options).unwrap()).await.error();
    assert_eq!(error, format!("cannot reach the model at http://127.0.0.1:{port}"));
}

#[tokio::test]
async fn a_dropped_question_closes_its_connection() {
    let server = Server::start([Reply::open().send(&says("It is ")).hang()]).await;
    let provider = provider(&server);
    let messages = [Message::user("hi")];
    let mut stream = provider.ask(Prompt { system: None, messages: &messages, tools: &[] });
    assert_eq!(stream.next().await.unwrap().unwrap(), text("It is "));
    drop(stream);
    tokio::time::timeout(Duration::from_secs(5), server.wait_for_close()).await.unwrap();
}

#[tokio::test]
async fn tools_and_results_travel_there_and_back() {
    let calls = json!({"tool_calls": [
        {"index": 0, "id": "call_a", "type": "function", "function": {"name": "math", "arguments": "{\"x\":1}"}},
        {"index": 1, "id": "call_b", "type": "function", "function": {"name": "math", "arguments": ""}},
    ]});
    let asks = format!("{}{}data: [DONE]\n\n", chunk(calls, json!(null)), chunk(json!({}), json!("tool_calls")));
    let server = Server::start([Reply::stream(&asks), Reply::stream(&it_is_4())]).await;
    let provider = provider(&server);
    let math = Definition {
        name: "math".into(),
        title: None,
        description: "Evaluates".into(),
        input_schema: json!({"type": "object", "properties": {"x": {"type": "number"}}}),
        output_schema: None,
        annotations: None,
    };
    let mut messages = vec![Message::user("hi")];
    let prompt = Prompt { system: Some("Be brief."), messages: &messages, tools: &[&math] };
    let Some(Ok(ModelEvent::Finished(reply))) = provider.ask(prompt).next().await else { panic!("no reply") };
    let call =
        |id: &str, arguments: &str| CallRequest { id: id.into(), name: "math".into(), arguments: arguments.into() };
    assert_eq!(reply.turn.calls, [call("call_a", "{\"x\":1}"), call("call_b", "{}")]);
    let answer = |id: &str, result| ToolReply { call_id: id.into(), name: "math".into(), result };
    messages.push(Message::Assistant(reply.turn));
    messages.push(Message::Tool {
        replies: vec![answer("call_a", ToolResult::ok("1")), answer("call_b", ToolResult::error("x is missing"))],
    });
    let prompt = Prompt { system: Some("Be brief."), messages: &messages, tools: &[&math] };
    assert_eq!(provider.ask(prompt).count().await, 3);
    let function = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
    assert_eq!(
        server.requests()[1].body["messages"],
        json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "call_a", "type": "function", "function": function("math", "{\"x\":1}")},
                {"id": "call_b", "type": "function", "function": function("math", "{}")},
            ]},
            {"role": "tool", "tool_call_id": "call_a", "content": "1"},
            {"role": "tool", "tool_call_id": "call_b", "content": "Error: x is missing"},
        ])
    );
}

#[tokio::test]
async fn a_model_without_eyes_gets_a_description_instead_of_the_picture() {
    // OpenRouter refuses with 404, llama.cpp with 500; OpenAI with 400.
    for (status, message) in [
        (404, "No endpoints found that support image input"),
        (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
        (400, "Invalid content type. image_url is only supported by certain models."),
    ] {
        let refused = Reply::json(status, &[], &json!({"error": {"message": message}}));
        let server = Server::start([refused, Reply::stream(&it_is_4())]).await;
        let picture = ContentPart::from_bytes(vec![1, 2, 3], "image/png").unwrap();
        let call = CallRequest { id: "a".into(), name: "chart".into(), arguments: "{}".into() };
        let result = ToolResult::ok_with_parts("drawn", [picture]);
        let messages = [
            Message::user("draw"),
            Message::Assistant(AssistantTurn { calls: vec![call], ..AssistantTurn::default() }),
            Message::Tool { replies: vec![ToolReply { call_id: "a".into(), name: "chart".into(), result }] },
        ];
        assert_eq!(ask_about(&provider(&server), &messages).await.text(), "It is 4.", "{status}");
        let sent: Vec<_> = server.requests().iter().map(|r| r.body["messages"].as_array().unwrap().clone()).collect();
        assert_eq!(sent[0][3]["content"][1]["type"], "image_url");
        assert_eq!(sent[1].len(), 3);
        let described = "drawn\n[image/png, 3 bytes, not deliverable to this model]";
        assert_eq!(sent[1][2], json!({"role": "tool", "tool_call_id": "a", "content": described}));
    }
}

#[tokio::test]
async fn a_model_of_mistral_that_wants_ids_of_its_own_form_gets_them() {
    // vLLM with Mistral's tokenizer, its own API, and llama.cpp with the template of the model.
    for (status, message) in [
        (400, "Tool call id was chatcmpl-tool-1 but must be a-z, A-Z, 0-9, with a length of 9."),
        (500, "Tool call IDs should be alphanumeric strings with length 9! at row 91, column 40"),
    ] {
        let refused = || Reply::json(status, &[], &json!({"object": "error", "message": message, "code": status}));
        let server = Server::start([refused(), Reply::stream(&it_is_4()), Reply::stream(&it_is_4())]).await;
        let server = server.with_schema(schema::COMPATIBLE);
        let calls = ["chatcmpl-tool-1", "aB3dE6gH9", "call_abcd"];
        let call = |id: &str| CallRequest { id: id.into(), name: "t".into(), arguments: "{}".into() };
        let reply = |id: &str| ToolReply { call_id: id.into(), name: "t".into(), result: ToolResult::ok("1") };
        let turn = AssistantTurn { calls: calls.map(call).into(), ..AssistantTurn::default() };
        let messages =
            [Message::user("go"), Message::Assistant(turn), Message::Tool { replies: calls.map(reply).into() }];
        let provider = Provider::new(ProviderOptions { vendor: vendor("vllm"), ..options(&server) }).unwrap();
        for _ in 0..2 {
            assert_eq!(ask_about(&provider, &messages).await.text(), "It is 4.", "{status}");
        }
        let ids: Vec<_> = server.requests().iter().map(|request| ids_of(&request.body)).collect();
        let fitting = ["000010000", "aB3dE6gH9", "000010002"].map(str::to_owned).to_vec();
        // The third request is the next question, which knows.
        let asked = [calls.map(str::to_owned).to_vec(), fitting.clone(), fitting];
        assert_eq!(ids, asked.map(|ids| (ids.clone(), ids)), "{status}");
        // A server that goes on refusing is believed.
        let server = Server::start(std::iter::repeat_with(refused).take(9)).await.with_schema(schema::COMPATIBLE);
        let provider = Provider::new(ProviderOptions { vendor: vendor("vllm"), ..options(&server) }).unwrap();
        assert!(ask_about(&provider, &messages).await.error().contains("length"));
        assert_eq!(server.count(), if status == 400 { 2 } else { 5 });
    }
}

/// The ids of the calls of a request, and those of its results.
fn ids_of(body: &Value) -> (Vec<String>, Vec<String>) {
    let messages = body["messages"].as_array().unwrap();
    let text = |id: &Value| id.as_str().unwrap().to_owned();
    let calls = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
    let results = messages.iter().filter_map(|message| message.get("tool_call_id"));
    (calls.map(|call| text(&call["id"])).collect(), results.map(text).collect())
}

#[tokio::test]
async fn a_provider_is_made_although_the_program_has_set_up_tls_already() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = Server::start([Reply::stream(&it_is_4()), Reply::stream(&end())]).await;
    assert_eq!(ask(&provider(&server)).await.text(), "It is 4.");
    assert_eq!(ask(&provider(&server)).await.text(), "");
}
