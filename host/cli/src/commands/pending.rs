//! `toolcell pending` and `toolcell answer`: the questions of runs on record.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde_json::Value;
use toolcell::contract::{Answer, Object};
use toolcell::{Asker, Decision, DeskError, GRANT_MAX, GrantScope, Page, QuestionState, StoredQuestion};

use crate::args::{AlsoArg, AnswerArgs, GrantsArgs, PendingArgs};
use crate::exit::Exit;
use crate::output::{self, note};
use crate::printable::{one_line, printable};
use crate::store::{blame, blame_id, blame_store, desk, same_place};

/// Characters of a prompt or of arguments in a list.
const LINE_CHARS: usize = 160;

/// Questions that are read at a time.
const PAGE: u32 = 200;

pub(crate) async fn pending(args: PendingArgs) -> anyhow::Result<Exit> {
    let desk = desk(&args.store).await?;
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

pub(crate) async fn answer(args: AnswerArgs) -> anyhow::Result<Exit> {
    let answer = if args.decline {
        Answer::decline(&args.id, args.reason.as_deref().unwrap_or("declined"))
    } else {
        let data = args.data.as_deref().map(|text| object("--data", text)).transpose()?;
        Answer { data, reason: args.reason.clone(), ..Answer::approve(&args.id) }
    };
    let arguments = args.edit_args.as_deref().map(|text| object("--edit-args", text)).transpose()?;
    let desk = desk(&args.store).await?;
    if args.also.is_some() {
        let asked = desk.question(&args.id).await.map_err(|error| blame_id(error, &args.id, &args.store))?;
        // Before the answer counts, or half of what was typed would.
        anyhow::ensure!(asked.question.is_plain_approval(), "{}", DeskError::NotPlain);
    }
    let decided = desk.decide(Decision { answer, arguments, by: Some(who()) }).await;
    let key = decided.map_err(|error| match error {
        DeskError::Store(error) => blame_id(error, &args.id, &args.store),
        other => blame(other),
    })?;
    if let Some(also) = args.also {
        let grant = desk.grant(&args.id, also.into(), GRANT_MAX, &who()).await.map_err(blame)?;
        note!("later calls are granted as {} until {}", grant.id, time(grant.expires_at));
    }
    note!(
        "the answer is on record; a worker goes on, or: toolcell resume {}{}",
        key.run,
        same_place(args.store.store.as_deref(), &args.store.tenant)
    );
    Ok(Exit::Done)
}

pub(crate) async fn grants(args: GrantsArgs) -> anyhow::Result<Exit> {
    let desk = desk(&args.store).await?;
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

impl From<AlsoArg> for GrantScope {
    fn from(also: AlsoArg) -> Self {
        match also {
            AlsoArg::Same => Self::SameArguments,
            AlsoArg::Run => Self::Run,
            AlsoArg::Tenant => Self::Tenant,
        }
    }
}

/// Who answers, for the record: the user of this machine.
pub(crate) fn who() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    user.map_or_else(|_| "the command line".to_owned(), |user| format!("{user} at the command line"))
}

fn object(option: &str, text: &str) -> anyhow::Result<Object> {
    let value = serde_json::from_str(text).with_context(|| format!("{option} is not valid JSON"))?;
    match value {
        Value::Object(object) => Ok(object),
        _ => anyhow::bail!("{option} must be a JSON object, for example '{{\"row\": 3}}'"),
    }
}
