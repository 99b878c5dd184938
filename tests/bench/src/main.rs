//! Measures one isolated call, from the agent's door to its result, against plain wasmtime: one process, one component,
//! rounds in turn.
//!
//! Three things are timed, each on the component of the `math` sample:
//! - the floor, plain wasmtime: a new store with WASI linked, an instance, a call; no limits, no epoch, no log;
//! - the sandbox alone;
//! - the whole host path: the tool is looked up, its arguments are checked against its schema, the catalogue finds the
//!   component, the sandbox runs it, the result is checked and recorded, and events are emitted.
//!
//! `TOOLCELL_BENCH_CALLS` sets the calls of each (default 2,000).

#![allow(clippy::expect_used, clippy::panic, reason = "a bench that cannot run should say so and stop")]

mod floor;

use std::sync::Arc;
use std::time::{Duration, Instant};

use toolcell::contract::{CallContext, Outcome, ToolResult};
use toolcell::{
    Budget, CallRequest, CallState, Caller, CancellationToken, EventSink, Host, HostOptions, NoEvents, Nobody,
    fresh_call_id,
};
use toolcell_sandbox::{Component, Config, Invocation, Sandbox, Silent};

use crate::floor::Floor;

const TOOL: &str = "math";
const ARGUMENTS: &str = r#"{"expression":"2 * (3 + 4)"}"#;
const OUTPUT: &str = "14";

/// Calls of one side before the next has its turn.
const ROUND: usize = 20;

fn main() {
    let calls = std::env::var("TOOLCELL_BENCH_CALLS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime starts");
    // As a server would: from a task of a runtime of several threads.
    runtime.block_on(async move { tokio::spawn(measure(calls)).await.expect("the bench ends") });
}

async fn measure(calls: usize) {
    let bytes = toolcell_tests::artifacts::component("math-tool");
    let floor = Floor::new(&bytes);
    let sandbox = Sandbox::new(Config::default()).expect("a sandbox starts");
    let component = sandbox.compile(&bytes).expect("the component compiles");
    let tools = tempfile::tempdir().expect("a directory can be made");
    std::fs::write(tools.path().join("math.wasm"), &bytes).expect("the component can be written");
    let mut options = HostOptions::default();
    options.toolbox.cache = toolcell::CachePlace::Off;
    let host = Host::open(tools.path(), options).await.expect("the directory opens");

    let (budget, cancel) = (Budget::default(), CancellationToken::new());
    let events: Arc<dyn EventSink> = Arc::new(NoEvents);
    let caller = Caller::new(host.toolbox().as_ref(), &Nobody, &budget, &events, &cancel);
    let [mut plain, mut isolated, mut whole] = [const { Vec::new() }; 3];
    while plain.len() < calls {
        for _ in 0..ROUND {
            plain.push(timed(floor.call()).await);
        }
        for _ in 0..ROUND {
            isolated.push(timed(sandboxed(&sandbox, &component)).await);
        }
        for _ in 0..ROUND {
            whole.push(timed(called(&caller)).await);
        }
    }
    // The first rounds fill caches.
    let warm = calls / 10;
    report([&mut plain[warm..], &mut isolated[warm..], &mut whole[warm..]]);
}

async fn timed(call: impl Future<Output = ()>) -> Duration {
    let begun = Instant::now();
    call.await;
    begun.elapsed()
}

async fn sandboxed(sandbox: &Sandbox, component: &Component) {
    let invocation = Invocation::new(TOOL, ARGUMENTS, CallContext::first("call-1"));
    let report = sandbox.call(component, invocation, Arc::new(Silent)).await;
    assert_eq!(report.outcome, Outcome::Done(ToolResult::ok(OUTPUT)));
}

async fn called(caller: &Caller<'_>) {
    let request = CallRequest { id: "call-1".into(), name: TOOL.into(), arguments: ARGUMENTS.into() };
    match caller.start(fresh_call_id(), request).await {
        CallState::Finished(record) => assert_eq!(record.ending.result, ToolResult::ok(OUTPUT)),
        CallState::Open(open) => panic!("the call waits: {:?}", open.request()),
    }
}

fn report([plain, isolated, whole]: [&mut [Duration]; 3]) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("machine: {cores} cores, {}", processor());
    println!("calls: {} of each, one after the other, rounds of {ROUND} in turn", plain.len());
    let floor = quantiles(plain);
    for (name, (median, p99)) in
        [("plain wasmtime", floor), ("sandbox", quantiles(isolated)), ("host", quantiles(whole))]
    {
        let (of_median, of_p99) = (median / floor.0, p99 / floor.1);
        println!("{name:<15} median {median:>7.1} us ({of_median:.2})   p99 {p99:>7.1} us ({of_p99:.2})");
    }
}

/// Median and 99th percentile, in microseconds.
fn quantiles(times: &mut [Duration]) -> (f64, f64) {
    times.sort_unstable();
    let at = |index: usize| times.get(index).or(times.last()).map_or(0.0, |time| time.as_secs_f64() * 1e6);
    (at(times.len() / 2), at(times.len() * 99 / 100))
}

fn processor() -> String {
    let known = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = known.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    model.unwrap_or("unknown processor").to_owned()
}
