//! The worked examples: what tools, suspensions and runs are for, each told with a real component.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolcell::contract::{Answer, FailureCode, Request, RequestKind, ToolResult};
use toolcell::model::ScriptedModel;
use toolcell::{
    Agent, CallRecord, CallRequest, CallState, CancellationToken, EventSink, Host, Message, NoEvents, Nobody, Question,
    RunEvent, RunRequest, RunStatus,
};

mod support;

use support::host;

/// Calls one tool, without anybody to ask.
async fn call(host: &Host, name: &str, arguments: &Value) -> CallState {
    let (budget, cancel) = (toolcell::Budget::default(), CancellationToken::new());
    let events: Arc<dyn EventSink> = Arc::new(NoEvents);
    let catalog = host.catalog();
    let caller = toolcell::Caller::new(catalog.as_ref(), &Nobody, &budget, &events, &cancel);
    let request = CallRequest { id: "c1".into(), name: name.into(), arguments: arguments.to_string() };
    caller.start(toolcell::fresh_call_id(), request).await
}

async fn result(host: &Host, name: &str, arguments: &Value) -> ToolResult {
    match call(host, name, arguments).await {
        CallState::Finished(record) => record.ending.result,
        CallState::Open(open) => open.result(),
    }
}

fn script(turns: Value) -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::from_json(&json!({"turns": turns}).to_string()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_succeeds_and_fails() {
    let host = host().await;
    assert_eq!(result(&host, "divide", &json!({"dividend": 9, "divisor": 2})).await, ToolResult::ok("4.5"));
    let failed = result(&host, "divide", &json!({"dividend": 9, "divisor": 0})).await;
    assert_eq!(failed, ToolResult::error("cannot divide by zero"));
}

#[tokio::test(flavor = "multi_thread")]
async fn structured_output_reaches_the_model_and_its_metadata_never_does() {
    let host = host().await;
    let model = script(json!([
        {"calls": [{"tool": "stock", "arguments": {"item": "lamp"}}]},
        {"say": "There are 3 lamps."},
    ]));
    let spy = support::Spy::new(model);
    let run = host.agent(spy.clone()).run(RunRequest::prompt("How many lamps?")).await.unwrap();

    let record: &CallRecord = &run.tool_calls[0];
    assert_eq!(
        serde_json::from_str::<Value>(&record.ending.result.output).unwrap(),
        json!({"item": "lamp", "count": 3})
    );
    let metadata = Value::Object(record.ending.result.metadata.clone().unwrap());
    assert_eq!(metadata, json!({"warehouse": "north-7", "queryMs": 12}));
    // What each wire makes of the transcript is what leaves this machine.
    for body in spy.encoded_by_every_wire().await {
        assert!(body.contains("count"), "{body}");
        assert!(!body.contains("north-7") && !body.contains("queryMs"), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspension_is_built_and_read_back() {
    let host = host().await;
    let CallState::Open(open) = call(&host, "gpu", &json!({})).await else { panic!("the call does not wait") };
    let request = open.request();
    assert_eq!((&request.kind, request.prompt.as_str()), (&RequestKind::Approval, "Use the GPU for an hour?"));
    assert!(request.id.starts_with("pnd-"));

    let shown = open.result();
    assert_eq!((shown.is_error, shown.output.as_str()), (true, "Use the GPU for an hour?"));
    let read: ToolResult = serde_json::from_value(serde_json::to_value(&shown).unwrap()).unwrap();
    assert_eq!(read.pending_of().as_ref(), Some(request));
    assert_eq!(ToolResult::ok("4").pending_of(), None::<Request>);
}

/// A run in which the GPU is asked for and `answer` decides.
async fn run_with_gpu(
    answer: impl Fn(Question) -> Answer + Send + Sync + 'static,
) -> (toolcell::RunResult, Vec<RunEvent>) {
    let host = host().await;
    let model = script(json!([{"calls": [{"tool": "gpu", "arguments": {}}]}, {"say": "So be it."}]));
    let asked = Arc::new(AtomicUsize::new(0));
    let agent: Agent = host.agent(model).wait_for({
        let asked = Arc::clone(&asked);
        move |question: Question| {
            asked.fetch_add(1, Ordering::Relaxed);
            let answer = answer(question);
            async move { Some(answer) }
        }
    });
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let events = Arc::clone(&events);
        Arc::new(move |event: RunEvent| events.lock().unwrap().push(event))
    };
    let run = agent.run(RunRequest { events: sink, ..RunRequest::prompt("Train it.") }).await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    let events = events.lock().unwrap().clone();
    (run, events)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_question_is_approved_runs_the_tool_once_more() {
    let (run, _) = run_with_gpu(|question| Answer::approve(question.request.id)).await;
    assert_eq!((run.status(), run.turns, run.tool_calls.len()), (RunStatus::Done, 2, 1));
    assert_eq!(run.tool_calls[0].ending.result, ToolResult::ok("approved: gpu"));
    assert!(run.pending().is_none());
    assert!(matches!(&run.messages[2], Message::Tool { replies } if replies[0].result.output == "approved: gpu"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_question_is_declined_goes_on_with_an_error_result() {
    let (run, events) = run_with_gpu(|question| Answer::decline(question.request.id, "too dear")).await;
    assert_eq!((run.status(), run.turns), (RunStatus::Done, 2));
    let ending = &run.tool_calls[0].ending;
    assert!(ending.result.is_error && ending.result.output.contains("declined/expired"), "{ending:?}");
    assert_eq!(ending.code, Some(FailureCode::Declined));
    assert!(run.pending().is_none());
    let answered = |event: &RunEvent| matches!(event, RunEvent::Answered { ok: false, .. });
    assert!(events.iter().any(answered), "{events:?}");
}
