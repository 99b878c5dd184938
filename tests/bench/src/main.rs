//! Measures one isolated call through the sandbox against plain wasmtime: one process, one component, rounds in turn.
//!
//! Plain wasmtime is the floor: a new store with WASI linked, an instance, a call; no limits, no epoch, no log, no
//! task of its own. `TOOLCELL_BENCH_CALLS` sets the calls of each side (2,000).
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a bench that cannot run should say so and stop"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use toolcell_contract::{CallContext, Outcome, ToolResult};
use toolcell_sandbox::{Component, Config, Invocation, Sandbox, Silent};
use toolcell_tests::artifacts;

const ARGUMENTS: &str = r#"{"text": "the same for both"}"#;

/// Calls of one side before the other has its turn.
const ROUND: usize = 20;

fn main() {
    let calls = std::env::var("TOOLCELL_BENCH_CALLS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000);
    let bytes = artifacts::component("toolcell-test-guests");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(async move {
        let floor = plain::Floor::new(&bytes);
        let sandbox = Sandbox::new(Config::default()).expect("a sandbox starts");
        let component = sandbox.compile(&bytes).expect("the guests load");
        // As a server would: from a task of a runtime of several threads.
        tokio::spawn(async move { measure(calls, &floor, &sandbox, &component).await }).await.expect("the bench ends");
    });
}

async fn measure(calls: usize, floor: &plain::Floor, sandbox: &Sandbox, component: &Component) {
    let (mut plain, mut isolated) = (Vec::new(), Vec::new());
    while plain.len() < calls {
        for _ in 0..ROUND {
            let begun = Instant::now();
            floor.call().await;
            plain.push(begun.elapsed());
        }
        for _ in 0..ROUND {
            let begun = Instant::now();
            call(sandbox, component).await;
            isolated.push(begun.elapsed());
        }
    }
    // The first rounds fill caches.
    let warm = calls / 10;
    report(&mut plain[warm..], &mut isolated[warm..]);
}

async fn call(sandbox: &Sandbox, component: &Component) {
    let invocation = Invocation::new("echo", ARGUMENTS, CallContext::first("call-1"));
    let report = sandbox.call(component, invocation, Arc::new(Silent)).await;
    assert_eq!(report.outcome, Outcome::Done(ToolResult::ok(ARGUMENTS)));
}

fn report(plain: &mut [Duration], isolated: &mut [Duration]) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("machine: {cores} cores, {}", cpu());
    println!("calls: {} of each, one after the other, rounds of {ROUND} in turn", plain.len());
    let (plain_median, plain_p99) = quantiles(plain);
    let (isolated_median, isolated_p99) = quantiles(isolated);
    println!("plain wasmtime: median {plain_median:>7.1} us, p99 {plain_p99:>7.1} us");
    println!("sandbox:        median {isolated_median:>7.1} us, p99 {isolated_p99:>7.1} us");
    println!("ratio:          median {:>7.2}, p99 {:>7.2}", isolated_median / plain_median, isolated_p99 / plain_p99);
}

fn quantiles(times: &mut [Duration]) -> (f64, f64) {
    times.sort_unstable();
    let at = |index: usize| times[index.min(times.len() - 1)].as_secs_f64() * 1e6;
    (at(times.len() / 2), at(times.len() * 99 / 100))
}

fn cpu() -> String {
    let known = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = known.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    model.unwrap_or("unknown processor").to_owned()
}

mod plain {
    //! The floor: what a program without any isolation of its own would write.

    use wasmtime::component::{Component, HasSelf, Linker, ResourceTable};
    use wasmtime::{Config, Engine, Store};
    use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

    use self::bindings::ToolPre;
    use self::bindings::toolcell::tool::tool_types::{CallContext, Outcome, ToolResult};

    mod bindings {
        #![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated; tool.wit documents every item")]
        wasmtime::component::bindgen!({
            path: "../wit/tool.wit",
            world: "tool",
            exports: { default: async },
        });
    }

    pub(crate) struct Floor {
        engine: Engine,
        pre: ToolPre<State>,
    }

    struct State {
        wasi: WasiCtx,
        table: ResourceTable,
    }

    impl WasiView for State {
        fn ctx(&mut self) -> WasiCtxView<'_> {
            WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
        }
    }

    impl Floor {
        pub(crate) fn new(bytes: &[u8]) -> Self {
            let mut config = Config::new();
            config.wasm_component_model(true).concurrency_support(false);
            let engine = Engine::new(&config).expect("an engine starts");
            let mut linker = Linker::new(&engine);
            wasmtime_wasi::p2::add_to_linker_async(&mut linker).expect("WASI links");
            bindings::Tool::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state).expect("the world links");
            let component = Component::from_binary(&engine, bytes).expect("the guests compile");
            let pre = linker.instantiate_pre(&component).and_then(ToolPre::new).expect("the guests link");
            Self { engine, pre }
        }

        pub(crate) async fn call(&self) {
            let state = State { wasi: WasiCtx::default(), table: ResourceTable::new() };
            let mut store = Store::new(&self.engine, state);
            let tool = self.pre.instantiate_async(&mut store).await.expect("an instance starts");
            let context = CallContext { call_id: "call-1".into(), deadline_ms: 30_000, answer: None, state: None };
            let tools = tool.toolcell_tool_tools();
            let result = tools.call_call_tool(&mut store, "echo", super::ARGUMENTS, &context).await;
            match result.expect("the call ends") {
                ToolResult::Ok(Outcome { output, .. }) => assert_eq!(output, super::ARGUMENTS),
                other => panic!("{other:?}"),
            }
        }
    }

    impl bindings::toolcell::tool::tool_types::Host for State {}

    impl bindings::toolcell::tool::log::Host for State {
        fn write(&mut self, _: bindings::toolcell::tool::log::Level, _: String) {}
    }

    impl bindings::toolcell::tool::progress::Host for State {
        fn report(&mut self, _: f64, _: Option<f64>, _: Option<String>) {}
    }

    impl bindings::toolcell::tool::http::Host for State {
        fn fetch(
            &mut self,
            _: bindings::toolcell::tool::http::Request,
        ) -> Result<bindings::toolcell::tool::http::Response, bindings::toolcell::tool::http::Error> {
            Err(bindings::toolcell::tool::http::Error::Timeout)
        }
    }

    type KeyValue<T> = Result<T, bindings::toolcell::tool::key_value::Error>;

    impl bindings::toolcell::tool::key_value::Host for State {
        fn get(&mut self, _: String) -> KeyValue<Option<bindings::toolcell::tool::key_value::Entry>> {
            Ok(None)
        }

        fn set(&mut self, _: String, _: Vec<u8>, _: Option<u64>) -> KeyValue<u64> {
            Ok(1)
        }

        fn delete(&mut self, _: String) -> KeyValue<()> {
            Ok(())
        }

        fn list_keys(&mut self, _: String, _: Option<String>) -> KeyValue<(Vec<String>, Option<String>)> {
            Ok((Vec::new(), None))
        }
    }
}
