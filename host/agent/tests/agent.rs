//! The loop with a scripted model and tools that are closures: what runs, in which order, and what the model is told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use support::{FakeCatalog, Reply, Stage, call, lapsing, paused_clock, say, suspended};
use toolcell_agent::{
    Approve, Asker, Budget, CallEnding, Message, ModelError, Question, RunEnd, RunError, RunEvent, RunLimit,
    RunRequest, RunStatus, StopReason, is_balanced,
};
use toolcell_contract::{Answer, Failure, FailureCode, Outcome, ToolResult};

fn ending(output: &str, code: FailureCode) -> CallEnding {
    CallEnding { result: ToolResult::error(output).with_metadata("code", code.as_str()), code: Some(code) }
}

async fn approve(question: Question) -> Option<Answer> {
    Some(Answer::approve(question.request.id))
}

async fn decline(question: Question) -> Option<Answer> {
    Some(Answer::decline(question.request.id, "declined"))
}

#[tokio::test]
async fn a_model_that_calls_nothing_is_done_at_once() {
    let stage = Stage::new(FakeCatalog::default(), &[say("hello")]);
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert_eq!((result.status(), result.text.as_str(), result.turns), (RunStatus::Done, "hello", 1));
    assert_eq!(result.usage.total(), 15);
}

