//! Conversations: one history over many runs, and messages that come too early.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use support::{FakeCatalog, FakeModel, Reply, Stage, call, say, suspended};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolcell_agent::{
    Agent, Conversation, ConversationError, ConversationOptions, Conversations, Message, NoEvents, QUEUE_MAX, RunEnd,
    RunError, RunEvent, RunResult, RunStatus, SendRequest, WhilePending, is_balanced,
};
use toolcell_contract::{Answer, ContentPart, FailureCode, Outcome, ToolResult};

fn conversation(stage: &Stage, while_pending: WhilePending) -> Conversation {
    let options = ConversationOptions { while_pending, ..ConversationOptions::default() };
    Conversation::new(stage.agent.clone(), options).unwrap()
}

async fn answer(conversation: &Conversation, answers: Vec<Answer>) -> Result<Arc<RunResult>, ConversationError> {
    conversation.answer(answers, Arc::new(NoEvents), CancellationToken::new()).await
}

/// What the person has said, in order.
fn said(messages: &[Message]) -> Vec<String> {
    let text = |message: &Message| match message {
        Message::User { content } => match content.as_slice() {
            [ContentPart::Text(text)] => Some(text.clone()),
            other => panic!("{other:?}"),
        },
        _ => None,
    };
    messages.iter().filter_map(text).collect()
}

#[tokio::test]
async fn each_message_goes_on_from_what_was_said_before() {
    let stage =
        Stage::new(FakeCatalog::default().with_echo(), &[say("Hello."), call(&[("echo", "{}")]), say("There.")]);
    let conversation = conversation(&stage, WhilePending::Refuse);
    conversation.send(SendRequest::text("one")).await.unwrap();
    let result = conversation.send(SendRequest::text("two")).await.unwrap();
    assert_eq!(result.text, "There.");
    assert_eq!(said(&conversation.history()), ["one", "two"]);
    // 2 of the person, 3 turns, 1 with results.
    assert_eq!(conversation.history().len(), 6);
    assert_eq!(stage.model.sent.lock().unwrap()[1].len(), 3);
}

#[tokio::test]
async fn a_history_goes_on_in_another_process() {
    let stage = Stage::new(FakeCatalog::default(), &[say("Hello."), say("Still here.")]);
    let first = conversation(&stage, WhilePending::Refuse);
    first.send(SendRequest::text("one")).await.unwrap();
    let saved = serde_json::to_string(&first.history()).unwrap();
    let options = ConversationOptions { history: serde_json::from_str(&saved).unwrap(), ..Default::default() };
    let second = Conversation::new(stage.agent.clone(), options).unwrap();
    second.send(SendRequest::text("two")).await.unwrap();
    assert_eq!(said(&second.history()), ["one", "two"]);
    assert_ne!(first.id(), second.id());
}

#[tokio::test]
async fn a_history_that_no_provider_takes_is_refused() {
    let stage = Stage::new(FakeCatalog::default(), &[]);
    let options = ConversationOptions { history: vec![Message::Tool { replies: vec![] }], ..Default::default() };
    assert!(matches!(Conversation::new(stage.agent, options), Err(RunError::Unbalanced)));
}

#[tokio::test]
async fn a_message_while_a_call_waits_is_refused_and_the_answer_goes_on() {
    let stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")]), say("Done."), say("Yes?")]);
    let conversation = conversation(&stage, WhilePending::Refuse);
    assert_eq!(conversation.send(SendRequest::text("go")).await.unwrap().status(), RunStatus::Pending);
    let refused = conversation.send(SendRequest::text("hurry")).await.unwrap_err();
    assert!(refused.to_string().contains("Use the gpu?"), "{refused}");
    let [question] = &conversation.questions()[..] else { panic!("one question") };

    let stray = answer(&conversation, vec![Answer::approve("pnd-x")]).await.unwrap_err();
    assert!(matches!(stray, ConversationError::UnknownQuestion { .. }));
    assert_eq!(conversation.questions().len(), 1, "it still waits");

    let result = answer(&conversation, vec![Answer::approve(&question.request.id)]).await.unwrap();
    assert_eq!((result.status(), result.text.as_str()), (RunStatus::Done, "Done."));
    assert!(is_balanced(&conversation.history()));
    let again = answer(&conversation, vec![Answer::approve(&question.request.id)]).await.unwrap();
    assert!(Arc::ptr_eq(&again, &result), "the same answer again changes nothing");
    let other = answer(&conversation, vec![Answer::decline(&question.request.id, "declined")]).await;
    assert!(matches!(other, Err(ConversationError::Conflict { .. })));
    let stray = answer(&conversation, vec![Answer::approve("pnd-x")]).await;
    assert!(matches!(stray, Err(ConversationError::NothingAsked)));
    conversation.send(SendRequest::text("more")).await.unwrap();
    assert_eq!(said(&conversation.history()), ["go", "more"]);
}

