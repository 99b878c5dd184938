//! From the pieces of a response to a turn.
//!
//! A stream has ended properly when a finish reason was read and then `[DONE]` or the end of the body came. The end of
//! the body is enough because two servers in use leave `[DONE]` out (ik_llama.cpp, older text-generation-inference),
//! and nothing of a turn follows its finish reason. Without a finish reason the turn was cut off, also when `[DONE]`
//! came: gateways send that when the model behind them breaks off.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};
use toolcell_agent::{AssistantTurn, ModelError, ModelEvent, ModelReply, StopReason, Usage, Verbatim};

use super::WIRE;
use super::calls::{Calls, Numbering};
use super::reasoning::Reasoning;
use crate::ask::{Decode, Progress};
use crate::call::CallsError;
use crate::json::Reader;
use crate::provider_error::{Failed, ProviderError};
use crate::retry::RetryHints;
use crate::sse;

/// A response as it is put together.
pub(crate) struct Decoder {
    json: Reader,
    /// Content and refusal in the order in which they came, as the caller sees it.
    text: String,
    content: String,
    refusal: String,
    reasoning: Reasoning,
    calls: Calls,
    /// Further fields of the message that go back with it.
    extra: Map<String, Value>,
    finish_reason: Option<String>,
    usage: Usage,
    fresh_id: fn() -> String,
}

impl Decoder {
    pub(super) fn new(fresh_id: fn() -> String) -> Self {
        Self {
            json: Reader::default(),
            text: String::new(),
            content: String::new(),
            refusal: String::new(),
            reasoning: Reasoning::default(),
            calls: Calls::default(),
            extra: Map::new(),
            finish_reason: None,
            usage: Usage::default(),
            fresh_id,
        }
    }

    fn chunk(&mut self, chunk: &Value, out: &mut VecDeque<ModelEvent>) -> Result<(), Failed> {
        self.check_and_count(chunk)?;
        let Some(choice) = first_choice(chunk) else { return Ok(()) };
        // A few servers end a stream with a message, or send nothing but messages.
        match (object(choice, "delta"), object(choice, "message")) {
            (Some(delta), _) => self.message(delta, Numbering::Given, out)?,
            (None, Some(message)) => self.message(message, Numbering::Place, out)?,
            (None, None) => {}
        }
        self.take_finish_reason(choice)
    }

    fn check_and_count(&mut self, value: &Value) -> Result<(), Failed> {
        if let Some(error) = ProviderError::find(value) {
            return Err(error.classify(200, RetryHints::default()));
        }
        if let Some(usage) = value.get("usage").filter(|usage| usage.is_object()) {
            // A negative or absent number counts as none.
            let tokens = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
            self.usage = Usage {
                input_tokens: tokens("/prompt_tokens"),
                cache_read_tokens: tokens("/prompt_tokens_details/cached_tokens"),
                cache_write_tokens: tokens("/prompt_tokens_details/cache_write_tokens"),
                output_tokens: tokens("/completion_tokens"),
                reasoning_tokens: tokens("/completion_tokens_details/reasoning_tokens"),
            };
        }
        Ok(())
    }

    fn message(
        &mut self,
        message: &Map<String, Value>,
        numbering: Numbering,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), Failed> {
        if let Some(text) = self.reasoning.take(message).map_err(|e| Failed::bad_response(e.to_string()))? {
            out.push_back(ModelEvent::Reasoning(text.to_owned()));
        }
        self.content(message.get("content").unwrap_or(&Value::Null), out);
        if let Some(refusal) = message.get("refusal").and_then(Value::as_str) {
            self.refusal.push_str(refusal);
            self.show(refusal, out);
        }
        if let Some(calls) = message.get("tool_calls") {
            self.calls.take(calls, numbering).map_err(|e| unusable(&e))?;
        }
        for (key, value) in message.iter().filter(|(key, value)| is_extra(key, numbering) && !value.is_null()) {
            self.extra.insert(key.clone(), value.clone());
        }
        Ok(())
    }

    /// Content is a text, or with some servers a list of parts, which may hold thoughts.
    fn content(&mut self, content: &Value, out: &mut VecDeque<ModelEvent>) {
        match content {
            Value::String(text) => {
                self.content.push_str(text);
                self.show(text, out);
            }
            Value::Array(parts) => {
                for part in parts {
                    if let Some(text) = part.get("text").and_then(Value::as_str) {
                        self.content.push_str(text);
                        self.show(text, out);
                    }
                    let thoughts = part.get("thinking").and_then(Value::as_array).into_iter().flatten();
                    for text in thoughts.filter_map(|thought| thought.get("text")?.as_str()) {
                        out.push_back(ModelEvent::Reasoning(text.to_owned()));
                    }
                }
            }
            _ => {}
        }
    }

