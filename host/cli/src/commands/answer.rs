//! `toolcell answer`: decides a question of a run on record.

use anyhow::{Context as _, bail};
use serde_json::Value;
use toolcell::contract::{Answer, Object, Request};
use toolcell::{
    BadDecision, Decision, Desk, DeskError, GRANT_MAX, GrantScope, OffsetDateTime, RunStore, StoredQuestion, Tenant,
};

use crate::args::{AlsoArg, AnswerArgs};
use crate::commands::pending::time;
use crate::exit::Exit;
use crate::form;
use crate::output::note;
use crate::printable::{one_line, printable};
use crate::store::{Stores, blame, blame_id, blame_store, same_place};

/// Characters of what somebody else has answered.
const LINE_CHARS: usize = 200;

/// Lines of the audit that are read at a time, and how often: what was decided so long before is told without its time.
const AUDIT_PAGE: u32 = 500;
const AUDIT_PAGES_MAX: u32 = 40;

pub(crate) async fn run(args: AnswerArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let answer = if args.decline {
        Answer::decline(&args.id, args.reason.as_deref().unwrap_or("declined"))
    } else {
        let data = args.data.as_deref().map(|text| object("--data", text)).transpose()?;
        Answer { data, reason: args.reason.clone(), ..Answer::approve(&args.id) }
    };
    let arguments = args.edit_args.as_deref().map(|text| object("--edit-args", text)).transpose()?;
    let store = stores.open_existing(&args.store).await?;
    let desk = Desk::new(store.clone(), args.store.tenant.clone());
    let asked = desk.question(&args.id).await.map_err(|error| blame_id(error, &args.id, &args.store))?;
    if args.also.is_some() && !asked.question.is_plain_approval() {
        // Before the answer counts, or half of what was typed would.
        return Err(DeskError::NotPlain.into());
    }
    let key = match desk.decide(Decision { answer, arguments, by: Some(who()) }).await {
        Ok(key) => key,
        Err(DeskError::Conflict(other)) => {
            let at = decided_at(store.as_ref(), &args.store.tenant, &args.id).await?;
            let same_place = same_place(args.store.store.as_deref(), &args.store.tenant);
            bail!("{}; toolcell pending {}{same_place} shows it", conflict(&asked, &other, at), args.id);
        }
        Err(DeskError::Decision(bad @ BadDecision::Data(_))) => bail!("{bad}; {}", asked_for(&asked.question.request)),
        Err(DeskError::Store(error)) => return Err(blame_id(error, &args.id, &args.store)),
        Err(other) => return Err(blame(other)),
    };
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

/// What was decided before: by whom, when and what.
fn conflict(asked: &StoredQuestion, decided: &Decision, at: Option<OffsetDateTime>) -> String {
    let Decision { answer, arguments, by } = decided;
    let at = at.map(|at| format!(" on {}", time(at))).unwrap_or_default();
    let reason = answer.reason.as_deref().filter(|reason| *reason != "declined");
    match reason.filter(|_| !answer.ok) {
        Some("expired") => {
            return format!("the question has expired: it could be answered until {}", time(asked.expires_at));
        }
        Some("cancelled") => return format!("the question was closed{at}: its run was cancelled"),
        _ => {}
    }
    let word = if answer.ok { "approved" } else { "declined" };
    let by = by.as_deref().map(|by| format!(" by {}", one_line(by, LINE_CHARS))).unwrap_or_default();
    let mut with = Vec::new();
    if let Some(data) = &answer.data {
        with.push(format!("with {}", one_line(&Value::from(data.clone()).to_string(), LINE_CHARS)));
    }
    if let Some(arguments) = arguments {
        with.push(format!("with the arguments {}", one_line(&Value::from(arguments.clone()).to_string(), LINE_CHARS)));
    }
    if let Some(reason) = reason {
        with.push(format!("because: {}", one_line(reason, LINE_CHARS)));
    }
    let with = if with.is_empty() { String::new() } else { format!(" ({})", with.join("; ")) };
    format!("the question was {word}{by}{at}{with}, and the first answer counts")
}

/// When a question was decided, as the audit says. It is read from its end.
async fn decided_at(store: &dyn RunStore, tenant: &Tenant, id: &str) -> anyhow::Result<Option<OffsetDateTime>> {
    const DECIDED: [&str; 3] = ["question.answered", "question.expired", "question.cancelled"];
    let mut end = store.audit_head(tenant).await.map_err(blame_store)?.seq;
    for _ in 0..AUDIT_PAGES_MAX {
        let after = end.saturating_sub(u64::from(AUDIT_PAGE));
        let page = store.audit(tenant, after, AUDIT_PAGE).await.map_err(blame_store)?;
        let decided = page.iter().find(|line| DECIDED.contains(&line.kind.as_str()) && line.body["question"] == id);
        if let Some(line) = decided {
            return Ok(Some(line.at));
        }
        if after == 0 {
            break;
        }
        end = after;
    }
    Ok(None)
}

/// What a question wants to be typed.
fn asked_for(request: &Request) -> String {
    let fields: Vec<_> = request.answer_schema().map(form::described_fields).unwrap_or_default();
    if fields.is_empty() {
        "it asks for a JSON object".to_owned()
    } else {
        format!("it asks for {}", fields.join(", "))
    }
}

/// Who answers, for the record: the user of this machine.
pub(crate) fn who() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    user.map_or_else(|_| "the command line".to_owned(), |user| format!("{user} at the command line"))
}

fn object(option: &str, text: &str) -> anyhow::Result<Object> {
    let example = "for example '{\"row\": 3}'";
    let value = serde_json::from_str(text)
        .with_context(|| format!("{option} is not valid JSON, {example}: {}", printable(text)))?;
    match value {
        Value::Object(object) => Ok(object),
        _ => bail!("{option} must be a JSON object, {example}"),
    }
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