#[tokio::test]
async fn messages_while_a_call_waits_are_answered_afterwards_in_their_order() {
    let replies = [call(&[("gpu", "{}")]), say("Done."), say("Second."), say("Third.")];
    let stage = Stage::new(FakeCatalog::default().with_gpu(), &replies);
    let conversation = conversation(&stage, WhilePending::Queue);
    let waiting = conversation.send(SendRequest::text("first")).await.unwrap();
    let send = |text: &'static str| {
        let conversation = conversation.clone();
        tokio::spawn(async move { conversation.send(SendRequest::text(text)).await.unwrap().text.clone() })
    };
    let second = send("second");
    settle().await;
    let third = send("third");
    settle().await;
    assert!(!second.is_finished() && !third.is_finished());
    answer(&conversation, vec![Answer::approve(&waiting.pending().unwrap().id)]).await.unwrap();
    assert_eq!((second.await.unwrap().as_str(), third.await.unwrap().as_str()), ("Second.", "Third."));
    assert_eq!(said(&conversation.history()), ["first", "second", "third"]);
}

#[tokio::test]
async fn who_gives_up_waiting_gives_up_his_place() {
    let stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")]), say("Done."), say("Third.")]);
    let conversation = conversation(&stage, WhilePending::Queue);
    let waiting = conversation.send(SendRequest::text("first")).await.unwrap();
    let given_up = tokio::time::timeout(Duration::from_millis(10), conversation.send(SendRequest::text("second")));
    assert!(given_up.await.is_err());
    let third = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.send(SendRequest::text("third")).await.unwrap().text.clone() }
    });
    tokio::task::yield_now().await;
    answer(&conversation, vec![Answer::approve(&waiting.pending().unwrap().id)]).await.unwrap();
    assert_eq!(third.await.unwrap(), "Third.");
    assert_eq!(said(&conversation.history()), ["first", "third"]);
}

#[tokio::test]
async fn no_more_than_so_many_wait() {
    let stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")])]);
    let conversation = conversation(&stage, WhilePending::Queue);
    conversation.send(SendRequest::text("first")).await.unwrap();
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..QUEUE_MAX {
        let conversation = conversation.clone();
        waiting.spawn(async move { conversation.send(SendRequest::text("more")).await.map(drop) });
    }
    settle().await;
    assert!(matches!(conversation.send(SendRequest::text("x")).await, Err(ConversationError::QueueFull)));
}

#[tokio::test]
async fn a_run_goes_on_when_its_caller_goes_away() {
    let catalog = FakeCatalog::default().with("slow", |_| async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        toolcell_contract::Outcome::Done(toolcell_contract::ToolResult::ok("slept"))
    });
    let stage = Stage::new(catalog, &[call(&[("slow", "{}")]), say("Done.")]);
    let conversation = conversation(&stage, WhilePending::Refuse);
    let sent = tokio::time::timeout(Duration::from_millis(10), conversation.send(SendRequest::text("go")));
    assert!(sent.await.is_err());
    assert!(matches!(conversation.send(SendRequest::text("now?")).await, Err(ConversationError::Running)));
    while conversation.history().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(conversation.history().len(), 4);
}

#[tokio::test]
async fn a_run_that_fails_leaves_a_history_that_can_go_on() {
    let cut = [Reply::CutOff("Hel"), say("Hello.")];
    let stage = Stage::new(FakeCatalog::default(), &cut);
    let conversation = conversation(&stage, WhilePending::Refuse);
    assert_eq!(conversation.send(SendRequest::text("one")).await.unwrap().status(), RunStatus::Failed);
    assert_eq!(conversation.send(SendRequest::text("two")).await.unwrap().text, "Hello.");
    assert_eq!(said(&conversation.history()), ["one", "two"]);
}

#[tokio::test]
async fn a_panic_of_the_program_frees_the_conversation() {
    let stage = Stage::new(FakeCatalog::default(), &[say("Hello."), say("Hello again.")]);
    let conversation = conversation(&stage, WhilePending::Refuse);
    let events = Arc::new(|_| panic!("a bug of the sink"));
    let failed = conversation.send(SendRequest { events, ..SendRequest::text("one") }).await;
    assert!(matches!(failed, Err(ConversationError::Panicked)));
    assert_eq!(conversation.send(SendRequest::text("two")).await.unwrap().text, "Hello again.");
}

