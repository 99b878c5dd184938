//! Tools that are functions of the program, beside components.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolcell::contract::{Answer, CallContext, FailureCode, Request, ToolResult};
use toolcell::model::ScriptedModel;
use toolcell::{CallRecord, Host, NativeTool, RunRequest, RunStatus};

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

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_panics_ends_its_call_and_not_the_run() {
    let body = |_: Nothing, _: CallContext| async { panic!("a bug") };
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

#[test]
fn a_name_that_no_provider_takes_is_refused() {
    let body = |_: Nothing, _: CallContext| async { ToolResult::ok("") };
    let error = NativeTool::new("no spaces", "", body).unwrap_err();
    assert!(error.to_string().contains("no spaces"), "{error}");
}
