//! A worker process: a model that always says the same, tools whose effects can be counted.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{BoxStream, StreamExt as _, iter};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolcell_agent::{
    Agent, AssistantTurn, Call, CallRequest, Catalog, Execution, Message, Model, ModelError, ModelEvent, ModelReply,
    Observer, Prompt, StopReason, Tool, Usage, Worker, WorkerOptions,
};
use toolcell_contract::{Annotations, Definition, Outcome, Request, Suspension, ToolResult};

use crate::mortal::Mortal;
use crate::{LEASE, random};

/// What a worker is told.
#[derive(Args)]
pub struct WorkerArgs {
    /// Where the runs are
    #[arg(long)]
    store: String,
    /// The file that takes the effects
    #[arg(long)]
    effects: PathBuf,
    /// It ends itself at one of so many writes; 0: never
    #[arg(long)]
    abort_one_in: u32,
}

/// Works until the process is killed.
pub async fn work(args: WorkerArgs) -> anyhow::Result<()> {
    let store = toolcell_store::open(&args.store).await?;
    let store = Arc::new(Mortal::new(store, args.abort_one_in));
    let agent = Agent::new(Arc::new(Script), Arc::new(Tools::new(args.effects)?));
    let options = WorkerOptions { lease: LEASE, sweep: Duration::from_millis(500), ..WorkerOptions::default() };
    Worker::new(agent, store, options).work(CancellationToken::new()).await?;
    Ok(())
}

/// The turns of every run.
const TURNS: [&[&str]; 3] = [&["charge", "gate", "look"], &["gate", "gate"], &["charge"]];

/// A model that asks for the calls of [`TURNS`], and then says that it is done.
struct Script;

impl Model for Script {
    fn name(&self) -> &str {
        "chaos"
    }

    fn ask<'a>(&'a self, prompt: Prompt<'a>) -> BoxStream<'a, Result<ModelEvent, ModelError>> {
        let number = prompt.messages.iter().filter(|message| matches!(message, Message::Assistant(_))).count();
        let tools = TURNS.get(number).copied().unwrap_or_default();
        let call = |(place, name): (usize, &&str)| CallRequest {
            id: format!("c-{number}-{place}"),
            name: (*name).to_owned(),
            arguments: "{}".into(),
        };
        let turn = AssistantTurn {
            text: if tools.is_empty() { "done".into() } else { String::new() },
            calls: tools.iter().enumerate().map(call).collect(),
            verbatim: None,
        };
        let usage = Usage { input_tokens: 1, output_tokens: 1, ..Usage::default() };
        iter([Ok(ModelEvent::Finished(ModelReply { turn, stop: StopReason::Finished, usage }))]).boxed()
    }
}

/// `charge` has an effect that must not be repeated, `gate` has one after a yes, `look` may be repeated.
struct Tools {
    tools: Vec<Arc<Tool>>,
    effects: PathBuf,
}

impl Tools {
    fn new(effects: PathBuf) -> anyhow::Result<Self> {
        let tool = |name: &str, idempotent| {
            let annotations = Annotations { read_only: false, destructive: true, idempotent, open_world: true };
            let definition = Definition {
                name: name.into(),
                title: None,
                description: "has an effect".into(),
                input_schema: json!({"type": "object"}),
                output_schema: None,
                annotations: Some(annotations),
            };
            Tool::new(definition, None).map(Arc::new)
        };
        let tools = vec![tool("charge", false)?, tool("gate", false)?, tool("look", true)?];
        Ok(Self { tools, effects })
    }

    /// What happens in the world, in one write.
    fn happen(&self, name: &str, call: &str) {
        let line = format!("{name} {call}\n");
        let file = OpenOptions::new().append(true).open(&self.effects);
        if file.and_then(|mut file| file.write_all(line.as_bytes())).is_err() {
            // An effect that cannot be counted proves nothing.
            std::process::abort();
        }
    }
}

impl Catalog for Tools {
    fn tools(&self) -> Vec<Arc<Tool>> {
        self.tools.clone()
    }

    fn call<'a>(&'a self, call: Call, _observer: Arc<dyn Observer>) -> BoxFuture<'a, Execution> {
        async move {
            let name = call.tool.definition.name.clone();
            let outcome = if name == "gate" && call.context.answer.is_none() {
                let request = Request::approval("Open the gate?").with_id(Request::fresh_id());
                Outcome::Suspended(Suspension { request, guest_id: None, state: Some(b"state".to_vec()) })
            } else {
                tokio::time::sleep(Duration::from_millis(random(5))).await;
                self.happen(&name, &call.context.call_id);
                tokio::time::sleep(Duration::from_millis(random(5))).await;
                Outcome::Done(ToolResult::ok(name))
            };
            Execution { outcome, log: Vec::new(), duration: Duration::ZERO }
        }
        .boxed()
    }
}
