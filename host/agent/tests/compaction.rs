//! Runs whose conversation outgrows the model's window.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;

use support::{FakeCatalog, FakeModel, Reply, Stage, call, say};
use toolcell_agent::{Agent, Compaction, Message, ModelError, RunEnd, RunEvent, RunResult, RunStatus};
use toolcell_contract::{Outcome, ToolResult};

/// A model with a window, and a tool that says a lot.
fn stage(window: Option<u64>, replies: &[Reply]) -> Stage {
    let catalog =
        FakeCatalog::default().with("read", |_| async { Outcome::Done(ToolResult::ok("many words ".repeat(2_000))) });
    let mut stage = Stage::new(catalog, &[]);
    let mut model = FakeModel::new(replies);
    Arc::get_mut(&mut model).unwrap().window = window;
    stage.agent = Agent::new(model.clone(), stage.catalog.clone());
    stage.model = model;
    stage
}

async fn run(stage: &Stage) -> RunResult {
    stage.agent.run(stage.request()).await.unwrap()
}

fn compactions(stage: &Stage) -> usize {
    stage.events.lock().unwrap().iter().filter(|event| matches!(event, RunEvent::Compacted { .. })).count()
}

#[tokio::test]
async fn a_long_run_sends_less_and_keeps_everything() {
    let mut replies: Vec<_> = (0..9).map(|_| call(&[("read", "{}")])).collect();
    replies.push(say("Read."));
    // The model counts 10 tokens for everything, so that estimates are taken for four times too high.
    let stage = stage(Some(5_000), &replies);
    let result = run(&stage).await;
    assert_eq!(result.status(), RunStatus::Done);
    // 1 task, 9 exchanges, 1 answer; every result whole.
    assert_eq!(result.messages.len(), 20);
    let whole =
        |message: &Message| matches!(message, Message::Tool { replies } if replies[0].result.output.len() == 22_000);
    assert_eq!(result.messages.iter().filter(|message| whole(message)).count(), 9);
    let sent = stage.model.sent.lock().unwrap();
    let last = sent.last().unwrap();
    assert!(last.iter().filter(|message| whole(message)).count() < 4, "the older ones were sent shorter");
    assert!((1..6).contains(&compactions(&stage)), "not at every turn: {}", compactions(&stage));
}

#[tokio::test]
async fn a_provider_that_refuses_the_length_is_asked_again_with_less() {
    let replies = [call(&[("read", "{}")]), call(&[("read", "{}")]), Reply::TooLong, say("Read.")];
    let stage = stage(None, &replies);
    let result = run(&stage).await;
    assert_eq!((result.status(), result.text.as_str()), (RunStatus::Done, "Read."));
    assert_eq!(compactions(&stage), 1);
    let sent = stage.model.sent.lock().unwrap();
    let size = |messages: &[Message]| format!("{messages:?}").len();
    assert!(size(&sent[3]) < size(&sent[2]));
}

#[tokio::test]
async fn what_cannot_become_shorter_fails_as_too_long() {
    let stage = stage(None, &[Reply::TooLong]);
    assert!(matches!(run(&stage).await.end, RunEnd::Failed(ModelError::ContextTooLong { .. })));
    assert_eq!(compactions(&stage), 0);
}

#[tokio::test]
async fn without_compaction_everything_is_sent() {
    let mut stage = stage(Some(10), &[call(&[("read", "{}")]), call(&[("read", "{}")]), say("Read.")]);
    stage.agent = stage.agent.with_compaction(None::<Compaction>);
    assert_eq!(run(&stage).await.status(), RunStatus::Done);
    assert_eq!(compactions(&stage), 0);
}
