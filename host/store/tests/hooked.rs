//! Hooks of a run on record: what they ask before a tool runs at all, and what they say of arguments that a person has edited.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../agent/tests/support/mod.rs"]
mod agent_support;
mod support;

use std::sync::Arc;
use std::time::Duration;

use agent_support::{FakeCatalog, FakeModel, call, say};
use futures::future::{BoxFuture, FutureExt as _, ready};
use serde_json::json;
use support::{Place, on_every_store};
use tokio_util::sync::CancellationToken;
use toolcell_agent::{
    Agent, Approve, BeforeTool, Decision, Desk, Hooks, Message, NewRun, NoEvents, PlannedCall, RunKey, RunResult,
    RunStatus, Tenant, Worker, WorkerOptions,
};
use toolcell_contract::{Answer, FailureCode, Object, Request};

on_every_store! {
    a_run_waits_for_each_question_before_its_tool_runs_at_all,
    a_hook_has_its_say_about_arguments_that_a_person_has_edited,
    a_hook_may_ask_about_arguments_that_a_person_has_edited,
}

/// How long a run may take to wait. One that does not is busy for ever.
const SOON: Duration = Duration::from_secs(30);

/// Asks about every call.
struct Asks(&'static str);

impl Hooks for Asks {
    fn before_tool<'a>(&'a self, _: PlannedCall<'a>) -> BoxFuture<'a, BeforeTool> {
        ready(BeforeTool::Suspend(Request::approval(self.0))).boxed()
    }
}

/// Two are too many, and three are asked about.
struct Counts;

impl Hooks for Counts {
    fn before_tool<'a>(&'a self, call: PlannedCall<'a>) -> BoxFuture<'a, BeforeTool> {
        let verdict = match call.arguments["n"].as_u64() {
            Some(2) => BeforeTool::Deny { reason: "two are too many".into() },
            Some(3) => BeforeTool::Suspend(Request::approval("Three?")),
            _ => BeforeTool::Run,
        };
        ready(verdict).boxed()
    }
}

/// A run whose model calls `gpu` once, as each of its hosts has it.
struct Scene {
    worker: Worker,
    catalog: Arc<FakeCatalog>,
    desk: Desk,
    run: NewRun,
}

impl Scene {
    async fn new(place: &Place, prepare: impl Fn(Agent) -> Agent) -> Self {
        let catalog = Arc::new(FakeCatalog::default().with_gpu());
        let model = FakeModel::new(&[call(&[("gpu", r#"{"n":1}"#)]), say("ok")]);
        let agent = prepare(Agent::new(model, catalog.clone()));
        let worker = Worker::new(agent, place.store().await, WorkerOptions::default());
        let desk = Desk::new(place.store().await, Tenant::local());
        let key = RunKey::fresh(Tenant::local());
        let run = NewRun { key, system: None, messages: vec![Message::user("go")], model: "fake".into() };
        Self { worker, catalog, desk, run }
    }

    async fn start(&self) -> RunResult {
        let run = self.worker.start(self.run.clone(), Arc::new(NoEvents), CancellationToken::new());
        tokio::time::timeout(SOON, run).await.expect("it waits").unwrap()
    }

    async fn go_on(&self) -> RunResult {
        let run = self.worker.go_on(&self.run.key, Arc::new(NoEvents), CancellationToken::new());
        tokio::time::timeout(SOON, run).await.expect("it waits").unwrap().unwrap()
    }

    /// Approves the question that is open, perhaps with other arguments, and lets the run go on.
    async fn approve(&self, waiting: &RunResult, prompt: &str, n: Option<u64>) -> RunResult {
        let request = waiting.pending().unwrap();
        assert_eq!(request.prompt, prompt);
        let arguments = n.map(|n| Object::from_iter([("n".to_owned(), json!(n))]));
        self.desk.decide(Decision { arguments, ..Answer::approve(&request.id).into() }).await.unwrap();
        self.go_on().await
    }

    fn arguments(&self) -> Vec<String> {
        self.catalog.calls.lock().unwrap().iter().map(|call| call.arguments.clone()).collect()
    }
}

async fn a_run_waits_for_each_question_before_its_tool_runs_at_all(place: Place) {
    let hooks = |agent: Agent| {
        agent.with_approval(Approve::Always).with_hooks(Asks("Is it paid?")).with_hooks(Asks("Is it night?"))
    };
    let scene = Scene::new(&place, hooks).await;
    let mut waiting = scene.start().await;
    for prompt in ["Run gpu?", "Is it paid?", "Is it night?"] {
        assert_eq!((waiting.status(), scene.arguments().len()), (RunStatus::Pending, 0), "{prompt}");
        waiting = scene.approve(&waiting, prompt, None).await;
    }
    let done = scene.approve(&waiting, "Use the gpu?", None).await;
    assert_eq!(done.tool_calls[0].ending.result.output, "approved: gpu");
}

async fn a_hook_has_its_say_about_arguments_that_a_person_has_edited(place: Place) {
    let scene = Scene::new(&place, |agent| agent.with_hooks(Counts)).await;
    let waiting = scene.start().await;
    let done = scene.approve(&waiting, "Use the gpu?", Some(2)).await;
    assert_eq!(done.tool_calls[0].ending.code, Some(FailureCode::Forbidden), "{:?}", done.tool_calls);
    assert_eq!(scene.arguments(), [r#"{"n":1}"#], "what a hook denies never runs");
}

async fn a_hook_may_ask_about_arguments_that_a_person_has_edited(place: Place) {
    let scene = Scene::new(&place, |agent| agent.with_hooks(Counts)).await;
    let waiting = scene.start().await;
    let waiting = scene.approve(&waiting, "Use the gpu?", Some(3)).await;
    let waiting = scene.approve(&waiting, "Three?", None).await;
    let done = scene.approve(&waiting, "Use the gpu?", None).await;
    assert_eq!(done.tool_calls[0].ending.code, None, "{:?}", done.tool_calls);
    assert_eq!(
        scene.arguments(),
        [r#"{"n":1}"#, r#"{"n":3}"#, r#"{"n":3}"#],
        "the tool begins anew with what is edited"
    );
}
