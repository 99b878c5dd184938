//! What is taken and what is refused, just inside and just outside of each limit.

use serde_json::{Value, json};
use time::macros::datetime;

use super::*;
use crate::limits::REQUEST_URL_BYTES_MAX;
use crate::{Failure, FailureCode, SchemaRule};

const NOW: OffsetDateTime = datetime!(2026-12-01 12:00:00.5 UTC);

fn png(bytes: usize) -> ContentPart {
    ContentPart::from_bytes(vec![7; bytes], "image/png").unwrap()
}

fn with_parts(parts: Vec<ContentPart>) -> ToolResult {
    ToolResult::ok_with_parts("see", parts)
}

fn approval() -> Request {
    Request::approval("Buy?")
}

fn with_data(data: Value) -> Request {
    let Value::Object(data) = data else { panic!("no object") };
    Request { data: Some(data), ..approval() }
}

/// `{"a": [[…]]}` of so many levels.
fn deep(levels: usize) -> Value {
    json!({"a": (2..levels).fold(json!([]), |inner, _| json!([inner]))})
}

#[test]
fn output_is_taken_up_to_its_limit() {
    let at = "x".repeat(OUTPUT_BYTES_MAX);
    assert_eq!(result(ToolResult::ok(at.clone())), Ok(ToolResult::ok(at.clone())));
    assert_eq!(result(ToolResult::ok(at + "x")), Err(Violation::OutputTooLong));
    assert_eq!(result(ToolResult::ok("")), Ok(ToolResult::ok("")));
}

#[test]
fn an_error_text_is_cut_at_a_character() {
    let long = format!("{}äö", "x".repeat(ERROR_OUTPUT_BYTES_MAX - 1));
    let cut = "x".repeat(ERROR_OUTPUT_BYTES_MAX - 1);
    assert_eq!(result(ToolResult::error(long)), Ok(ToolResult::error(cut)));
}

#[test]
fn an_error_without_a_text_gets_a_fixed_one() {
    for empty in ["", " \n", "\u{1b}\u{7}"] {
        assert_eq!(result(ToolResult::error(empty)), Ok(ToolResult::error(NO_ERROR_TEXT)));
    }
}

#[test]
fn an_error_says_what_its_parts_were() {
    let failed = ToolResult { parts: vec![ContentPart::text("half of it"), png(3)], ..ToolResult::error("it broke") };
    let said = "it broke\nhalf of it\nimage (image/png, 3 bytes)";
    assert_eq!(result(failed.with_metadata("rows", 1)), Ok(ToolResult::error(said).with_metadata("rows", 1)));
}

