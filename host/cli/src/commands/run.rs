//! `toolcell run`: a model answers a prompt with the tools of a directory.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use toolcell::contract::{ContentPart, ToolResult};
use toolcell::model::{Delivery, ModelOptions, ScriptedModel, provider_from_environment};
use toolcell::{Budget, EventSink, Message, Model, Question, RunEnd, RunEvent, RunRequest, RunResult};

use crate::args::RunArgs;
use crate::ask::answerer;
use crate::attach::attach_all;
use crate::cancel::cancel_on_ctrl_c;
use crate::exit::Exit;
use crate::history::{History, Saved};
use crate::host;
use crate::output::{self, note};
use crate::printable::{one_line, printable};
use crate::save::{make_directory, save_parts};
use crate::screen::{Log, Screen};

pub(crate) async fn run(args: RunArgs) -> anyhow::Result<Exit> {
    let prompt = prompt(&args)?;
    let (history, Saved { mut messages, window }) = match &args.history {
        Some(path) => History::open(path).map(|(history, saved)| (Some(history), saved))?,
        None => (None, Saved::default()),
    };
    let model = model(&args)?;
    let host = host::open(&args.place).await?;
    if host.toolbox().components().is_empty() {
        note!("{} holds no tools: the model answers without any", printable(&args.place.tools.display().to_string()));
    }
    let screen = Arc::new(Screen::for_run(if args.log { Log::Shown } else { Log::Hidden }));
    let agent = host
        .agent(model)
        .wait_for(answerer(&args.asking, &screen))
        .with_budget(Budget { turns_max: args.turns_max, ..Budget::default() });
    if let Some(dir) = &args.save_parts {
        make_directory(dir)?;
    }
    let saver = args.save_parts.clone().map(Saver::new).map(Arc::new);
    let events = events(&args, &screen, saver.as_ref());
    let cancel = cancel_on_ctrl_c();
    messages.push(Message::User { content: prompt });
    let request =
        RunRequest { system: args.system.clone(), window, events, cancel, ..RunRequest::conversation(messages) };
    if !args.json {
        screen.spin("waiting for the model");
    }
    let result = agent.run(request).await?;
    screen.finish();
    report(&result, &args)?;
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

fn model(args: &RunArgs) -> anyhow::Result<Arc<dyn Model>> {
    if let Some(path) = &args.script {
        return Ok(Arc::new(ScriptedModel::from_file(path)?));
    }
    let options = ModelOptions {
        vendor: args.provider.clone(),
        model: args.model.clone(),
        base_url: args.base_url.clone(),
        output_tokens_max: args.output_tokens_max,
        context_tokens: args.context_tokens,
        delivery: if args.no_stream { Delivery::Whole } else { Delivery::Streamed },
        ..ModelOptions::default()
    };
    Ok(Arc::new(provider_from_environment(&options, |name| std::env::var(name).ok())?))
}

fn events(args: &RunArgs, screen: &Arc<Screen>, saver: Option<&Arc<Saver>>) -> Arc<dyn EventSink> {
    let (screen, saver, json) = (Arc::clone(screen), saver.map(Arc::clone), args.json);
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

fn report(result: &RunResult, args: &RunArgs) -> anyhow::Result<()> {
    if args.json {
        #[derive(Serialize)]
        struct Last<'a> {
            r#type: &'static str,
            result: &'a RunResult,
        }
        output::json(&Last { r#type: "result", result })?;
    }
    match &result.end {
        RunEnd::Done => {}
        RunEnd::Pending { questions, .. } => {
            for Question { tool, request, .. } in questions {
                note!("{tool} waits for an answer: {}", one_line(&request.prompt, 200));
            }
            note!("nobody answered: run it in a terminal to answer, or with --yes");
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
struct Saver {
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
