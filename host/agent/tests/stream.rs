//! A run as a stream.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use support::{FakeCatalog, Reply, Stage, call, say};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolcell_agent::{Budget, RunError, RunEvent, RunRequest, RunStatus};
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
    let (mut text, mut last) = (String::new(), None);
    while let Some(event) = stream.next().await {
        if let RunEvent::Text { text: more } = &event {
            text.push_str(more);
        }
        last = Some(event);
    }
    assert_eq!(text, "x".repeat(1_000));
    assert!(matches!(last, Some(RunEvent::Done { status: RunStatus::Done })));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_its_time_takes_none_of_the_runs() {
    let catalog = FakeCatalog::default().with("slow", |_| async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        Outcome::Done(ToolResult::ok("went on"))
    });
    let mut stage = Stage::new(catalog, &[call(&[("slow", "{}")]), say("Done.")]);
    stage.agent = stage.agent.with_budget(Budget { time_max: Duration::from_secs(60), ..Budget::default() });
    let mut stream = stage.agent.stream(RunRequest::prompt("go"));
    while let Some(_event) = stream.next().await {
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    assert_eq!(stream.result().await.unwrap().status(), RunStatus::Done);
}

#[tokio::test]
async fn the_run_goes_on_while_the_reader_does_something_else() {
    let catalog = FakeCatalog::default().with("slow", |_| async {
        tokio::task::yield_now().await;
        Outcome::Done(ToolResult::ok("went on"))
    });
    let stage = Stage::new(catalog, &[call(&[("slow", "{}")]), say("Done.")]);
    let over = Arc::new(Notify::new());
    let told = Arc::clone(&over);
    let sink = move |event: RunEvent| {
        if matches!(event, RunEvent::Done { .. }) {
            told.notify_one();
        }
    };
    let mut stream = stage.agent.stream(RunRequest { events: Arc::new(sink), ..RunRequest::prompt("go") });
    assert!(stream.next().await.is_some());
    over.notified().await;
    assert_eq!(stream.result().await.unwrap().text, "Done.");
}

#[tokio::test]
async fn what_was_not_taken_is_told_in_fewer_pieces_and_in_the_same_order() {
    let stage = Stage::new(FakeCatalog::default().with_echo(), &[call(&[("echo", "{}")]), Reply::Pieces(100_000)]);
    let mut stream = stage.agent.stream(stage.request());
    let mut streamed = Vec::new();
    while let Some(event) = stream.next().await {
        streamed.push(event);
    }
    assert!(streamed.len() < 100, "{} events", streamed.len());
    let joined = |events: &[RunEvent]| {
        let mut joined: Vec<RunEvent> = Vec::new();
        for event in events {
            match (joined.last_mut(), event) {
                (Some(RunEvent::Text { text }), RunEvent::Text { text: more }) => text.push_str(more),
                _ => joined.push(event.clone()),
            }
        }
        joined
    };
    assert_eq!(joined(&streamed), joined(&stage.events.lock().unwrap()));
}

#[tokio::test]
async fn a_run_waits_for_a_reader_that_is_far_behind_and_loses_nothing() {
    let calls = vec![("echo", "{}"); 16];
    let replies = (0..200).map(|_| call(&calls)).chain([say("Done.")]).collect::<Vec<_>>();
    let mut stage = Stage::new(FakeCatalog::default().with_echo(), &replies);
    stage.agent = stage.agent.with_budget(Budget { turns_max: 500.try_into().unwrap(), ..Budget::default() });
    let mut stream = stage.agent.stream(stage.request());
    let first = stream.next().await.unwrap();
    // Nothing else has anything to do then.
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    let asked = stage.model.sent.lock().unwrap().len();
    assert!(asked < 200, "the run went on to turn {asked}");
    let mut streamed = vec![first];
    while let Some(event) = stream.next().await {
        streamed.push(event);
    }
    assert_eq!(streamed, *stage.events.lock().unwrap());
}

#[tokio::test]
async fn the_result_is_there_for_who_does_not_look_at_events() {
    let stage = Stage::new(FakeCatalog::default(), &[say("Done.")]);
    assert_eq!(stage.agent.stream(RunRequest::prompt("go")).result().await.unwrap().text, "Done.");
}

#[tokio::test]
async fn what_happens_is_told_before_the_run_is_over() {
    let go_on = Arc::new(Notify::new());
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
    struct Ended(Arc<Notify>);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let ended = Arc::new(Notify::new());
    let begun = Arc::new(Notify::new());
    let (told_begin, told_end) = (Arc::clone(&begun), Arc::clone(&ended));
    let catalog = FakeCatalog::default().with("hang", move |_| {
        told_begin.notify_one();
        let guard = Ended(Arc::clone(&told_end));
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    });
    let stage = Stage::new(catalog, &[call(&[("hang", "{}")])]);
    let mut stream = stage.agent.stream(RunRequest::prompt("go"));
    tokio::select! {
        () = begun.notified() => {}
        () = async { while stream.next().await.is_some() {} } => panic!("it hangs"),
    }
    drop(stream);
    // It hangs for ever otherwise.
    ended.notified().await;
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

/// A run whose every turn has 16 calls, and whose reader does not read.
fn with_an_absent_reader(cancel: &CancellationToken) -> (toolcell_agent::RunStream, Arc<Notify>) {
    let calls = vec![("echo", "{}"); 16];
    let replies: Vec<_> = (0..200).map(|_| call(&calls)).collect();
    let mut stage = Stage::new(FakeCatalog::default().with_echo(), &replies);
    stage.agent = stage.agent.with_budget(Budget {
        turns_max: 500.try_into().unwrap(),
        time_max: Duration::from_secs(60),
        ..Budget::default()
    });
    let over = Arc::new(Notify::new());
    let told = Arc::clone(&over);
    let sink = move |event: RunEvent| {
        if matches!(event, RunEvent::Done { .. }) {
            told.notify_one();
        }
    };
    let request = RunRequest { events: Arc::new(sink), cancel: cancel.clone(), ..RunRequest::prompt("go") };
    (stage.agent.stream(request), over)
}

#[tokio::test]
async fn a_run_that_is_cancelled_ends_although_its_reader_is_far_behind() {
    let cancel = CancellationToken::new();
    let (mut stream, over) = with_an_absent_reader(&cancel);
    assert!(stream.next().await.is_some());
    tokio::time::sleep(Duration::from_millis(100)).await;
    cancel.cancel();
    tokio::time::timeout(Duration::from_secs(5), over.notified()).await.expect("it ends without its reader");
    assert_eq!(stream.result().await.unwrap().status(), RunStatus::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_reader_stays_away_for_all_of_its_time_ends_by_that() {
    let cancel = CancellationToken::new();
    let (mut stream, over) = with_an_absent_reader(&cancel);
    assert!(stream.next().await.is_some());
    tokio::time::timeout(Duration::from_secs(3_600), over.notified()).await.expect("it ends without its reader");
    assert!(stream.result().await.is_ok());
}