#[test]
fn metadata_are_small_and_flat() {
    let with = |value: Value| result(ToolResult::ok("2").with_metadata("a", value));
    let at = "x".repeat(METADATA_BYTES_MAX - r#"{"a":""}"#.len());
    assert!(with(json!(at)).is_ok());
    assert_eq!(with(json!(at + "x")), Err(Violation::MetadataTooLarge));
    let levels = |levels: usize| with(deep(levels - 1));
    assert!(levels(JSON_LEVELS_MAX).is_ok());
    assert_eq!(levels(JSON_LEVELS_MAX + 1), Err(Violation::MetadataDeep));
}

#[test]
fn what_is_taken_can_be_read_back_from_a_transcript() {
    let taken = result(ToolResult::ok("2").with_metadata("a", deep(JSON_LEVELS_MAX - 1))).unwrap();
    let transcript = json!({"messages": [{"role": "tool", "replies": [{"result": taken}]}]}).to_string();
    assert!(serde_json::from_str::<Value>(&transcript).is_ok());
}

#[test]
fn metadata_and_data_are_read_from_their_text() {
    for (read, limit) in [
        (metadata_from_text as fn(&str) -> Result<Object, Violation>, METADATA_BYTES_MAX),
        (request_data_from_text, REQUEST_DATA_BYTES_MAX),
    ] {
        assert_eq!(read(r#"{"rows": 3}"#).map(Value::Object), Ok(json!({"rows": 3})));
        for bad in ["", "[]", "null", "{", "{\"a\": 1} x", &format!("{{\"a\": {}", "[".repeat(10_000))] {
            assert!(matches!(read(bad), Err(Violation::MetadataNoObject | Violation::RequestDataNoObject)), "{bad}");
        }
        let at = format!("{{\"a\": \"{}\"}}", "x".repeat(limit - 9));
        assert!(read(&at).is_ok());
        assert!(matches!(read(&(at + " ")), Err(Violation::MetadataTooLarge | Violation::RequestDataTooLarge)));
    }
}

#[test]
fn a_question_is_what_the_constructor_of_one_makes() {
    let asked = ToolResult::pending(approval().with_id("mine"));
    let Ok(Outcome::Suspended(suspension)) = outcome(asked.clone(), NOW) else { panic!() };
    assert_eq!((suspension.request.prompt.as_str(), suspension.guest_id.as_deref()), ("Buy?", Some("mine")));
    let request = asked.metadata.clone().unwrap()[ToolResult::PENDING].clone();
    let by_hand = [
        ToolResult::ok("done").with_metadata(ToolResult::PENDING, request.clone()),
        ToolResult::error("Something else").with_metadata(ToolResult::PENDING, request),
        ToolResult::error("Buy?").with_metadata(ToolResult::PENDING, json!({"kind": "approval"})),
        ToolResult::error("Buy?").with_metadata(ToolResult::PENDING, Value::Null),
        ToolResult { parts: vec![png(1)], ..asked.clone() },
        asked.clone().with_metadata("rows", 3),
    ];
    for result in by_hand {
        assert_eq!(outcome(result.clone(), NOW), Err(Violation::PendingByHand), "{result:?}");
    }
    assert_eq!(result(asked), Err(Violation::PendingByHand), "where nothing may be asked");
    assert_eq!(outcome(ToolResult::ok("2"), NOW), Ok(Outcome::Done(ToolResult::ok("2"))));
}

#[test]
fn parts_are_bounded_in_number_and_size() {
    let refused = |parts| result(with_parts(parts)).unwrap_err();
    assert_eq!(result(with_parts(vec![png(1); PARTS_MAX])).unwrap().parts.len(), PARTS_MAX);
    assert_eq!(refused(vec![png(1); PARTS_MAX + 1]), Violation::TooManyParts);
    assert_eq!(result(with_parts(vec![png(PART_BYTES_MAX); 2])).unwrap().parts.len(), 2);
    assert_eq!(refused(vec![png(PART_BYTES_MAX + 1)]), Violation::PartTooLarge);
    let above = vec![png(PART_BYTES_MAX), png(PART_BYTES_MAX), ContentPart::text("x")];
    assert_eq!(refused(above), Violation::PartsTooLarge);
    assert!(result(with_parts(vec![ContentPart::text("x".repeat(OUTPUT_BYTES_MAX))])).is_ok());
    assert_eq!(refused(vec![ContentPart::text("x".repeat(OUTPUT_BYTES_MAX + 1))]), Violation::TextPartTooLong);
    assert_eq!(result(with_parts(Vec::new())), Ok(ToolResult::ok("see")));
}

#[test]
fn a_part_has_a_url_that_can_be_opened_and_a_name_that_can_be_shown() {
    let part = |url: &str| ContentPart::from_url_as(url, "image/png").unwrap().named("../../etc/chart.png");
    let shown = ContentPart::from_url_as("https://example.org/a", "image/png").unwrap().named("chart.png");
    assert_eq!(result(with_parts(vec![part("https://example.org/a")])), Ok(with_parts(vec![shown])));
    for bad in ["file:///etc/passwd", "a.png"] {
        assert_eq!(result(with_parts(vec![part(bad)])), Err(Violation::PartUrl), "{bad}");
    }
}

#[test]
fn a_question_gets_an_id_of_the_host_and_keeps_the_askers_own_beside_it() {
    let taken = suspension(approval().with_id("mine"), Some(vec![1, 2]), NOW).unwrap();
    let id = taken.request.id.clone();
    assert!(id.starts_with("pnd-") && id.len() == 36, "{id}");
    let request = Request { expires_at: Some("2026-12-02T12:00:00Z".into()), ..approval().with_id(id) };
    assert_eq!(taken, Suspension { request, guest_id: Some("mine".into()), state: Some(vec![1, 2]) });
    assert_eq!(suspension(approval(), None, NOW).unwrap().guest_id, None);
}

#[test]
fn the_end_of_a_question_is_kept_within_a_minute_and_a_week() {
    let at = |text: &str| Request { expires_at: Some(text.into()), ..approval() };
    let kept = |text: &str| request(at(text), NOW).unwrap().expires_at.unwrap();
    assert_eq!(kept("2026-12-02T01:00:00+01:00"), "2026-12-02T00:00:00Z");
    assert_eq!(kept("2020-01-01T00:00:00Z"), "2026-12-01T12:01:00Z");
    assert_eq!(kept("9999-12-31T23:59:59Z"), "2026-12-08T12:00:00Z");
    assert_eq!(request(approval(), NOW).unwrap().expires_at.unwrap(), "2026-12-02T12:00:00Z");
    for bad in ["", "tomorrow", "2026-12-02", "2026-13-01T00:00:00Z", "2026-12-02T00:00:00"] {
        assert_eq!(request(at(bad), NOW), Err(Violation::ExpiresAt), "{bad}");
    }
}

#[test]
fn the_texts_of_a_question_are_bounded() {
    let prompt = |chars: usize| request(Request::approval("ä".repeat(chars)), NOW);
    assert!(prompt(PROMPT_CHARS_MAX).is_ok());
    assert_eq!(prompt(PROMPT_CHARS_MAX + 1), Err(Violation::Prompt));
    assert_eq!(prompt(0), Err(Violation::Prompt));
    let kind = |word: &str| request(Request::new(word.to_owned().into(), "?"), NOW);
    assert_eq!(kind(&"ä".repeat(REQUEST_KIND_CHARS_MAX)).unwrap().kind.as_str().chars().count(), 64);
    for bad in ["", "a\nb", &"x".repeat(REQUEST_KIND_CHARS_MAX + 1)] {
        assert_eq!(kind(bad), Err(Violation::RequestKind), "{bad}");
    }
    let id = |bytes: usize| request(approval().with_id("x".repeat(bytes)), NOW);
    assert!(id(REQUEST_ID_BYTES_MAX).is_ok());
    assert_eq!(id(REQUEST_ID_BYTES_MAX + 1), Err(Violation::RequestIdTooLong));
    let url = |url: String| request(Request::authorization(url, ""), NOW);
    assert!(url("https://example.org/login".into()).is_ok());
    let long = format!("https://example.org/{}", "x".repeat(REQUEST_URL_BYTES_MAX));
    for bad in ["javascript:alert(1)".to_owned(), long] {
        assert_eq!(url(bad), Err(Violation::RequestUrl));
    }
}

#[test]
fn the_data_of_a_question_are_small_and_their_schema_is_quick_to_check() {
    let at = "x".repeat(REQUEST_DATA_BYTES_MAX - r#"{"a":""}"#.len());
    assert!(request(with_data(json!({"a": at})), NOW).is_ok());
    assert_eq!(request(with_data(json!({"a": at + "x"})), NOW), Err(Violation::RequestDataTooLarge));
    assert!(request(with_data(deep(JSON_LEVELS_MAX)), NOW).is_ok());
    assert_eq!(request(with_data(deep(JSON_LEVELS_MAX + 1)), NOW), Err(Violation::RequestDataDeep));
    assert!(request(with_data(json!({"schema": {"type": "object"}})), NOW).is_ok());
    let recursive = json!({"type": "object", "properties": {"a": {"$ref": "#"}}});
    for (schema, rule) in [(json!("x"), SchemaRule::NoObject), (recursive, SchemaRule::Recursive)] {
        assert_eq!(request(with_data(json!({"schema": schema})), NOW), Err(Violation::AnswerSchema(rule)));
    }
}

#[test]
fn state_is_taken_up_to_its_limit() {
    let with = |bytes: usize| suspension(approval(), Some(vec![0; bytes]), NOW);
    assert!(with(STATE_BYTES_MAX).is_ok());
    assert_eq!(with(STATE_BYTES_MAX + 1), Err(Violation::StateTooLarge));
}

#[test]
fn a_violation_becomes_a_failure_that_says_which_rule_and_quotes_nothing() {
    assert_eq!(
        Failure::from(Violation::OutputTooLong),
        Failure::with_detail(
            FailureCode::OutputTooLarge,
            "the output may have at most 256 KiB: return less, or the rest as a file"
        )
    );
    let schema = Failure::from(Violation::AnswerSchema(SchemaRule::Recursive));
    assert_eq!(
        schema,
        Failure::with_detail(
            FailureCode::BadOutput,
            "the schema in the data of a request refers back to itself: recursive schemas are not taken"
        )
    );
}

#[test]
fn a_question_never_asks_for_a_secret() {
    let asking = |name: &str| {
        let data = with_data(json!({"schema": {"type": "object", "properties": {name: {"type": "string"}}}}));
        request(Request { kind: crate::RequestKind::Input, ..data }, NOW)
    };
    assert_eq!(asking("password"), Err(Violation::SecretAsked));
    assert!(asking("colour").is_ok());
}
