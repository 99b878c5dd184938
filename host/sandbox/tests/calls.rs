//! What well-behaved tools may rely on.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests: what goes wrong in them should fail the test"
)]

mod support;

use std::sync::{Arc, Mutex};

use serde_json::json;
use support::{call, limits, stage, text};
use toolcell_contract::{
    Answer, CallContext, ContentPart, Object, Outcome, Request, RequestKind, Suspension, ToolResult,
};
use toolcell_sandbox::{CallLog, CallReport, Invocation, LimitHit, LogLevel, LogLine, Observer, Progress, Silent};

async fn call_with(tool: &str, context: CallContext) -> CallReport {
    let stage = stage();
    stage.sandbox.call(&stage.guests, Invocation::new(tool, "{}", context), Arc::new(Silent)).await
}

fn suspension(report: CallReport) -> Suspension {
    match report.outcome {
        Outcome::Suspended(suspension) => suspension,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn arguments_reach_the_tool_and_its_output_comes_back() {
    let report = call("echo", r#"{"a": "ä"}"#, limits(5_000)).await;
    assert_eq!(report.outcome, Outcome::Done(ToolResult::ok(r#"{"a": "ä"}"#)));
    assert_eq!(report.log, CallLog::default());
    assert_eq!(report.limits_hit, []);
    assert!(report.memory_bytes_peak > 0);
}

#[tokio::test]
async fn a_tool_knows_its_call_and_the_time_it_has_left() {
    assert_eq!(text(&call("context", "{}", limits(5_000)).await), "call-1 in time");
}

#[tokio::test]
async fn media_come_back_as_parts() {
    let report = call("media", "{}", limits(5_000)).await;
    let parts = [
        ContentPart::from_bytes(vec![0x89, b'P'], "image/png").unwrap(),
        ContentPart::text("note"),
        ContentPart::from_url("https://example.org/a.pdf").unwrap().named("a.pdf"),
    ];
    let expected = ToolResult::ok_with_parts("a picture", parts).with_metadata("rows", 3);
    assert_eq!(report.outcome, Outcome::Done(expected));
}

#[tokio::test]
async fn a_question_suspends_the_call_and_its_answer_finishes_it() {
    let asked = suspension(call_with("ask", CallContext::first("call-1")).await);
    let Request { id, expires_at, .. } = asked.request.clone();
    assert!(id.starts_with("pnd-"), "{id}");
    let expected = Request {
        id: id.clone(),
        kind: RequestKind::Approval,
        prompt: "Buy 3 lamps?".into(),
        url: Some("https://example.org/lamps".into()),
        data: Some(Object::from_iter([("price".into(), json!(120))])),
        expires_at,
    };
    let state = Some(b"three lamps".to_vec());
    assert_eq!(asked, Suspension { request: expected, guest_id: None, state: state.clone() });

    let answer = Answer::approve(id.clone()).with_data(Object::from_iter([("seat".into(), json!("4A"))]));
    let report = call_with("ask", CallContext::retry("call-1", answer, state)).await;
    assert_eq!(text(&report), format!("{id} true {{\"seat\":\"4A\"}} three lamps"));
}

#[tokio::test]
async fn a_tools_own_id_stays_inside_the_sandbox() {
    let asked = suspension(call_with("ask_with_own_id", CallContext::first("call-1")).await);
    assert_eq!(asked.guest_id.as_deref(), Some("mine"));
    assert!(asked.request.id.starts_with("pnd-"));
    let answer = Answer::approve(asked.guest_id.unwrap());
    let report = call_with("ask_with_own_id", CallContext::retry("call-1", answer, asked.state)).await;
    assert_eq!(text(&report), "mine true  three lamps");
}

#[tokio::test]
async fn what_a_tool_prints_is_kept_beside_its_result() {
    let report = call("print_and_fail", "2", limits(5_000)).await;
    assert_eq!(report.outcome, Outcome::Done(ToolResult::error("no")));
    let printed = CallLog { stdout: "out 0\nout 1\n".into(), stderr: "err 0\nerr 1\n".into(), ..CallLog::default() };
    assert_eq!(report.log, printed);
}

#[tokio::test]
async fn printing_past_the_limit_keeps_the_end_and_the_tool() {
    let report = call("print_and_fail", "20000", limits(10_000)).await;
    assert_eq!(report.outcome, Outcome::Done(ToolResult::error("no")));
    assert_eq!(report.log.stdout.len(), 64 << 10);
    assert!(report.log.stdout.ends_with("out 19998\nout 19999\n"));
    let all: usize = (0..20_000).map(|n| format!("out {n}\n").len()).sum();
    assert_eq!(report.log.stdout_bytes_dropped, (all - (64 << 10)) as u64);
    assert_eq!(report.limits_hit, [LimitHit::Stdout, LimitHit::Stderr]);
}

#[derive(Default)]
struct Heard {
    lines: Mutex<Vec<LogLine>>,
    progress: Mutex<Vec<Progress>>,
}

impl Observer for Heard {
    fn progress(&self, progress: Progress) {
        self.progress.lock().unwrap().push(progress);
    }

    fn log(&self, line: &LogLine) {
        self.lines.lock().unwrap().push(line.clone());
    }
}

#[tokio::test]
async fn an_observer_hears_log_lines_while_the_call_runs() {
    let (stage, heard) = (stage(), Arc::new(Heard::default()));
    let invocation = Invocation::new("log_lines", "{}", CallContext::first("call-1"));
    let report = stage.sandbox.call(&stage.guests, invocation, Arc::clone(&heard) as Arc<dyn Observer>).await;
    assert_eq!(text(&report), "logged");
    let levels = [
        (LogLevel::Trace, "Level::Trace"),
        (LogLevel::Debug, "Level::Debug"),
        (LogLevel::Info, "Level::Info"),
        (LogLevel::Warn, "Level::Warn"),
        (LogLevel::Error, "Level::Error"),
    ];
    let expected: Vec<LogLine> = levels.map(|(level, text)| LogLine { level, text: text.into() }).into_iter().collect();
    assert_eq!(report.log.lines, expected);
    assert_eq!(*heard.lines.lock().unwrap(), expected);
}

#[tokio::test]
async fn an_observer_hears_progress_that_is_a_number() {
    let (stage, heard) = (stage(), Arc::new(Heard::default()));
    let invocation = Invocation::new("report_progress", "{}", CallContext::first("call-1"));
    let report = stage.sandbox.call(&stage.guests, invocation, Arc::clone(&heard) as Arc<dyn Observer>).await;
    assert_eq!(text(&report), "done");
    let expected = [
        Progress { done: 1.0, total: Some(2.0), message: Some("half".into()) },
        Progress { done: 2.0, total: None, message: None },
    ];
    assert_eq!(*heard.progress.lock().unwrap(), expected);
}

struct Panics;

impl Observer for Panics {
    fn log(&self, _line: &LogLine) {
        panic!("a bug of the host");
    }
}

#[tokio::test]
async fn a_panic_of_the_host_ends_one_call_and_no_other() {
    let stage = stage();
    let invocation = Invocation::new("log_lines", "{}", CallContext::first("call-1"));
    let report = stage.sandbox.call(&stage.guests, invocation, Arc::new(Panics)).await;
    assert_eq!(support::code(&report), toolcell_contract::FailureCode::HostFault);
    assert_eq!(text(&call("echo", "{}", limits(5_000)).await), "{}");
}

#[tokio::test]
async fn nothing_is_granted_and_the_tool_is_told_what_is_missing() {
    let table = [
        ("deny_file", "denied"),
        ("deny_socket", "denied"),
        ("deny_env", "0 variables, 0 arguments"),
        ("deny_http", "HTTP to http://169.254.169.254 is not granted to this tool for GET /"),
        ("deny_key_value", "key-value storage is not granted to this tool"),
    ];
    for (tool, expected) in table {
        assert_eq!(text(&call(tool, "{}", limits(5_000)).await), expected, "{tool}");
    }
}

#[tokio::test]
async fn no_state_survives_from_one_call_to_the_next() {
    for _ in 0..3 {
        let report = call("print_and_fail", "1", limits(5_000)).await;
        assert_eq!(report.log.stdout, "out 0\n");
    }
}
