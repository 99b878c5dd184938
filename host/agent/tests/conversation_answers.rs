//! Conversations whose calls ask: answers, lapses, and the end of a run that waits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use support::talk::{answer, conversation, ids, said, settle};
use support::{FakeCatalog, Stage, call, lapsing, paused_clock, say, suspended};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolcell_agent::{
    Conversation, ConversationError, Message, NoEvents, RunEnd, RunEvent, RunStatus, SendRequest, WhilePending,
    is_balanced,
};
use toolcell_contract::{Answer, FailureCode, Outcome, ToolResult};

/// Two calls that ask, and run after a yes until they are let go by name.
struct Gates(FakeCatalog, [Arc<Notify>; 2]);

fn gates() -> Gates {
    let doors = [Arc::new(Notify::new()), Arc::new(Notify::new())];
    let inside = doors.clone();
    let catalog = FakeCatalog::default().with("gate", move |call| {
        let door = Arc::clone(&inside[usize::from(call.arguments.contains('1'))]);
        async move {
            match call.context.answer {
                None => suspended("Open?"),
                Some(_) => {
                    door.notified().await;
                    Outcome::Done(ToolResult::ok(format!("opened {}", call.arguments)))
                }
            }
        }
    });
    Gates(catalog, doors)
}

const BOTH_GATES: [(&str, &str); 2] = [("gate", r#"{"n":0}"#), ("gate", r#"{"n":1}"#)];

#[tokio::test]
async fn each_answer_lets_its_own_call_go_on_at_once_and_nobody_waits_for_another() {
    let Gates(catalog, [first_door, second_door]) = gates();
    let stage = Stage::new(catalog, &[call(&BOTH_GATES), say("Both are open.")]);
    let conversation = conversation(&stage, WhilePending::Refuse);
    conversation.send(SendRequest::text("go")).await.unwrap();
    let [first, second] = &ids(&conversation)[..] else { panic!("two questions") };

    let go_on = |id: &String| {
        let (conversation, yes) = (conversation.clone(), vec![Answer::approve(id)]);
        tokio::spawn(async move { answer(&conversation, yes).await.unwrap() })
    };
    let one = go_on(first);
    settle().await;
    assert_eq!(ids(&conversation), [second.as_str()], "while the first call runs the second still waits");
    let two = go_on(second);
    settle().await;
    assert_eq!(stage.times_called("gate"), 4, "both run at the same time");
    let again = go_on(first);
    let other = answer(&conversation, vec![Answer::decline(first, "declined")]).await;
    assert!(matches!(other, Err(ConversationError::Conflict { .. })));
    second_door.notify_one();
    first_door.notify_one();
    for result in [one.await.unwrap(), two.await.unwrap(), again.await.unwrap()] {
        assert_eq!((result.status(), result.text.as_str()), (RunStatus::Done, "Both are open."));
    }
    assert_eq!(stage.times_called("gate"), 4, "each ran once after its answer");
}

#[tokio::test]
async fn a_question_can_be_answered_while_another_call_of_the_turn_has_not_asked_yet() {
    let Gates(catalog, [first_door, _]) = gates();
    let slow_door = Arc::new(Notify::new());
    let inside = Arc::clone(&slow_door);
    let catalog = catalog.with("slow", move |_| {
        let door = Arc::clone(&inside);
        async move {
            door.notified().await;
            Outcome::Done(ToolResult::ok("slept"))
        }
    });
    let stage = Stage::new(catalog, &[call(&[("slow", "{}"), BOTH_GATES[0]]), say("Done.")]);
    let conversation = conversation(&stage, WhilePending::Refuse);
    let sent = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.send(SendRequest::text("go")).await.unwrap() }
    });
    settle().await;
    let [id] = &ids(&conversation)[..] else { panic!("one question") };
    let answered = tokio::spawn({
        let (conversation, yes) = (conversation.clone(), vec![Answer::approve(id)]);
        async move { answer(&conversation, yes).await.unwrap() }
    });
    first_door.notify_one();
    settle().await;
    assert_eq!(stage.times_called("gate"), 2, "it did not wait for the slow one");
    slow_door.notify_one();
    assert!(Arc::ptr_eq(&sent.await.unwrap(), &answered.await.unwrap()), "both are told the same end");
    assert_eq!(conversation.history().messages.len(), 4);
}

