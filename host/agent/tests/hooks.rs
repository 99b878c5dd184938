//! Hooks: each power of each, in which order they are asked, and what they never see.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _, pending, ready};
use serde_json::{Value, json};
use support::{FakeCatalog, Stage, call, say};
use time::format_description::well_known::Rfc3339;
use time::{Duration as Span, OffsetDateTime};
use tokio_util::sync::CancellationToken;
use toolcell_agent::{
    AfterModel, AfterTool, Asker, BeforeModel, BeforeTool, Budget, CallEnding, CallRecord, Conversation,
    ConversationError, ConversationOptions, Hooks, Message, ModelReply, PlannedCall, Prompt, Question, ReplyEdit,
    RestartCause, RunEnd, RunEvent, RunLimit, RunRequest, RunResult, RunStatus, SendRequest, SentPrompt, is_balanced,
};
use toolcell_contract::limits::{
    ERROR_OUTPUT_BYTES_MAX, METADATA_BYTES_MAX, OUTPUT_BYTES_MAX, PARTS_MAX, PROMPT_CHARS_MAX, REQUEST_DATA_BYTES_MAX,
};
use toolcell_contract::{Answer, ContentPart, Failure, FailureCode, Object, Outcome, Request, ToolResult};

type BeforeModelRule = Box<dyn Fn(Prompt<'_>) -> BeforeModel + Send + Sync>;
type AfterModelRule = Box<dyn Fn(&ModelReply) -> AfterModel + Send + Sync>;
type BeforeToolRule = Box<dyn Fn(PlannedCall<'_>) -> BeforeTool + Send + Sync>;
type AfterToolRule = Box<dyn Fn(CallRecord) -> AfterTool + Send + Sync>;

/// Hooks that are closures; without one, the default of the trait.
#[derive(Default)]
struct Rules {
    before_model: Option<BeforeModelRule>,
    after_model: Option<AfterModelRule>,
    before_tool: Option<BeforeToolRule>,
    after_tool: Option<AfterToolRule>,
}

impl Hooks for Rules {
    fn before_model<'a>(&'a self, prompt: Prompt<'a>) -> BoxFuture<'a, BeforeModel> {
        ready(self.before_model.as_ref().map_or(BeforeModel::Send, |rule| rule(prompt))).boxed()
    }

    fn after_model<'a>(&'a self, reply: &'a ModelReply) -> BoxFuture<'a, AfterModel> {
        ready(self.after_model.as_ref().map_or(AfterModel::Keep, |rule| rule(reply))).boxed()
    }

    fn before_tool<'a>(&'a self, call: PlannedCall<'a>) -> BoxFuture<'a, BeforeTool> {
        ready(self.before_tool.as_ref().map_or(BeforeTool::Run, |rule| rule(call))).boxed()
    }

    fn after_tool<'a>(&'a self, record: &'a CallRecord) -> BoxFuture<'a, AfterTool> {
        ready(self.after_tool.as_ref().map_or(AfterTool::Keep, |rule| rule(record.clone()))).boxed()
    }
}

fn before_model(rule: impl Fn(Prompt<'_>) -> BeforeModel + Send + Sync + 'static) -> Rules {
    Rules { before_model: Some(Box::new(rule)), ..Rules::default() }
}

fn after_model(rule: impl Fn(&ModelReply) -> AfterModel + Send + Sync + 'static) -> Rules {
    Rules { after_model: Some(Box::new(rule)), ..Rules::default() }
}

fn before_tool(rule: impl Fn(PlannedCall<'_>) -> BeforeTool + Send + Sync + 'static) -> Rules {
    Rules { before_tool: Some(Box::new(rule)), ..Rules::default() }
}

fn after_tool(rule: impl Fn(CallRecord) -> AfterTool + Send + Sync + 'static) -> Rules {
    Rules { after_tool: Some(Box::new(rule)), ..Rules::default() }
}

/// One call of `tool` with `{"n": 1}`, then the end.
fn stage(catalog: FakeCatalog, tool: &'static str, hooks: Vec<Rules>) -> Stage {
    let mut stage = Stage::new(catalog, &[call(&[(tool, r#"{"n":1}"#)]), say("done")]);
    for rules in hooks {
        stage.agent = stage.agent.with_hooks(rules);
    }
    stage
}

async fn run(stage: &Stage) -> RunResult {
    stage.agent.run(stage.request()).await.unwrap()
}

fn object(value: Value) -> Object {
    let Value::Object(object) = value else { panic!("no object") };
    object
}

fn forbidden(reason: &str) -> CallEnding {
    Failure::with_detail(FailureCode::Forbidden, reason).into()
}

fn lines() -> (Arc<Mutex<Vec<String>>>, impl Fn(String) + Clone + Send + Sync + 'static) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    (lines, move |line| kept.lock().unwrap().push(line))
}

#[tokio::test]
async fn what_a_hook_hides_is_not_sent_and_stays_in_the_transcript() {
    let (seen, note) = lines();
    let hide = before_model(|prompt| {
        assert_eq!(prompt.messages, [Message::user("go")]);
        BeforeModel::SendInstead(SentPrompt::new(Some("be kind".into()), vec![Message::user("***")]).unwrap())
    });
    let next = before_model(move |prompt| {
        note(format!("{:?} {} tools", prompt.system, prompt.tools.len()));
        assert_eq!(prompt.messages, [Message::user("***")]);
        BeforeModel::Send
    });
    let mut stage = Stage::new(FakeCatalog::default().with_echo(), &[say("hello")]);
    stage.agent = stage.agent.with_hooks(hide).with_hooks(next);
    let result = run(&stage).await;
    assert_eq!(*stage.model.sent.lock().unwrap(), [vec![Message::user("***")]]);
    assert_eq!(result.messages[0], Message::user("go"));
    assert_eq!(*seen.lock().unwrap(), [r#"Some("be kind") 1 tools"#]);
}

#[tokio::test]
async fn a_hook_stops_the_run_before_the_model_is_asked() {
    let stop = before_model(|_| BeforeModel::Stop { reason: "out of hours".into() });
    let stage = stage(FakeCatalog::default(), "none", vec![stop]);
    let result = run(&stage).await;
    assert!(matches!(&result.end, RunEnd::Stopped { reason } if reason == "out of hours"), "{:?}", result.end);
    assert_eq!((result.status(), stage.model.sent.lock().unwrap().len()), (RunStatus::Failed, 0));
    assert_eq!(serde_json::to_value(&result).unwrap()["error"], "out of hours");
}

fn is_void_as(expected: RestartCause) -> impl Fn(&RunEvent) -> bool {
    move |event| matches!(event, RunEvent::Restarted { cause, .. } if *cause == expected)
}

#[tokio::test]
async fn a_changed_text_is_the_one_that_counts() {
    let hide =
        after_model(|reply| AfterModel::Edit(ReplyEdit::default().with_text(reply.turn.text.replace("42", "**"))));
    let next = after_model(|reply| {
        assert_eq!(reply.turn.text, "it is **");
        AfterModel::Keep
    });
    let mut stage = Stage::new(FakeCatalog::default(), &[say("it is 42")]);
    stage.agent = stage.agent.with_hooks(hide).with_hooks(next);
    let result = run(&stage).await;
    let Message::Assistant(turn) = &result.messages[1] else { panic!("no turn") };
    assert_eq!((result.text.as_str(), turn.text.as_str()), ("it is **", "it is **"));
    // Whoever shows events forgets the text up to `Restarted`.
    let events = stage.events.lock().unwrap();
    let told = events.iter().rposition(is_void_as(RestartCause::Changed)).unwrap();
    assert_eq!(events[told + 1], RunEvent::Text { text: "it is **".into() });
    assert!(matches!(events[told + 2], RunEvent::Usage { .. }));
}

#[tokio::test]
async fn a_dropped_call_never_was_and_a_denied_one_gets_its_reason() {
    let judge = after_model(|reply| match reply.turn.calls.as_slice() {
        [first, second, ..] => {
            AfterModel::Edit(ReplyEdit::default().drop_call(&first.id).deny_call(&second.id, "not this one"))
        }
        _ => AfterModel::Keep,
    });
    let turn = call(&[("echo", r#"{"n":1}"#), ("echo", r#"{"n":2}"#), ("echo", r#"{"n":3}"#)]);
    let mut stage = Stage::new(FakeCatalog::default().with_echo(), &[turn, say("done")]);
    stage.agent = stage.agent.with_hooks(judge);
    let result = run(&stage).await;
    let endings: Vec<_> = result.tool_calls.iter().map(|record| record.ending.clone()).collect();
    assert_eq!(endings, [forbidden("not this one"), ToolResult::ok(r#"{"n":3}"#).into()]);
    let Message::Assistant(turn) = &result.messages[1] else { panic!("no turn") };
    assert_eq!((turn.calls.len(), stage.times_called("echo")), (2, 1));
}

#[tokio::test]
async fn an_answer_that_a_hook_withholds_is_counted_but_not_kept() {
    let mut stage = Stage::new(FakeCatalog::default(), &[say("a bad thing")]);
    stage.agent = stage.agent.with_hooks(after_model(|_| AfterModel::Stop { reason: "unfit".into() }));
    let result = run(&stage).await;
    assert!(matches!(&result.end, RunEnd::Stopped { reason } if reason == "unfit"), "{:?}", result.end);
    assert_eq!((result.usage.total(), result.text.as_str()), (15, ""));
    assert_eq!(result.messages, [Message::user("go")]);
    assert!(stage.events.lock().unwrap().iter().any(is_void_as(RestartCause::Withheld)));
}

#[tokio::test]
async fn the_tool_runs_with_the_arguments_that_a_hook_put_in_place() {
    let (seen, note) = lines();
    let replace = before_tool(|call| {
        assert_eq!((call.tool.definition.name.as_str(), call.arguments), ("echo", &json!({"n": 1})));
        BeforeTool::RunWith(object(json!({"n": 2})))
    });
    let next = before_tool(move |call| {
        note(call.arguments.to_string());
        BeforeTool::Run
    });
    let stage = stage(FakeCatalog::default().with_echo(), "echo", vec![replace, next]);
    let result = run(&stage).await;
    let record = &result.tool_calls[0];
    assert_eq!(record.ending, ToolResult::ok(r#"{"n":2}"#).into());
    assert_eq!((record.request.arguments.as_str(), &record.replaced_arguments), (r#"{"n":1}"#, &Some(json!({"n": 2}))));
    assert_eq!(serde_json::to_value(record).unwrap()["replacedArguments"], json!({"n": 2}));
    assert_eq!(*seen.lock().unwrap(), [r#"{"n":2}"#]);
}

#[tokio::test]
async fn replaced_arguments_are_checked_as_the_models_are() {
    let replace = before_tool(|_| BeforeTool::RunWith(object(json!({"n": "two"}))));
    let stage = stage(FakeCatalog::default().with_echo(), "echo", vec![replace]);
    let result = run(&stage).await;
    let detail = "/n: \"two\" is not of type \"integer\"";
    assert_eq!(result.tool_calls[0].ending, Failure::with_detail(FailureCode::InvalidArguments, detail).into());
    assert_eq!(stage.times_called("echo"), 0);
}

#[tokio::test]
async fn the_first_hook_that_answers_or_denies_decides() {
    let answer = || before_tool(|_| BeforeTool::Answer(ToolResult::ok("cached")));
    let deny = || before_tool(|_| BeforeTool::Deny { reason: "no".into() });
    let ask = || before_tool(|_| BeforeTool::Suspend(Request::approval("Sure?")));
    let cases = [
        (vec![answer(), deny()], ToolResult::ok("cached").into()),
        (vec![deny(), answer()], forbidden("no")),
        (vec![ask(), deny()], forbidden("no")),
    ];
    for (hooks, ending) in cases {
        let stage = stage(FakeCatalog::default().with_echo(), "echo", hooks);
        let result = run(&stage).await;
        assert_eq!(result.tool_calls[0].ending, ending);
        assert_eq!((result.status(), stage.times_called("echo")), (RunStatus::Done, 0));
        assert!(!stage.events.lock().unwrap().iter().any(|event| matches!(event, RunEvent::Pending { .. })));
    }
}

#[tokio::test]
async fn a_result_of_a_hook_that_looks_like_a_question_is_a_bad_output() {
    let question = || ToolResult::pending(Request::approval("Sure?"));
    let before = before_tool(move |_| BeforeTool::Answer(question()));
    let after = after_tool(move |_| AfterTool::Replace(question()));
    for rules in [before, after] {
        let result = run(&stage(FakeCatalog::default().with_echo(), "echo", vec![rules])).await;
        assert_eq!(result.tool_calls[0].ending.code, Some(FailureCode::BadOutput));
        assert!(result.pending().is_none());
    }
}

#[tokio::test]
async fn after_a_yes_to_a_hook_the_tool_runs_once_and_knows_of_no_answer() {
    let (asked, note) = lines();
    let ask = before_tool(move |call| {
        note(call.call_id.to_owned());
        BeforeTool::Suspend(Request::approval("Sure?").with_id("mine"))
    });
    let mut stage = stage(FakeCatalog::default().with_echo(), "echo", vec![ask]);
    stage.agent = stage.agent.wait_for(|question: Question| async move {
        assert_eq!((question.asker, question.tool.as_str()), (Asker::Hook, "echo"));
        assert!(question.request.id.starts_with("pnd-"), "the id is the host's");
        Some(Answer::approve(question.request.id))
    });
    let result = run(&stage).await;
    assert_eq!(result.tool_calls[0].ending, ToolResult::ok(r#"{"n":1}"#).into());
    assert_eq!(*asked.lock().unwrap(), [result.tool_calls[0].call_id.as_str()], "the hook is asked once");
    let calls = stage.catalog.calls.lock().unwrap();
    assert_eq!((calls.len(), &calls[0].context.answer, &calls[0].context.state), (1, &None, &None));
}

#[tokio::test]
async fn after_a_no_to_a_hook_the_tool_does_not_run() {
    let ask = before_tool(|_| BeforeTool::Suspend(Request::approval("Sure?")));
    let mut stage = stage(FakeCatalog::default().with_echo(), "echo", vec![ask]);
    stage.agent =
        stage.agent.wait_for(|question: Question| async { Some(Answer::decline(question.request.id, "declined")) });
    let result = run(&stage).await;
    let record = &result.tool_calls[0];
    assert_eq!((record.ending.code, stage.times_called("echo")), (Some(FailureCode::Declined), 0));
    assert_eq!(record.ending.result.output, "declined/expired: Sure?");
}

#[tokio::test]
async fn every_hook_may_ask_and_then_the_tool_its_own_question() {
    let (asked, note) = lines();
    let first = before_tool(|_| BeforeTool::Suspend(Request::approval("First?")));
    let change = before_tool(|_| BeforeTool::RunWith(object(json!({"n": 9}))));
    let second = before_tool(|_| BeforeTool::Suspend(Request::approval("Second?")));
    let mut stage = stage(FakeCatalog::default().with_gpu(), "gpu", vec![first, change, second]);
    stage.agent = stage.agent.wait_for(move |question: Question| {
        note(format!("{:?} {} {}", question.asker, question.request.prompt, question.arguments));
        async move { Some(Answer::approve(question.request.id)) }
    });
    let result = run(&stage).await;
    assert_eq!(result.tool_calls[0].ending, ToolResult::ok("approved: gpu").into());
    let expected = [r#"Hook First? {"n":9}"#, r#"Hook Second? {"n":9}"#, r#"Tool Use the gpu? {"n":9}"#];
    assert_eq!(*asked.lock().unwrap(), expected, "whoever is asked sees what will run");
}

#[tokio::test]
async fn a_question_of_a_hook_waits_and_goes_on_in_an_agent_without_it() {
    let ask = before_tool(|_| BeforeTool::Suspend(Request::approval("Sure?")));
    let stage = stage(FakeCatalog::default().with_echo(), "echo", vec![ask]);
    let result = run(&stage).await;
    assert_eq!((result.status(), stage.times_called("echo")), (RunStatus::Pending, 0));
    let id = result.pending().unwrap().id.clone();
    let waiting = result.into_suspended().expect("it waits");

    let elsewhere = toolcell_agent::Agent::new(stage.model.clone(), stage.catalog.clone());
    let cancel = CancellationToken::new();
    let result = elsewhere.resume(waiting, vec![Answer::approve(id)], stage.sink(), cancel).await.unwrap();
    assert_eq!((result.status(), stage.times_called("echo")), (RunStatus::Done, 1));
    assert_eq!(stage.catalog.calls.lock().unwrap()[0].context.answer, None);
}

#[tokio::test]
async fn a_hidden_result_is_hidden_from_the_model_the_events_and_the_record() {
    let (seen, note) = lines();
    let hide = after_tool(|_| AfterTool::Replace(ToolResult::ok("***")));
    let next = after_tool(move |record| {
        note(record.ending.result.output);
        AfterTool::Keep
    });
    let stage = stage(FakeCatalog::default().with_echo(), "echo", vec![hide, next]);
    let result = run(&stage).await;
    let hidden = ToolResult::ok("***");
    assert_eq!(result.tool_calls[0].ending, hidden.clone().into());
    let sent = stage.model.sent.lock().unwrap();
    let Some(Message::Tool { replies }) = sent[1].last() else { panic!("no result was sent") };
    assert_eq!(replies[0].result, hidden);
    let events = stage.events.lock().unwrap();
    assert!(events.iter().any(|event| matches!(event, RunEvent::ToolResult { result, .. } if *result == hidden)));
    assert!(!format!("{events:?}").contains(r#"output: "{\"n\":1}"#));
    assert_eq!(*seen.lock().unwrap(), ["***"]);
}

#[tokio::test]
async fn the_code_of_the_host_stays_beside_an_error_and_only_there() {
    let broken = || FakeCatalog::default().with("broken", |_| ready(Outcome::Failed(Failure::new(FailureCode::Trap))));
    for (result, code) in [(ToolResult::error("it broke"), Some(FailureCode::Trap)), (ToolResult::ok("fine"), None)] {
        let replacement = result.clone();
        let hide = after_tool(move |_| AfterTool::Replace(replacement.clone()));
        let ended = run(&stage(broken(), "broken", vec![hide])).await;
        assert_eq!(ended.tool_calls[0].ending, CallEnding { result, code });
    }
}

#[tokio::test]
async fn an_after_hook_sees_every_resolved_result_once_and_no_question() {
    let (seen, note) = lines();
    let watch = after_tool(move |record| {
        assert!(record.ending.result.pending_of().is_none());
        note(format!("{} {}", record.request.name, record.ending.result.output));
        AfterTool::Keep
    });
    let turn = call(&[("gpu", "{}"), ("none", "{}")]);
    let mut stage = Stage::new(FakeCatalog::default().with_gpu(), &[turn, say("done")]);
    stage.agent = stage.agent.with_hooks(watch);
    let result = run(&stage).await;
    let unknown = "none tool error [unknown-tool]: there is no tool of this name\nthe tools are: gpu";
    assert_eq!(*seen.lock().unwrap(), [unknown], "the other call waits");
    let answers = vec![Answer::approve(result.pending().unwrap().id.clone())];
    let waiting = result.into_suspended().expect("it waits");
    stage.agent.resume(waiting, answers, stage.sink(), CancellationToken::new()).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [unknown, "gpu approved: gpu"]);
}

/// Hooks that never come back from the named moment.
struct Stuck(&'static str);

impl Stuck {
    fn at<T: Send + 'static>(&self, moment: &str, otherwise: T) -> BoxFuture<'_, T> {
        if self.0 == moment { pending().boxed() } else { ready(otherwise).boxed() }
    }
}

impl Hooks for Stuck {
    fn before_model<'a>(&'a self, _: Prompt<'a>) -> BoxFuture<'a, BeforeModel> {
        self.at("before-model", BeforeModel::Send)
    }

    fn after_model<'a>(&'a self, _: &'a ModelReply) -> BoxFuture<'a, AfterModel> {
        self.at("after-model", AfterModel::Keep)
    }

    fn before_tool<'a>(&'a self, _: PlannedCall<'a>) -> BoxFuture<'a, BeforeTool> {
        self.at("before-tool", BeforeTool::Run)
    }

    fn after_tool<'a>(&'a self, _: &'a CallRecord) -> BoxFuture<'a, AfterTool> {
        self.at("after-tool", AfterTool::Keep)
    }
}

const MOMENTS: [&str; 4] = ["before-model", "after-model", "before-tool", "after-tool"];

#[tokio::test(start_paused = true)]
async fn cancelling_ends_a_hook_at_once_and_what_it_had_not_let_through_is_withheld() {
    for moment in MOMENTS {
        let mut stage = Stage::new(FakeCatalog::default().with_echo(), &[call(&[("echo", r#"{"n":1}"#)])]);
        stage.agent = stage.agent.with_hooks(Stuck(moment));
        let request = stage.request();
        let cancel = request.cancel.clone();
        let cancelling = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            cancel.cancel();
        };
        let began = tokio::time::Instant::now();
        let (result, ()) = tokio::join!(stage.agent.run(request), cancelling);
        let result = result.unwrap();
        assert!(began.elapsed() < Duration::from_secs(6), "{moment}");
        assert_eq!(result.status(), RunStatus::Cancelled, "{moment}");
        assert!(is_balanced(&result.messages));
        let codes: Vec<_> = result.tool_calls.iter().filter_map(|record| record.ending.code).collect();
        let expected: &[_] = match moment {
            "before-tool" => &[FailureCode::Cancelled],
            // It has run: who is told "cancelled" would run it again.
            "after-tool" => &[FailureCode::Interrupted],
            _ => &[],
        };
        assert_eq!(codes, expected, "{moment}");
        assert!(result.tool_calls.iter().all(|record| !record.ending.result.output.contains(r#"{"n":1}"#)), "{moment}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_hook_is_the_time_of_the_run() {
    for moment in MOMENTS {
        let mut stage = Stage::new(FakeCatalog::default().with_echo(), &[call(&[("echo", r#"{"n":1}"#)])]);
        stage.agent = stage.agent.with_hooks(Stuck(moment));
        stage.agent = stage.agent.with_budget(Budget { time_max: Duration::from_secs(60), ..Budget::default() });
        let result = run(&stage).await;
        assert!(matches!(result.end, RunEnd::Incomplete(RunLimit::Time)), "{moment}: {:?}", result.end);
        let has_run = moment == "after-tool";
        let expected = if has_run { FailureCode::Interrupted } else { FailureCode::Timeout };
        assert!(result.tool_calls.iter().all(|record| record.ending.code == Some(expected)), "{moment}");
        assert!(is_balanced(&result.messages));
    }
}

/// Takes a moment over each result, and notes what it saw.
struct Slow(Arc<Mutex<Vec<String>>>);

impl Hooks for Slow {
    fn after_tool<'a>(&'a self, record: &'a CallRecord) -> BoxFuture<'a, AfterTool> {
        async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.0.lock().unwrap().push(record.ending.result.output.clone());
            AfterTool::Keep
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_has_run_keeps_its_result_although_the_run_is_cancelled_while_a_hook_looks_at_it() {
    let seen = Arc::default();
    let mut stage = Stage::new(FakeCatalog::default().with_echo(), &[call(&[("echo", r#"{"n":1}"#)])]);
    stage.agent = stage.agent.with_hooks(Slow(Arc::clone(&seen)));
    let request = stage.request();
    let cancel = request.cancel.clone();
    let cancelling = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(stage.agent.run(request), cancelling);
    let result = result.unwrap();
    assert_eq!(result.status(), RunStatus::Cancelled);
    assert_eq!(result.tool_calls[0].ending, ToolResult::ok(r#"{"n":1}"#).into());
    assert_eq!(*seen.lock().unwrap(), [r#"{"n":1}"#], "the hook saw it, once");
}

#[tokio::test]
async fn a_question_of_a_hook_is_held_to_the_rules_of_every_question() {
    let ask = || Request::approval("Sure?");
    let long = Object::from_iter([("note".to_owned(), json!("x".repeat(REQUEST_DATA_BYTES_MAX)))]);
    let bad = [
        Request::approval(""),
        Request::approval("x".repeat(PROMPT_CHARS_MAX + 1)),
        Request { expires_at: Some("tomorrow".into()), ..ask() },
        Request { url: Some("file:///etc/passwd".into()), ..ask() },
        Request { data: Some(long), ..ask() },
        Request::input("Which?", json!({"$ref": "https://example.org/schema"})),
    ];
    for request in bad {
        let asked = format!("{request:?}");
        let rules = before_tool(move |_| BeforeTool::Suspend(request.clone()));
        let stage = stage(FakeCatalog::default().with_echo(), "echo", vec![rules]);
        let result = run(&stage).await;
        assert_eq!(result.status(), RunStatus::Done, "{asked}");
        assert_eq!(result.tool_calls[0].ending.code, Some(FailureCode::BadOutput), "{asked}");
        assert_eq!(stage.times_called("echo"), 0);
    }
}

#[tokio::test]
async fn a_question_of_a_hook_lapses_after_a_day_at_the_latest_after_a_week() {
    let now = OffsetDateTime::now_utc();
    let (day, week) = (Span::days(1), Span::weeks(1));
    for (expires_at, expected) in [(None, day), (Some("9999-12-31T23:59:59Z".to_owned()), week)] {
        let rules = before_tool(move |_| {
            BeforeTool::Suspend(Request { expires_at: expires_at.clone(), ..Request::approval("Sure?") })
        });
        let result = run(&stage(FakeCatalog::default().with_echo(), "echo", vec![rules])).await;
        let end = result.pending().unwrap().expires_at.clone().expect("it lapses");
        let end = OffsetDateTime::parse(&end, &Rfc3339).unwrap();
        assert!((end - now - expected).abs() < Span::minutes(1), "{end}");
    }
}

#[tokio::test]
async fn a_result_of_a_hook_is_held_to_the_rules_of_every_result() {
    let png = || ContentPart::from_bytes(vec![7], "image/png").unwrap();
    let bad = [
        (ToolResult::ok("x".repeat(OUTPUT_BYTES_MAX + 1)), FailureCode::OutputTooLarge),
        (ToolResult::ok_with_parts("", vec![png(); PARTS_MAX + 1]), FailureCode::OutputTooLarge),
        (ToolResult::ok("").with_metadata("a", "x".repeat(METADATA_BYTES_MAX)), FailureCode::OutputTooLarge),
        (ToolResult::ok("").with_metadata(ToolResult::PENDING, json!({})), FailureCode::BadOutput),
        (ToolResult::pending(Request::approval("Sure?")), FailureCode::BadOutput),
    ];
    for (result, code) in bad {
        let (answer, replacement) = (result.clone(), result);
        let before = before_tool(move |_| BeforeTool::Answer(answer.clone()));
        let after = after_tool(move |_| AfterTool::Replace(replacement.clone()));
        for rules in [before, after] {
            let result = run(&stage(FakeCatalog::default().with_echo(), "echo", vec![rules])).await;
            assert_eq!(result.tool_calls[0].ending.code, Some(code));
        }
    }
    let long = after_tool(|_| AfterTool::Replace(ToolResult::error("x".repeat(OUTPUT_BYTES_MAX))));
    let result = run(&stage(FakeCatalog::default().with_echo(), "echo", vec![long])).await;
    assert_eq!(result.tool_calls[0].ending.result, ToolResult::error("x".repeat(ERROR_OUTPUT_BYTES_MAX)));
}

#[tokio::test]
async fn shared_hooks_can_be_given_to_several_agents() {
    let (seen, note) = lines();
    let shared: Arc<dyn Hooks> = Arc::new(before_tool(move |call| {
        note(call.tool.definition.name.clone());
        BeforeTool::Run
    }));
    for _ in 0..2 {
        let mut stage = stage(FakeCatalog::default().with_echo(), "echo", Vec::new());
        stage.agent = stage.agent.with_hooks(Arc::clone(&shared));
        run(&stage).await;
    }
    assert_eq!(*seen.lock().unwrap(), ["echo", "echo"]);
}

#[tokio::test]
async fn a_panic_of_a_hook_is_a_panic_of_whoever_awaits_the_run() {
    let broken = || {
        let mut stage = Stage::new(FakeCatalog::default().with_echo(), &[call(&[("echo", r#"{"n":1}"#)])]);
        stage.agent = stage.agent.with_hooks(before_tool(|_| panic!("a bug")));
        stage
    };
    let said = |panic: Box<dyn Any + Send>| *panic.downcast::<&str>().unwrap();

    let stage = broken();
    let run = AssertUnwindSafe(stage.agent.run(stage.request())).catch_unwind().await;
    assert_eq!(said(run.unwrap_err()), "a bug");

    let streamed = AssertUnwindSafe(broken().agent.stream(RunRequest::prompt("go")).result()).catch_unwind().await;
    assert_eq!(said(streamed.unwrap_err()), "a bug");

    let conversation = Conversation::new(broken().agent, ConversationOptions::default()).unwrap();
    let sent = conversation.send(SendRequest::text("go")).await;
    assert!(matches!(sent, Err(ConversationError::Panicked)), "{sent:?}");
    assert!(conversation.history().messages.is_empty());
}
