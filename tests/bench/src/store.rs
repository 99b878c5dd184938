//! Stores with very many runs that wait: what a list, an answer, a look at the clock, a claim and a resume take, on each kind
//! of store. The figures are medians and 99th percentiles of one run on this machine.

#![allow(clippy::print_stdout, reason = "a bench prints its figures")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{BoxStream, StreamExt as _, iter};
use serde_json::json;
use tokio::sync::mpsc;
use toolcell::contract::{Answer, Definition, Outcome, Request, Suspension, ToolResult};
use toolcell::store::{Options, SqlStore, open_with};
use toolcell::{
    Agent, Asker, AssistantTurn, Call, CallRequest, CancellationToken, Catalog, Decision, Desk, Execution, Message,
    Model, ModelError, ModelEvent, ModelReply, Observer, OpenCallRecord, Page, Prompt, RunStore, StopReason, Tenant,
    Tool, Usage, Worker, WorkerOptions,
};
use toolcell_tests::postgres;

/// Times that each thing is done.
const TIMES: usize = 300;

/// Tenants that share the runs.
const TENANTS: u32 = 100;

/// Runs that are put in with one statement: a million at once would take longer than a statement may.
const PIECE: u32 = 50_000;

/// Questions on a page of an inbox.
const PAGE: u32 = 50;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
struct Cli {
    /// Runs that wait
    #[arg(long, default_value = "20000")]
    rows: u32,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let Cli { rows } = Cli::parse();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{rows} runs that wait, of {TENANTS} tenants; {TIMES} times each; {cores} cores");
    println!("{:<22}{:>12}{:>22}{:>22}", "", "", "median", "99 of 100");
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("runs.db");
    let file = open_with(&path.display().to_string(), Options::default()).await?;
    bench("sqlite", Arc::new(file), rows, || std::fs::metadata(&path).map_or(0, |found| found.len())).await?;
    if let Some(server) = postgres::shared() {
        let url = server.database();
        let store = open_with(&url, Options::default()).await?;
        let size = || server.sql(&url, "select pg_database_size(current_database())").ok().and_then(|n| n.parse().ok());
        bench("postgres", Arc::new(store), rows, || size().unwrap_or(0)).await?;
    }
    Ok(())
}

async fn bench(name: &str, store: Arc<SqlStore>, rows: u32, size: impl Fn() -> u64) -> Result<(), Failure> {
    fill(&store, rows).await?;
    println!("{name:<22}{:>12}{:>19} MB", "on disk", size() / 1_000_000);
    let tenant: Tenant = "t7".parse()?;
    let desk = Desk::new(store.clone(), tenant.clone());

    let mut inbox = Times::default();
    for _ in 0..TIMES {
        let page = Page { after: None, limit: PAGE };
        let questions = inbox.take(|| desk.questions(page)).await?;
        assert!(!questions.is_empty(), "the inbox is empty");
    }
    inbox.print(name, "inbox");

    let mut probe = Times::default();
    for _ in 0..TIMES / 10 {
        probe.take(|| async { store.sweep().await }).await?;
    }
    probe.print(name, "sweep");

    // Spread over the whole inbox, so that no page is warm by chance.
    let step = (rows / TENANTS / u32::try_from(TIMES)?).max(1);
    let (mut answer, mut claim) = (Times::default(), Times::default());
    for number in 0..u32::try_from(TIMES)?.min(rows / TENANTS) {
        let id = question(number * step * TENANTS + 7);
        let decision = Decision::from(Answer::approve(id));
        answer.take(|| desk.decide(decision.clone())).await?;
    }
    answer.print(name, "answer");
    for _ in 0..u32::try_from(TIMES)?.min(rows / TENANTS) {
        let claimed = claim.take(|| store.claim("bench", Duration::from_secs(600), None)).await?;
        assert!(claimed.is_some(), "there is nothing to claim");
    }
    claim.print(name, "claim");
    resume(name, store).await
}

