//! `toolcell run`: a model answers a prompt with the tools of a directory.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use toolcell::contract::{ContentPart, ToolResult};
use toolcell::{
    Agent, Budget, CancellationToken, EventSink, Message, NewRun, Question, RunEnd, RunEvent, RunKey, RunRequest,
    RunResult, RunStore, SlotState, StoredSpaces, StoredStatus, Worker, WorkerOptions,
};

use crate::args::RunArgs;
use crate::ask::answerer;
use crate::attach::attach_all;
use crate::cancel::stop_on_signal;
use crate::causes::causes_of;
use crate::exit::Exit;
use crate::history::{History, Saved};
use crate::host;
use crate::model::model;
use crate::output::{self, note};
use crate::printable::{one_line, printable};
use crate::save::{make_directory, save_parts};
use crate::screen::{Log, Screen};
use crate::store::{Stores, blame_store, how_to_answer, same_place};

/// Where runs are kept when nothing is typed.
const STORE: &str = "TOOLCELL_STORE";

pub(crate) async fn run(args: RunArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let prompt = prompt(&args)?;
    let (history, Saved { mut messages, window }) = match &args.history {
        Some(path) => History::open(path).map(|(history, saved)| (Some(history), saved))?,
        None => (None, Saved::default()),
    };
    let model = model(&args.model)?;
    let store_place = store_place(&args);
    let host = host::open_beside(&args.place, store_place.as_deref()).await?;
    if host.toolbox().components().is_empty() {
        note!("{} holds no tools: the model answers without any", printable(&args.place.tools.display().to_string()));
    }
    let screen = Arc::new(Screen::for_run(if args.log { Log::Shown } else { Log::Hidden }));
    let agent = host
        .agent(model)
        .wait_for(answerer(&args.asking, &screen))
        .with_approval(host.approvals(args.approval.approve.into()))
        .with_budget(Budget { turns_max: args.turns_max, ..Budget::default() });
    if let Some(dir) = &args.save_parts {
        make_directory(dir)?;
    }
    let saver = args.save_parts.clone().map(Saver::new).map(Arc::new);
    let events = events(&screen, saver.clone(), args.json);
    messages.push(Message::User { content: prompt });
    if !args.json {
        screen.spin("waiting for the model");
    }
    let system = args.system.clone();
    let exit = match store_place {
        Some(place) => {
            let store = stores.open(&place).await?;
            host.keep_key_values(Arc::new(StoredSpaces::new(Arc::clone(&store))));
            let key = RunKey::fresh(args.tenant.clone());
            let run = NewRun { key: key.clone(), system, messages, model: agent.model_name().to_owned() };
            store.create(run).await.map_err(blame_store)?;
            let same_place = same_place(Some(&place), &args.tenant);
            let run = OnRecord { key: &key, same_place: &same_place, json: args.json };
            run.go_on(agent, store, events, &screen).await?
        }
        None => {
            let cancel = stop_on_signal();
            let tenant = args.tenant.clone();
            let request = RunRequest { tenant, system, window, events, cancel, ..RunRequest::conversation(messages) };
            let result = agent.run(request).await;
            screen.finish();
            let result = result?;
            report(&result, args.json, None)?;
            if let Some(history) = history {
                history.close(&result)?;
            }
            result.status().into()
        }
    };
    if let Some(saver) = saver {
        saver.finish()?;
    }
    Ok(exit)
}

/// Where the run is kept, if it is. What is typed counts more than the variable: who goes on with a file wants no store.
fn store_place(args: &RunArgs) -> Option<String> {
    let variable = || std::env::var(STORE).ok().filter(|place| !place.is_empty() && args.history.is_none());
    args.store.clone().or_else(variable)
}

/// The prompt, and the files that go with it.
fn prompt(args: &RunArgs) -> anyhow::Result<Vec<ContentPart>> {
    let mut content = vec![ContentPart::text(&args.prompt)];
    content.extend(attach_all(&args.attach)?);
    Ok(content)
}

pub(crate) fn events(screen: &Arc<Screen>, saver: Option<Arc<Saver>>, json: bool) -> Arc<dyn EventSink> {
    let screen = Arc::clone(screen);
    Arc::new(move |event: RunEvent| {
        if json {
            // An event is a value of plain types, which always has a JSON form.
            let _ = output::json(&event);
        } else {
            screen.show(&event);
        }
        if let (Some(saver), RunEvent::ToolResult { name, result, .. }) = (&saver, &event) {
            for path in saver.save(name, result) {
                screen.line(&format!("    saved {}", printable(&path.display().to_string())));
            }
        }
    })
}

