//! Spans and numbers of a run, as a real subscriber and a real sink see them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::{FakeCatalog, Reply, Stage, call, say};
use tokio_util::sync::CancellationToken;
use toolcell_agent::{Budget, Conversation, ConversationOptions, Measured, RunEvent, SendRequest, Usage};
use toolcell_contract::{Answer, Failure, FailureCode, Outcome, ToolResult};
use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber as _;
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// A span that was seen: its parent's name in traces, and its fields.
#[derive(Debug, Clone, Default)]
struct Seen {
    parent: Option<Id>,
    fields: BTreeMap<String, String>,
}

impl Seen {
    fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name().to_owned(), value.to_owned());
    }
}

/// A layer that keeps every span, in the order of their beginning.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<(Id, Seen)>>>);

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let parent = context.span(id).and_then(|span| span.parent().map(|parent| parent.id()));
        let mut seen = Seen { parent, ..Seen::default() };
        attributes.record(&mut seen);
        self.0.lock().unwrap().push((id.clone(), seen));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        // Ids are used again after a span is closed: the last one is meant.
        let mut spans = self.0.lock().unwrap();
        values.record(&mut spans.iter_mut().rev().find(|(known, _)| known == id).unwrap().1);
    }
}

impl Recorder {
    async fn watch<T>(&self, work: impl Future<Output = T>) -> T {
        work.with_subscriber(tracing_subscriber::registry().with(self.clone())).await
    }

    fn spans(&self) -> Vec<(Id, Seen)> {
        self.0.lock().unwrap().clone()
    }

    fn named(&self, name: &str) -> Vec<Seen> {
        let spans = self.spans().into_iter().map(|(_, seen)| seen);
        spans.filter(|seen| seen.get("otel.name") == Some(name)).collect()
    }
}