#[tokio::test]
async fn an_answer_from_elsewhere_counts_although_somebody_is_being_asked() {
    let mut stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")]), say("Done.")]);
    let asked = Arc::new(Mutex::new(Weak::new()));
    let seen = Arc::clone(&asked);
    stage.agent = stage.agent.wait_for(move |_| {
        let alive = Arc::new(());
        *seen.lock().unwrap() = Arc::downgrade(&alive);
        async move {
            std::future::pending::<()>().await;
            drop(alive);
            None
        }
    });
    let conversation = conversation(&stage, WhilePending::Refuse);
    let sent = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.send(SendRequest::text("go")).await.unwrap() }
    });
    settle().await;
    assert!(asked.lock().unwrap().upgrade().is_some(), "somebody is being asked");
    let [id] = &ids(&conversation)[..] else { panic!("one question") };
    answer(&conversation, vec![Answer::approve(id)]).await.unwrap();
    assert_eq!(sent.await.unwrap().text, "Done.");
    assert!(asked.lock().unwrap().upgrade().is_none(), "who was asked is not asked any more");
    assert_eq!(stage.times_called("gpu"), 2);
}

#[tokio::test]
async fn a_run_that_waits_ends_with_its_token() {
    for is_answered in [false, true] {
        let Gates(catalog, [first_door, _]) = gates();
        let stage = Stage::new(catalog, &[call(&BOTH_GATES), say("Still here.")]);
        let conversation = conversation(&stage, WhilePending::Refuse);
        let cancel = CancellationToken::new();
        let go = SendRequest { cancel: cancel.clone(), ..SendRequest::text("go") };
        assert_eq!(conversation.send(go).await.unwrap().status(), RunStatus::Pending);
        if is_answered {
            first_door.notify_one();
            let [first, _] = &ids(&conversation)[..] else { panic!("two questions") };
            assert_eq!(answer(&conversation, vec![Answer::approve(first)]).await.unwrap().status(), RunStatus::Pending);
        }
        cancel.cancel();
        settle().await;
        assert!(conversation.questions().is_empty());
        assert!(is_balanced(&conversation.history().messages));
        assert_eq!(conversation.history().messages.len(), 3, "the message, the calls and their results");
        assert_eq!(stage.model.sent.lock().unwrap().len(), 1, "the model is not asked any more");
        assert_eq!(conversation.send(SendRequest::text("and now?")).await.unwrap().text, "Still here.");
    }
}

#[tokio::test]
async fn a_run_can_be_abandoned_while_it_waits_and_while_it_works() {
    let catalog = FakeCatalog::default().with_gpu().with("stuck", |_| std::future::pending());
    let replies = [call(&[("gpu", "{}")]), call(&[("stuck", "{}"), ("gpu", "{}")]), say("Third.")];
    let stage = Stage::new(catalog, &replies);
    let conversation = conversation(&stage, WhilePending::Refuse);
    assert!(conversation.abandon().await.unwrap().is_none(), "there is nothing to abandon");
    conversation.send(SendRequest::text("first")).await.unwrap();
    let ended = conversation.abandon().await.unwrap().unwrap();
    assert_eq!((ended.status(), ended.tool_calls[0].ending.code), (RunStatus::Cancelled, Some(FailureCode::Cancelled)));

    let sent = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.send(SendRequest::text("second")).await.unwrap() }
    });
    settle().await;
    let ended = conversation.abandon().await.unwrap().unwrap();
    assert!(Arc::ptr_eq(&sent.await.unwrap(), &ended));
    let codes: Vec<_> = ended.tool_calls.iter().map(|record| record.ending.code).collect();
    assert_eq!(codes, [Some(FailureCode::Cancelled); 2]);
    assert!(is_balanced(&conversation.history().messages));
    assert_eq!(conversation.send(SendRequest::text("third")).await.unwrap().text, "Third.");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_lapses_while_nobody_looks_lets_the_run_go_on() {
    let catalog = FakeCatalog::default().with("late", |_| async { lapsing("Now?", Duration::from_secs(3_600)) });
    let mut stage = Stage::new(catalog, &[call(&[("late", "{}")]), say("Too late."), say("Next.")]);
    stage.agent = stage.agent.with_clock(paused_clock());
    let conversation = conversation(&stage, WhilePending::Queue);
    assert_eq!(conversation.send(SendRequest::text("first")).await.unwrap().status(), RunStatus::Pending);
    // It waits for its turn, which comes although nobody answers.
    assert_eq!(conversation.send(SendRequest::text("second")).await.unwrap().text, "Next.");
    let Message::Tool { replies } = &conversation.history().messages[2] else { panic!("no result") };
    assert_eq!(replies[0].result.output, "declined/expired: Now?");
}

