//! `toolcell call`: one tool, once, without a model.

use std::io::Read as _;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use toolcell::contract::limits::ARGUMENTS_BYTES_MAX;
use toolcell::contract::{FailureCode, ToolResult};
use toolcell::{Budget, CallRequest, CallState, Caller, Catalog as _, EventSink, RunEvent, fresh_call_id};

use crate::args::CallArgs;
use crate::ask::answerer;
use crate::cancel::stop_on_signal;
use crate::exit::Exit;
use crate::host;
use crate::output::{self, note};
use crate::printable::{one_line, printable};
use crate::save::{make_directory, save_parts};
use crate::screen::Screen;

pub(crate) async fn run(args: CallArgs) -> anyhow::Result<Exit> {
    let arguments = arguments(&args)?;
    let host = host::open(&args.place).await?;
    let toolbox = host.toolbox();
    let tools = toolbox.tools();
    let Some(tool) = tools.iter().find(|tool| tool.definition.name == args.tool) else {
        return Err(host::no_such_tool(&args.tool, &host, &args.place));
    };
    if let Err(failure) = tool.schema.check(&arguments) {
        let detail = failure.detail.unwrap_or_default();
        bail!("the arguments do not fit the tool \"{}\": {detail}", args.tool);
    }
    if let Some(dir) = &args.save_parts {
        make_directory(dir)?;
    }
    let screen = Arc::new(Screen::for_call());
    let answerer = answerer(&args.asking, &screen);
    let cancel = stop_on_signal();
    let events = events(&screen);
    let budget = Budget::default();
    let caller = Caller::new(toolbox.as_ref(), answerer.as_ref(), &budget, &events, &cancel);
    let request = CallRequest { id: "call".to_owned(), name: args.tool.clone(), arguments };
    screen.spin(&format!("{} runs", args.tool));
    let state = caller.start(fresh_call_id(), request).await;
    screen.finish();
    match state {
        CallState::Finished(record) if record.ending.code == Some(FailureCode::Cancelled) => {
            note!("cancelled");
            Ok(Exit::Cancelled)
        }
        CallState::Finished(record) => {
            print_result(&record.ending.result, &args)?;
            Ok(if record.ending.result.is_error { Exit::ToolError } else { Exit::Done })
        }
        CallState::Open(open) => {
            print_result(&open.result(), &args)?;
            note!("the tool waits for an answer: call it in a terminal, or with --yes");
            Ok(Exit::Pending)
        }
    }
}

/// The arguments as they were given; a file is read up to what a call accepts.
fn arguments(args: &CallArgs) -> anyhow::Result<String> {
    let Some(path) = &args.args_file else { return Ok(args.args.clone()) };
    let reader: Box<dyn std::io::Read> = if path.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?)
    };
    let mut text = String::new();
    // One byte more than is accepted, so that a longer file is refused and not cut.
    let limit = ARGUMENTS_BYTES_MAX as u64 + 1;
    reader.take(limit).read_to_string(&mut text).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text)
}

/// What happens while the tool runs. The result is printed by the command itself.
fn events(screen: &Arc<Screen>) -> Arc<dyn EventSink> {
    let screen = Arc::clone(screen);
    Arc::new(move |event: RunEvent| {
        if !matches!(event, RunEvent::ToolResult { .. }) {
            screen.show(&event);
        }
    })
}

fn print_result(result: &ToolResult, args: &CallArgs) -> anyhow::Result<()> {
    if args.json {
        output::json(result)?;
    } else if result.is_error {
        note!("{}", printable(&result.output));
    } else {
        output::line(&result.output);
    }
    if !args.json {
        for part in &result.parts {
            output::line(&one_line(&part.describe(), 200));
        }
        if let Some(metadata) = result.metadata.as_ref().filter(|_| !result.is_error) {
            note!("metadata {}", printable(&serde_json::to_string(metadata)?));
        }
    }
    if let Some(dir) = &args.save_parts {
        for path in save_parts(dir, &args.tool, &result.parts)? {
            note!("saved {}", printable(&path.display().to_string()));
        }
    }
    Ok(())
}