fn measured(stage: &Stage) -> Vec<Measured> {
    let events = stage.events.lock().unwrap();
    let of = |event: &RunEvent| match event {
        RunEvent::Measured { measured } => Some(measured.clone()),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[tokio::test]
async fn a_run_is_an_agents_span_with_the_models_and_the_tools_spans_below() {
    let recorder = Recorder::default();
    let stage = Stage::new(FakeCatalog::default().with_echo(), &[call(&[("echo", r#"{"n":1}"#)]), say("my secret")]);
    let result = recorder.watch(stage.agent.run(stage.request())).await.unwrap();

    let names: Vec<_> = recorder.spans().iter().map(|(_, seen)| seen.get("otel.name").unwrap().to_owned()).collect();
    assert_eq!(names, ["invoke_agent", "chat fake", "execute_tool echo", "chat fake"]);
    let (run_id, run) = recorder.spans()[0].clone();
    assert_eq!(run.parent, None);
    assert!(recorder.spans()[1..].iter().all(|(_, seen)| seen.parent.as_ref() == Some(&run_id)));
    let call_id = result.tool_calls[0].call_id.as_str();
    let run_name = call_id.split('.').next().unwrap();
    let expected = [
        ("otel.kind", "internal"),
        ("gen_ai.operation.name", "invoke_agent"),
        ("gen_ai.provider.name", "unknown"),
        ("gen_ai.request.model", "fake"),
        ("gen_ai.usage.input_tokens", "20"),
        ("gen_ai.usage.output_tokens", "10"),
        ("toolcell.run.id", run_name),
        ("toolcell.pending", "false"),
    ];
    assert_eq!(run.fields, fields("invoke_agent", &expected));

    let chat = recorder.named("chat fake").remove(0);
    assert!(chat.fields["gen_ai.response.time_to_first_chunk"].parse::<f64>().is_ok());
    let expected = [
        ("otel.kind", "client"),
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "unknown"),
        ("gen_ai.request.model", "fake"),
        ("gen_ai.response.finish_reasons", r#"["tool_calls"]"#),
        ("gen_ai.response.time_to_first_chunk", chat.get("gen_ai.response.time_to_first_chunk").unwrap()),
        ("gen_ai.usage.input_tokens", "10"),
        ("gen_ai.usage.cache_read.input_tokens", "0"),
        ("gen_ai.usage.output_tokens", "5"),
    ];
    assert_eq!(chat.fields, fields("chat fake", &expected));

    let expected = [
        ("otel.kind", "internal"),
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "echo"),
        ("gen_ai.tool.call.id", call_id),
        ("gen_ai.tool.type", "function"),
        ("toolcell.pending", "false"),
    ];
    assert_eq!(recorder.named("execute_tool echo")[0].fields, fields("execute_tool echo", &expected));

    let all = format!("{:?}", recorder.spans());
    assert!(!all.contains("secret") && !all.contains("\\\"n\\\""), "what was said is in a span: {all}");
}

fn fields(name: &str, others: &[(&str, &str)]) -> BTreeMap<String, String> {
    let others = others.iter().copied().chain([("otel.name", name)]);
    others.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[tokio::test]
async fn a_suspension_is_no_error_and_each_execution_is_measured() {
    let recorder = Recorder::default();
    let stage = Stage::new(FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")]), say("ready")]);
    let result = recorder.watch(stage.agent.run(stage.request())).await.unwrap();
    let answers = vec![Answer::approve(result.pending().unwrap().id.clone())];
    let waiting = result.into_suspended().expect("it waits");
    let resumed = stage.agent.resume(waiting, answers, stage.sink(), CancellationToken::new());
    let result = recorder.watch(resumed).await.unwrap();

    let pending: Vec<_> =
        recorder.named("execute_tool gpu").iter().map(|span| span.fields["toolcell.pending"].clone()).collect();
    assert_eq!(pending, ["true", "false"]);
    assert!(recorder.spans().iter().all(|(_, span)| span.get("otel.status_code").is_none()));
    let runs = recorder.named("invoke_agent");
    assert_eq!((runs.len(), runs[0].get("toolcell.pending")), (2, Some("true")));
    assert_eq!(runs[0].get("toolcell.run.id"), runs[1].get("toolcell.run.id"), "one run");

    let execution = |pending| Measured::Tool {
        call_id: result.tool_calls[0].call_id.clone(),
        name: "gpu".into(),
        duration: Duration::from_millis(3),
        is_error: false,
        pending,
        code: None,
    };
    let tools: Vec<_> = measured(&stage).into_iter().filter(|one| matches!(one, Measured::Tool { .. })).collect();
    assert_eq!(tools, [execution(true), execution(false)]);
}

#[tokio::test(start_paused = true)]
async fn errors_are_named_by_their_code_and_never_by_their_text() {
    let catalog = FakeCatalog::default()
        .with("unhappy", |_| async { Outcome::Done(ToolResult::error("my secret")) })
        .with("broken", |_| async { Outcome::Failed(Failure::with_detail(FailureCode::Trap, "my secret")) })
        .with("stuck", |_| std::future::pending());
    let turn = call(&[("unhappy", "{}"), ("broken", "{}"), ("stuck", "{}"), ("unknown", "{}")]);
    let mut stage = Stage::new(catalog, &[turn]);
    stage.agent = stage.agent.with_budget(Budget { time_max: Duration::from_secs(60), ..Budget::default() });
    let recorder = Recorder::default();
    recorder.watch(stage.agent.run(stage.request())).await.unwrap();

    for (name, error) in [("unhappy", "tool"), ("broken", "trap"), ("stuck", "timeout")] {
        let span = recorder.named(&format!("execute_tool {name}")).remove(0);
        assert_eq!((span.get("otel.status_code"), span.get("error.type")), (Some("ERROR"), Some(error)));
    }
    assert!(recorder.named("execute_tool unknown").is_empty(), "what does not run has no span");
    assert!(!format!("{:?}", recorder.spans()).contains("secret"));
    let codes: Vec<_> = measured(&stage)
        .into_iter()
        .filter_map(|one| match one {
            Measured::Tool { name, is_error, code, duration, .. } => Some((name, is_error, code, duration.as_secs())),
            _ => None,
        })
        .collect();
    let expected = [
        ("unhappy".to_owned(), true, None, 0),
        ("broken".to_owned(), true, Some(FailureCode::Trap), 0),
        ("stuck".to_owned(), true, Some(FailureCode::Timeout), 60),
    ];
    assert_eq!(codes, expected);
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_model_is_measured_also_when_it_fails() {
    let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
    let whole = (Some(usage), None, Some(Duration::ZERO));
    let broken = (None, Some("truncated".to_owned()), Some(Duration::ZERO));
    let silent = (None, Some("timeout".to_owned()), None);
    for (reply, expected, seconds) in
        [(say("hi"), whole, 0), (Reply::CutOff("half"), broken, 0), (Reply::Silent, silent, 60)]
    {
        let mut stage = Stage::new(FakeCatalog::default(), &[reply]);
        stage.agent = stage.agent.with_budget(Budget { time_max: Duration::from_secs(60), ..Budget::default() });
        let recorder = Recorder::default();
        recorder.watch(stage.agent.run(stage.request())).await.unwrap();
        let Measured::Model { provider, model, duration, first_piece, usage, error } = measured(&stage).remove(0)
        else {
            panic!("no answer was measured")
        };
        assert_eq!((provider.as_str(), model.as_str(), duration.as_secs()), ("unknown", "fake", seconds));
        assert_eq!(recorder.named("chat fake")[0].get("error.type"), error.as_deref());
        assert_eq!((usage, error, first_piece), expected);
    }
}

#[tokio::test]
async fn a_run_of_a_conversation_names_it() {
    let recorder = Recorder::default();
    let stage = Stage::new(FakeCatalog::default(), &[say("Hello."), say("Alone.")]);
    let options = ConversationOptions { id: Some("conv-7".into()), ..ConversationOptions::default() };
    let conversation = Conversation::new(stage.agent.clone(), options).unwrap();
    let both = async {
        conversation.send(SendRequest::text("Hi.")).await.unwrap();
        stage.agent.run(stage.request()).await.unwrap();
    };
    let subscriber = tracing_subscriber::registry().with(recorder.clone());
    // The conversation's run is a task of its own, on this thread.
    let _default = tracing::subscriber::set_default(subscriber);
    both.await;
    let runs = recorder.named("invoke_agent");
    let ids: Vec<_> = runs.iter().map(|run| run.get("gen_ai.conversation.id")).collect();
    assert_eq!(ids, [Some("conv-7"), None]);
}