#[tokio::test]
async fn a_conversation_keeps_its_run_so_that_nobody_else_can_go_on_with_it() {
    let stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")])]);
    let conversation = conversation(&stage, WhilePending::Refuse);
    let waiting = conversation.send(SendRequest::text("go")).await.unwrap();
    assert_eq!(waiting.pendings().count(), 1);
    assert!(matches!(&waiting.end, RunEnd::Pending { run: None, .. }));
}

#[tokio::test]
async fn an_answer_that_is_not_what_was_asked_for_leaves_the_question_open() {
    let catalog = FakeCatalog::default().with("seat", |call| async move {
        let Some(answer) = call.context.answer else {
            let Outcome::Suspended(mut asked) = suspended("Which row?") else { unreachable!() };
            let schema = serde_json::json!({"properties": {"row": {"type": "integer"}}, "required": ["row"]});
            asked.request.data = Some([("schema".to_owned(), schema)].into_iter().collect());
            return Outcome::Suspended(asked);
        };
        Outcome::Done(ToolResult::ok(answer.data.unwrap()["row"].to_string()))
    });
    let row = |id: &str, row: serde_json::Value| {
        Answer::approve(id).with_data([("row".to_owned(), row)].into_iter().collect())
    };
    let mut stage = Stage::new(catalog, &[call(&[("seat", "{}")]), say("Done.")]);
    // Who is there types nonsense, so the question is one for somebody else.
    stage.agent = stage.agent.wait_for(move |question: toolcell_agent::Question| async move {
        Some(row(&question.request.id, "window".into()))
    });
    let conversation = conversation(&stage, WhilePending::Refuse);
    assert_eq!(conversation.send(SendRequest::text("go")).await.unwrap().status(), RunStatus::Pending);
    let [id] = &ids(&conversation)[..] else { panic!("one question") };
    for bad in [row(id, "x".into()), Answer::approve(id)] {
        let refused = answer(&conversation, vec![bad]).await;
        assert!(matches!(refused, Err(ConversationError::BadAnswer { .. })), "{refused:?}");
        assert_eq!(ids(&conversation).len(), 1);
    }
    let result = answer(&conversation, vec![row(id, 0.into())]).await.unwrap();
    assert_eq!(result.tool_calls[0].ending.result.output, "0");
}

