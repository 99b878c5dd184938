//! A run as a stream.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;
use support::{FakeCatalog, Reply, Stage, call, say};
use tokio_util::sync::CancellationToken;
use toolcell_agent::{RunError, RunEvent, RunRequest, RunStatus};
use toolcell_contract::{Answer, Outcome, ToolResult};

#[tokio::test]
async fn the_stream_tells_what_the_sink_is_told_and_ends_with_the_result() {
    let stage = Stage::new(FakeCatalog::default().with_echo(), &[call(&[("echo", "{}")]), say("Done.")]);
    let mut stream = stage.agent.stream(stage.request());
    let mut streamed = Vec::new();
    while let Some(event) = stream.next().await {
        streamed.push(event);
    }
    assert_eq!(streamed, *stage.events.lock().unwrap());
    assert!(matches!(streamed.last(), Some(RunEvent::Done { status: RunStatus::Done })));
    assert_eq!(stream.result().await.unwrap().text, "Done.");
}

#[tokio::test]
async fn an_answer_that_comes_all_at_once_is_streamed_to_its_last_event() {
    let stage = Stage::new(FakeCatalog::default(), &[Reply::Pieces(1_000)]);
    let mut stream = stage.agent.stream(stage.request());
    let mut streamed = Vec::new();
    while let Some(event) = stream.next().await {
        streamed.push(event);
    }
    assert_eq!(streamed.len(), stage.events.lock().unwrap().len());
    assert!(matches!(streamed.last(), Some(RunEvent::Done { status: RunStatus::Done })));
}

#[tokio::test]
async fn the_result_is_there_for_who_does_not_look_at_events() {
    let stage = Stage::new(FakeCatalog::default(), &[say("Done.")]);
    assert_eq!(stage.agent.stream(RunRequest::prompt("go")).result().await.unwrap().text, "Done.");
}

#[tokio::test]
async fn what_happens_is_told_before_the_run_is_over() {
    let go_on = Arc::new(tokio::sync::Notify::new());
    let gate = Arc::clone(&go_on);
    let catalog = FakeCatalog::default().with("wait", move |_| {
        let gate = Arc::clone(&gate);
        async move {
            gate.notified().await;
            Outcome::Done(ToolResult::ok("went on"))
        }
    });
    let stage = Stage::new(catalog, &[call(&[("wait", "{}")]), say("Done.")]);
    let mut stream = stage.agent.stream(RunRequest::prompt("go"));
    while !matches!(stream.next().await, Some(RunEvent::ToolCall { .. })) {}
    go_on.notify_one();
    assert_eq!(stream.result().await.unwrap().text, "Done.");
}

#[tokio::test]
async fn dropping_the_stream_ends_its_calls() {
    struct Ended(Arc<AtomicBool>);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    let catalog = FakeCatalog::default().with("hang", move |_| {
        let guard = Ended(Arc::clone(&flag));
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    });
    let stage = Stage::new(catalog, &[call(&[("hang", "{}")])]);
    let mut stream = stage.agent.stream(RunRequest::prompt("go"));
    let hangs = async { while stream.next().await.is_some() {} };
    assert!(tokio::time::timeout(std::time::Duration::from_millis(20), hangs).await.is_err());
    assert!(!ended.load(Ordering::Relaxed));
    drop(stream);
    assert!(ended.load(Ordering::Relaxed));
}

#[tokio::test]
async fn a_run_that_waits_goes_on_as_a_stream() {
    let stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")]), say("Done.")]);
    let waiting = stage.agent.run(RunRequest::prompt("go")).await.unwrap();
    let id = waiting.pending().unwrap().id.clone();
    let run = waiting.into_suspended().expect("it waits");
    let stream = stage.agent.stream_resumed(run, vec![Answer::approve(id)], CancellationToken::new());
    let (events, result) = {
        let mut stream = stream;
        let mut events = Vec::new();
        while let Some(event) = stream.next().await {
            events.push(event);
        }
        (events, stream.result().await.unwrap())
    };
    assert!(matches!(events[0], RunEvent::Answered { ok: true, .. }), "{events:?}");
    assert_eq!(
        (result.status(), result.tool_calls[0].ending.result.output.as_str()),
        (RunStatus::Done, "approved: gpu")
    );
}

#[tokio::test]
async fn a_run_that_cannot_start_ends_the_stream_with_its_error() {
    let stage = Stage::new(FakeCatalog::default(), &[]);
    let unbalanced = vec![toolcell_agent::Message::Tool { replies: Vec::new() }];
    let mut stream = stage.agent.stream(RunRequest::conversation(unbalanced));
    assert!(stream.next().await.is_none());
    assert!(matches!(stream.result().await, Err(RunError::Unbalanced)));
}
