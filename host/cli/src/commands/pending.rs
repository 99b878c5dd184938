//! `toolcell pending` and `toolcell grants`: the questions of runs on record, and what answers them without asking.

use std::fmt::Write as _;

use serde_json::Value;
use toolcell::{Asker, Page, QuestionState, StoredQuestion};

use crate::args::{GrantsArgs, PendingArgs};
use crate::exit::Exit;
use crate::form;
use crate::output::{self, note};
use crate::printable::{one_line, printable};
use crate::store::{Stores, blame_id, blame_store};

/// Characters of a prompt or of arguments in a list.
const LINE_CHARS: usize = 160;

/// Questions that are read at a time.
const PAGE: u32 = 200;

pub(crate) async fn pending(args: PendingArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let desk = stores.desk(&args.store).await?;
    if let Some(id) = &args.id {
        let question = desk.question(id).await.map_err(|error| blame_id(error, id, &args.store))?;
        if args.json {
            output::pretty_json(&question)?;
        } else {
            output::line(&whole(&question));
        }
        return Ok(Exit::Done);
    }
    let (mut page, mut count) = (Page { after: None, limit: PAGE }, 0);
    loop {
        let questions = desk.questions(page.clone()).await.map_err(blame_store)?;
        let Some(last) = questions.last() else { break };
        page.after = Some(last.question.request.id.clone());
        count += questions.len();
        for question in &questions {
            if args.json {
                output::json(question)?;
            } else {
                output::line(&short(question));
            }
        }
    }
    if count == 0 && !args.json {
        note!("nothing waits for an answer");
    }
    Ok(Exit::Done)
}

fn short(stored: &StoredQuestion) -> String {
    let StoredQuestion { question, expires_at, .. } = stored;
    format!(
        "{}  {}  until {}\n    {}\n    {} {}",
        question.request.id,
        question.request.kind,
        time(*expires_at),
        one_line(&question.request.prompt, LINE_CHARS),
        question.tool,
        one_line(&question.arguments.to_string(), LINE_CHARS),
    )
}

/// All that a person needs to decide: what the host recorded first, then the tool's own words.
fn whole(stored: &StoredQuestion) -> String {
    let StoredQuestion { key, question, state, decision, asked_at, expires_at, .. } = stored;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<11}{}", printable(value));
    };
    line("question", &question.request.id);
    line("state", word(*state));
    line("run", &key.run);
    line("tenant", key.tenant.as_str());
    line("tool", &question.tool);
    line(
        "asked by",
        match question.asker {
            Asker::Tool => "the tool",
            Asker::Hook => "the host program",
            Asker::Policy => "the policy",
            _ => "somebody else",
        },
    );
    line(
        "component",
        &question.digest.map_or("none: part of the host program".to_owned(), |digest| digest.to_string()),
    );
    line("arguments", &question.arguments.to_string());
    line("asked", &time(*asked_at));
    line("until", &time(*expires_at));
    line("kind", question.request.kind.as_str());
    line("it says", &question.request.prompt);
    if let Some(url) = &question.request.url {
        line("at", url);
    }
    for field in question.request.answer_schema().into_iter().flat_map(form::described_fields) {
        line("field", &field);
    }
    if let Some(data) = &question.request.data {
        line("more", &Value::from(data.clone()).to_string());
    }
    if let Some(decision) = decision {
        line("answer", if decision.answer.ok { "yes" } else { "no" });
        if let Some(reason) = &decision.answer.reason {
            line("reason", reason);
        }
        if let Some(data) = &decision.answer.data {
            line("data", &Value::from(data.clone()).to_string());
        }
        if let Some(arguments) = &decision.arguments {
            line("edited", &Value::from(arguments.clone()).to_string());
        }
        if let Some(by) = &decision.by {
            line("by", by);
        }
    }
    text.trim_end().to_owned()
}

fn word(state: QuestionState) -> &'static str {
    match state {
        QuestionState::Open => "open",
        QuestionState::Answered => "answered, the run has not gone on yet",
        QuestionState::Consumed => "answered",
        QuestionState::Expired => "expired",
        QuestionState::Cancelled => "cancelled",
    }
}

pub(crate) fn time(time: toolcell::OffsetDateTime) -> String {
    let second = time.replace_nanosecond(0).unwrap_or(time);
    second.format(&toolcell::Rfc3339).unwrap_or_else(|_| time.to_string())
}

pub(crate) async fn grants(args: GrantsArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let desk = stores.desk(&args.store).await?;
    if let Some(id) = &args.revoke {
        desk.revoke(id).await.map_err(|error| blame_id(error, id, &args.store))?;
        return Ok(Exit::Done);
    }
    let grants = desk.grants().await.map_err(blame_store)?;
    if grants.is_empty() && !args.json {
        note!("nothing is granted");
    }
    for grant in &grants {
        if args.json {
            output::json(grant)?;
            continue;
        }
        let component = grant.digest.map_or_else(|| "the host program".to_owned(), |digest| digest.short());
        let arguments =
            grant.arguments.clone().map_or_else(|| "any arguments".to_owned(), |it| Value::from(it).to_string());
        let run = grant.run.as_deref().unwrap_or("all runs");
        output::line(&format!(
            "{}  until {}  by {}",
            grant.id,
            time(grant.expires_at),
            one_line(&grant.by, LINE_CHARS)
        ));
        output::line(&format!("    {} of {component}, {}, {run}", grant.tool, one_line(&arguments, LINE_CHARS)));
    }
    Ok(Exit::Done)
}
