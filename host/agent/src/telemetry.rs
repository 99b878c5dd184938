//! Spans and numbers of a run. Names follow the OpenTelemetry conventions for generative AI
//! (<https://github.com/open-telemetry/semantic-conventions-genai>); what was said, asked or answered is never in them.

use std::time::Duration;

use tokio::time::Instant;
use toolcell_contract::{Failure, FailureCode, Outcome};
use tracing::field::Empty;
use tracing::{Instrument as _, Span, info_span};

use crate::catalog::Execution;
use crate::event::{EventSink, RunEvent};
use crate::measured::Measured;
use crate::model::{Model, ModelError, ModelEvent, ModelReply, StopReason};
use crate::run::{RunEnd, RunProgress, RunResult};
use crate::work_clock::Halt;

// What the span's exporter reads.
const NAME: &str = "otel.name";
const KIND: &str = "otel.kind";
const STATUS_CODE: &str = "otel.status_code";
const STATUS_ERROR: &str = "ERROR";

const ERROR_TYPE: &str = "error.type";
const CONVERSATION_ID: &str = "gen_ai.conversation.id";
const OPERATION_NAME: &str = "gen_ai.operation.name";
const PROVIDER_NAME: &str = "gen_ai.provider.name";
const REQUEST_MODEL: &str = "gen_ai.request.model";
const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
const TIME_TO_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
const TOOL_NAME: &str = "gen_ai.tool.name";
const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
const TOOL_TYPE: &str = "gen_ai.tool.type";

/// The run: all its spans can be found by it, also when it waited and went on elsewhere.
const RUN_ID: &str = "toolcell.run.id";
/// Whether the execution ended with a question.
const PENDING: &str = "toolcell.pending";

/// `error.type` of what ran out of the run's time.
const TIMEOUT: &str = "timeout";
/// `error.type` of what was cancelled with its run.
const CANCELLED: &str = "cancelled";

/// Marks a span as failed. The word is one of a fixed set.
fn record_error(span: &Span, error: &str) {
    span.record(STATUS_CODE, STATUS_ERROR).record(ERROR_TYPE, error);
}

/// Watches a run, from its start or from an answer on.
pub(crate) struct RunWatch(Span);

impl RunWatch {
    pub(crate) fn new(model: &dyn Model, run: &RunProgress) -> Self {
        Self(info_span!(
            "invoke_agent",
            { NAME } = "invoke_agent",
            { KIND } = "internal",
            { STATUS_CODE } = Empty,
            { ERROR_TYPE } = Empty,
            { OPERATION_NAME } = "invoke_agent",
            { CONVERSATION_ID } = run.conversation_id,
            { PROVIDER_NAME } = model.provider(),
            { REQUEST_MODEL } = model.name(),
            { INPUT_TOKENS } = Empty,
            { OUTPUT_TOKENS } = Empty,
            { RUN_ID } = run.id,
            { PENDING } = Empty,
        ))
    }

    pub(crate) async fn over(self, run: impl Future<Output = RunResult>) -> RunResult {
        let span = self.0;
        let result = run.instrument(span.clone()).await;
        span.record(INPUT_TOKENS, result.usage.input_tokens).record(OUTPUT_TOKENS, result.usage.output_tokens);
        span.record(PENDING, matches!(result.end, RunEnd::Pending { .. }));
        match &result.end {
            RunEnd::Done | RunEnd::Pending { .. } | RunEnd::Incomplete(_) => {}
            RunEnd::Failed(error) => record_error(&span, error.kind()),
            RunEnd::Stopped { .. } => record_error(&span, "stopped"),
            RunEnd::Cancelled => record_error(&span, CANCELLED),
        }
        result
    }
}

/// Watches one answer of a model.
pub(crate) struct ModelWatch<'a> {
    model: &'a dyn Model,
    span: Span,
    began: Instant,
    first_piece: Option<Duration>,
}

impl<'a> ModelWatch<'a> {
    pub(crate) fn new(model: &'a dyn Model) -> Self {
        let span = info_span!(
            "chat",
            { NAME } = format!("chat {}", model.name()),
            { KIND } = "client",
            { STATUS_CODE } = Empty,
            { ERROR_TYPE } = Empty,
            { OPERATION_NAME } = "chat",
            { PROVIDER_NAME } = model.provider(),
            { REQUEST_MODEL } = model.name(),
            { FINISH_REASONS } = Empty,
            { TIME_TO_FIRST_CHUNK } = Empty,
            { INPUT_TOKENS } = Empty,
            { CACHE_READ_TOKENS } = Empty,
            { OUTPUT_TOKENS } = Empty,
        );
        Self { model, span, began: Instant::now(), first_piece: None }
    }

    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    pub(crate) fn saw(&mut self, event: &ModelEvent) {
        if self.first_piece.is_none() && matches!(event, ModelEvent::Text(_) | ModelEvent::Reasoning(_)) {
            self.first_piece = Some(self.began.elapsed());
        }
    }

