//! Tools that are functions of the program, beside components.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolcell::contract::accept::Violation;
use toolcell::contract::limits::{METADATA_BYTES_MAX, OUTPUT_BYTES_MAX, STATE_BYTES_MAX};
use toolcell::contract::{Answer, CallContext, Failure, FailureCode, Request, ToolResult};
use toolcell::model::ScriptedModel;
use toolcell::{CallRecord, CancellationToken, Host, NativeResult, NativeTool, NoEvents, RunRequest, RunStatus};

mod support;

use support::host;

#[derive(Deserialize, JsonSchema)]
struct Greeting {
    /// Who is greeted.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

fn greet() -> NativeTool {
    let body = |greeting: Greeting, _: CallContext| async move { ToolResult::ok(format!("Hello, {}!", greeting.name)) };
    NativeTool::new("greet", "Greets someone.", body).unwrap()
}

/// The calls that a model makes in one turn, as they end.
async fn run(host: &Host, calls: serde_json::Value) -> Vec<CallRecord> {
    let script = json!({"turns": [{"calls": calls}, {"say": "done"}]});
    let agent = host
        .agent(Arc::new(ScriptedModel::from_json(&script.to_string()).unwrap()))
        .wait_for(|question: toolcell::Question| async move { Some(Answer::approve(question.request.id)) });
    let result = agent.run(RunRequest::prompt("go")).await.unwrap();
    assert_eq!(result.status(), RunStatus::Done);
    result.tool_calls
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_and_a_component_are_called_in_one_turn() {
    let host = host().await.with_tool(greet());
    let calls = run(
        &host,
        json!([
            {"tool": "greet", "arguments": {"name": "Ada"}},
            {"tool": "divide", "arguments": {"dividend": 8, "divisor": 2}},
        ]),
    )
    .await;
    let outputs: Vec<_> = calls.iter().map(|call| call.ending.result.output.as_str()).collect();
    assert_eq!(outputs, ["Hello, Ada!", "4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_cannot_take_the_place_of_a_function() {
    let body = |_: Nothing, _: CallContext| async { ToolResult::ok("the program's own") };
    let host = host().await.with_tool(NativeTool::new("divide", "Divides.", body).unwrap());
    let named = host.catalog().tools().into_iter().filter(|tool| tool.definition.name == "divide");
    assert_eq!(named.map(|tool| tool.digest).collect::<Vec<_>>(), [None]);
    let calls = run(&host, json!([{"tool": "divide", "arguments": {}}])).await;
    assert_eq!(calls[0].ending.result.output, "the program's own");
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_do_not_fit_the_type_never_reach_the_function() {
    let host = host().await.with_tool(greet());
    let calls = run(&host, json!([{"tool": "greet", "arguments": {"name": 7}}])).await;
    assert_eq!(calls[0].ending.code, Some(FailureCode::InvalidArguments));
}

fn bug() -> ToolResult {
    panic!("a bug")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_panics_ends_its_call_and_not_the_run() {
    let body = |_: Nothing, _: CallContext| async { bug() };
    let host = host().await.with_tool(NativeTool::new("buggy", "Panics.", body).unwrap());
    let calls = run(&host, json!([{"tool": "buggy", "arguments": {}}, {"tool": "fail", "arguments": {}}])).await;
    assert_eq!(calls[0].ending.code, Some(FailureCode::Trap));
    assert_eq!(calls[1].ending.result, ToolResult::error("the paper ran out"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_may_ask_first_and_runs_again_with_the_answer() {
    let body = |_: Nothing, context: CallContext| async move {
        match context.answer {
            None => ToolResult::pending(Request::approval("Send it?")),
            Some(answer) => ToolResult::ok(format!("sent: {}", answer.ok)),
        }
    };
    let host = host().await.with_tool(NativeTool::new("send", "Sends.", body).unwrap());
    let calls = run(&host, json!([{"tool": "send", "arguments": {}}])).await;
    assert_eq!(calls[0].ending.result, ToolResult::ok("sent: true"));
}

/// An even number; its schema cannot say so.
#[derive(Deserialize)]
#[serde(try_from = "i64")]
struct Even(i64);

impl TryFrom<i64> for Even {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, String> {
        if number % 2 == 0 { Ok(Self(number)) } else { Err(format!("{number} is odd")) }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Halving {
    #[schemars(with = "i64")]
    number: Even,
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_fit_the_schema_and_not_the_type_have_the_code_of_bad_arguments() {
    let body = |halving: Halving, _: CallContext| async move { ToolResult::ok((halving.number.0 / 2).to_string()) };
    let host = host().await.with_tool(NativeTool::new("halve", "Halves.", body).unwrap());
    let calls = run(
        &host,
        json!([{"tool": "halve", "arguments": {"number": 4}}, {"tool": "halve", "arguments": {"number": 5}}]),
    )
    .await;
    assert_eq!(calls[0].ending, ToolResult::ok("2").into());
    assert_eq!(
        calls[1].ending,
        Failure::with_detail(FailureCode::InvalidArguments, "5 is odd at line 1 column 12").into()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn results_and_questions_of_a_function_are_held_to_the_rules_of_a_component() {
    let ask = |request: Request| ToolResult::pending(request);
    let by_hand = serde_json::to_value(Request::approval("Sure?").with_id("mine")).unwrap();
    let bad = [
        (ToolResult::ok("x".repeat(OUTPUT_BYTES_MAX + 1)), FailureCode::OutputTooLarge),
        (ToolResult::ok("").with_metadata("a", "x".repeat(METADATA_BYTES_MAX)), FailureCode::OutputTooLarge),
        (ask(Request::approval("")), FailureCode::BadOutput),
        (ask(Request { expires_at: Some("tomorrow".into()), ..Request::approval("Sure?") }), FailureCode::BadOutput),
        (ToolResult::ok("done").with_metadata(ToolResult::PENDING, by_hand), FailureCode::BadOutput),
        (ToolResult::ok("done").with_metadata(ToolResult::PENDING, 7), FailureCode::BadOutput),
    ];
    let host = host().await;
    for (result, code) in bad {
        let body = move |_: Nothing, _: CallContext| futures::future::ready(result.clone());
        let host = host.clone().with_tool(NativeTool::new("odd", "Is odd.", body).unwrap());
        let calls = run(&host, json!([{"tool": "odd", "arguments": {}}])).await;
        assert_eq!(calls[0].ending.code, Some(code));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_gets_its_state_back_with_the_answer() {
    let ask = |bytes: usize| {
        let body = move |_: Nothing, context: CallContext| async move {
            match context.state {
                None => NativeResult::suspend(Request::approval("Send it?"), vec![7; bytes]),
                Some(state) => ToolResult::ok(format!("{} bytes", state.len())).into(),
            }
        };
        NativeTool::new("send", "Sends.", body).unwrap()
    };
    let host = host().await;
    for (bytes, ending) in [
        (STATE_BYTES_MAX, ToolResult::ok("65536 bytes").into()),
        (STATE_BYTES_MAX + 1, Failure::from(Violation::StateTooLarge).into()),
    ] {
        let host = host.clone().with_tool(ask(bytes));
        assert_eq!(run(&host, json!([{"tool": "send", "arguments": {}}])).await[0].ending, ending);
    }
}

fn send(version: &'static str) -> NativeTool {
    let body = move |_: Nothing, context: CallContext| async move {
        match context.answer {
            None => ToolResult::pending(Request::approval("Send it?")),
            Some(_) => ToolResult::ok(version),
        }
    };
    NativeTool::new("send", "Sends.", body).unwrap()
}

/// A run that waits for a yes to `send`, and how its call ends on another host.
async fn approved_on(first: Host, second: Host) -> CallRecord {
    let script = json!({"turns": [{"calls": [{"tool": "send", "arguments": {}}]}, {"say": "done"}]}).to_string();
    let model = Arc::new(ScriptedModel::from_json(&script).unwrap());
    let result = first.agent(model.clone()).run(RunRequest::prompt("go")).await.unwrap();
    let waiting = result.into_suspended().expect("it waits");
    let answers = waiting.open().map(|open| Answer::approve(&open.request().id)).collect();
    let (events, cancel) = (Arc::new(NoEvents), CancellationToken::new());
    let result = second.agent(model).resume(waiting, answers, events, cancel).await.unwrap();
    result.tool_calls.into_iter().next().expect("one call")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_was_replaced_or_taken_away_does_not_run_on_the_approval_of_another() {
    let bare = host().await;
    let first = bare.clone().with_tool(send("old"));
    let others = [bare.clone(), bare.clone().with_tool(greet()), first.clone().with_tool(send("new"))];
    for other in others {
        assert_eq!(approved_on(first.clone(), other).await.ending, Failure::new(FailureCode::ToolChanged).into());
    }
    assert_eq!(approved_on(first.clone(), first.clone()).await.ending, ToolResult::ok("old").into());
}

#[test]
fn a_name_that_no_provider_takes_is_refused() {
    let body = |_: Nothing, _: CallContext| async { ToolResult::ok("") };
    let error = NativeTool::new("no spaces", "", body).unwrap_err();
    assert!(error.to_string().contains("no spaces"), "{error}");
}
