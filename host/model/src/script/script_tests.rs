//! Tests of the scripted model.

use std::fs;

use futures::FutureExt as _;
use serde_json::{Value, json};
use toolcell_agent::{StopReason, ToolReply, Usage};
use toolcell_contract::{ContentPart, Definition, ToolResult};

use super::*;

/// The events of one question, and how they end; nothing here waits.
fn ask(model: &ScriptedModel, messages: &[Message]) -> (Vec<ModelEvent>, Result<ModelReply, String>) {
    ask_with(model, &Prompt { system: None, messages, tools: &[] })
}

fn ask_with(model: &ScriptedModel, prompt: &Prompt<'_>) -> (Vec<ModelEvent>, Result<ModelReply, String>) {
    let mut events: Vec<_> = model.ask(*prompt).collect().now_or_never().unwrap();
    let end = match events.pop().unwrap() {
        Ok(ModelEvent::Finished(reply)) => Ok(reply),
        Ok(event) => panic!("the last event is {event:?}"),
        Err(error) => Err(error.to_string()),
    };
    (events.into_iter().map(Result::unwrap).collect(), end)
}

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.into())
}

fn error(model: &ScriptedModel, messages: &[Message]) -> String {
    ask(model, messages).1.unwrap_err()
}

fn results(replies: impl IntoIterator<Item = (&'static str, ToolResult)>) -> Message {
    let reply = |(name, result): (&str, ToolResult)| ToolReply { call_id: "x".into(), name: name.into(), result };
    Message::Tool { replies: replies.into_iter().map(reply).collect() }
}

fn turn(text: &str) -> Message {
    Message::Assistant(AssistantTurn { text: text.into(), ..AssistantTurn::default() })
}

/// A model whose first turn has this expectation.
fn expecting(expect: Value) -> ScriptedModel {
    let turn = json!({"expect": expect, "say": "ok"});
    // Both the first and the second turn, so that a conversation with results fits as well.
    ScriptedModel::from_json(&json!({"turns": [turn, turn]}).to_string()).unwrap()
}

#[test]
fn a_conversation_is_played_and_text_comes_word_by_word() {
    let model = ScriptedModel::from_json(
        r#"{"turns": [
            {"expect": {"user": "2+2"}, "reasoning": "Hm, math.", "say": "Let me compute.",
             "calls": [{"tool": "math", "arguments": {"expression": "2+2"}}, {"tool": "now"}],
             "usage": {"input_tokens": 3, "output_tokens": 4}},
            {"expect": {"results": [{"tool": "math", "is_error": false, "equals": "4"}, {}]}, "say": "It is 4."}
        ]}"#,
    )
    .unwrap();
    assert_eq!(model.name(), "scripted");
    let (events, reply) = ask(&model, &[Message::user("What is 2+2?")]);
    let reasoning = |text: &str| ModelEvent::Reasoning(text.into());
    assert_eq!(events, [reasoning("Hm, "), reasoning("math."), text("Let "), text("me "), text("compute.")]);
    let call = |id: &str, name: &str, arguments: &str| CallRequest {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    };
    let calls = vec![call("call-1-1", "math", r#"{"expression":"2+2"}"#), call("call-1-2", "now", "{}")];
    let expected = ModelReply {
        turn: AssistantTurn { text: "Let me compute.".into(), calls, verbatim: None },
        stop: StopReason::Finished,
        usage: Usage { input_tokens: 3, output_tokens: 4, ..Usage::default() },
    };
    assert_eq!(reply, Ok(expected.clone()));

    let history = [
        Message::user("What is 2+2?"),
        Message::Assistant(expected.turn),
        results([("math", ToolResult::ok("4")), ("now", ToolResult::ok("12:00"))]),
    ];
    assert_eq!(ask(&model, &history).1.unwrap().turn.text, "It is 4.");
    // The turn follows from the conversation: another process, or asking again, gives the same.
    assert_eq!(ask(&model, &history).1.unwrap().turn.text, "It is 4.");
}

#[test]
fn asking_past_the_end_is_an_error() {
    let model = ScriptedModel::new(Script::of([ScriptedTurn::say("a")]));
    assert_eq!(
        error(&model, &[Message::user("x"), turn("a"), Message::user("more")]),
        "the script does not fit: turn 2 was asked for, but it has only 1; the user said \"more\""
    );
}

#[test]
fn a_mismatch_names_the_turn_what_was_expected_and_what_came() {
    let fails = |expect: Value, messages: &[Message]| {
        error(&expecting(expect), messages).strip_prefix("the script does not fit: ").unwrap().to_owned()
    };
    let hi = [Message::user("hi there")];
    assert_eq!(
        fails(json!({"user": "hello"}), &hi),
        "turn 1: expected the last text of the user to contain \"hello\", but it is \"hi there\""
    );
    assert_eq!(
        fails(json!({"user": {"equals": "hi"}}), &hi),
        "turn 1: expected the last text of the user to be \"hi\", but it is \"hi there\""
    );
    assert_eq!(
        fails(json!({"system": {"contains": "brief"}}), &hi),
        "turn 1: expected the instructions to contain \"brief\", but it is \"\""
    );
    assert_eq!(
        fails(json!({"tools": ["math"]}), &hi),
        "turn 1: expected the tool \"math\" to be offered, but these are: none"
    );
    assert_eq!(fails(json!({"messages": 3}), &hi), "turn 1: expected 3 messages, but there are 1");
    assert_eq!(fails(json!({"results": [{}]}), &hi), "turn 1: expected 1 results, but there are 0: none");
}

#[test]
fn each_result_is_compared() {
    let picture = ContentPart::from_bytes(vec![1, 2], "image/png").unwrap();
    let came = || {
        results([
            ("math", ToolResult::error("bad input")),
            ("chart", ToolResult::ok_with_parts("drawn", [picture.clone()])),
        ])
    };
    let history = [Message::user("x"), turn(""), came()];
    let good = json!({"results": [
        {"tool": "math", "is_error": true, "contains": "input"},
        {"tool": "chart", "is_error": false, "equals": "drawn", "parts": ["image/png"]},
    ]});
    assert!(ask(&expecting(good), &history).1.is_ok());

    let fails = |first: Value, second: Value| error(&expecting(json!({"results": [first, second]})), &history);
    let prefix = "the script does not fit: turn 2: ";
    assert_eq!(
        fails(json!({"tool": "now"}), json!({})),
        format!("{prefix}result 1 (math): expected to come from \"now\", but it is from \"math\"")
    );
    assert_eq!(
        fails(json!({"is_error": false}), json!({})),
        format!("{prefix}result 1 (math): expected success, but it is an error: \"bad input\"")
    );
    assert_eq!(
        fails(json!({}), json!({"is_error": true})),
        format!("{prefix}result 2 (chart): expected an error, but it is success: \"drawn\"")
    );
    assert_eq!(
        fails(json!({}), json!({"equals": "draw"})),
        format!("{prefix}result 2 (chart): expected the output to be \"draw\", but it is \"drawn\"")
    );
    assert_eq!(
        fails(json!({}), json!({"parts": []})),
        format!("{prefix}result 2 (chart): expected the parts [], but they are [\"image (image/png, 2 bytes)\"]")
    );
}

#[test]
fn offered_tools_and_instructions_are_compared() {
    let tool = Definition {
        name: "math".into(),
        title: None,
        description: String::new(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        annotations: None,
    };
    let model = expecting(json!({"tools": ["math"], "system": "brief", "messages": 1}));
    let prompt = Prompt { system: Some("Be brief."), messages: &[Message::user("hi")], tools: &[&tool] };
    assert!(ask_with(&model, &prompt).1.is_ok());
}

#[test]
fn arguments_may_be_a_text_that_is_no_json() {
    let model =
        ScriptedModel::from_json(r#"{"turns": [{"calls": [{"tool": "t", "arguments": "{oops", "id": "mine"}]}]}"#);
    let calls = ask(&model.unwrap(), &[]).1.unwrap().turn.calls;
    assert_eq!(calls, [CallRequest { id: "mine".into(), name: "t".into(), arguments: "{oops".into() }]);
}

#[test]
fn failures_come_before_the_turn_one_for_each_time() {
    let model = ScriptedModel::from_json(
        r#"{"turns": [{"say": "one two", "fail": [
            {"kind": "unavailable", "status": 529, "message": "overloaded"},
            {"kind": "truncated", "after_text": true}
        ]}]}"#,
    )
    .unwrap();
    let broken = "the provider's stream broke off before its end";
    assert_eq!(ask(&model, &[]), (vec![], Err("the provider is not available (HTTP 529): overloaded".into())));
    assert_eq!(ask(&model, &[]), (vec![text("one "), text("two")], Err(broken.into())));
    assert_eq!(ask(&model, &[]).1.unwrap().turn.text, "one two");
}

