//! From the pieces of a response to a turn.
//!
//! Each event of a stream is a whole response with new parts only. A stream has no end marker: it has ended properly
//! when a finish reason was read before the body ended.

use std::collections::VecDeque;

use serde_json::{Value, json};
use toolcell_agent::{AssistantTurn, CallRequest, ModelError, ModelEvent, ModelReply, StopReason, Usage, Verbatim};

use super::{WIRE, arguments_of};
use crate::ask::{Decode, Progress};
use crate::call::CALLS_MAX;
use crate::json::Reader;
use crate::provider_error::{Failed, ProviderError};
use crate::retry::RetryHints;
use crate::sse;

/// Parts of one turn. A model that writes more is caught in a loop.
const PARTS_MAX: usize = 1024;

/// What gateways write that fill in every field: the turn goes on.
const NO_REASON: &str = "FINISH_REASON_UNSPECIFIED";

/// A response as it is put together.
pub(crate) struct Decoder {
    json: Reader,
    text: String,
    /// The parts as they go back.
    parts: Vec<Value>,
    calls: Vec<CallRequest>,
    has_candidate: bool,
    finish_reason: Option<String>,
    /// What the provider adds to the reason.
    finish_message: String,
    usage: Usage,
    fresh_id: fn() -> String,
}

impl Decoder {
    pub(super) fn new(fresh_id: fn() -> String) -> Self {
        Self {
            json: Reader::default(),
            text: String::new(),
            parts: Vec::new(),
            calls: Vec::new(),
            has_candidate: false,
            finish_reason: None,
            finish_message: String::new(),
            usage: Usage::default(),
            fresh_id,
        }
    }

    fn chunk(&mut self, chunk: &Value, out: &mut VecDeque<ModelEvent>) -> Result<(), Failed> {
        if let Some(error) = ProviderError::find(chunk) {
            return Err(error.classify(200, RetryHints::default()));
        }
        if let Some(usage) = chunk.get("usageMetadata").filter(|usage| usage.is_object()) {
            self.usage = read_usage(usage);
        }
        let Some(candidate) = first_candidate(chunk) else { return blocked(chunk) };
        self.has_candidate = true;
        let parts = candidate.pointer("/content/parts").and_then(Value::as_array);
        for part in parts.into_iter().flatten() {
            self.part(part, out)?;
            if self.parts.len() > PARTS_MAX {
                return Err(Failed::bad_response(format!("it holds more than {PARTS_MAX} parts")));
            }
        }
        let text = |key: &str| candidate.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(reason) = text("finishReason").filter(|reason| *reason != NO_REASON) {
            self.finish_reason = Some(reason.to_owned());
        }
        if let Some(message) = text("finishMessage") {
            message.clone_into(&mut self.finish_message);
        }
        Ok(())
    }

    fn part(&mut self, part: &Value, out: &mut VecDeque<ModelEvent>) -> Result<(), Failed> {
        if let Some(call) = part.get("functionCall").filter(|call| call.is_object()) {
            self.call(call)?;
            self.parts.push(part.clone());
            return Ok(());
        }
        let Some(text) = part.get("text").and_then(Value::as_str) else {
            // Media, and code that the provider ran: not shown, but kept for the model.
            if part.as_object().is_some_and(|part| !part.is_empty()) {
                self.parts.push(part.clone());
            }
            return Ok(());
        };
        if !text.is_empty() {
            let text = text.to_owned();
            if is_thought(part) {
                out.push_back(ModelEvent::Reasoning(text));
            } else {
                self.text.push_str(&text);
                out.push_back(ModelEvent::Text(text));
            }
        }
        self.keep_text(part, text);
        Ok(())
    }

    /// Adds a text to the part before it, or keeps it as a part of its own: a signature belongs to exactly the part
    /// with which it came.
    fn keep_text(&mut self, part: &Value, text: &str) {
        if !is_plain(part) {
            self.parts.push(part.clone());
            return;
        }
        if text.is_empty() {
            return;
        }
        let last = self.parts.last_mut().filter(|last| is_plain(last) && is_thought(last) == is_thought(part));
        match last.and_then(|last| last.get_mut("text")) {
            Some(Value::String(before)) => before.push_str(text),
            _ => self.parts.push(part.clone()),
        }
    }

    fn call(&mut self, call: &Value) -> Result<(), Failed> {
        if self.calls.len() >= CALLS_MAX {
            return Err(Failed::bad_response(format!("it holds more than {CALLS_MAX} tool calls")));
        }
        let text = |key: &str| call.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let name = text("name").ok_or_else(|| Failed::bad_response("it holds a tool call without a name"))?;
        let id = text("id").filter(|id| self.calls.iter().all(|known| known.id != *id));
        let id = id.map_or_else(self.fresh_id, str::to_owned);
        self.calls.push(CallRequest { id, name: name.to_owned(), arguments: arguments_of(call) });
        Ok(())
    }

