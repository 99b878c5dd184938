//! Tests of the mock itself: every API of it tells the story, without our own code for it.

use serde_json::{Value, json};

use super::{Aimock, story};

const CHAT: &str = "POST /v1/chat/completions";
const RESPONSES: &str = "POST /v1/responses";
const ANTHROPIC: &str = "POST /v1/messages";
const GEMINI: &str = "POST /v1beta/models/gemini-3-pro:generateContent";
const GEMINI_STREAM: &str = "POST /v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse";

macro_rules! stories {
    ($($name:ident: $line:expr, $body:expr;)*) => {$(
        #[test]
        fn $name() {
            tell($line, &$body);
        }
    )*};
}

stories! {
    chat_completions_tell_the_story: CHAT, json!({"model": "m", "messages": user()});
    chat_completions_stream_the_story: CHAT, json!({"model": "m", "messages": user(), "stream": true});
    responses_tell_the_story: RESPONSES, json!({"model": "m", "input": user()});
    responses_stream_the_story: RESPONSES, json!({"model": "m", "input": user(), "stream": true});
    anthropic_tells_the_story: ANTHROPIC, json!({"model": "m", "max_tokens": 9, "messages": user()});
    anthropic_streams_the_story: ANTHROPIC, json!({"model": "m", "max_tokens": 9, "messages": user(), "stream": true});
    gemini_tells_the_story: GEMINI, json!({"contents": [{"role": "user", "parts": [{"text": "go"}]}]});
    gemini_streams_the_story: GEMINI_STREAM, json!({"contents": [{"role": "user", "parts": [{"text": "go"}]}]});
}

fn user() -> Value {
    json!([{"role": "user", "content": "go"}])
}

fn tell(line: &str, body: &Value) {
    let Some(mock) = Aimock::start(&story()) else { return };
    let turns = [(); 4].map(|()| mock.exchange(line, &body.to_string()));
    assert_eq!(calls(&turns[0].1), ["chart", "fail"], "{turns:?}");
    assert_eq!(calls(&turns[1].1), ["gpu"], "{turns:?}");
    assert!(calls(&turns[2].1).is_empty() && turns[2].1.contains("All done."), "{turns:?}");
    assert!(turns[3].0.starts_with("HTTP/1.1 404"), "{turns:?}");
}

/// The names of the tools that are called in a response, whatever the wire: the events of a stream, or one JSON.
fn calls(body: &str) -> Vec<String> {
    let mut names = Vec::new();
    for text in body.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line)) {
        if let Ok(value) = serde_json::from_str(text) {
            collect_names(&value, &mut names);
        }
    }
    names
}

/// Collects each name once: the wire of Responses says it in several events.
fn collect_names(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let name = fields.get("name").and_then(Value::as_str).map(str::to_owned);
            names.extend(name.filter(|name| !names.contains(name)));
            fields.values().for_each(|field| collect_names(field, names));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_names(item, names)),
        _ => {}
    }
}

#[test]
fn the_mock_tells_what_it_understood_of_each_wire() {
    let asked = [
        (
            CHAT,
            json!({"messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "fail", "arguments": "{}"}},
                ]},
                {"role": "tool", "tool_call_id": "a", "content": "no paper"},
            ]}),
        ),
        (
            RESPONSES,
            json!({"input": [
                {"role": "user", "content": "go"},
                {"type": "function_call", "call_id": "a", "name": "fail", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": "no paper"},
            ]}),
        ),
        (
            ANTHROPIC,
            json!({"messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "fail", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "is_error": true, "content": "no paper"},
                ]},
            ]}),
        ),
        (
            GEMINI,
            json!({"contents": [
                {"role": "user", "parts": [{"text": "go"}]},
                {"role": "model", "parts": [{"functionCall": {"id": "a", "name": "fail", "args": {}}}]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "a", "name": "fail", "response": {"error": "no paper"}}},
                ]},
            ]}),
        ),
    ];
    let Some(mock) = Aimock::start(&vec![json!({"content": "So be it."}); asked.len()]) else { return };
    for (line, body) in &asked {
        mock.exchange(line, &body.to_string());
    }
    let requests = mock.requests();
    assert_eq!(requests.len(), asked.len());
    for ((line, _), request) in asked.iter().zip(requests) {
        assert_eq!(format!("POST {}", request.path), *line);
        let result = &request.body["messages"][2];
        assert_eq!((&result["role"], &result["tool_call_id"]), (&json!("tool"), &json!("a")), "{request:?}");
        assert!(result["content"].as_str().is_some_and(|text| text.contains("no paper")), "{request:?}");
    }
}

#[test]
fn a_refusal_and_a_stream_that_breaks_off_can_be_scripted() {
    let mock = Aimock::serve(&json!({"fixtures": [
        {
            "match": {"sequenceIndex": 0},
            "response": {"error": {"message": "slowly", "type": "rate_limit_error"}, "status": 429, "retryAfter": 7},
        },
        {
            "match": {"sequenceIndex": 1},
            "response": {"content": "one two three four"},
            "chunkSize": 4, "latency": 20, "truncateAfterChunks": 3,
        },
    ]}));
    let Some(mock) = mock else { return };
    let body = json!({"model": "m", "messages": user(), "stream": true}).to_string();
    let (head, _) = mock.exchange(CHAT, &body);
    assert!(head.starts_with("HTTP/1.1 429") && head.contains("Retry-After: 7"), "{head}");
    let (head, body) = mock.exchange(CHAT, &body);
    assert!(head.starts_with("HTTP/1.1 200") && body.contains("one ") && !body.contains("[DONE]"), "{head}\n{body}");
}

#[test]
fn a_mock_that_does_not_start_says_why() {
    match std::panic::catch_unwind(|| Aimock::start(&[json!({"toolCalls": [{"name": "", "arguments": "{"}]})])) {
        Ok(mock) => assert!(mock.is_none(), "a broken script is taken"),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().expect("a text");
            assert!(text.contains("toolCalls[0].name is empty"), "{text}");
        }
    }
}