#[tokio::test]
async fn a_conversation_that_is_forgotten_while_it_waits_leaves_nothing_behind() {
    let stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")])]);
    let conversation = conversation(&stage, WhilePending::Refuse);
    let cancel = CancellationToken::new();
    let go = SendRequest { cancel: cancel.clone(), ..SendRequest::text("go") };
    conversation.send(go).await.unwrap();
    let metrics = tokio::runtime::Handle::current().metrics();
    assert!(metrics.num_alive_tasks() > 0, "something looks at the token and the clock");
    drop(conversation);
    settle().await;
    assert_eq!(metrics.num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_lapses_while_another_call_works_is_closed_at_that_moment() {
    let catalog = FakeCatalog::default().with("late", |_| async { lapsing("Now?", Duration::from_secs(60)) }).with(
        "slow",
        |_| async {
            tokio::time::sleep(Duration::from_secs(120)).await;
            Outcome::Done(ToolResult::ok("slept"))
        },
    );
    let mut stage = Stage::new(catalog, &[call(&[("slow", "{}"), ("late", "{}")]), say("Done.")]);
    stage.agent = stage.agent.with_clock(paused_clock());
    let conversation = conversation(&stage, WhilePending::Refuse);
    let sent = tokio::spawn({
        let (conversation, events) = (conversation.clone(), stage.sink());
        async move { conversation.send(SendRequest { events, ..SendRequest::text("go") }).await.unwrap() }
    });
    tokio::time::sleep(Duration::from_secs(59)).await;
    let [id] = &ids(&conversation)[..] else { panic!("one question") };
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(ids(&conversation).is_empty(), "the other call still works");
    let late = answer(&conversation, vec![Answer::approve(id)]).await;
    assert!(matches!(late, Err(ConversationError::Conflict { .. })), "{late:?}");
    assert_eq!(sent.await.unwrap().tool_calls[1].ending.code, Some(FailureCode::Expired));
    let answered = |event: &RunEvent| matches!(event, RunEvent::Answered { ok: true, .. });
    assert!(!stage.events.lock().unwrap().iter().any(answered), "nobody said yes");
}

/// A conversation whose run waits for one answer, and the question's id.
async fn waiting(stage: &Stage) -> (Conversation, String) {
    let conversation = conversation(stage, WhilePending::Refuse);
    let events = stage.sink();
    let go = SendRequest { events, ..SendRequest::text("go") };
    assert_eq!(conversation.send(go).await.unwrap().status(), RunStatus::Pending);
    let [id] = &ids(&conversation)[..] else { panic!("one question") };
    let id = id.clone();
    (conversation, id)
}

/// A token that is cancelled.
fn cancelled() -> CancellationToken {
    let token = CancellationToken::new();
    token.cancel();
    token
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_a_cancelled_token_never_runs_the_tool() {
    // Often, as it is a race with the tool.
    for _ in 0..200 {
        let stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")])]);
        let (conversation, id) = waiting(&stage).await;
        let ended = conversation.answer(vec![Answer::approve(&id)], Arc::new(NoEvents), cancelled()).await.unwrap();
        assert_eq!((ended.status(), stage.times_called("gpu")), (RunStatus::Cancelled, 1));
    }
}

#[tokio::test]
async fn the_token_of_an_answer_ends_the_run_at_once_and_later() {
    for (is_again, waits_again) in [(false, true), (false, false), (true, false)] {
        let Gates(catalog, [first_door, _]) = gates();
        let stage = Stage::new(catalog, &[call(&BOTH_GATES)]);
        let conversation = conversation(&stage, WhilePending::Refuse);
        conversation.send(SendRequest::text("go")).await.unwrap();
        let [first, _] = &ids(&conversation)[..] else { panic!("two questions") };
        if is_again {
            let earlier = conversation.clone();
            let yes = vec![Answer::approve(first)];
            tokio::spawn(async move { answer(&earlier, yes).await });
            settle().await;
        }
        let token = CancellationToken::new();
        let answered = tokio::spawn({
            let (conversation, yes, token) = (conversation.clone(), vec![Answer::approve(first)], token.clone());
            async move { conversation.answer(yes, Arc::new(NoEvents), token).await.unwrap() }
        });
        if waits_again {
            first_door.notify_one();
        }
        settle().await;
        assert_eq!(answered.is_finished(), waits_again);
        token.cancel();
        settle().await;
        assert!(ids(&conversation).is_empty(), "again: {is_again}, waits: {waits_again}");
        assert!(is_balanced(&conversation.history().messages));
        assert_eq!(conversation.history().messages.len(), 3);
    }
}

#[tokio::test]
async fn an_answer_that_is_told_again_is_told_the_end_of_its_own_run() {
    let replies = [call(&[("gpu", "{}")]), say("First."), say("Second."), call(&[("gpu", "{}")])];
    let stage = Stage::new(FakeCatalog::default().with_gpu(), &replies);
    let (conversation, id) = waiting(&stage).await;
    let yes = || vec![Answer::approve(&id)];
    let first = answer(&conversation, yes()).await.unwrap();
    conversation.send(SendRequest::text("more")).await.unwrap();
    assert!(Arc::ptr_eq(&answer(&conversation, yes()).await.unwrap(), &first), "a later run has ended");
    let third = conversation.send(SendRequest::text("and more")).await.unwrap();
    assert_eq!(third.status(), RunStatus::Pending);
    assert!(Arc::ptr_eq(&answer(&conversation, yes()).await.unwrap(), &first), "a later run waits");
    let no = answer(&conversation, vec![Answer::decline(&id, "declined")]).await;
    assert!(matches!(no, Err(ConversationError::Conflict { .. })));
    assert_eq!(ids(&conversation).len(), 1, "the later run still waits");
}

#[tokio::test]
async fn only_the_last_runs_are_remembered() {
    let turns = (0..6).flat_map(|_| [call(&[("gpu", "{}")]), say("Done.")]);
    let stage = Stage::new(FakeCatalog::default().with_gpu(), &turns.collect::<Vec<_>>());
    let conversation = conversation(&stage, WhilePending::Refuse);
    let mut answered = Vec::new();
    for _ in 0..6 {
        let id = conversation.send(SendRequest::text("go")).await.unwrap().pending().unwrap().id.clone();
        answered.push((id.clone(), answer(&conversation, vec![Answer::approve(id)]).await.unwrap()));
    }
    for (age, (id, end)) in answered.iter().rev().enumerate() {
        let again = answer(&conversation, vec![Answer::approve(id)]).await;
        match age {
            0..4 => assert!(Arc::ptr_eq(&again.unwrap(), end)),
            _ => assert!(matches!(again, Err(ConversationError::NothingAsked)), "{age}: {again:?}"),
        }
    }
}

#[tokio::test]
async fn an_answer_to_a_run_that_ended_in_a_panic_is_told_so_when_it_comes_again() {
    let catalog = FakeCatalog::default().with("bug", |call| async move {
        assert!(call.context.answer.is_none(), "a bug of the native tool");
        suspended("Go on?")
    });
    let stage = Stage::new(catalog, &[call(&[("bug", "{}")])]);
    let (conversation, id) = waiting(&stage).await;
    for _ in 0..2 {
        let ended = answer(&conversation, vec![Answer::approve(&id)]).await;
        assert!(matches!(ended, Err(ConversationError::Panicked)), "{ended:?}");
    }
    assert!(conversation.history().messages.is_empty() && ids(&conversation).is_empty());
}

#[tokio::test]
async fn questions_have_ids_of_the_hosts_own_whatever_the_catalogue_says() {
    let catalog = FakeCatalog::default().with("same", |call| async move {
        let Outcome::Suspended(mut asked) = suspended("Again?") else { unreachable!() };
        asked.request.id = "pnd-1".into();
        match call.context.answer {
            None => Outcome::Suspended(asked),
            Some(_) => Outcome::Done(ToolResult::ok("ran")),
        }
    });
    let stage = Stage::new(catalog, &[call(&[("same", "{}"), ("same", "{}")]), say("Done.")]);
    let conversation = conversation(&stage, WhilePending::Refuse);
    conversation.send(SendRequest::text("go")).await.unwrap();
    let [one, two] = &ids(&conversation)[..] else { panic!("two questions") };
    assert!(one != two && one != "pnd-1" && two != "pnd-1");
    let half = answer(&conversation, vec![Answer::approve(one)]).await.unwrap();
    assert_eq!((half.status(), stage.times_called("same")), (RunStatus::Pending, 3));
    conversation.abandon().await.unwrap();
    let Message::Tool { replies } = &conversation.history().messages[2] else { panic!("no result") };
    let outputs: Vec<_> = replies.iter().map(|reply| reply.result.output.as_str()).collect();
    assert_eq!(outputs, ["ran", "declined/expired: Again?"]);
}

#[tokio::test]
async fn whoever_listens_is_told_until_the_run_rests_and_let_go_then() {
    let replies = [call(&[("gpu", "{}")]), say("Done.")];
    let stage = Stage::new(FakeCatalog::default().with_gpu(), &replies);
    let conversation = conversation(&stage, WhilePending::Refuse);
    let told = Arc::new(Mutex::new(Vec::new()));
    // It holds what it listens to, as a program's own object would.
    let listener = |name: &'static str| -> Arc<dyn toolcell_agent::EventSink> {
        let (told, _conversation) = (Arc::clone(&told), conversation.clone());
        Arc::new(move |event| {
            let _ = &_conversation;
            told.lock().unwrap().push((name, event));
        })
    };
    let (first, second) = (listener("first"), listener("second"));
    let gone = [Arc::downgrade(&first), Arc::downgrade(&second)];
    conversation.send(SendRequest { events: first, ..SendRequest::text("go") }).await.unwrap();
    assert_eq!(gone[0].strong_count(), 0, "the run rests");
    let yes = vec![Answer::approve(&ids(&conversation)[0])];
    conversation.answer(yes, second, CancellationToken::new()).await.unwrap();
    assert_eq!(gone[1].strong_count(), 0, "the run has ended");

    let told = told.lock().unwrap();
    let ends: Vec<_> = told
        .iter()
        .filter_map(|(name, event)| match event {
            RunEvent::Done { status } => Some((*name, *status)),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [("first", RunStatus::Pending), ("second", RunStatus::Done)]);
    let last_of_first = told.iter().rposition(|(name, _)| *name == "first").unwrap();
    let first_of_second = told.iter().position(|(name, _)| *name == "second").unwrap();
    assert!(last_of_first < first_of_second);
    assert!(matches!(told[first_of_second].1, RunEvent::Answered { ok: true, .. }));
}

#[tokio::test]
async fn who_answers_while_the_run_works_is_told_too_also_with_an_answer_that_came_before() {
    let Gates(catalog, doors) = gates();
    let stage = Stage::new(catalog, &[call(&BOTH_GATES), say("Both are open.")]);
    let conversation = conversation(&stage, WhilePending::Refuse);
    conversation.send(SendRequest::text("go")).await.unwrap();
    let [first, second] = &ids(&conversation)[..] else { panic!("two questions") };
    let texts: [Arc<Mutex<Vec<String>>>; 3] = Default::default();
    let mut answered = tokio::task::JoinSet::new();
    for (id, texts) in [first, second, first].into_iter().zip(&texts) {
        let (conversation, yes, texts) = (conversation.clone(), vec![Answer::approve(id)], Arc::clone(texts));
        answered.spawn(async move {
            let sink = move |event| {
                if let RunEvent::Text { text } = event {
                    texts.lock().unwrap().push(text);
                }
            };
            conversation.answer(yes, Arc::new(sink), CancellationToken::new()).await.unwrap()
        });
        settle().await;
    }
    doors.iter().for_each(|door| door.notify_one());
    answered.join_all().await;
    for texts in texts {
        assert_eq!(*texts.lock().unwrap(), ["", "Both are open."][1..]);
    }
}

#[tokio::test]
async fn a_message_behind_a_run_that_panics_has_its_turn() {
    let catalog = FakeCatalog::default().with("bug", |_| async { panic!("a bug of the native tool") });
    let stage = Stage::new(catalog, &[call(&[("bug", "{}")]), say("Second.")]);
    let conversation = conversation(&stage, WhilePending::Queue);
    let first = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.send(SendRequest::text("first")).await.map(drop) }
    });
    let second = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.send(SendRequest::text("second")).await.unwrap().text.clone() }
    });
    assert!(matches!(first.await.unwrap(), Err(ConversationError::Panicked)));
    assert_eq!(second.await.unwrap(), "Second.");
    assert_eq!(said(&conversation.history().messages), ["second"]);
}