    /// What the end of the turn means; an error where the provider says that the turn failed.
    fn stop(&self, reason: &str) -> Result<StopReason, Failed> {
        match reason {
            // One mock server in use has a word of its own for a turn with calls.
            "STOP" | "FUNCTION_CALL" => Ok(StopReason::Finished),
            "MAX_TOKENS" => Ok(StopReason::Length),
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "MODEL_ARMOR" => {
                Ok(StopReason::Refused)
            }
            // A call of a tool that was not offered is answered like any other; without the call there is nothing.
            "UNEXPECTED_TOOL_CALL" if !self.calls.is_empty() => Ok(StopReason::Finished),
            "MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE" | "UNEXPECTED_TOOL_CALL" => {
                let message = self.words("the model wrote a call that cannot be read", reason);
                Err(Failed::for_now(ModelError::Unavailable { status: 200, message }))
            }
            "MISSING_THOUGHT_SIGNATURE" => {
                let message = self.words("the signature of a call was lost on the way", reason);
                Err(Failed::for_good(ModelError::Refused { status: 200, message }))
            }
            reason if reason.starts_with("IMAGE_") => Ok(StopReason::Refused),
            reason => Ok(StopReason::Other(reason.to_owned())),
        }
    }

    fn words(&self, what: &str, reason: &str) -> String {
        match self.finish_message.as_str() {
            "" => format!("{what} ({reason})"),
            message => format!("{what} ({reason}: {message})"),
        }
    }
}

impl Decode for Decoder {
    fn event(&mut self, event: &sse::Event, out: &mut VecDeque<ModelEvent>) -> Result<Progress, Failed> {
        match event.data.trim() {
            "" => Ok(Progress::More),
            // Gateways add it.
            "[DONE]" => Ok(Progress::Done),
            data => {
                let chunk = self.json.read(data)?;
                self.chunk(&chunk, out).map(|()| Progress::More)
            }
        }
    }

    fn whole(&mut self, body: &Value, out: &mut VecDeque<ModelEvent>) -> Result<(), Failed> {
        // A list is what a stream is without `alt=sse`.
        let chunks = body.as_array().map_or(std::slice::from_ref(body), Vec::as_slice);
        for chunk in chunks {
            self.chunk(chunk, out)?;
        }
        if !self.has_candidate {
            return Err(Failed::bad_response("it has no candidates"));
        }
        // One JSON value is whole by itself, whatever it says.
        self.finish_reason.get_or_insert_with(|| "STOP".to_owned());
        Ok(())
    }

    fn finish(self) -> Result<ModelReply, Failed> {
        let reason = self.finish_reason.as_deref().ok_or_else(|| Failed::for_now(ModelError::Truncated))?;
        let stop = self.stop(reason)?;
        let value = json!({"role": "model", "parts": self.parts});
        let verbatim = Some(Verbatim { wire: WIRE.to_owned(), value });
        let turn = AssistantTurn { text: self.text, calls: self.calls, verbatim };
        Ok(ModelReply { turn, stop, usage: self.usage })
    }
}

/// The one candidate that was asked for.
fn first_candidate(chunk: &Value) -> Option<&Value> {
    let candidates = chunk.get("candidates")?.as_array()?;
    candidates.iter().find(|one| one.get("index").is_none_or(|index| index == 0)).or_else(|| candidates.first())
}

/// An error when a response without candidates says that the prompt was not let through.
fn blocked(chunk: &Value) -> Result<(), Failed> {
    let text = |key: &str| chunk.pointer(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let Some(reason) = text("/promptFeedback/blockReason") else { return Ok(()) };
    let message = text("/promptFeedback/blockReasonMessage");
    let message = message.map_or_else(String::new, |message| format!(": {message}"));
    let message = format!("the prompt was blocked by the provider's filter ({reason}{message})");
    Err(Failed::for_good(ModelError::Refused { status: 200, message }))
}

/// Thoughts are not among the candidates' tokens, and what tools of the provider read is not among the prompt's.
fn read_usage(usage: &Value) -> Usage {
    // A negative or absent number counts as none.
    let tokens = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or_default();
    let reasoning_tokens = tokens("thoughtsTokenCount");
    Usage {
        input_tokens: tokens("promptTokenCount").saturating_add(tokens("toolUsePromptTokenCount")),
        cache_read_tokens: tokens("cachedContentTokenCount"),
        cache_write_tokens: 0,
        output_tokens: tokens("candidatesTokenCount").saturating_add(reasoning_tokens),
        reasoning_tokens,
    }
}

fn is_thought(part: &Value) -> bool {
    part.get("thought") == Some(&Value::Bool(true))
}

/// A text, perhaps a thought, and nothing besides: no signature in particular.
fn is_plain(part: &Value) -> bool {
    part.get("text").is_some_and(Value::is_string)
        && part.as_object().is_some_and(|part| part.keys().all(|key| matches!(key.as_str(), "text" | "thought")))
}

#[cfg(test)]
#[path = "decode_tests.rs"]
pub(super) mod tests;