/// From the moment in which somebody answers to the moment in which the tool runs again, with a worker that waits for it.
async fn resume(name: &str, store: Arc<SqlStore>) -> Result<(), Failure> {
    let (started, mut starts) = mpsc::unbounded_channel();
    let agent = Agent::new(Arc::new(Once), Arc::new(Gate::new(started)?));
    let worker = Worker::new(agent, store.clone(), WorkerOptions::default());
    let stop = CancellationToken::new();
    let working = tokio::spawn({
        let (worker, stop) = (worker.clone(), stop.clone());
        async move { worker.work(stop).await }
    });
    let desk = Desk::new(store, "resume".parse()?);
    let mut times = Times::default();
    for _ in 0..TIMES / 3 {
        let key = desk.start(None, vec![Message::user("go")], "bench").await?;
        let id = loop {
            let open = desk.questions(Page::default()).await?;
            match open.into_iter().find(|question| question.key == key) {
                Some(question) if desk.run(&key.run).await?.head.status == toolcell::StoredStatus::Pending => {
                    break question.question.request.id;
                }
                _ => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        };
        let began = Instant::now();
        desk.decide(Answer::approve(id).into()).await?;
        let start: Instant = starts.recv().await.ok_or("the worker is gone")?;
        times.0.push(start.saturating_duration_since(began));
    }
    times.print(name, "answer to tool start");
    stop.cancel();
    working.await??;
    Ok(())
}

/// A model that asks for one call.
struct Once;

impl Model for Once {
    fn name(&self) -> &str {
        "bench"
    }

    fn ask<'a>(&'a self, prompt: Prompt<'a>) -> BoxStream<'a, Result<ModelEvent, ModelError>> {
        let call = CallRequest { id: "c".into(), name: "gate".into(), arguments: "{}".into() };
        let calls = if prompt.messages.len() == 1 { vec![call] } else { Vec::new() };
        let turn = AssistantTurn { text: String::new(), calls, verbatim: None };
        let reply = ModelReply { turn, stop: StopReason::Finished, usage: Usage::default() };
        iter([Ok(ModelEvent::Finished(reply))]).boxed()
    }
}

/// A tool that asks, and says when it runs again.
struct Gate {
    tool: Arc<Tool>,
    started: mpsc::UnboundedSender<Instant>,
}

impl Gate {
    fn new(started: mpsc::UnboundedSender<Instant>) -> Result<Self, Failure> {
        Ok(Self { tool: Arc::new(Tool::new(definition(), None)?), started })
    }
}

impl Catalog for Gate {
    fn tools(&self) -> Vec<Arc<Tool>> {
        vec![Arc::clone(&self.tool)]
    }

    fn call<'a>(&'a self, call: Call, _observer: Arc<dyn Observer>) -> BoxFuture<'a, Execution> {
        let outcome = match call.context.answer {
            Some(_) => {
                // Nobody is left to be told when the bench is over.
                let _ = self.started.send(Instant::now());
                Outcome::Done(ToolResult::ok("open"))
            }
            None => {
                let request = Request::approval("Open?").with_id(Request::fresh_id());
                Outcome::Suspended(Suspension { request, guest_id: None, state: None })
            }
        };
        async { Execution { outcome, log: Vec::new(), duration: Duration::ZERO } }.boxed()
    }
}

fn definition() -> Definition {
    Definition {
        name: "gate".into(),
        title: None,
        description: "Opens the gate, once a person has said yes.".into(),
        input_schema: json!({"type": "object", "properties": {"which": {"type": "string"}}}),
        output_schema: None,
        annotations: None,
    }
}

fn question(number: u32) -> String {
    format!("pnd-bench-{number}")
}

/// Puts so many runs that wait into a store, by SQL: each as the loop would have written it.
async fn fill(store: &SqlStore, rows: u32) -> Result<(), Failure> {
    let open = OpenCallRecord {
        call_id: "run-@.0.0".into(),
        call: CallRequest { id: "c".into(), name: "gate".into(), arguments: "{}".into() },
        tool: definition(),
        digest: None,
        arguments: json!({}),
        is_rewritten: false,
        is_edited: false,
        questions: Vec::new(),
        spent: Duration::ZERO,
        request: Request::approval("Open?").with_id("pnd-bench-@"),
        guest_id: None,
        state: None,
        asker: Asker::Tool,
        rounds: 1,
    };
    let open = serde_json::to_string(&open)?;
    for number in 0..TENANTS {
        let settings = toolcell::TenantSettings { open_max: u32::MAX, ..toolcell::TenantSettings::default() };
        store.set_settings(&format!("t{number}").parse()?, settings).await?;
    }
    for first in (0..rows).step_by(PIECE as usize) {
        fill_piece(store, &open, first, rows.min(first.saturating_add(PIECE)) - 1).await?;
    }
    store.meddle(&format!("update tenant set open = {}", rows / TENANTS)).await?;
    store.meddle("analyze").await?;
    Ok(())
}

/// Puts in the runs with these numbers.
async fn fill_piece(store: &SqlStore, open: &str, first: u32, last: u32) -> Result<(), Failure> {
    let numbers = format!("with recursive n(i) as (select {first} union all select i + 1 from n where i < {last})");
    let tenant = format!("'t' || cast(i % {TENANTS} as text)");
    let at = "1700000000000000 + i";
    let insert = [
        format!(
            "{numbers} insert into run (tenant, id, status, model, turns, open, created_at, updated_at) \
             select {tenant}, 'run-' || cast(i as text), 'pending', 'm', 1, 1, {at}, {at} from n"
        ),
        format!(
            "{numbers} insert into event (tenant, run, seq, kind, body, at) select {tenant}, 'run-' || cast(i as text), 0, \
             'start', '{{\"system\":null,\"messages\":[]}}', {at} from n"
        ),
        format!(
            "{numbers} insert into call (tenant, run, turn, place, state, attempts, suspension) select {tenant}, \
             'run-' || cast(i as text), 0, 0, 'suspended', 1, 'pnd-bench-' || cast(i as text) from n"
        ),
        format!(
            "{numbers} insert into suspension (id, tenant, run, turn, place, state, body, asked_at, expires_at) select \
             'pnd-bench-' || cast(i as text), {tenant}, 'run-' || cast(i as text), 0, 0, 'open', \
             replace('{open}', '@', cast(i as text)), {at}, 4102444800000000 + i from n"
        ),
    ];
    for sql in insert {
        store.meddle(&sql).await?;
    }
    Ok(())
}

/// How long something took, each time.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    async fn take<T, E, F>(&mut self, work: impl FnOnce() -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        let began = Instant::now();
        let done = work().await?;
        self.0.push(began.elapsed());
        Ok(done)
    }

    fn print(mut self, store: &str, what: &str) {
        self.0.sort();
        let at =
            |part: usize| self.0.get((self.0.len() * part / 100).min(self.0.len() - 1)).map_or(0, Duration::as_micros);
        println!("{store:<10}{what:<24}{:>19} us{:>19} us", at(50), at(99));
    }
}
