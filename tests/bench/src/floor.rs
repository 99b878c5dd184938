//! The floor: plain wasmtime, as a program without any isolation of its own would use it.

use wasmtime::component::{Component, HasSelf, Linker, ResourceTable};
use wasmtime::{Config, Engine, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use self::bindings::ToolPre;
use self::bindings::toolcell::tool::tool_types::{CallContext, Outcome, ToolResult};

mod bindings {
    #![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated; tool.wit documents every item")]
    wasmtime::component::bindgen!({
        path: "../../wit/tool.wit",
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
        let component = Component::from_binary(&engine, bytes).expect("the component compiles");
        let pre = linker.instantiate_pre(&component).and_then(ToolPre::new).expect("the component links");
        Self { engine, pre }
    }

    pub(crate) async fn call(&self) {
        let state = State { wasi: WasiCtx::default(), table: ResourceTable::new() };
        let mut store = Store::new(&self.engine, state);
        let tool = self.pre.instantiate_async(&mut store).await.expect("an instance starts");
        let context = CallContext { call_id: "call-1".into(), deadline_ms: 30_000, answer: None, state: None };
        let tools = tool.toolcell_tool_tools();
        let result = tools.call_call_tool(&mut store, super::TOOL, super::ARGUMENTS, &context).await;
        match result.expect("the call ends") {
            ToolResult::Ok(Outcome { output, .. }) => assert_eq!(output, super::OUTPUT),
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
