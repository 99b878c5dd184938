//! One story on every wire, streamed and whole, against a mock of the providers that others wrote: two calls at the same
//! time, an image, an error, a call that waits for a person.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolcell::contract::{Answer, ToolResult};
use toolcell::model::{ApiKey, BaseUrl, Delivery, Provider, ProviderOptions, vendor_by_name};
use toolcell::{Question, RunEvent, RunRequest, RunResult, RunStatus};
use toolcell_tests::aimock::Aimock;

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
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments.to_string()});
    let mock = Aimock::start(&[
        json!({"content": "I draw and print.", "toolCalls": [
            call("chart", json!({"title": "t", "values": [1, 2]})),
            call("fail", json!({})),
        ]}),
        json!({"toolCalls": [call("gpu", json!({}))]}),
        json!({"content": "All done."}),
    ]);
    let Some(mock) = mock else { return };
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

async fn run(wire: &Wire, delivery: Delivery, recorder: &Recorder) -> (RunResult, Vec<RunEvent>) {
    let provider = Provider::new(ProviderOptions {
        base_url: BaseUrl::parse(&format!("http://{}/{}", recorder.address, wire.path)).unwrap(),
        key: Some(ApiKey::new("sk-not-a-real-key").unwrap()),
        delivery,
        ..ProviderOptions::new(vendor_by_name(wire.vendor).unwrap(), "gemini-3-pro").unwrap()
    });
    let agent = host()
        .await
        .agent(Arc::new(provider.unwrap()))
        .wait_for(|question: Question| async move { Some(Answer::approve(question.request.id)) });
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
            RunEvent::Restarted { reason } => format!("restarted {reason}"),
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
