//! Every kind of result as it crosses the wall.

use super::*;
use serde_json::json;
use toolcell_contract::Request;

fn png(bytes: usize) -> ContentPart {
    ContentPart::from_bytes(vec![7; bytes], "image/png").unwrap()
}

/// The bindings compare nothing, but they print everything.
fn assert_same(left: &wit::ToolResult, right: &wit::ToolResult) {
    assert_eq!(format!("{left:?}"), format!("{right:?}"));
}

#[test]
fn text_stays_text_and_metadata_becomes_json() {
    let sent = result(ToolResult::ok("4").with_metadata("rows", json!([1, 2])), Some(vec![1]));
    let metadata = Some(r#"{"rows":[1,2]}"#.to_owned());
    assert_same(&sent, &wit::ToolResult::Ok(wit::Outcome { output: "4".to_owned(), metadata }));
    let sent = result(ToolResult::error("no"), None);
    assert_same(&sent, &wit::ToolResult::Error(text("no".to_owned())));
}

#[test]
fn every_part_keeps_its_kind_source_and_name() {
    let parts = vec![
        ContentPart::text("note"),
        png(2).named("a.png"),
        ContentPart::from_url("https://example.org/a.mp3").unwrap(),
        ContentPart::from_bytes(vec![1], "application/pdf").unwrap(),
    ];
    let media = |mime_type: &str, source: wit::Source, name: Option<&str>| wit::Media {
        mime_type: mime_type.to_owned(),
        source,
        name: name.map(str::to_owned),
    };
    let expected = vec![
        wit::ContentPart::Text("note".to_owned()),
        wit::ContentPart::Image(media("image/png", wit::Source::Bytes(vec![7, 7]), Some("a.png"))),
        wit::ContentPart::Audio(media("audio/mpeg", wit::Source::Url("https://example.org/a.mp3".to_owned()), None)),
        wit::ContentPart::File(media("application/pdf", wit::Source::Bytes(vec![1]), None)),
    ];
    let sent = result(ToolResult::ok_with_parts("four", parts), None);
    let expected = wit::RichOutcome { output: "four".to_owned(), parts: expected, metadata: None };
    assert_same(&sent, &wit::ToolResult::Parts(expected));
}

#[test]
fn the_parts_of_an_error_are_named_in_its_text() {
    let failed =
        ToolResult { is_error: true, ..ToolResult::ok_with_parts("failed", [png(82), ContentPart::text("half")]) };
    let output = "failed\nimage (image/png, 82 bytes)\nhalf".to_owned();
    assert_same(&result(failed, None), &wit::ToolResult::Error(text(output)));
}

#[test]
fn a_pending_result_becomes_a_suspension_with_its_state() {
    let request = Request {
        id: "mine".to_owned(),
        url: Some("https://example.org".to_owned()),
        expires_at: Some("2026-12-01T12:00:00Z".to_owned()),
        ..Request::input("Which?", json!({"type": "object"}))
    };
    let sent = result(ToolResult::pending(request), Some(vec![1, 2]));
    let request = wit::Request {
        id: Some("mine".to_owned()),
        kind: "input".to_owned(),
        prompt: "Which?".to_owned(),
        url: Some("https://example.org".to_owned()),
        data: Some(r#"{"schema":{"type":"object"}}"#.to_owned()),
        expires_at: Some("2026-12-01T12:00:00Z".to_owned()),
    };
    assert_same(&sent, &wit::ToolResult::Pending(wit::Suspension { request, state: Some(vec![1, 2]) }));
}

#[test]
fn a_request_without_an_id_has_none() {
    let pending = ToolResult::ok("").with_metadata("pending", json!({"id": "", "kind": "approval", "prompt": "Go?"}));
    let request = wit::Request {
        id: None,
        kind: "approval".to_owned(),
        prompt: "Go?".to_owned(),
        url: None,
        data: None,
        expires_at: None,
    };
    assert_same(&result(pending, None), &wit::ToolResult::Pending(wit::Suspension { request, state: None }));
}

#[test]
fn a_context_brings_the_answer_and_its_data() {
    let context = context(exports::CallContext {
        call_id: "call-7".to_owned(),
        deadline_ms: 5,
        answer: Some(wit::Answer {
            id: "a".to_owned(),
            ok: true,
            data: Some(r#"{"seat": "4A", "row": 4}"#.to_owned()),
            reason: None,
        }),
        state: Some(vec![9]),
    });
    assert_eq!((context.call_id(), context.deadline_ms(), context.state()), ("call-7", 5, Some(&[9][..])));
    let data = Object::from_iter([("seat".to_owned(), json!("4A")), ("row".to_owned(), json!(4))]);
    assert_eq!(context.answer(), Some(&toolcell_contract::Answer::approve("a").with_data(data)));
    assert_eq!((context.answer_text("seat"), context.answer_text("row")), (Some("4A"), None));
}

#[test]
fn a_definition_carries_its_schema_as_text() {
    /// Adds.
    #[crate::tool(idempotent)]
    fn add(a: u64) -> String {
        a.to_string()
    }

    let sent = definition(&crate::tool_of!(add));
    assert_eq!((sent.name.as_str(), sent.title, sent.description.as_str()), ("add", None, "Adds."));
    let schema = r#"{"type":"object","properties":{"a":{"type":"integer","minimum":0}},"additionalProperties":false,"required":["a"]}"#;
    assert_eq!(sent.input_schema, schema);
    assert!(sent.annotations.is_some_and(|hints| hints.idempotent && hints.destructive && !hints.read_only));
}
