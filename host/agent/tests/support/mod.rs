//! Stand-ins for the two traits that the loop needs: a model that plays replies, tools that are closures.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod talk;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::datetime;
use toolcell_agent::{
    Agent, AssistantTurn, Call, CallRequest, Catalog, Clock, EventSink, Execution, Message, Model, ModelError,
    ModelEvent, ModelReply, Observer, Prompt, RunEvent, RunRequest, StopReason, Tool, Usage, is_balanced,
};
use toolcell_contract::{Annotations, Definition, Outcome, Request, Suspension, ToolResult};

/// One reply of the fake model.
#[derive(Clone)]
pub enum Reply {
    Turn {
        text: &'static str,
        calls: Vec<(&'static str, &'static str)>,
        stop: StopReason,
    },
    CutOff(&'static str),
    Silent,
    /// The provider says that the conversation does not fit.
    TooLong,
    /// The same, after it has begun to answer.
    TooLongAfter(&'static str),
    /// An answer of so many pieces that are all there at once.
    Pieces(usize),
}

pub fn say(text: &'static str) -> Reply {
    Reply::Turn { text, calls: Vec::new(), stop: StopReason::Finished }
}

pub fn call(calls: &[(&'static str, &'static str)]) -> Reply {
    Reply::Turn { text: "", calls: calls.to_vec(), stop: StopReason::Finished }
}

/// A model that plays replies in order, and remembers what it was sent.
pub struct FakeModel {
    pub window: Option<u64>,
    /// What it counts for a question, whatever is asked.
    pub input_tokens: u64,
    replies: Mutex<Vec<Reply>>,
    pub sent: Mutex<Vec<Vec<Message>>>,
    pub systems: Mutex<Vec<Option<String>>>,
}

impl FakeModel {
    pub fn new(replies: &[Reply]) -> Arc<Self> {
        let replies = replies.iter().rev().cloned().collect();
        Arc::new(Self {
            window: None,
            input_tokens: 10,
            replies: Mutex::new(replies),
            sent: Mutex::default(),
            systems: Mutex::default(),
        })
    }
}

impl Model for FakeModel {
    fn name(&self) -> &str {
        "fake"
    }

    fn context_window(&self) -> Option<u64> {
        self.window
    }

    fn ask<'a>(&'a self, prompt: Prompt<'a>) -> BoxStream<'a, Result<ModelEvent, ModelError>> {
        assert!(is_balanced(prompt.messages), "an unbalanced transcript was sent: {:?}", prompt.messages);
        self.sent.lock().unwrap().push(prompt.messages.to_vec());
        self.systems.lock().unwrap().push(prompt.system.map(str::to_owned));
        let turn = self.sent.lock().unwrap().len();
        let (text, calls, stop) = match self.replies.lock().unwrap().pop().expect("asked once more than expected") {
            Reply::Turn { text, calls, stop } => (text, calls, stop),
            Reply::CutOff(text) => return stream::iter([Ok(ModelEvent::Text(text.into()))]).boxed(),
            Reply::Silent => return stream::pending().boxed(),
            Reply::Pieces(count) => {
                let turn = AssistantTurn { text: "x".repeat(count), ..AssistantTurn::default() };
                let reply = ModelReply { turn, stop: StopReason::Finished, usage: Usage::default() };
                let pieces = (0..count).map(|_| Ok(ModelEvent::Text("x".into())));
                return stream::iter(pieces.chain([Ok(ModelEvent::Finished(reply))])).boxed();
            }
            Reply::TooLong => return stream::iter([Err(too_long())]).boxed(),
            Reply::TooLongAfter(text) => {
                return stream::iter([Ok(ModelEvent::Text(text.into())), Err(too_long())]).boxed();
            }
        };
        let calls = calls.iter().enumerate().map(|(index, (name, arguments))| CallRequest {
            id: format!("call_{turn}_{index}"),
            name: (*name).into(),
            arguments: (*arguments).into(),
        });
        let turn = AssistantTurn { text: text.into(), calls: calls.collect(), verbatim: None };
        let usage = Usage { input_tokens: self.input_tokens, output_tokens: 5, ..Usage::default() };
        let finished = ModelEvent::Finished(ModelReply { turn, stop, usage });
        stream::iter([Ok(ModelEvent::Text(text.into())), Ok(finished)]).boxed()
    }
}

fn too_long() -> ModelError {
    ModelError::ContextTooLong { message: "too long".into() }
}

type Body = Box<dyn Fn(Call) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// Tools that are closures, and every call that reached one.
#[derive(Default)]
pub struct FakeCatalog {
    tools: Vec<(Arc<Tool>, Body)>,
    pub calls: Mutex<Vec<Call>>,
}

impl FakeCatalog {
    pub fn with<Fut>(mut self, name: &str, body: impl Fn(Call) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let definition = Definition {
            name: name.into(),
            title: None,
            description: "a tool".into(),
            input_schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
            output_schema: None,
            annotations: None,
        };
        let tool = Arc::new(Tool::new(definition, None).unwrap());
        self.tools.push((tool, Box::new(move |call| body(call).boxed())));
        self
    }

    /// Lets a tool say of itself that calling it twice is like calling it once.
    pub fn annotate(&mut self, name: &str, idempotent: bool) {
        let (tool, _) = self.tools.iter_mut().find(|(tool, _)| tool.definition.name == name).unwrap();
        let annotations = Annotations { read_only: false, destructive: true, idempotent, open_world: false };
        let definition = Definition { annotations: Some(annotations), ..tool.definition.clone() };
        *tool = Arc::new(Tool::new(definition, None).unwrap());
    }

    /// A tool that gives its arguments back.
    pub fn with_echo(self) -> Self {
        self.with("echo", |call| async move { Outcome::Done(ToolResult::ok(call.arguments)) })
    }

    /// A tool that asks before it runs: `approved: gpu` after a yes.
    pub fn with_gpu(self) -> Self {
        self.with("gpu", |call| async move {
            match call.context.answer {
                Some(answer) if answer.ok => Outcome::Done(ToolResult::ok("approved: gpu")),
                _ => suspended("Use the gpu?"),
            }
        })
    }
}

/// A suspension under a fresh id.
pub fn suspended(prompt: &str) -> Outcome {
    let request = Request::approval(prompt).with_id(Request::fresh_id());
    Outcome::Suspended(Suspension { request, guest_id: None, state: Some(b"state".to_vec()) })
}

/// A suspension that lapses this long after noon.
pub fn lapsing(prompt: &str, after: Duration) -> Outcome {
    let Outcome::Suspended(mut suspension) = suspended(prompt) else { unreachable!() };
    suspension.request.expires_at = Some((NOON + after).format(&Rfc3339).unwrap());
    Outcome::Suspended(suspension)
}

/// The time at which a paused clock begins.
pub const NOON: OffsetDateTime = datetime!(2026-12-01 12:00 UTC);

/// A clock that says noon now, and goes on as tokio's own: a test with paused time decides how.
pub fn paused_clock() -> Clock {
    let began = tokio::time::Instant::now();
    Clock::new(move || NOON + began.elapsed())
}

impl Catalog for FakeCatalog {
    fn tools(&self) -> Vec<Arc<Tool>> {
        self.tools.iter().map(|(tool, _)| Arc::clone(tool)).collect()
    }

    fn call<'a>(&'a self, call: Call, _observer: Arc<dyn Observer>) -> BoxFuture<'a, Execution> {
        let is_called = |tool: &Arc<Tool>| tool.definition == call.tool.definition;
        let (_, body) = self.tools.iter().find(|(tool, _)| is_called(tool)).unwrap();
        self.calls.lock().unwrap().push(call.clone());
        let body = body(call);
        async { Execution { outcome: body.await, log: Vec::new(), duration: Duration::from_millis(3) } }.boxed()
    }
}

/// Everything that a test looks at.
pub struct Stage {
    pub model: Arc<FakeModel>,
    pub catalog: Arc<FakeCatalog>,
    pub agent: Agent,
    pub events: Arc<Mutex<Vec<RunEvent>>>,
}

impl Stage {
    pub fn new(catalog: FakeCatalog, replies: &[Reply]) -> Self {
        let (model, catalog) = (FakeModel::new(replies), Arc::new(catalog));
        let agent = Agent::new(model.clone(), catalog.clone());
        Self { model, catalog, agent, events: Arc::default() }
    }

    pub fn sink(&self) -> Arc<dyn EventSink> {
        let events = Arc::clone(&self.events);
        Arc::new(move |event| events.lock().unwrap().push(event))
    }

    pub fn request(&self) -> RunRequest {
        RunRequest { events: self.sink(), ..RunRequest::prompt("go") }
    }

    pub fn times_called(&self, name: &str) -> usize {
        self.catalog.calls.lock().unwrap().iter().filter(|call| call.tool.definition.name == name).count()
    }
}
