//! `toolcell runs`: what is on record.

use toolcell::contract::ContentPart;
use toolcell::{Message, Page, RunHead, RunStatus, SlotState, StoredRun, StoredStatus};

use crate::args::{RunsArgs, RunsCommand};
use crate::commands::pending::time;
use crate::exit::Exit;
use crate::output::{self, note};
use crate::printable::{one_line, printable};
use crate::store::{Stores, blame_id, blame_store};

/// Characters of a text in an overview.
const LINE_CHARS: usize = 160;

/// Runs in a list when nothing else is said.
const LIST: u32 = 50;

pub(crate) async fn run(args: RunsArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let desk = stores.desk(&args.store).await?;
    let blame = |run: &str, error| blame_id(error, run, &args.store);
    match args.command.unwrap_or(RunsCommand::List { limit: LIST, after: None }) {
        RunsCommand::List { limit, after } => {
            let runs = desk.runs(Page { after, limit }).await.map_err(blame_store)?;
            if runs.is_empty() && !args.json {
                note!("no runs are on record");
            }
            for head in &runs {
                if args.json { output::json(head)? } else { output::line(&short(head)) }
            }
            if let Some(last) = runs.last().filter(|_| !args.json && runs.len() == limit as usize) {
                note!("there may be more: toolcell runs list --after {}", last.key.run);
            }
        }
        RunsCommand::Show { run } => {
            let run = desk.run(&run).await.map_err(|error| blame(&run, error))?;
            if args.json { output::pretty_json(&run)? } else { output::line(&whole(&run)) }
        }
        RunsCommand::Export { run } => {
            output::pretty_json(&desk.run(&run).await.map_err(|error| blame(&run, error))?)?;
        }
        RunsCommand::Cancel { run } => {
            let before = desk.run(&run).await.map_err(|error| blame(&run, error))?.head.status;
            if let StoredStatus::Ended(_) = before {
                note!("it has ended already: {}", word(before));
                return Ok(Exit::Done);
            }
            desk.cancel(&run).await.map_err(blame_store)?;
            let head = desk.run(&run).await.map_err(blame_store)?.head;
            note!("{}", if head.status == StoredStatus::Running { "its worker stops it" } else { word(head.status) });
        }
    }
    Ok(Exit::Done)
}

fn short(head: &RunHead) -> String {
    let open = match head.open {
        0 => String::new(),
        1 => ", 1 question".to_owned(),
        more => format!(", {more} questions"),
    };
    format!(
        "{}  {}  {}{open}  {}  {}",
        head.key.run,
        time(head.updated_at),
        word(head.status),
        if head.turns == 1 { "1 turn".to_owned() } else { format!("{} turns", head.turns) },
        one_line(&head.model, LINE_CHARS)
    )
}

/// Where a run stands, in a word.
pub(crate) fn word(status: StoredStatus) -> &'static str {
    match status {
        StoredStatus::Ready => "ready",
        StoredStatus::Running => "running",
        StoredStatus::Pending => "pending",
        StoredStatus::Ended(RunStatus::Done) => "done",
        StoredStatus::Ended(RunStatus::Incomplete) => "incomplete",
        StoredStatus::Ended(RunStatus::Failed) => "failed",
        StoredStatus::Ended(RunStatus::Cancelled) => "cancelled",
        StoredStatus::Ended(RunStatus::Pending) => "pending",
    }
}

/// A text as it is, anything else in a few words.
fn words(part: &ContentPart) -> String {
    match part {
        ContentPart::Text(text) => text.clone(),
        media => media.describe(),
    }
}

/// What was said and done, a line for each.
fn whole(run: &StoredRun) -> String {
    let mut lines = vec![short(&run.head)];
    for message in &run.messages {
        if let Message::User { content } = message {
            let words: Vec<_> = content.iter().map(words).collect();
            lines.push(format!("> {}", one_line(&words.join(" "), LINE_CHARS)));
        }
    }
    for (turn, reply) in (0_u32..).zip(&run.replies) {
        if !reply.turn.text.is_empty() {
            lines.push(one_line(&reply.turn.text, LINE_CHARS));
        }
        let calls = run.calls.iter().filter(|call| call.slot.turn == turn);
        for (request, call) in reply.turn.calls.iter().zip(calls) {
            let state = match &call.state {
                SlotState::Requested => "not begun".to_owned(),
                SlotState::Executing { .. } => "under way".to_owned(),
                SlotState::Suspended { open, decision: None } => format!("waits: {}", open.request.prompt),
                SlotState::Suspended { decision: Some(_), .. } => "answered, not gone on yet".to_owned(),
                SlotState::Done { record } => record.result.output.clone(),
            };
            lines.push(format!(
                "  {} {} -> {}",
                printable(&request.name),
                one_line(&request.arguments, LINE_CHARS),
                one_line(&state, LINE_CHARS)
            ));
        }
    }
    if let Some(error) = run.end.as_ref().and_then(|end| end.error.as_deref()) {
        lines.push(format!("error: {}", one_line(error, LINE_CHARS)));
    }
    lines.join("\n")
}