#[tokio::test]
async fn a_conversation_is_found_by_its_id() {
    let stage = Stage::new(FakeCatalog::default(), &[say("Hello.")]);
    let conversations = Conversations::default();
    let id = conversations.add(conversation(&stage, WhilePending::Refuse));
    conversations.get(&id).unwrap().send(SendRequest::text("one")).await.unwrap();
    assert_eq!(conversations.get(&id).unwrap().history().len(), 2);
    assert!(conversations.remove(&id).is_some());
    assert!(conversations.get(&id).is_none());
}

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

fn ids(conversation: &Conversation) -> Vec<String> {
    conversation.questions().into_iter().map(|question| question.request.id).collect()
}

/// Lets everything else go on as far as it can.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

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
    assert_eq!(conversation.history().len(), 4);
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
        assert!(is_balanced(&conversation.history()));
        assert_eq!(conversation.history().len(), 3, "the message, the calls and their results");
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
    assert!(is_balanced(&conversation.history()));
    assert_eq!(conversation.send(SendRequest::text("third")).await.unwrap().text, "Third.");
}

#[tokio::test]
async fn a_message_can_be_taken_back_while_it_waits_for_its_turn() {
    let stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")]), say("Done.")]);
    let conversation = conversation(&stage, WhilePending::Queue);
    conversation.send(SendRequest::text("first")).await.unwrap();
    let cancel = CancellationToken::new();
    let second = tokio::spawn({
        let (conversation, cancel) = (conversation.clone(), cancel.clone());
        async move { conversation.send(SendRequest { cancel, ..SendRequest::text("second") }).await }
    });
    settle().await;
    cancel.cancel();
    assert!(matches!(second.await.unwrap(), Err(ConversationError::Cancelled)));
    answer(&conversation, vec![Answer::approve(&ids(&conversation)[0])]).await.unwrap();
    assert_eq!(said(&conversation.history()), ["first"]);
}

#[tokio::test]
async fn a_question_that_lapses_while_nobody_looks_lets_the_run_go_on() {
    let catalog = FakeCatalog::default().with("late", |_| async {
        let Outcome::Suspended(mut suspension) = suspended("Now?") else { unreachable!() };
        let soon = time::OffsetDateTime::now_utc() + Duration::from_millis(500);
        suspension.request.expires_at = Some(soon.format(&time::format_description::well_known::Rfc3339).unwrap());
        Outcome::Suspended(suspension)
    });
    let stage = Stage::new(catalog, &[call(&[("late", "{}")]), say("Too late."), say("Next.")]);
    let conversation = conversation(&stage, WhilePending::Queue);
    assert_eq!(conversation.send(SendRequest::text("first")).await.unwrap().status(), RunStatus::Pending);
    // It waits for its turn, which comes although nobody answers.
    assert_eq!(conversation.send(SendRequest::text("second")).await.unwrap().text, "Next.");
    let Message::Tool { replies } = &conversation.history()[2] else { panic!("no result") };
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
async fn what_is_left_out_stays_left_out_from_message_to_message_and_in_another_process() {
    let long: &'static str = String::leak("word ".repeat(2_000));
    let replies = vec![say(long); 14];
    let mut model = FakeModel::new(&replies);
    Arc::get_mut(&mut model).unwrap().window = Some(20_000);
    let mut stage = Stage::new(FakeCatalog::default(), &[]);
    stage.agent = Agent::new(model.clone(), stage.catalog.clone());
    let (mut conversation, mut cuts) = (conversation(&stage, WhilePending::Refuse), 0);
    for number in 0..14 {
        let events = stage.sink();
        conversation.send(SendRequest { events, ..SendRequest::text(format!("question {number}")) }).await.unwrap();
        let options = ConversationOptions {
            history: conversation.history(),
            window: serde_json::from_value(serde_json::to_value(conversation.window()).unwrap()).unwrap(),
            ..ConversationOptions::default()
        };
        conversation = Conversation::new(stage.agent.clone(), options).unwrap();
        cuts += stage.events.lock().unwrap().drain(..).filter(|e| matches!(e, RunEvent::Compacted { .. })).count();
    }
    assert!((1..=5).contains(&cuts), "{cuts} cuts in 14 messages");
    assert_eq!(said(&conversation.history()).len(), 14, "the history is whole");
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
