//! Asks hooks one after another and makes one decision of theirs. It knows nothing of the run's time and cancellation.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use time::OffsetDateTime;
use toolcell_contract::accept::{self, Violation};
use toolcell_contract::{Failure, FailureCode, Request, ToolResult};

use super::{AfterModel, AfterTool, BeforeModel, BeforeTool, Hooks, PlannedCall, SentPrompt};
use crate::call::PreparedCall;
use crate::call_record::{CallEnding, CallRecord};
use crate::model::{ModelReply, Prompt};

/// A hook does not want the run to go on.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) reason: String,
}

/// The reasons of calls that must not run, by the provider's id of the call.
pub(crate) type DeniedCalls = BTreeMap<String, String>;

/// What hooks made of an answer.
#[derive(Debug, Default)]
pub(crate) struct Review {
    pub(crate) denied: DeniedCalls,
    /// Whether the text is no longer the one that was shown.
    pub(crate) is_rewritten: bool,
}

/// What hooks made of a call.
#[derive(Debug)]
pub(crate) enum Plan {
    /// It runs with these arguments, after a yes to each of these questions.
    Run { arguments: Value, questions: VecDeque<Request> },
    /// It ends without running.
    End(CallEnding),
}

/// What is sent instead of the prompt, if anything.
pub(crate) async fn before_model(hooks: &[Arc<dyn Hooks>], prompt: Prompt<'_>) -> Result<Option<SentPrompt>, Stopped> {
    let mut instead: Option<SentPrompt> = None;
    for hook in hooks {
        let seen = instead.as_ref().map_or(prompt, |sent| sent.with_tools(prompt));
        match hook.before_model(seen).await {
            BeforeModel::Send => {}
            BeforeModel::SendInstead(sent) => instead = Some(sent.without_stale_words(prompt.messages)),
            BeforeModel::Stop { reason } => return Err(Stopped { reason }),
        }
    }
    Ok(instead)
}

pub(crate) async fn after_model(hooks: &[Arc<dyn Hooks>], reply: &mut ModelReply) -> Result<Review, Stopped> {
    let mut review = Review::default();
    for hook in hooks {
        match hook.after_model(reply).await {
            AfterModel::Keep => {}
            AfterModel::Edit(edit) => {
                review.is_rewritten |= edit.text.as_ref().is_some_and(|text| *text != reply.turn.text);
                let denied = edit.apply(&mut reply.turn);
                // The first reason stays.
                review.denied = denied.into_iter().chain(std::mem::take(&mut review.denied)).collect();
            }
            AfterModel::Stop { reason } => return Err(Stopped { reason }),
        }
    }
    Ok(review)
}

/// What becomes of a call. A hook's question lapses from `now` on.
pub(crate) async fn before_tool(hooks: &[Arc<dyn Hooks>], call: &PreparedCall, now: OffsetDateTime) -> Plan {
    let PreparedCall { call_id, tool, .. } = call;
    let mut arguments = call.arguments.clone();
    let mut questions = VecDeque::new();
    for hook in hooks {
        match hook.before_tool(PlannedCall { call_id, tool, arguments: &arguments }).await {
            BeforeTool::Run => {}
            BeforeTool::RunWith(other) => match tool.schema.check(&Value::Object(other).to_string()) {
                Ok(checked) => arguments = checked,
                Err(failure) => return Plan::End(failure.into()),
            },
            BeforeTool::Answer(result) => return Plan::End(resolved(result)),
            BeforeTool::Deny { reason } => return Plan::End(forbidden(reason).into()),
            BeforeTool::Suspend(request) => match accept::request(request, now) {
                Ok(request) => questions.push_back(request),
                Err(violation) => return Plan::End(broken(violation).into()),
            },
        }
    }
    Plan::Run { arguments, questions }
}

pub(crate) async fn after_tool(hooks: &[Arc<dyn Hooks>], record: &mut CallRecord) {
    for hook in hooks {
        match hook.after_tool(record).await {
            AfterTool::Keep => {}
            AfterTool::Replace(result) => {
                let ending = resolved(result);
                let code = record.ending.code.filter(|_| ending.result.is_error);
                record.ending = CallEnding { code: ending.code.or(code), ..ending };
            }
        }
    }
}

/// The failure of a call that a hook denied.
pub(crate) fn forbidden(reason: impl Into<String>) -> Failure {
    Failure::with_detail(FailureCode::Forbidden, reason)
}

/// A hook's result, held to the rules of every result. One that looks like a question would never be asked:
/// [`BeforeTool::Suspend`] asks.
fn resolved(result: ToolResult) -> CallEnding {
    match accept::result(result) {
        Ok(result) => result.into(),
        Err(violation) => broken(violation).into(),
    }
}

/// The failure of a call whose hook broke a rule.
fn broken(violation: Violation) -> Failure {
    let detail = match violation {
        Violation::PendingByHand => "it must suspend the call to ask something".to_owned(),
        other => other.to_string(),
    };
    Failure::with_detail(violation.code(), format!("this came from a hook of the host program: {detail}"))
}
