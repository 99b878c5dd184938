//! One sandbox and one compiled guest component for all tests of a binary, and short ways to call it.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod server;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use toolcell_contract::{CallContext, FailureCode, Outcome, ToolResult};
use toolcell_sandbox::{CallReport, Component, Config, Invocation, Limits, Sandbox, Silent};
use toolcell_tests::artifacts;

pub(crate) struct Stage {
    pub(crate) sandbox: Sandbox,
    pub(crate) guests: Component,
}

/// The shared stage: the sandbox has its default limits.
pub(crate) fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let sandbox = Sandbox::new(Config::default()).unwrap();
        let guests = sandbox.compile(&artifacts::component("toolcell-test-guests")).unwrap();
        Stage { sandbox, guests }
    })
}

pub(crate) fn limits(deadline_ms_max: u64) -> Limits {
    Limits { deadline_ms_max, ..Limits::default() }
}

/// Calls a tool of the guest component.
pub(crate) async fn call(tool: &str, arguments: &str, limits: Limits) -> CallReport {
    call_of(&stage().guests, tool, arguments, limits).await
}

/// Calls a tool of any component.
pub(crate) async fn call_of(component: &Component, tool: &str, arguments: &str, limits: Limits) -> CallReport {
    let invocation =
        Invocation { limits: Some(limits), ..Invocation::new(tool, arguments, CallContext::first("call-1")) };
    stage().sandbox.call(component, invocation, Arc::new(Silent)).await
}

/// The text of an ok result.
pub(crate) fn text(report: &CallReport) -> &str {
    match &report.outcome {
        Outcome::Done(ToolResult { output, is_error: false, .. }) => output,
        other => panic!("{other:?}\n{}", report.log.stderr),
    }
}

/// The code of a failure.
pub(crate) fn code(report: &CallReport) -> FailureCode {
    match &report.outcome {
        Outcome::Failed(failure) => failure.code,
        other => panic!("{other:?}"),
    }
}

/// The median time of 20 harmless calls.
pub(crate) async fn neighbour() -> Duration {
    let mut times = Vec::new();
    for _ in 0..20 {
        let begun = Instant::now();
        assert_eq!(text(&call("echo", r#"{"a": 1}"#, limits(5_000)).await), r#"{"a": 1}"#);
        times.push(begun.elapsed());
    }
    times.sort();
    times[times.len() / 2]
}
