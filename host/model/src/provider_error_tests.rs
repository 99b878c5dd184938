//! Tests of the shapes of failures and of their meaning.

use std::time::Duration;

use serde_json::json;

use super::*;

fn found(value: Value) -> (Option<u16>, Vec<String>, String) {
    let error = ProviderError::find(&value).unwrap();
    (error.status, error.codes, error.message)
}

fn classify(status: u16, code: &str, message: &str) -> (String, Retry) {
    let error = ProviderError { status: None, codes: vec![code.into()], message: message.into(), after: None };
    let failed = error.classify(status, RetryHints::default());
    (failed.error.to_string(), failed.retry)
}

const LATER: Retry = Retry::Later(None);

#[test]
fn every_shape_of_an_error_is_found() {
    let plain = |message: &str| (None, vec![], message.to_owned());
    assert_eq!(found(json!({"error": "model not loaded"})), plain("model not loaded"));
    assert_eq!(found(json!({"error": {"message": "no"}})), plain("no"));
    assert_eq!(found(json!([{"error": {"message": "no"}}])), plain("no"));
    assert_eq!(found(json!({"message": "no route"})), plain("no route"));
    assert_eq!(found(json!({"detail": "Not Found"})), plain("Not Found"));
    assert_eq!(
        found(json!({"detail": [{"loc": ["body", "messages", 0], "msg": "Field required", "type": "missing"}]})),
        plain("body.messages.0: Field required")
    );
    assert_eq!(found(json!({"error": {"reason": "odd"}})), plain(r#"{"reason":"odd"}"#));
}

#[test]
fn code_type_and_status_are_read() {
    assert_eq!(
        found(
            json!({"error": {"message": "m", "type": "invalid_request_error", "param": null, "code": "Context_Length"}})
        ),
        (None, vec!["context_length".into(), "invalid_request_error".into()], "m".into())
    );
    // llama.cpp.
    assert_eq!(
        found(json!({"error": {"code": 500, "message": "m", "type": "server_error"}})),
        (Some(500), vec!["server_error".into()], "m".into())
    );
    // OpenRouter, inside a choice.
    assert_eq!(
        found(json!({"choices": [{"error": {"code": 502, "message": "Provider returned error",
            "metadata": {"raw": "overloaded"}}, "finish_reason": "error"}]})),
        (Some(502), vec![], "Provider returned error: overloaded".into())
    );
}

#[test]
fn what_googles_details_name_is_read() {
    let meaning = |status: u16, details: Value, message: &str| {
        let error = ProviderError::find(&json!({"error": {"code": status, "message": message, "details": details}}));
        let failed = error.unwrap().classify(status, RetryHints::default());
        (failed.error.to_string(), failed.retry)
    };
    let quota = |id: &str| json!([{"violations": [{"quotaId": id}]}, {"retryDelay": "3s"}]);
    assert_eq!(
        meaning(429, quota("GenerateRequestsPerDayPerProject"), "m"),
        ("the provider refused the request (HTTP 429): m".into(), Retry::Never)
    );
    assert_eq!(
        meaning(429, quota("GenerateRequestsPerMinutePerProject"), "m"),
        ("the provider is not available (HTTP 429): m".into(), Retry::Later(Some(Duration::from_secs(3))))
    );
    assert_eq!(
        meaning(400, json!([{"reason": "API_KEY_INVALID"}]), "m"),
        ("the provider refused the key (HTTP 400): m".into(), Retry::Never)
    );
    let long = "The input token count (9) exceeds the maximum number of tokens allowed (8).";
    assert_eq!(
        meaning(400, json!([]), long),
        (format!("the conversation is too long for the model: {long}"), Retry::Never)
    );
}

#[test]
fn an_answer_is_no_error() {
    for value in [
        json!({"choices": [{"delta": {"content": "x"}}]}),
        json!({"choices": [{"delta": {}}], "error": null, "message": "x"}),
        json!({"choices": [], "usage": {}, "message": "x"}),
        json!({}),
        json!(null),
        json!([]),
    ] {
        assert_eq!(ProviderError::find(&value), None, "{value}");
    }
}

#[test]
fn a_body_that_is_html_is_named_by_its_title() {
    let message = |body: &str| ProviderError::from_body(body.as_bytes()).message;
    assert_eq!(
        message("<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>…</body></html>"),
        "an HTML page, \"502 Bad Gateway\""
    );
    assert_eq!(message("\n<html><body><h1>Not Found</h1></body></html>"), "an HTML page, \"Not Found\"");
    assert_eq!(message("<html><title>"), "an HTML page");
    assert_eq!(message("404 page not found\n"), "404 page not found\n");
    assert_eq!(message("{\"id\": 1}"), "{\"id\": 1}");
}

#[test]
fn statuses_mean_what_the_table_says() {
    for status in [400, 404, 413, 422, 402] {
        let expected = format!("the provider refused the request (HTTP {status}): m");
        assert_eq!(classify(status, "", "m"), (expected, Retry::Never));
    }
    for status in [401, 403] {
        let expected = format!("the provider refused the key (HTTP {status}): m");
        assert_eq!(classify(status, "", "m"), (expected, Retry::Never));
    }
    for status in [408, 409, 429, 500, 502, 503, 504, 529, 200] {
        let expected = format!("the provider is not available (HTTP {status}): m");
        assert_eq!(classify(status, "rate_limit_exceeded", "m"), (expected, LATER));
    }
}

#[test]
fn a_spent_budget_is_not_retried() {
    let expected = "the provider refused the request (HTTP 429): You exceeded your current quota".to_owned();
    assert_eq!(classify(429, "insufficient_quota", "You exceeded your current quota"), (expected, Retry::Never));
}

#[test]
fn a_conversation_that_is_too_long_is_told_from_other_errors() {
    let too_long = |status, code, message: &str| {
        let expected = format!("the conversation is too long for the model: {message}");
        assert_eq!(classify(status, code, message), (expected, Retry::Never));
    };
    too_long(400, "context_length_exceeded", "too many");
    too_long(400, "exceed_context_size_error", "request (9000 tokens) exceeds the available context size");
    too_long(400, "BadRequestError", "This model's maximum context length is 4096 tokens.");
    too_long(200, "context_length_exceeded", "too many");
    assert!(classify(500, "", "cannot allocate context size").0.starts_with("the provider is not available"));
}

#[test]
fn a_failure_inside_a_stream_is_classed_by_its_code() {
    let inside = |value: Value| {
        let failed = ProviderError::find(&value).unwrap().classify(200, RetryHints::default());
        (failed.error.to_string(), failed.retry)
    };
    assert_eq!(
        inside(json!({"error": {"code": 503, "message": "m"}})),
        ("the provider is not available (HTTP 503): m".into(), LATER)
    );
    assert_eq!(
        inside(json!({"error": {"code": 400, "message": "m"}})),
        ("the provider refused the request (HTTP 400): m".into(), Retry::Never)
    );
    assert_eq!(
        inside(json!({"error": {"type": "invalid_request_error", "message": "m"}})),
        ("the provider refused the request (HTTP 200): m".into(), Retry::Never)
    );
}

#[test]
fn the_headers_have_the_last_word_on_retries() {
    let retry = |status, should_retry| {
        let hints = RetryHints { should_retry: Some(should_retry), after: Some(Duration::from_secs(2)) };
        ProviderError::default().classify(status, hints).retry
    };
    assert_eq!(retry(500, false), Retry::Never);
    assert_eq!(retry(400, true), Retry::Later(Some(Duration::from_secs(2))));
}

#[test]
fn a_message_is_shortened_and_cannot_steer_a_terminal() {
    assert_eq!(shorten(" a\u{1b}[2J\r\n  b "), "a [2J b");
    assert_eq!(shorten(&"ä".repeat(500)), "ä".repeat(500));
    assert_eq!(shorten(&"ä".repeat(501)), format!("{}…", "ä".repeat(500)));
}

#[test]
fn a_refused_pdf_and_a_limit_of_output_beyond_the_context_are_recognised() {
    let failed = |message: &str| {
        let body = json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
        ProviderError::find(&body).unwrap().classify(400, RetryHints::default())
    };
    assert!(failed("The PDF specified is password protected.").is_about_media());
    let too_long = failed("input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000");
    assert!(matches!(too_long.error, ModelError::ContextTooLong { .. }));
}

#[test]
fn a_status_that_is_written_as_a_text_is_a_status() {
    for error in [json!({"code": "401", "message": "m"}), json!({"status": "401", "message": "m"})] {
        assert_eq!(found(json!({"error": error})).0, Some(401));
    }
    assert_eq!(found(json!({"error": {"code": "7", "message": "m"}})).0, None);
}

#[test]
fn a_failure_that_says_nothing_is_none() {
    for nothing in [json!(null), json!(false), json!(""), json!({}), json!([]), json!(0)] {
        assert_eq!(ProviderError::find(&json!({"choices": [], "error": nothing})), None, "{nothing}");
    }
}
