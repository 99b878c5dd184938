//! One story on every wire, streamed and whole, against a mock of the providers that others wrote: two calls at the same
//! time, an image, an error, a call that waits for a person.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};

use serde_json::json;
use toolcell::contract::{Answer, ToolResult};
use toolcell::model::{ApiKey, BaseUrl, Delivery, Provider, ProviderOptions, vendor_by_name};
use toolcell::{Agent, Message, Question, RunEvent, RunRequest, RunResult, RunStatus};
use toolcell_tests::aimock::{self, Aimock};

mod support;

use support::recorder::Recorder;
use support::{host, schema};

/// A wire: the vendor that speaks it, where the mock serves it, and the schema of its requests.
struct Wire {
    vendor: &'static str,
    path: &'static str,
    schema: &'static str,
}

const CHAT: Wire = Wire { vendor: "openai", path: "v1", schema: schema::OPENAI };
const RESPONSES: Wire = Wire { vendor: "openai-responses", path: "v1", schema: schema::RESPONSES };
const ANTHROPIC: Wire = Wire { vendor: "anthropic", path: "v1", schema: schema::ANTHROPIC };
const GEMINI: Wire = Wire { vendor: "gemini", path: "v1beta", schema: schema::GEMINI };

macro_rules! stories {
    ($($name:ident: $wire:expr, $delivery:expr;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            tell(&$wire, $delivery).await;
        }
    )*};
}

stories! {
    the_story_over_chat_completions: CHAT, Delivery::Streamed;
    the_story_over_chat_completions_whole: CHAT, Delivery::Whole;
    the_story_over_responses: RESPONSES, Delivery::Streamed;
    the_story_over_responses_whole: RESPONSES, Delivery::Whole;
    the_story_over_anthropic: ANTHROPIC, Delivery::Streamed;
    the_story_over_anthropic_whole: ANTHROPIC, Delivery::Whole;
    the_story_over_gemini: GEMINI, Delivery::Streamed;
    the_story_over_gemini_whole: GEMINI, Delivery::Whole;
}

async fn tell(wire: &Wire, delivery: Delivery) {
    let Some(mock) = Aimock::start(&aimock::story()) else { return };
    let recorder = Recorder::start(mock.address()).await;
    let (run, events) = run(wire, delivery, &recorder).await;

    assert_eq!((run.status(), run.turns, run.text.as_str()), (RunStatus::Done, 3, "All done."), "{:?}", run.end);
    let calls: Vec<_> = run.tool_calls.iter().map(|call| (call.request.name.as_str(), &call.ending.result)).collect();
    let [("chart", chart), ("fail", fail), ("gpu", gpu)] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!((chart.output.as_str(), chart.parts.len()), ("a chart of 2 values: t", 1));
    assert_eq!((*fail, *gpu), (&ToolResult::error("the paper ran out"), &ToolResult::ok("approved: gpu")));
    // The same on every wire, whatever the pieces were.
    assert_eq!(
        plot(&events),
        [
            "text I draw and print.",
            "call chart",
            "call fail",
            "result chart",
            "result fail",
            "call gpu",
            "pending gpu",
            "answered gpu",
            "result gpu",
            "text All done.",
            "done",
        ]
    );
    let bodies = recorder.bodies();
    assert_eq!(bodies.len(), 3);
    bodies.iter().for_each(|body| schema::check(wire.schema, body));
    check_second(&bodies[1].to_string());
}

/// What the model hears of the first two calls: the picture as a picture, and that the other failed.
fn check_second(body: &str) {
    assert!(body.contains("iVBORw0KGgo"), "the image is not sent: {body}");
    assert!(!body.contains("not deliverable"), "{body}");
    assert!(body.contains("the paper ran out"), "{body}");
    let marks = ["\"is_error\":true", "Error: the paper ran out", "\"error\":\"the paper ran out\""];
    assert!(marks.iter().any(|mark| body.contains(mark)), "the error is not marked: {body}");
}