#[tokio::test(start_paused = true)]
async fn results_go_back_in_call_order_although_calls_run_at_the_same_time() {
    let catalog = FakeCatalog::default().with("slow", |call| async move {
        let first = call.arguments.contains('1');
        tokio::time::sleep(Duration::from_millis(if first { 60 } else { 1 })).await;
        Outcome::Done(ToolResult::ok(call.arguments))
    });
    let turn = call(&[("slow", r#"{"n":1}"#), ("slow", r#"{"n":2}"#), ("slow", r#"{"n":3}"#)]);
    let stage = Stage::new(catalog, &[turn, say("all three")]);
    let result = stage.agent.run(stage.request()).await.unwrap();
    let outputs: Vec<_> = result.tool_calls.iter().map(|record| record.ending.result.output.as_str()).collect();
    assert_eq!(outputs, [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#]);
    assert!(is_balanced(&result.messages));
    let finished: Vec<_> = stage
        .events
        .lock()
        .unwrap()
        .iter()
        .filter_map(|event| match event {
            RunEvent::ToolResult { result, .. } => Some(result.output.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(finished.last().unwrap(), r#"{"n":1}"#, "the slow one ends last");
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_run_at_once_than_the_budget_allows() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, peak) = (Arc::clone(&now), Arc::clone(&most));
    let catalog = FakeCatalog::default().with("busy", move |_| {
        let (now, most) = (Arc::clone(&counted), Arc::clone(&peak));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Outcome::Done(ToolResult::ok(""))
        }
    });
    let mut stage = Stage::new(catalog, &[call(&[("busy", "{}"); 9]), say("done")]);
    let budget = Budget { calls_at_once_max: NonZeroUsize::new(2).unwrap(), ..Budget::default() };
    stage.agent = stage.agent.with_budget(budget);
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert_eq!((result.tool_calls.len(), most.load(Ordering::SeqCst)), (9, 2));
}

#[tokio::test]
async fn what_cannot_run_goes_back_to_the_model_as_a_result() {
    let turn = call(&[("nothing", "{}"), ("echo", r#"{"n":"x"}"#), ("echo", "{"), ("echo", "")]);
    let stage = Stage::new(FakeCatalog::default().with_echo(), &[turn, say("sorry")]);
    let result = stage.agent.run(stage.request()).await.unwrap();
    let endings: Vec<_> = result.tool_calls.iter().map(|record| record.ending.clone()).collect();
    assert_eq!(endings[0], Failure::with_detail(FailureCode::UnknownTool, "the tools are: echo").into());
    let wrong_type = Failure::with_detail(FailureCode::InvalidArguments, "/n: \"x\" is not of type \"integer\"");
    assert_eq!(endings[1], wrong_type.into());
    assert_eq!(endings[2].code, Some(FailureCode::InvalidArguments));
    assert_eq!(endings[3], ToolResult::ok("{}").into());
    assert_eq!(stage.times_called("echo"), 1, "only the last one reached the tool");
    assert_eq!(result.status(), RunStatus::Done);
}

#[tokio::test]
async fn a_yes_runs_the_tool_once_more_and_the_run_is_done() {
    let mut stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", r#"{"n":1}"#)]), say("ready")]);
    stage.agent = stage.agent.wait_for(approve);
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert_eq!((result.status(), result.turns), (RunStatus::Done, 2));
    assert_eq!(result.tool_calls[0].ending, ToolResult::ok("approved: gpu").into());
    let calls = stage.catalog.calls.lock().unwrap();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].arguments, calls[1].arguments);
    assert_eq!(calls[0].context.call_id, calls[1].context.call_id, "the same call");
    assert_eq!(calls[1].context.state.as_deref(), Some(&b"state"[..]));
}

#[tokio::test]
async fn a_no_is_an_error_result_and_the_run_goes_on() {
    let mut stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")]), say("then not")]);
    stage.agent = stage.agent.wait_for(decline);
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert_eq!(result.status(), RunStatus::Done);
    assert_eq!(result.tool_calls[0].ending, ending("declined/expired: Use the gpu?", FailureCode::Declined));
    assert_eq!(stage.times_called("gpu"), 1, "it did not run again");
    assert!(result.pending().is_none());
}

#[tokio::test]
async fn a_tool_that_asks_again_is_unresolved() {
    let catalog = FakeCatalog::default().with("nag", |_| async { suspended("And now?") });
    let mut stage = Stage::new(catalog, &[call(&[("nag", "{}")]), say("stuck")]);
    stage.agent = stage.agent.wait_for(approve);
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert_eq!(result.tool_calls[0].ending, ending("unresolved: And now?", FailureCode::Unresolved));
    assert_eq!((stage.times_called("nag"), result.status()), (2, RunStatus::Done));
}

#[tokio::test(start_paused = true)]
async fn a_question_that_lapses_while_it_is_asked_is_expired() {
    let catalog = FakeCatalog::default().with("late", |_| async { lapsing("Now?", Duration::from_secs(3_600)) });
    let mut stage = Stage::new(catalog, &[call(&[("late", "{}")]), say("too late")]);
    stage.agent = stage.agent.with_clock(paused_clock()).wait_for(|_| std::future::pending());
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert_eq!(result.tool_calls[0].ending, ending("declined/expired: Now?", FailureCode::Expired));
}

#[tokio::test]
async fn the_person_sees_what_the_host_recorded() {
    let (sent, mut seen) = tokio::sync::mpsc::channel(1);
    let mut stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", r#"{"n":7}"#)]), say("")]);
    stage.agent = stage.agent.wait_for(move |question: Question| {
        let sent = sent.clone();
        async move {
            sent.send(question.clone()).await.unwrap();
            approve(question).await
        }
    });
    stage.agent.run(stage.request()).await.unwrap();
    let question = seen.recv().await.unwrap();
    assert_eq!((question.tool.as_str(), question.arguments), ("gpu", serde_json::json!({"n": 7})));
}

#[tokio::test]
async fn with_nobody_there_the_run_waits_and_every_answer_runs_its_own_call() {
    let turn = call(&[("gpu", r#"{"n":1}"#), ("echo", r#"{"n":2}"#), ("gpu", r#"{"n":3}"#)]);
    let stage = Stage::new(FakeCatalog::default().with_gpu().with_echo(), &[turn, say("ready")]);
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert_eq!(result.status(), RunStatus::Pending);
    let ids: Vec<_> = result.pendings().map(|request| request.id.clone()).collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(result.pending().unwrap().id, ids[0]);
    let ended: Vec<_> = result.tool_calls.iter().map(|record| record.request.name.as_str()).collect();
    assert_eq!(ended, ["echo"], "what ended beside an open call is not lost");
    let run = result.into_suspended().expect("it waits");

    let cancel = tokio_util::sync::CancellationToken::new;
    let answers = vec![Answer::decline(&ids[1], "declined")];
    let result = stage.agent.resume(run, answers, stage.sink(), cancel()).await.unwrap();
    assert_eq!(result.pendings().map(|request| request.id.as_str()).collect::<Vec<_>>(), [ids[0].as_str()]);
    assert_eq!(stage.model.sent.lock().unwrap().len(), 1, "the model is not asked while a call waits");
    let run = result.into_suspended().expect("it waits");

    let stray = stage.agent.resume(run, vec![Answer::approve("pnd-other")], stage.sink(), cancel()).await;
    let Err(RunError::UnknownQuestion { id, run }) = stray else { panic!("a foreign answer was taken") };
    assert_eq!(id, "pnd-other");

    let answers = vec![Answer::approve(&ids[0])];
    let result = stage.agent.resume(*run, answers, stage.sink(), cancel()).await.unwrap();
    assert_eq!(result.status(), RunStatus::Done);
    let outputs: Vec<_> = result.tool_calls.iter().map(|record| record.ending.result.output.as_str()).collect();
    assert_eq!(outputs, ["approved: gpu", r#"{"n":2}"#, "declined/expired: Use the gpu?"]);
    assert_eq!((stage.times_called("gpu"), stage.times_called("echo")), (3, 1), "nothing ran twice by itself");
}

#[tokio::test]
async fn an_answer_to_another_question_leaves_the_call_open() {
    let mut stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")])]);
    stage.agent = stage.agent.wait_for(|_| async { Some(Answer::approve("pnd-other")) });
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert_eq!((result.status(), stage.times_called("gpu")), (RunStatus::Pending, 1));
}

#[tokio::test]
async fn a_tool_under_approval_runs_only_after_a_yes() {
    for (yes, times) in [(true, 1), (false, 0)] {
        let mut stage =
            Stage::new(FakeCatalog::default().with_echo(), &[call(&[("echo", r#"{"n":1}"#)]), say("ready")]);
        stage.agent = stage.agent.with_approval(Approve::Always).wait_for(move |question: Question| async move {
            assert_eq!((question.asker, question.request.prompt.as_str()), (Asker::Policy, "Run echo?"));
            assert_eq!(question.arguments, serde_json::json!({"n": 1}));
            let id = question.request.id;
            Some(if yes { Answer::approve(id) } else { Answer::decline(id, "declined") })
        });
        let result = stage.agent.run(stage.request()).await.unwrap();
        assert_eq!((result.status(), stage.times_called("echo")), (RunStatus::Done, times));
        let ending = &result.tool_calls[0].ending;
        assert_eq!(ending.code, (!yes).then_some(FailureCode::Declined));
    }
}

#[tokio::test]
async fn a_tool_under_approval_may_still_ask_its_own_question() {
    let mut stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")]), say("ready")]);
    stage.agent = stage.agent.with_approval(Approve::Destructive).wait_for(approve);
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert_eq!(result.tool_calls[0].ending, ToolResult::ok("approved: gpu").into());
    assert_eq!(stage.times_called("gpu"), 2);
}

#[tokio::test]
async fn a_stream_that_breaks_off_runs_nothing() {
    let stage = Stage::new(FakeCatalog::default().with_echo(), &[Reply::CutOff("half a sen")]);
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert!(matches!(result.end, RunEnd::Failed(ModelError::Truncated)), "{:?}", result.end);
    assert_eq!(result.messages, vec![Message::user("go")]);
}

#[tokio::test]
async fn a_call_that_the_output_limit_cut_off_does_not_run() {
    for arguments in ["", r#"{"n":"#] {
        let calls = vec![("echo", r#"{"n":1}"#), ("echo", arguments)];
        let cut = Reply::Turn { text: "", calls, stop: StopReason::Length };
        let stage = Stage::new(FakeCatalog::default().with_echo(), &[cut, say("again")]);
        let result = stage.agent.run(stage.request()).await.unwrap();
        let codes: Vec<_> = result.tool_calls.iter().map(|record| record.ending.code).collect();
        assert_eq!(codes, [None, Some(FailureCode::InvalidArguments)], "{arguments:?}");
    }
}

#[tokio::test]
async fn calls_of_a_turn_that_was_refused_do_not_run() {
    let refused = Reply::Turn { text: "I can't", calls: vec![("echo", "{}")], stop: StopReason::Refused };
    let stage = Stage::new(FakeCatalog::default().with_echo(), &[refused]);
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert!(matches!(result.end, RunEnd::Failed(ModelError::Withheld)), "{:?}", result.end);
    assert_eq!(stage.times_called("echo"), 0);
    assert!(is_balanced(&result.messages));
}

#[tokio::test]
async fn an_answer_cut_off_by_the_output_limit_is_incomplete() {
    let cut = Reply::Turn { text: "once upon", calls: Vec::new(), stop: StopReason::Length };
    let stage = Stage::new(FakeCatalog::default(), &[cut]);
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert!(matches!(result.end, RunEnd::Incomplete(RunLimit::Tokens)), "{:?}", result.end);
    assert_eq!(result.text, "once upon");
}

#[tokio::test]
async fn an_answer_that_paused_is_one_text_with_what_follows() {
    let pause = Reply::Turn { text: "once upon ", calls: Vec::new(), stop: StopReason::Paused };
    let stage = Stage::new(FakeCatalog::default(), &[pause, say("a time")]);
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert_eq!((result.text.as_str(), result.turns), ("once upon a time", 2));
}

#[tokio::test]
async fn the_budget_ends_a_run_that_goes_on_for_ever() {
    let turns = Budget { turns_max: NonZeroU32::new(2).unwrap(), ..Budget::default() };
    let tokens = Budget { tokens_max: NonZeroU64::new(30), ..Budget::default() };
    for (budget, limit) in [(turns, RunLimit::Turns), (tokens, RunLimit::Tokens)] {
        let again = call(&[("echo", "{}")]);
        let mut stage = Stage::new(FakeCatalog::default().with_echo(), &[again.clone(), again]);
        stage.agent = stage.agent.with_budget(budget);
        let result = stage.agent.run(stage.request()).await.unwrap();
        assert!(matches!(result.end, RunEnd::Incomplete(seen) if seen == limit), "{:?}", result.end);
        assert!(is_balanced(&result.messages));
        assert_eq!((result.turns, stage.times_called("echo")), (2, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_says_nothing_ends_the_run_when_its_time_is_over() {
    let mut stage = Stage::new(FakeCatalog::default(), &[Reply::Silent]);
    stage.agent = stage.agent.with_budget(Budget { time_max: Duration::from_secs(60), ..Budget::default() });
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert!(matches!(result.end, RunEnd::Incomplete(RunLimit::Time)), "{:?}", result.end);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_never_ends_ends_with_the_time_of_the_run() {
    let catalog = FakeCatalog::default().with("stuck", |_| std::future::pending());
    let mut stage = Stage::new(catalog, &[call(&[("stuck", "{}")])]);
    stage.agent = stage.agent.with_budget(Budget { time_max: Duration::from_secs(60), ..Budget::default() });
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert!(matches!(result.end, RunEnd::Incomplete(RunLimit::Time)), "{:?}", result.end);
    assert_eq!(result.tool_calls[0].ending.code, Some(FailureCode::Timeout));
    assert!(is_balanced(&result.messages));
}

#[tokio::test(start_paused = true)]
async fn no_call_begins_when_the_time_of_the_run_is_over() {
    let catalog = FakeCatalog::default().with("stuck", |_| std::future::pending()).with_echo();
    let calls: Vec<_> = [("stuck", "{}"); 2].into_iter().chain([("echo", "{}"); 7]).collect();
    let mut stage = Stage::new(catalog, &[call(&calls)]);
    let calls_at_once_max = 2.try_into().unwrap();
    let budget = Budget { time_max: Duration::from_secs(60), calls_at_once_max, ..Budget::default() };
    stage.agent = stage.agent.with_budget(budget);
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert!(matches!(result.end, RunEnd::Incomplete(RunLimit::Time)), "{:?}", result.end);
    assert_eq!((stage.times_called("stuck"), stage.times_called("echo")), (2, 0), "those that waited for a place");
    assert!(result.tool_calls.iter().all(|record| record.ending.code == Some(FailureCode::Timeout)));
    assert!(is_balanced(&result.messages));
}

#[tokio::test]
async fn what_the_policy_asks_lapses_like_every_question() {
    // Rule R22: a question ends after a day unless something else is said.
    let mut stage = Stage::new(FakeCatalog::default().with_echo(), &[call(&[("echo", "{}")])]);
    stage.agent = stage.agent.with_approval(toolcell_agent::Approve::Always);
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert!(result.pending().unwrap().expires_at.is_some(), "{:?}", result.pending());
}

#[tokio::test]
async fn a_run_is_for_its_tenant_also_when_it_is_resumed() {
    let stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")]), say("ready")]);
    let tenant: toolcell_agent::Tenant = "acme".parse().unwrap();
    let result = stage.agent.run(RunRequest { tenant: tenant.clone(), ..stage.request() }).await.unwrap();
    let yes = Answer::approve(&result.pending().unwrap().id);
    let run = result.into_suspended().unwrap();
    stage.agent.resume(run, vec![yes], stage.sink(), tokio_util::sync::CancellationToken::new()).await.unwrap();
    let calls = stage.catalog.calls.lock().unwrap();
    assert_eq!(calls.iter().map(|call| &call.tenant).collect::<Vec<_>>(), [&tenant, &tenant]);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_person_is_not_the_time_of_the_run() {
    let mut stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")]), say("ready")]);
    stage.agent = stage.agent.with_budget(Budget { time_max: Duration::from_secs(60), ..Budget::default() });
    stage.agent = stage.agent.wait_for(|question: Question| async {
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        approve(question).await
    });
    let result = stage.agent.run(stage.request()).await.unwrap();
    assert_eq!(result.status(), RunStatus::Done);
}

#[tokio::test]
async fn calls_beyond_the_limit_of_a_turn_are_busy() {
    let stage = Stage::new(FakeCatalog::default().with_echo(), &[call(&[("echo", "{}"); 18]), say("fewer")]);
    let result = stage.agent.run(stage.request()).await.unwrap();
    let busy = result.tool_calls.iter().filter(|record| record.ending.code == Some(FailureCode::Busy)).count();
    assert_eq!((stage.times_called("echo"), busy), (16, 2));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_ends_its_calls_and_stays_balanced() {
    let catalog = FakeCatalog::default().with_gpu().with("stuck", |_| std::future::pending());
    let mut stage = Stage::new(catalog, &[call(&[("stuck", "{}"), ("gpu", "{}")])]);
    stage.agent = stage.agent.wait_for(|_| std::future::pending());
    let request = stage.request();
    let cancel = request.cancel.clone();
    let running = stage.agent.run(request);
    let cancelling = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(running, cancelling);
    let result = result.unwrap();
    assert_eq!(result.status(), RunStatus::Cancelled);
    let codes: Vec<_> = result.tool_calls.iter().map(|record| record.ending.code).collect();
    assert_eq!(codes, [Some(FailureCode::Cancelled); 2]);
    assert!(is_balanced(&result.messages));
}

#[tokio::test]
async fn a_run_that_waits_and_is_cancelled_ends_its_open_calls() {
    let turn = call(&[("gpu", r#"{"n":1}"#), ("gpu", r#"{"n":2}"#)]);
    let stage = Stage::new(FakeCatalog::default().with_gpu(), &[turn]);
    let waiting = stage.agent.run(stage.request()).await.unwrap();
    let yes = vec![Answer::approve(&waiting.pending().unwrap().id)];
    let cancel = tokio_util::sync::CancellationToken::new();
    cancel.cancel();
    let run = waiting.into_suspended().unwrap();
    let result = stage.agent.resume(run, yes, stage.sink(), cancel).await.unwrap();
    assert_eq!(result.status(), RunStatus::Cancelled);
    assert_eq!(result.tool_calls.len(), 2);
    assert!(result.tool_calls.iter().all(|record| record.ending.code == Some(FailureCode::Cancelled)));
    assert!(is_balanced(&result.messages));
    assert_eq!(stage.times_called("gpu"), 2, "nothing runs any more");
}

#[tokio::test]
async fn a_run_that_is_cancelled_beside_an_open_question_does_not_wait_for_it() {
    let catalog = FakeCatalog::default().with_gpu().with("stuck", |_| std::future::pending());
    let stage = Stage::new(catalog, &[call(&[("gpu", "{}"), ("stuck", "{}")])]);
    let request = stage.request();
    let cancel = request.cancel.clone();
    let cancelling = async {
        tokio::task::yield_now().await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(stage.agent.run(request), cancelling);
    assert_eq!(result.unwrap().status(), RunStatus::Cancelled);
}

#[tokio::test]
async fn two_answers_to_one_question_run_its_call_once_or_not_at_all() {
    // OpenRouterTeam/typescript-sdk#518: an id twice in the list ran twice, an id in both lists ran and was rejected.
    let stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")]), say("ready")]);
    let waiting = stage.agent.run(stage.request()).await.unwrap();
    let id = waiting.pending().unwrap().id.clone();
    let (run, cancel) = (waiting.into_suspended().unwrap(), tokio_util::sync::CancellationToken::new());
    let both = vec![Answer::approve(&id), Answer::decline(&id, "declined")];
    let refused = stage.agent.resume(run, both, stage.sink(), cancel.clone()).await;
    let Err(RunError::Conflict { run, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(stage.times_called("gpu"), 1);
    let twice = vec![Answer::approve(&id), Answer::approve(&id)];
    stage.agent.resume(*run, twice, stage.sink(), cancel).await.unwrap();
    assert_eq!(stage.times_called("gpu"), 2);
}

#[tokio::test]
async fn an_unbalanced_conversation_is_refused_before_the_model_is_asked() {
    let stage = Stage::new(FakeCatalog::default(), &[]);
    let request = RunRequest::conversation(vec![Message::Tool { replies: Vec::new() }]);
    assert!(matches!(stage.agent.run(request).await, Err(RunError::Unbalanced)));
}

#[tokio::test]
async fn a_result_in_json_has_the_keys_of_a_run() {
    let stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")])]);
    let result = stage.agent.run(stage.request()).await.unwrap();
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(json["status"], "pending");
    assert_eq!(json["pending"], json["pendings"][0]);
    assert_eq!(json["pending"]["prompt"], "Use the gpu?");
    assert_eq!(json["model"], "fake");
    assert_eq!(json["usage"], serde_json::json!({"inputTokens": 10, "outputTokens": 5}));

    let mut stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", r#"{"n":1}"#)]), say("ok")]);
    stage.agent = stage.agent.wait_for(approve);
    let json = serde_json::to_value(stage.agent.run(stage.request()).await.unwrap()).unwrap();
    let mut record = json["toolCalls"][0].clone();
    assert!(record["callId"].as_str().unwrap().starts_with("run-"));
    record.as_object_mut().unwrap().remove("callId");
    let expected = serde_json::json!({
        "name": "gpu", "arguments": {"n": 1}, "output": "approved: gpu", "isError": false, "durationMs": 6,
    });
    assert_eq!(record, expected);
}
