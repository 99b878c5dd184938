//! What becomes of each kind of result. The limits are tested where they are kept, in the contract.

use serde_json::json;
use time::macros::datetime;
use toolcell_contract::{RequestKind, Suspension};

use super::*;

const NOW: OffsetDateTime = datetime!(2026-12-01 12:00:00.5 UTC);

fn plain(output: &str, metadata: Option<&str>) -> wit::Outcome {
    wit::Outcome { output: output.into(), metadata: metadata.map(Into::into) }
}

fn media(mime_type: &str, name: Option<&str>) -> wit::Media {
    wit::Media { mime_type: mime_type.into(), source: wit::Source::Bytes(vec![1]), name: name.map(Into::into) }
}

fn rich(part: wit::ContentPart) -> wit::ToolResult {
    wit::ToolResult::Parts(wit::RichOutcome { output: "see".into(), parts: vec![part], metadata: None })
}

fn request() -> wit::Request {
    wit::Request { id: None, kind: "approval".into(), prompt: "Buy?".into(), url: None, data: None, expires_at: None }
}

fn pending(request: wit::Request) -> Result<Outcome, Violation> {
    outcome(wit::ToolResult::Pending(wit::Suspension { request, state: None }), NOW)
}

#[test]
fn a_text_with_its_metadata_is_taken_as_ok_or_as_an_error() {
    let metadata = Some(r#"{"rows": 3}"#);
    let ok = outcome(wit::ToolResult::Ok(plain("2", metadata)), NOW);
    assert_eq!(ok, Ok(Outcome::Done(ToolResult::ok("2").with_metadata("rows", 3))));
    let error = outcome(wit::ToolResult::Error(plain("no", metadata)), NOW);
    assert_eq!(error, Ok(Outcome::Done(ToolResult::error("no").with_metadata("rows", 3))));
}

#[test]
fn metadata_are_an_object_and_never_a_question() {
    let with = |text: &str| outcome(wit::ToolResult::Ok(plain("2", Some(text))), NOW);
    assert_eq!(with("[\"secret\"]"), Err(Violation::MetadataNoObject));
    assert_eq!(with("{\"pending\": {}}"), Err(Violation::PendingByHand));
    let question = ToolResult::pending(Request::approval("Buy?").with_id("mine"));
    let text = serde_json::to_string(&question.metadata).unwrap();
    let error = outcome(wit::ToolResult::Error(plain(&question.output, Some(&text))), NOW);
    assert_eq!(error, Err(Violation::PendingByHand), "a guest has another way to ask");
}

#[test]
fn a_part_says_what_its_mime_type_says() {
    for bad in ["", "png", "image/png\r\nX: y", "image/png; q=1", "image/", &format!("image/{}", "x".repeat(300))] {
        let part = wit::ContentPart::Image(media(bad, None));
        assert_eq!(outcome(rich(part), NOW), Err(Violation::MimeType), "{bad}");
    }
    let lies = [
        wit::ContentPart::Image(media("audio/wav", None)),
        wit::ContentPart::Audio(media("image/png", None)),
        wit::ContentPart::Image(media("text/html", None)),
    ];
    for lie in lies {
        assert_eq!(outcome(rich(lie), NOW), Err(Violation::PartKind));
    }
    let file = wit::ContentPart::File(media("application/pdf", Some("dir/report.pdf")));
    let expected = ContentPart::from_bytes(vec![1], "application/pdf").unwrap().named("report.pdf");
    assert_eq!(outcome(rich(file), NOW), Ok(Outcome::Done(ToolResult::ok_with_parts("see", [expected]))));
}

#[test]
fn parts_and_texts_beyond_their_limits_are_refused() {
    let text = wit::ContentPart::Text("x".into());
    let many = wit::RichOutcome { output: "see".into(), parts: vec![text; 17], metadata: None };
    assert_eq!(outcome(wit::ToolResult::Parts(many), NOW), Err(Violation::TooManyParts));
    let long = wit::ToolResult::Ok(plain(&"x".repeat((256 << 10) + 1), None));
    assert_eq!(outcome(long, NOW), Err(Violation::OutputTooLong));
}

#[test]
fn a_question_is_taken_whole_with_its_state() {
    let asked = wit::Request {
        id: Some("mine".into()),
        kind: "captcha".into(),
        prompt: "Who?".into(),
        url: Some("https://example.org".into()),
        data: Some(r#"{"schema": {"type": "object"}}"#.into()),
        expires_at: Some("2026-12-02T00:00:00Z".into()),
    };
    let asked = wit::ToolResult::Pending(wit::Suspension { request: asked, state: Some(vec![1, 2]) });
    let Ok(Outcome::Suspended(suspension)) = outcome(asked, NOW) else { panic!() };
    let data = json!({"schema": {"type": "object"}});
    let request = Request {
        id: suspension.request.id.clone(),
        kind: RequestKind::Other("captcha".into()),
        prompt: "Who?".into(),
        url: Some("https://example.org".into()),
        data: data.as_object().cloned(),
        expires_at: Some("2026-12-02T00:00:00Z".into()),
    };
    assert_eq!(suspension, Suspension { request, guest_id: Some("mine".into()), state: Some(vec![1, 2]) });
}

#[test]
fn a_question_that_breaks_a_rule_is_refused() {
    assert_eq!(pending(wit::Request { prompt: String::new(), ..request() }), Err(Violation::Prompt));
    assert_eq!(pending(wit::Request { kind: String::new(), ..request() }), Err(Violation::RequestKind));
    assert_eq!(pending(wit::Request { data: Some("[]".into()), ..request() }), Err(Violation::RequestDataNoObject));
    assert_eq!(pending(wit::Request { url: Some("data:,x".into()), ..request() }), Err(Violation::RequestUrl));
    let Ok(Outcome::Suspended(unnamed)) = pending(wit::Request { id: Some(String::new()), ..request() }) else {
        panic!()
    };
    assert_eq!(unnamed.guest_id, None);
}