/// A conversation that began on one wire goes on over each other one, and over the first again.
#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_moves_from_provider_to_provider() {
    let call = json!({"content": "I divide.", "toolCalls": [
        {"name": "divide", "arguments": json!({"dividend": 9, "divisor": 2}).to_string()},
        {"name": "fail", "arguments": "{}"},
    ]});
    let mut history = Vec::new();
    let wires = [&ANTHROPIC, &GEMINI, &CHAT, &RESPONSES, &ANTHROPIC, &RESPONSES, &GEMINI, &CHAT];
    for (turns, wire) in wires.into_iter().enumerate() {
        let Some(mock) = Aimock::start(&[call.clone(), json!({"content": "4.5"})]) else { return };
        let recorder = Recorder::start(mock.address()).await;
        history.push(Message::user("Nine by two?"));
        let request = RunRequest::conversation(history);
        let run = agent(wire, Delivery::Streamed, &recorder).await.run(request).await.unwrap();
        assert_eq!((run.status(), run.text.as_str()), (RunStatus::Done, "4.5"), "{}: {:?}", wire.vendor, run.end);
        for body in recorder.bodies() {
            schema::check(wire.schema, &body);
            // Nothing of the history is lost on the way: each result, and each of the person's questions.
            let text = body.to_string();
            assert!(text.matches("Nine by two?").count() > turns, "{text}");
            assert!(text.matches("the paper ran out").count() >= turns, "{text}");
        }
        history = run.messages;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_provider_cannot_take_is_told_once_in_a_run() {
    let chart = json!({"name": "chart", "arguments": json!({"title": "t", "values": [1]}).to_string()});
    let chart = json!({"toolCalls": [chart.clone(), chart]});
    let Some(mock) = Aimock::start(&[chart.clone(), chart, json!({"content": "Drawn."})]) else { return };
    let recorder = Recorder::start(mock.address()).await;
    let text_only = Wire { vendor: "deepseek", path: "v1", schema: schema::COMPATIBLE };
    let (run, events) = run(&text_only, Delivery::Streamed, &recorder).await;
    assert_eq!(run.status(), RunStatus::Done);
    let warnings = plot(&events).into_iter().filter(|line| line.starts_with("warning")).collect::<Vec<_>>();
    assert!(matches!(warnings.as_slice(), [one] if one.contains("image/png")), "{warnings:?}");
    let last = recorder.bodies().pop().unwrap();
    schema::check(text_only.schema, &last);
    assert_eq!(last.to_string().matches("[image/png, 67 bytes, not deliverable to this model]").count(), 4, "{last}");
}

async fn agent(wire: &Wire, delivery: Delivery, recorder: &Recorder) -> Agent {
    let base_url = BaseUrl::parse(&format!("http://{}/{}", recorder.address, wire.path)).unwrap();
    let provider = Provider::new(ProviderOptions {
        key: Some(ApiKey::new("sk-not-a-real-key").unwrap()),
        delivery,
        ..ProviderOptions::at(base_url, vendor_by_name(wire.vendor).unwrap(), "gemini-3-pro")
    });
    host()
        .await
        .agent(Arc::new(provider.unwrap()))
        .wait_for(|question: Question| async move { Some(Answer::approve(question.request.id)) })
}

async fn run(wire: &Wire, delivery: Delivery, recorder: &Recorder) -> (RunResult, Vec<RunEvent>) {
    let agent = agent(wire, delivery, recorder).await;
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let sink = Arc::new(move |event: RunEvent| sink.lock().unwrap().push(event));
    let run = agent.run(RunRequest { events: sink, ..RunRequest::prompt("go") }).await.unwrap();
    let events = events.lock().unwrap().clone();
    (run, events)
}

/// The events without ids, times and counts, and with pieces of text put together. The two calls of the first turn end
/// in any order.
fn plot(events: &[RunEvent]) -> Vec<String> {
    let mut plot: Vec<String> = Vec::new();
    for event in events {
        let line = match event {
            RunEvent::Text { text } => match plot.last_mut().filter(|line| line.starts_with("text ")) {
                Some(line) => {
                    line.push_str(text);
                    continue;
                }
                None => format!("text {text}"),
            },
            RunEvent::ToolCall { name, .. } => format!("call {name}"),
            RunEvent::ToolResult { name, .. } => format!("result {name}"),
            RunEvent::Pending { name, .. } => format!("pending {name}"),
            RunEvent::Answered { name, .. } => format!("answered {name}"),
            RunEvent::Warning { warning } => format!("warning {}", warning.message),
            RunEvent::Restarted { reason, .. } => format!("restarted {reason}"),
            RunEvent::Done { .. } => "done".to_owned(),
            _ => continue,
        };
        plot.push(line);
    }
    if let Some(first) = plot.iter().position(|line| line.starts_with("result")) {
        plot[first..first + 2].sort();
    }
    plot
}
