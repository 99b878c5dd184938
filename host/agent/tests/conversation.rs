//! Conversations: one history over many runs, and messages that come too early.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{FakeCatalog, Reply, Stage, call, say};
use tokio_util::sync::CancellationToken;
use toolcell_agent::{
    Conversation, ConversationError, ConversationOptions, Conversations, Message, NoEvents, QUEUE_MAX, RunError,
    RunResult, RunStatus, SendRequest, WhilePending, is_balanced,
};
use toolcell_contract::{Answer, ContentPart};

fn conversation(stage: &Stage, while_pending: WhilePending) -> Conversation {
    let options = ConversationOptions { while_pending, ..ConversationOptions::default() };
    Conversation::new(stage.agent.clone(), options).unwrap()
}

async fn answer(conversation: &Conversation, answers: Vec<Answer>) -> Result<RunResult, ConversationError> {
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

    let result = answer(&conversation, vec![Answer::approve(&question.id)]).await.unwrap();
    assert_eq!((result.status(), result.text.as_str()), (RunStatus::Done, "Done."));
    assert!(is_balanced(&conversation.history()));
    let again = answer(&conversation, vec![Answer::approve(&question.id)]).await;
    assert!(matches!(again, Err(ConversationError::NothingAsked)));
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
        tokio::spawn(async move { conversation.send(SendRequest::text(text)).await.unwrap().text })
    };
    let second = send("second");
    tokio::task::yield_now().await;
    let third = send("third");
    tokio::time::sleep(Duration::from_millis(20)).await;
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
        async move { conversation.send(SendRequest::text("third")).await.unwrap().text }
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
    tokio::time::sleep(Duration::from_millis(20)).await;
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
