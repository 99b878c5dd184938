//! What must hold, whatever happened.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use anyhow::{Context as _, ensure};
use toolcell_agent::{
    CallRecord, Message, RunKey, RunStatus, RunStore, SlotState, StoredRun, StoredStatus, ToolReply, is_balanced,
};
use toolcell_contract::FailureCode;
use toolcell_store::verify_audit;

use crate::people::People;

/// What came of it. Anything that must not be is an error instead.
#[derive(Debug, Default)]
pub struct Verdict {
    questions: usize,
    conflicts: usize,
    effects: usize,
    interrupted: usize,
    audited: u64,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { questions, conflicts, effects, interrupted, audited } = self;
        write!(
            f,
            "{questions} questions, {conflicts} late answers, {effects} effects, {interrupted} calls cut off, {audited} lines \
             of audit; none lost, none stuck, none unbalanced, none decided or done twice"
        )
    }
}

/// Judges.
pub async fn judge(store: &dyn RunStore, keys: &[RunKey], people: &People, effects: &Path) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict { conflicts: people.look(|seen| seen.conflicts), ..Verdict::default() };
    let happened = effects_of(effects)?;
    verdict.effects = happened.values().sum();
    for key in keys {
        let run = store.run(key).await.with_context(|| format!("the run {} is lost", key.run))?;
        ensure!(run.head.status == StoredStatus::Ended(RunStatus::Done), "{} ended as {:?}", key.run, run.head.status);
        ensure!(run.head.open == 0, "{} has ended with {} open questions", key.run, run.head.open);
        judge_run(&run, &happened, &mut verdict)?;
    }
    let decided = people.look(|seen| seen.decisions.clone());
    verdict.questions = decided.len();
    for (question, told) in decided {
        let different: BTreeSet<_> = told.iter().collect();
        ensure!(different.len() == 1, "the question {question} was decided in two ways: {told:?}");
    }
    let tenants: BTreeSet<_> = keys.iter().map(|key| &key.tenant).collect();
    for tenant in tenants {
        verdict.audited += verify_audit(store, tenant).await??;
    }
    Ok(verdict)
}

/// How often each call has had its effect.
fn effects_of(file: &Path) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut happened = BTreeMap::new();
    for line in std::fs::read_to_string(file)?.lines() {
        let (name, call) = line.split_once(' ').context("a line of the effects is broken")?;
        let count: &mut usize = happened.entry(call.to_owned()).or_default();
        *count += 1;
        ensure!(*count == 1 || name == "look", "{name} had its effect {count} times in the call {call}");
    }
    Ok(happened)
}

fn judge_run(run: &StoredRun, happened: &BTreeMap<String, usize>, verdict: &mut Verdict) -> anyhow::Result<()> {
    let key = &run.head.key.run;
    let mut messages = run.messages.clone();
    let mut calls = run.calls.iter().peekable();
    for (turn, reply) in (0_u32..).zip(&run.replies) {
        messages.push(Message::Assistant(reply.turn.clone()));
        let mut replies = Vec::new();
        while let Some(call) = calls.next_if(|call| call.slot.turn == turn) {
            let SlotState::Done { record } = &call.state else {
                anyhow::bail!("{key}: a call has no result: {call:?}")
            };
            let record = CallRecord::from(record.as_ref().clone());
            let effects = happened.get(&record.call_id).copied().unwrap_or(0);
            match record.ending.code {
                None => ensure!(effects >= 1, "{}: a result without its effect", record.call_id),
                Some(FailureCode::Declined) => ensure!(effects == 0, "{}: it ran after a no", record.call_id),
                Some(FailureCode::Interrupted) => verdict.interrupted += 1,
                Some(code) => anyhow::bail!("{}: ended as {code:?}", record.call_id),
            }
            replies.push(ToolReply {
                call_id: record.request.id.clone(),
                name: record.request.name.clone(),
                result: record.ending.result,
            });
        }
        if !replies.is_empty() {
            messages.push(Message::Tool { replies });
        }
    }
    ensure!(is_balanced(&messages), "{key} is not balanced");
    ensure!(run.replies.len() == 4, "{key}: the model was asked {} times", run.replies.len());
    Ok(())
}
