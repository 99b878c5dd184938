//! `toolcell run`: a model answers a prompt with the tools of a directory.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use toolcell::contract::{ContentPart, ToolResult};
use toolcell::{
    Budget, EventSink, Message, NewRun, Question, RunEnd, RunEvent, RunKey, RunRequest, RunResult, Worker,
    WorkerOptions,
};

use crate::args::RunArgs;
use crate::ask::answerer;
use crate::attach::attach_all;
use crate::cancel::cancel_on_ctrl_c;
use crate::exit::Exit;
use crate::history::{History, Saved};
use crate::host;
use crate::model::model;
use crate::output::{self, note};
use crate::printable::{one_line, printable};
use crate::save::{make_directory, save_parts};
use crate::screen::{Log, Screen};
use crate::store::{blame_store, how_to_answer, open, same_place};

pub(crate) async fn run(args: RunArgs) -> anyhow::Result<Exit> {
    let prompt = prompt(&args)?;
    let (history, Saved { mut messages, window }) = match &args.history {
        Some(path) => History::open(path).map(|(history, saved)| (Some(history), saved))?,
        None => (None, Saved::default()),
    };
    let model = model(&args.model)?;
    let host = host::open(&args.place).await?;
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
    let cancel = cancel_on_ctrl_c();
    let system = args.system.clone();
    let (result, run) = match &args.store {
        Some(place) => {
            let key = RunKey::fresh(args.tenant.clone());
            let run = NewRun { key: key.clone(), system, messages, model: agent.model_name().to_owned() };
            let worker = Worker::new(agent, open(place).await?, WorkerOptions::default());
            (worker.start(run, events, cancel).await.map_err(blame_store), Some(key.run))
        }
        None => {
            let request = RunRequest { system, window, events, cancel, ..RunRequest::conversation(messages) };
            (agent.run(request).await.map_err(Into::into), None)
        }
    };
    screen.finish();
    let result = result?;
    let same_place = same_place(args.store.as_deref(), &args.tenant);
    let run = run.as_deref().map(|id| OnRecord { id, same_place: &same_place });
    report(&result, args.json, run)?;
    if let Some(history) = history {
        history.close(&result)?;
    }
    if let Some(saver) = saver {
        saver.finish()?;
    }
    Ok(result.status().into())
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
    pub(crate) id: &'a str,
    /// The options with which other commands find it.
    pub(crate) same_place: &'a str,
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
        output::json(&Last { r#type: "result", run: run.map(|run| run.id), result })?;
    }
    match &result.end {
        RunEnd::Done => {}
        RunEnd::Pending { questions, .. } => {
            for Question { tool, request, .. } in questions {
                note!("{tool} waits for an answer: {}", one_line(&request.prompt, 200));
            }
            match run {
                Some(OnRecord { id, same_place }) => {
                    for Question { request, .. } in questions {
                        note!("    {}", how_to_answer(request, same_place));
                    }
                    note!("then a worker goes on, or: toolcell resume {id}{same_place}");
                }
                None => note!("nobody answered: run it in a terminal to answer, with --yes, or with --store"),
            }
        }
        RunEnd::Incomplete(limit) => note!("incomplete: the run reached its limit of {limit}"),
        RunEnd::Failed(error) => note!("error: {}", printable(&chain(error))),
        RunEnd::Stopped { reason } => note!("error: stopped by the host program: {}", printable(reason)),
        RunEnd::Cancelled => note!("cancelled"),
        _ => note!("it ended in a way that this program has no words for"),
    }
    Ok(())
}

/// An error with everything that caused it, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
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
