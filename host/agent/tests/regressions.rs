//! What went wrong in loops elsewhere. Each case names a public bug report.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{FakeCatalog, Reply, Stage, call, say};
use tokio::sync::Barrier;
use toolcell_agent::{Message, ModelError, RunEnd, RunLimit, RunRequest, RunStatus, StopReason, is_balanced};
use toolcell_contract::{Outcome, ToolResult};

fn turn(calls: &[(&'static str, &'static str)], stop: StopReason) -> Reply {
    Reply::Turn { text: "", calls: calls.to_vec(), stop }
}

#[tokio::test(start_paused = true)]
async fn parallel_calls_run_at_the_same_time() {
    // 0xPlaygrounds/rig#1321: they ran one after another. Here each waits for the other.
    let both = Arc::new(Barrier::new(2));
    let catalog = FakeCatalog::default().with("meet", move |_| {
        let both = Arc::clone(&both);
        async move {
            both.wait().await;
            Outcome::Done(ToolResult::ok("met"))
        }
    });
    let stage = Stage::new(catalog, &[call(&[("meet", "{}"), ("meet", "{}")]), say("done")]);
    let run = stage.agent.run(stage.request());
    let result = tokio::time::timeout(Duration::from_secs(10), run).await.expect("both calls at once").unwrap();
    assert_eq!(result.status(), RunStatus::Done);
}

#[tokio::test]
async fn every_call_of_a_turn_runs_and_has_its_result() {
    // 0xPlaygrounds/rig#679, 0xPlaygrounds/rig#2250, endolith/open-interpreter#315: a call was received and not run, or
    // only the first one was.
    let calls = [("echo", r#"{"n":1}"#), ("echo", r#"{"n":2}"#), ("echo", r#"{"n":3}"#)];
    let stage = Stage::new(FakeCatalog::default().with_echo(), &[call(&calls), say("done")]);
    stage.agent.run(stage.request()).await.unwrap();
    let sent = stage.model.sent.lock().unwrap();
    let Some(Message::Tool { replies }) = sent[1].last() else { panic!("no results were sent: {sent:?}") };
    let outputs: Vec<_> = replies.iter().map(|reply| reply.result.output.as_str()).collect();
    assert_eq!(outputs, calls.map(|(_, arguments)| arguments));
}

#[tokio::test]
async fn a_turn_without_calls_ends_the_run_whatever_its_reason() {
    // mastra-ai/mastra#12581: the reason said "tool-calls", and the loop never ended.
    for stop in [StopReason::Finished, StopReason::Other("tool-calls".into())] {
        let stage = Stage::new(FakeCatalog::default().with_echo(), &[turn(&[], stop)]);
        let result = stage.agent.run(stage.request()).await.unwrap();
        assert_eq!((result.status(), result.turns), (RunStatus::Done, 1));
    }
}

#[tokio::test]
async fn calls_run_and_the_model_is_asked_again_whatever_the_reason() {
    // anomalyco/opencode#14972: the loop ended after the tools had run. vercel/workflow#1387: the calls were thrown away.
    for stop in [StopReason::Finished, StopReason::Other("other".into()), StopReason::Other("unknown".into())] {
        let replies = [turn(&[("echo", "{}")], stop), say("done")];
        let stage = Stage::new(FakeCatalog::default().with_echo(), &replies);
        let result = stage.agent.run(stage.request()).await.unwrap();
        assert_eq!((stage.times_called("echo"), result.turns, result.text.as_str()), (1, 2, "done"));
    }
}

#[tokio::test]
async fn a_turn_that_was_cut_or_refused_is_no_success() {
    // zhayujie/CowAgent PR 3074, NousResearch/hermes-agent#83869: the reason was thrown away.
    let end = async |stop| {
        let stage = Stage::new(FakeCatalog::default(), &[turn(&[], stop)]);
        stage.agent.run(stage.request()).await.unwrap().end
    };
    assert!(matches!(end(StopReason::Length).await, RunEnd::Incomplete(RunLimit::Tokens)));
    assert!(matches!(end(StopReason::Refused).await, RunEnd::Failed(ModelError::Withheld)));
}

#[tokio::test(start_paused = true)]
async fn a_conversation_goes_on_after_a_run_that_was_interrupted_in_a_call() {
    // letta-ai/letta#3308, anthropics/claude-code#15205: the call stayed without a result, and every later request was
    // refused.
    let catalog = FakeCatalog::default().with_echo().with("stuck", |_| std::future::pending());
    let stage = Stage::new(catalog, &[call(&[("echo", "{}"), ("stuck", "{}")]), say("again")]);
    let request = stage.request();
    let cancel = request.cancel.clone();
    let interrupt = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(stage.agent.run(request), interrupt);
    let mut messages = result.unwrap().messages;
    assert!(is_balanced(&messages), "{messages:?}");
    messages.push(Message::user("go on"));
    let result = stage.agent.run(RunRequest::conversation(messages)).await.unwrap();
    assert_eq!((result.status(), result.text.as_str()), (RunStatus::Done, "again"));
}
