//! Conversations: one history over many runs, and messages that come too early.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use support::talk::{answer, conversation, ids, said, settle};
use support::{FakeCatalog, FakeModel, Reply, Stage, call, say};
use tokio_util::sync::CancellationToken;
use toolcell_agent::{
    Agent, Conversation, ConversationError, ConversationOptions, Conversations, Message, NotAdded, QUEUE_MAX, RunError,
    RunEvent, RunStatus, SendRequest, WhilePending, is_balanced,
};
use toolcell_contract::Answer;

#[tokio::test]
async fn each_message_goes_on_from_what_was_said_before() {
    let stage =
        Stage::new(FakeCatalog::default().with_echo(), &[say("Hello."), call(&[("echo", "{}")]), say("There.")]);
    let conversation = conversation(&stage, WhilePending::Refuse);
    conversation.send(SendRequest::text("one")).await.unwrap();
    let result = conversation.send(SendRequest::text("two")).await.unwrap();
    assert_eq!(result.text, "There.");
    assert_eq!(said(&conversation.history().messages), ["one", "two"]);
    // 2 of the person, 3 turns, 1 with results.
    assert_eq!(conversation.history().messages.len(), 6);
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
    assert_eq!(said(&second.history().messages), ["one", "two"]);
    assert_ne!(first.id(), second.id());
}

#[tokio::test]
async fn a_history_that_no_provider_takes_is_refused() {
    let stage = Stage::new(FakeCatalog::default(), &[]);
    let options = ConversationOptions { history: vec![Message::Tool { replies: vec![] }].into(), ..Default::default() };
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
    assert!(is_balanced(&conversation.history().messages));
    let again = answer(&conversation, vec![Answer::approve(&question.request.id)]).await.unwrap();
    assert!(Arc::ptr_eq(&again, &result), "the same answer again changes nothing");
    let other = answer(&conversation, vec![Answer::decline(&question.request.id, "declined")]).await;
    assert!(matches!(other, Err(ConversationError::Conflict { .. })));
    let stray = answer(&conversation, vec![Answer::approve("pnd-x")]).await;
    assert!(matches!(stray, Err(ConversationError::NothingAsked)));
    conversation.send(SendRequest::text("more")).await.unwrap();
    assert_eq!(said(&conversation.history().messages), ["go", "more"]);
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
    assert_eq!(said(&conversation.history().messages), ["first", "second", "third"]);
}

#[tokio::test(start_paused = true)]
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
    assert_eq!(said(&conversation.history().messages), ["first", "third"]);
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

#[tokio::test(start_paused = true)]
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
    while conversation.history().messages.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(conversation.history().messages.len(), 4);
}

#[tokio::test]
async fn a_run_that_fails_leaves_a_history_that_can_go_on() {
    let cut = [Reply::CutOff("Hel"), say("Hello.")];
    let stage = Stage::new(FakeCatalog::default(), &cut);
    let conversation = conversation(&stage, WhilePending::Refuse);
    assert_eq!(conversation.send(SendRequest::text("one")).await.unwrap().status(), RunStatus::Failed);
    assert_eq!(conversation.send(SendRequest::text("two")).await.unwrap().text, "Hello.");
    assert_eq!(said(&conversation.history().messages), ["one", "two"]);
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
    let id = conversations.add(conversation(&stage, WhilePending::Refuse)).unwrap();
    conversations.get(&id).unwrap().send(SendRequest::text("one")).await.unwrap();
    assert_eq!(conversations.get(&id).unwrap().history().messages.len(), 2);
    assert!(conversations.remove(&id).is_some());
    assert!(conversations.get(&id).is_none());
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
    assert_eq!(said(&conversation.history().messages), ["first"]);
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
            history: serde_json::from_value(serde_json::to_value(conversation.history()).unwrap()).unwrap(),
            ..ConversationOptions::default()
        };
        conversation = Conversation::new(stage.agent.clone(), options).unwrap();
        cuts += stage.events.lock().unwrap().drain(..).filter(|e| matches!(e, RunEvent::Compacted { .. })).count();
    }
    assert!((1..=5).contains(&cuts), "{cuts} cuts in 14 messages");
    assert_eq!(said(&conversation.history().messages).len(), 14, "the history is whole");
}

#[tokio::test]
async fn no_more_conversations_are_kept_than_was_said_and_none_takes_the_place_of_another() {
    let stage = Stage::new(FakeCatalog::default(), &[]);
    let named = |id: &str| {
        let options = ConversationOptions { id: Some(id.to_owned()), ..ConversationOptions::default() };
        Conversation::new(stage.agent.clone(), options).unwrap()
    };
    let conversations = Conversations::at_most(NonZeroUsize::new(2).unwrap());
    assert_eq!(conversations.add(named("one")), Ok("one".to_owned()));
    assert_eq!(conversations.add(named("one")), Err(NotAdded::Taken("one".to_owned())));
    conversations.add(named("two")).unwrap();
    assert!(matches!(conversations.add(named("three")), Err(NotAdded::Full(_))));
    conversations.remove("one").unwrap();
    assert_eq!(conversations.add(named("three")), Ok("three".to_owned()));
}

#[tokio::test]
async fn a_message_that_is_taken_back_at_once_leaves_no_trace() {
    for while_pending in [WhilePending::Refuse, WhilePending::Queue] {
        let stage = Stage::new(FakeCatalog::default(), &[]);
        let conversation = conversation(&stage, while_pending);
        let cancel = CancellationToken::new();
        cancel.cancel();
        let sent = conversation.send(SendRequest { cancel, ..SendRequest::text("no") }).await;
        assert!(matches!(sent, Err(ConversationError::Cancelled)));
        assert!(conversation.history().messages.is_empty());
    }
}

#[tokio::test]
async fn the_model_is_given_the_standing_instructions_with_every_message() {
    let stage = Stage::new(FakeCatalog::default(), &[say("Aye."), say("Aye aye.")]);
    let options = ConversationOptions { system: Some("Talk like a sailor.".into()), ..Default::default() };
    let conversation = Conversation::new(stage.agent.clone(), options).unwrap();
    conversation.send(SendRequest::text("one")).await.unwrap();
    conversation.send(SendRequest::text("two")).await.unwrap();
    assert_eq!(
        *stage.model.systems.lock().unwrap(),
        [Some("Talk like a sailor.".to_owned()), Some("Talk like a sailor.".to_owned())]
    );
}

#[tokio::test]
async fn who_comes_while_others_stand_in_line_stands_behind_them_although_the_conversation_is_free() {
    let replies = [call(&[("gpu", "{}")]), say("First."), say("Second."), say("Third.")];
    let stage = Stage::new(FakeCatalog::default().with_gpu(), &replies);
    let conversation = conversation(&stage, WhilePending::Queue);
    conversation.send(SendRequest::text("first")).await.unwrap();
    let second = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.send(SendRequest::text("second")).await.unwrap().text.clone() }
    });
    settle().await;
    answer(&conversation, vec![Answer::approve(&ids(&conversation)[0])]).await.unwrap();
    // The run has ended, and the second message has not yet been woken.
    let third = conversation.send(SendRequest::text("third")).await.unwrap();
    assert_eq!((second.await.unwrap().as_str(), third.text.as_str()), ("Second.", "Third."));
    assert_eq!(said(&conversation.history().messages), ["first", "second", "third"]);
}