/// A run that is on record.
#[derive(Clone, Copy)]
pub(crate) struct OnRecord<'a> {
    pub(crate) key: &'a RunKey,
    /// The options with which other commands find it.
    pub(crate) same_place: &'a str,
    /// Whether its end is printed as JSON.
    pub(crate) json: bool,
}

impl OnRecord<'_> {
    /// Works on the run until it rests. When the program is told to stop, it is given back at once, so that anybody can go on
    /// with it.
    pub(crate) async fn go_on(
        self,
        agent: Agent,
        store: Arc<dyn RunStore>,
        events: Arc<dyn EventSink>,
        screen: &Screen,
    ) -> anyhow::Result<Exit> {
        let stop = stop_on_signal();
        let worker = Worker::new(agent, Arc::clone(&store), WorkerOptions::default()).halting(stop.clone());
        let gone_on = worker.go_on(self.key, events, CancellationToken::new()).await;
        screen.finish();
        let Self { key: RunKey { run, .. }, same_place, json } = self;
        match gone_on.map_err(blame_store)? {
            Some(result) => {
                report(&result, json, Some(self))?;
                Ok(result.status().into())
            }
            None if stop.is_cancelled() => {
                if json {
                    output::json(&serde_json::json!({"type": "stopped", "run": run}))?;
                }
                note!("stopped, and on record as it is; a worker goes on, or: toolcell resume {run}{same_place}");
                note!("to end it instead: toolcell runs cancel {run}{same_place}");
                Ok(Exit::Cancelled)
            }
            None => self.nothing_to_do(store.as_ref()).await,
        }
    }

    /// Why there is nothing to go on with.
    pub(crate) async fn nothing_to_do(self, store: &dyn RunStore) -> anyhow::Result<Exit> {
        let Self { key, same_place, .. } = self;
        let stored = store.run(key).await.map_err(blame_store)?;
        match stored.head.status {
            StoredStatus::Ended(status) => {
                if let Some(end) = &stored.end {
                    output::line(&end.text);
                }
                note!("it has ended already");
                Ok(status.into())
            }
            StoredStatus::Pending => {
                for call in &stored.calls {
                    if let SlotState::Suspended { open, decision: None } = &call.state {
                        note!("{} waits for an answer: {}", open.tool.name, one_line(&open.request.prompt, 200));
                        note!("    {}", how_to_answer(&open.request, same_place));
                    }
                }
                Ok(Exit::Pending)
            }
            StoredStatus::Ready | StoredStatus::Running => {
                note!(
                    "another worker has it, or had it until a moment ago; it is free a minute after that was last heard of"
                );
                note!("to see where it stands: toolcell runs show {}{same_place}", key.run);
                Ok(Exit::Pending)
            }
        }
    }
}

/// Prints how a run ended.
pub(crate) fn report(result: &RunResult, json: bool, run: Option<OnRecord<'_>>) -> anyhow::Result<()> {
    if json {
        #[derive(Serialize)]
        struct Last<'a> {
            r#type: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            run: Option<&'a str>,
            result: &'a RunResult,
        }
        output::json(&Last { r#type: "result", run: run.map(|run| run.key.run.as_str()), result })?;
    }
    match &result.end {
        RunEnd::Done => {}
        RunEnd::Pending { questions, .. } => {
            for Question { tool, request, .. } in questions {
                note!("{tool} waits for an answer: {}", one_line(&request.prompt, 200));
            }
            match run {
                Some(OnRecord { key, same_place, .. }) => {
                    for Question { request, .. } in questions {
                        note!("    {}", how_to_answer(request, same_place));
                    }
                    note!("then a worker goes on, or: toolcell resume {}{same_place}", key.run);
                }
                None => note!("nobody answered: run it in a terminal to answer, with --yes, or with --store"),
            }
        }
        RunEnd::Incomplete(limit) => note!("incomplete: the run reached its limit of {limit}"),
        RunEnd::Failed(error) => note!("error: {}", printable(&causes_of(error))),
        RunEnd::Stopped { reason } => note!("error: stopped by the host program: {}", printable(reason)),
        RunEnd::Cancelled => note!("cancelled"),
        _ => note!("it ended in a way that this program has no words for"),
    }
    Ok(())
}

/// Writes the parts of results as they come, and remembers the first failure for the end of the run.
pub(crate) struct Saver {
    dir: PathBuf,
    failure: Mutex<Option<anyhow::Error>>,
}

impl Saver {
    fn new(dir: PathBuf) -> Self {
        Self { dir, failure: Mutex::default() }
    }

    fn save(&self, tool: &str, result: &ToolResult) -> Vec<PathBuf> {
        if result.parts.is_empty() {
            return Vec::new();
        }
        save_parts(&self.dir, tool, &result.parts).unwrap_or_else(|error| {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            Vec::new()
        })
    }

    fn finish(&self) -> anyhow::Result<()> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}
