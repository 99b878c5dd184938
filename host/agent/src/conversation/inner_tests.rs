//! What happens between the last word of a run and its rest. Nobody outside can be there on time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::json;
use toolcell_contract::{Definition, Outcome, Request, Suspension};

use super::*;
use crate::catalog::{Call, Catalog, Execution, Observer, Tool};
use crate::model::{Model, ModelError, ModelEvent, ModelReply, Prompt, StopReason, Usage};
use crate::transcript::{AssistantTurn, CallRequest};

/// A model that calls the tool, and a tool that asks.
struct Asking;

impl Model for Asking {
    fn name(&self) -> &'static str {
        "asking"
    }

    fn ask<'a>(&'a self, _: Prompt<'a>) -> BoxStream<'a, Result<ModelEvent, ModelError>> {
        let calls = vec![CallRequest { id: "call_1".into(), name: "gpu".into(), arguments: "{}".into() }];
        let turn = AssistantTurn { calls, ..AssistantTurn::default() };
        let reply = ModelReply { turn, stop: StopReason::Finished, usage: Usage::default() };
        stream::iter([Ok(ModelEvent::Finished(reply))]).boxed()
    }
}

impl Catalog for Asking {
    fn tools(&self) -> Vec<Arc<Tool>> {
        let definition = Definition {
            name: "gpu".into(),
            title: None,
            description: String::new(),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            annotations: None,
        };
        vec![Arc::new(Tool::new(definition, None).unwrap())]
    }

    fn call<'a>(&'a self, _: Call, _: Arc<dyn Observer>) -> BoxFuture<'a, Execution> {
        let suspension = Suspension { request: Request::approval("gpu?"), guest_id: None, state: None };
        let outcome = Outcome::Suspended(suspension);
        futures::future::ready(Execution { outcome, log: Vec::new(), duration: std::time::Duration::ZERO }).boxed()
    }
}

/// A run that is about to wait, and its result.
async fn about_to_wait() -> (Leave, RunResult, Answer) {
    let agent = Agent::new(Arc::new(Asking), Arc::new(Asking));
    let run = Run::default();
    let result = agent.run_with(&run.board, RunRequest::prompt("go")).await;
    let yes = Answer::approve(&result.pending().unwrap().id);
    let inner = Arc::new(Inner::new(agent, ConversationOptions::default()));
    (Leave { inner, run, has_left: false }, result, yes)
}

#[tokio::test]
async fn a_run_that_nobody_needs_rests() {
    let (mut leave, result, _) = about_to_wait().await;
    assert!(matches!(leave.rest(result), Rested::Left(_)));
    assert!(matches!(leave.inner.state().phase, Phase::Waiting(_)));
}

#[tokio::test]
async fn an_answer_at_the_last_moment_lets_the_run_go_on() {
    let (mut leave, result, yes) = about_to_wait().await;
    assert_eq!(leave.run.board.answer(vec![yes]), Ok(Taken::First));
    assert!(matches!(leave.rest(result), Rested::GoesOn(_)));
}

#[tokio::test]
async fn a_run_that_is_cancelled_at_the_last_moment_is_not_told_as_waiting() {
    let (mut leave, result, _) = about_to_wait().await;
    leave.run.cancel.cancel();
    assert!(matches!(leave.rest(result), Rested::GoesOn(_)));
}
