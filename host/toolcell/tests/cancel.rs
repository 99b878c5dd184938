//! A run that is cancelled, or whose time is over, while a component computes without end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use toolcell::contract::FailureCode;
use toolcell::model::ScriptedModel;
use toolcell::{
    Budget, CancellationToken, Host, HostOptions, RunEnd, RunEvent, RunLimit, RunRequest, RunResult, SandboxConfig,
};
use toolcell_tests::artifacts;

/// What the promise is: a call inside a guest ends within a second.
const PROMISE: Duration = Duration::from_secs(1);

/// A host with room for one guest.
fn one_at_a_time() -> HostOptions {
    HostOptions {
        sandbox: SandboxConfig { concurrent_calls_max: 1, ..SandboxConfig::default() },
        ..HostOptions::default()
    }
}

/// A run whose only call spins; `started` hears when it begins.
async fn spin(budget: Budget, cancel: CancellationToken, started: impl Fn() + Send + Sync + 'static) -> RunResult {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(artifacts::component_path("toolcell-test-guests"), dir.path().join("guests.wasm")).unwrap();
    let host = Host::open(dir.path(), one_at_a_time()).await.unwrap();
    let script = json!({"turns": [{"calls": [{"tool": "exhaust_cpu", "arguments": {}}]}, {"say": "never said"}]});
    let model = ScriptedModel::from_json(&script.to_string()).unwrap();
    let events = Arc::new(move |event: RunEvent| {
        if matches!(event, RunEvent::ToolCall { .. }) {
            started();
        }
    });
    let request = RunRequest { events, cancel, ..RunRequest::prompt("go") };
    let run = host.agent(Arc::new(model)).with_budget(budget).run(request).await.unwrap();
    // There is room for one guest: the next begins when this one has really gone.
    let next = json!({"turns": [{"calls": [{"tool": "echo", "arguments": {}}]}, {"say": "done"}]});
    let next = ScriptedModel::from_json(&next.to_string()).unwrap();
    let agent = host.agent(Arc::new(next));
    let next = tokio::time::timeout(PROMISE, agent.run(RunRequest::prompt("go")))
        .await
        .expect("the guest has left its place")
        .unwrap();
    assert_eq!(next.tool_calls[0].ending.code, None, "{:?}", next.tool_calls);
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_ends_its_guest_within_a_second() {
    let (cancel, started) = (CancellationToken::new(), Arc::new(tokio::sync::Notify::new()));
    let ended = tokio::spawn({
        let (cancel, started) = (cancel.clone(), Arc::clone(&started));
        spin(Budget::default(), cancel, move || started.notify_one())
    });
    started.notified().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let cancelled = Instant::now();
    cancel.cancel();
    let run = ended.await.unwrap();
    assert!(cancelled.elapsed() < PROMISE, "{:?}", cancelled.elapsed());
    assert!(matches!(run.end, RunEnd::Cancelled), "{:?}", run.end);
    assert_eq!(run.tool_calls[0].ending.code, Some(FailureCode::Cancelled));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_time_is_over_ends_its_guest() {
    let budget = Budget { time_max: Duration::from_secs(1), ..Budget::default() };
    let run = spin(budget, CancellationToken::new(), || {}).await;
    assert!(matches!(run.end, RunEnd::Incomplete(RunLimit::Time)), "{:?}", run.end);
    assert_eq!(run.tool_calls[0].ending.code, Some(FailureCode::Timeout));
}