    pub(crate) fn end(self, answer: &Result<Result<ModelReply, ModelError>, Halt>, events: &dyn EventSink) {
        let Self { model, span, began, first_piece } = self;
        if let Some(first_piece) = first_piece {
            span.record(TIME_TO_FIRST_CHUNK, first_piece.as_secs_f64());
        }
        let error = match answer {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.kind()),
            Err(Halt::Cancelled) => Some(CANCELLED),
            Err(Halt::TimeOver) => Some(TIMEOUT),
        };
        if let Some(error) = error {
            record_error(&span, error);
        }
        let usage = match answer {
            Ok(Ok(reply)) => Some(reply.usage),
            _ => None,
        };
        if let Ok(Ok(reply)) = answer {
            span.record(FINISH_REASONS, tracing::field::debug([finish_reason(reply)]));
            span.record(INPUT_TOKENS, reply.usage.input_tokens).record(OUTPUT_TOKENS, reply.usage.output_tokens);
            span.record(CACHE_READ_TOKENS, reply.usage.cache_read_tokens);
        }
        events.emit(RunEvent::Measured {
            measured: Measured::Model {
                provider: model.provider().to_owned(),
                model: model.name().to_owned(),
                duration: began.elapsed(),
                first_piece,
                usage,
                error: error.map(str::to_owned),
            },
        });
    }
}

/// The word of the conventions; a provider's own word has no place in a fixed set.
fn finish_reason(reply: &ModelReply) -> &'static str {
    match reply.stop {
        StopReason::Finished if reply.turn.calls.is_empty() => "stop",
        StopReason::Finished => "tool_calls",
        StopReason::Length => "length",
        StopReason::Refused => "content_filter",
        StopReason::Paused => "pause",
        StopReason::Other(_) => "other",
    }
}

/// Watches one execution of a tool.
pub(crate) struct ToolWatch<'a> {
    call_id: &'a str,
    name: &'a str,
    span: Span,
    began: Option<Instant>,
}

impl<'a> ToolWatch<'a> {
    pub(crate) fn new(call_id: &'a str, name: &'a str) -> Self {
        let span = info_span!(
            "execute_tool",
            { NAME } = format!("execute_tool {name}"),
            { KIND } = "internal",
            { STATUS_CODE } = Empty,
            { ERROR_TYPE } = Empty,
            { OPERATION_NAME } = "execute_tool",
            { TOOL_NAME } = name,
            { TOOL_CALL_ID } = call_id,
            { TOOL_TYPE } = "function",
            { PENDING } = Empty,
        );
        Self { call_id, name, span, began: None }
    }

    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// The tool has waited for its turn and runs now.
    pub(crate) fn begin(&mut self) {
        self.began = Some(Instant::now());
    }

    pub(crate) fn end(self, execution: &Result<Execution, Failure>, events: &dyn EventSink) {
        let Self { call_id, name, span, began } = self;
        let (duration, is_error, pending, code) = match execution {
            Ok(Execution { outcome, duration, .. }) => {
                let (is_error, pending, code) = match outcome {
                    Outcome::Done(result) => (result.is_error, false, None),
                    Outcome::Suspended(_) => (false, true, None),
                    Outcome::Failed(failure) => (true, false, Some(failure.code)),
                };
                (*duration, is_error, pending, code)
            }
            Err(failure) => (began.map_or(Duration::ZERO, |at| at.elapsed()), true, false, Some(failure.code)),
        };
        span.record(PENDING, pending);
        if is_error {
            // An error of the tool's own has no code; its text stays out.
            record_error(&span, code.map_or("tool", FailureCode::as_str));
        }
        // Cancelled before its turn came: that is no execution.
        if began.is_some() {
            let (call_id, name) = (call_id.to_owned(), name.to_owned());
            let measured = Measured::Tool { call_id, name, duration, is_error, pending, code };
            events.emit(RunEvent::Measured { measured });
        }
    }
}