#[test]
fn every_kind_of_failure_can_be_played() {
    let fail = |kind: FailureKind| error(&ScriptedModel::new(Script::of([ScriptedTurn::say("x").fail(kind)])), &[]);
    assert_eq!(fail(FailureKind::Unreachable), "cannot reach the model at the script");
    assert_eq!(fail(FailureKind::Unauthorized), "the provider refused the key (HTTP 401): as scripted");
    assert_eq!(fail(FailureKind::ContextTooLong), "the conversation is too long for the model: as scripted");
    assert_eq!(fail(FailureKind::Refused), "the provider refused the request (HTTP 400): as scripted");
    assert_eq!(fail(FailureKind::BadResponse), "the provider sent a response that cannot be read: as scripted");
    assert_eq!(fail(FailureKind::Idle), "the model sent nothing for 0 s");
}

#[test]
fn why_it_stops_can_be_said() {
    let model = ScriptedModel::from_json(r#"{"model": "m", "turns": [{"say": "x", "stop": "length"}]}"#).unwrap();
    assert_eq!((model.name(), ask(&model, &[]).1.unwrap().stop), ("m", StopReason::Length));
}

#[tokio::test(start_paused = true)]
async fn a_pace_makes_words_come_one_after_another() {
    let model = ScriptedModel::from_json(r#"{"pace_ms": 100, "turns": [{"say": "a b c"}]}"#).unwrap();
    let begun = tokio::time::Instant::now();
    let events: Vec<_> = model.ask(Prompt { system: None, messages: &[], tools: &[] }).collect().await;
    assert_eq!((events.len(), begun.elapsed().as_millis()), (4, 300));
}

#[test]
fn what_is_no_script_is_refused_with_its_place() {
    let problem = |text: &str| match ScriptedModel::from_json(text).unwrap_err() {
        ScriptError::Format(source) => source.to_string(),
        other => panic!("{other}"),
    };
    assert_eq!(
        problem("{\"turns\": [\n  {\"sya\": \"x\"}\n]}"),
        "unknown field `sya`, expected one of `expect`, `reasoning`, `say`, `calls`, `stop`, `usage`, `fail` at line 2 \
         column 8"
    );
    assert_eq!(
        problem("{\"turns\": [{\"calls\": [{\"tool\": \"t\", \"arguments\": 7}]}]}"),
        "invalid type: integer `7`, expected an object, or a string to be sent as it is at line 1 column 50"
    );
    assert_eq!(
        problem("{\"turns\": [{\"expect\": {\"user\": 7}}]}"),
        "invalid type: integer `7`, expected a string that must be contained, {\"contains\": …} or {\"equals\": …} at \
         line 1 column 32"
    );
    assert_eq!(problem("{}"), "missing field `turns` at line 1 column 2");
}

#[test]
fn a_file_is_named_in_its_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.json");
    let missing = ScriptedModel::from_file(&path).unwrap_err();
    assert_eq!(missing.to_string(), format!("cannot read the script {}", path.display()));
    fs::write(&path, "{").unwrap();
    let broken = ScriptedModel::from_file(&path).unwrap_err();
    assert_eq!(broken.to_string(), format!("{} is not a script", path.display()));
    fs::write(&path, "{\"turns\": [{\"say\": \"hi\"}]}").unwrap();
    assert_eq!(ask(&ScriptedModel::from_file(&path).unwrap(), &[]).1.unwrap().turn.text, "hi");
}