    fn show(&mut self, text: &str, out: &mut VecDeque<ModelEvent>) {
        if !text.is_empty() {
            self.text.push_str(text);
            out.push_back(ModelEvent::Text(text.to_owned()));
        }
    }

    fn take_finish_reason(&mut self, choice: &Value) -> Result<(), Failed> {
        let text = |key: &str| choice.get(key).and_then(Value::as_str).filter(|reason| !reason.is_empty());
        let reason = text("finish_reason");
        // OpenRouter may say "stop" where the model behind it failed; DeepSeek and Gemini have words of their own.
        let failed = |reason: Option<&str>| {
            reason.is_some_and(|reason| {
                matches!(reason, "error" | "insufficient_system_resource")
                    || reason.to_ascii_uppercase().contains("MALFORMED_FUNCTION_CALL")
            })
        };
        if failed(reason) || failed(text("native_finish_reason")) {
            let error = ProviderError { message: "the model broke off".to_owned(), ..ProviderError::default() };
            return Err(error.classify(200, RetryHints::default()));
        }
        if let Some(reason) = reason {
            self.finish_reason = Some(reason.to_owned());
        }
        Ok(())
    }
}

impl Decode for Decoder {
    fn event(&mut self, event: &sse::Event, out: &mut VecDeque<ModelEvent>) -> Result<Progress, Failed> {
        match event.data.trim() {
            "" => Ok(Progress::More),
            "[DONE]" => Ok(Progress::Done),
            data => {
                let chunk = self.json.read(data)?;
                self.chunk(&chunk, out).map(|()| Progress::More)
            }
        }
    }

    fn whole(&mut self, body: &Value, out: &mut VecDeque<ModelEvent>) -> Result<(), Failed> {
        self.check_and_count(body)?;
        let choice = first_choice(body).ok_or_else(|| Failed::bad_response("it has no choices"))?;
        let message = object(choice, "message").ok_or_else(|| Failed::bad_response("its choice has no message"))?;
        self.message(message, Numbering::Place, out)?;
        self.take_finish_reason(choice)?;
        // One JSON value is whole by itself, whatever it says.
        self.finish_reason.get_or_insert_with(|| "stop".to_owned());
        Ok(())
    }

    fn finish(self) -> Result<ModelReply, Failed> {
        let reason = self.finish_reason.ok_or_else(|| Failed::for_now(ModelError::Truncated))?;
        let stop = match reason.as_str() {
            "stop" if !self.refusal.is_empty() => StopReason::Refused,
            "stop" | "tool_calls" | "function_call" => StopReason::Finished,
            // Mistral's word for the whole context, and that of gateways before other wires.
            "length" | "model_length" | "max_tokens" => StopReason::Length,
            "content_filter" => StopReason::Refused,
            _ => StopReason::Other(reason),
        };
        let (calls, echo) = self.calls.finish(&stop, self.fresh_id).map_err(|e| unusable(&e))?;
        let mut message = Map::from_iter([("role".to_owned(), json!("assistant"))]);
        let has_no_content = self.content.is_empty() && (!echo.is_empty() || !self.refusal.is_empty());
        message.insert("content".to_owned(), if has_no_content { Value::Null } else { json!(self.content) });
        if !self.refusal.is_empty() {
            message.insert("refusal".to_owned(), json!(self.refusal));
        }
        self.reasoning.put(&mut message);
        message.extend(self.extra);
        if !echo.is_empty() {
            message.insert("tool_calls".to_owned(), Value::Array(echo));
        }
        let verbatim = Verbatim { wire: WIRE.to_owned(), value: Value::Object(message) };
        let turn = AssistantTurn { text: self.text, calls, verbatim: Some(verbatim) };
        Ok(ModelReply { turn, stop, usage: self.usage })
    }
}

/// The one choice that was asked for.
fn first_choice(value: &Value) -> Option<&Value> {
    let choices = value.get("choices")?.as_array()?;
    choices.iter().find(|choice| choice.get("index").is_none_or(|index| index == 0)).or_else(|| choices.first())
}

/// Whether a field that is not read here goes back with the message. Of a whole message all do; of a stream only the
/// one that is known to come in one piece, because how others are put together is not known.
fn is_extra(key: &str, numbering: Numbering) -> bool {
    const READ: [&str; 7] =
        ["role", "content", "refusal", "tool_calls", "reasoning_content", "reasoning", "reasoning_details"];
    match numbering {
        Numbering::Given => key == "extra_content",
        Numbering::Place => !READ.contains(&key),
    }
}

fn object<'v>(value: &'v Value, key: &str) -> Option<&'v Map<String, Value>> {
    value.get(key)?.as_object()
}

fn unusable(error: &CallsError) -> Failed {
    Failed::bad_response(error.to_string())
}

#[cfg(test)]
#[path = "decode_tests.rs"]
pub(super) mod tests;