#[tokio::test]
async fn a_question_of_a_run_that_panicked_is_closed() {
    let catalog = FakeCatalog::default().with_gpu().with("bug", |_| async {
        settle().await;
        panic!("a bug of the native tool")
    });
    let stage = Stage::new(catalog, &[call(&[("gpu", "{}"), ("bug", "{}")])]);
    let conversation = conversation(&stage, WhilePending::Refuse);
    let asked = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&asked);
    let events = Arc::new(move |event| {
        if let RunEvent::Pending { request, .. } = event {
            *seen.lock().unwrap() = Some(request.id);
        }
    });
    let ended = conversation.send(SendRequest { events, ..SendRequest::text("go") }).await;
    assert!(matches!(ended, Err(ConversationError::Panicked)));
    let id = asked.lock().unwrap().take().unwrap();
    assert!(conversation.questions().is_empty());
    assert!(matches!(answer(&conversation, vec![Answer::approve(id)]).await, Err(ConversationError::NothingAsked)));
}

#[test]
fn a_run_whose_runtime_is_shut_down_is_cut_off_and_one_that_waits_can_be_answered_from_another() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let catalog = FakeCatalog::default().with_gpu().with("stuck", |_| std::future::pending());
    let stage = Stage::new(catalog, &[call(&[("gpu", "{}")]), say("Done."), call(&[("stuck", "{}")])]);
    let (conversation, id) = runtime().block_on(waiting(&stage));
    let other = runtime();
    let result = other.block_on(answer(&conversation, vec![Answer::approve(id)])).unwrap();
    assert_eq!(result.text, "Done.");
    let stuck = other.spawn({
        let conversation = conversation.clone();
        async move { conversation.send(SendRequest::text("more")).await.map(drop) }
    });
    other.block_on(settle());
    assert!(matches!(conversation.questions()[..], []));
    drop(other);
    drop(stuck);
    assert_eq!(conversation.history().messages.len(), 4, "the run that was cut off is not in it");
    let third = runtime().block_on(conversation.abandon());
    assert!(third.unwrap().is_none(), "it is free");
}
