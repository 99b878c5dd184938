//! From the pieces of a response to a turn.
//!
//! The text is shown as it comes; the turn is made of the items that were done and of the final response. A stream has
//! ended properly with `response.completed` or `response.incomplete` and with nothing else.

use std::collections::{HashSet, VecDeque};

use serde_json::{Value, json};
use toolcell_agent::{AssistantTurn, CallRequest, ModelError, ModelEvent, ModelReply, StopReason, Usage, Verbatim};

use super::WIRE;
use super::items::{self, Items, MESSAGE_BREAK, TooManyItems, is_call};
use crate::ask::{Decode, Progress};
use crate::call::{CALLS_MAX, CallsError, arguments_text};
use crate::json::Reader;
use crate::provider_error::{Failed, ProviderError};
use crate::retry::RetryHints;
use crate::sse;

/// A response as it is put together.
pub(crate) struct Decoder {
    json: Reader,
    items: Items,
    /// The text as the caller has seen it.
    shown: String,
    /// The message that the last of it belongs to.
    message: Option<Value>,
    has_reasoned: bool,
    end: Option<End>,
    usage: Usage,
    fresh_id: fn() -> String,
}

/// What is known once a response has ended.
struct End {
    items: Vec<Value>,
    text: String,
    stop: StopReason,
}

impl Decoder {
    pub(super) fn new(fresh_id: fn() -> String) -> Self {
        Self {
            json: Reader::default(),
            items: Items::default(),
            shown: String::new(),
            message: None,
            has_reasoned: false,
            end: None,
            usage: Usage::default(),
            fresh_id,
        }
    }

    /// Reads an event. Of its fields none is sure to be there but `type`.
    fn read(&mut self, kind: &str, event: &Value, out: &mut VecDeque<ModelEvent>) -> Result<Progress, Failed> {
        let delta = event.get("delta").and_then(Value::as_str).unwrap_or_default();
        let item = event.get("item").unwrap_or(&Value::Null);
        let response = event.get("response").unwrap_or(&Value::Null);
        match kind {
            "response.output_text.delta" | "response.refusal.delta" => self.text(event, delta, out),
            "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => self.reasoning(delta, out),
            "response.reasoning_summary_part.added" if self.has_reasoned => self.reasoning(MESSAGE_BREAK, out),
            "response.output_item.added" => self.items.begin(item),
            "response.output_item.done" if items::is_item(item) => {
                let number = event.get("output_index").and_then(Value::as_u64);
                self.items.add(number, item).map_err(too_many)?;
            }
            "response.completed" => return self.end(response, StopReason::Finished, out).map(|()| Progress::Done),
            "response.incomplete" => {
                return self.end(response, cut_off(response), out).map(|()| Progress::Done);
            }
            "response.failed" => return Err(failure(response)),
            "error" => return Err(failure(event)),
            "" => {
                if let Some(error) = ProviderError::find(event) {
                    return Err(error.classify(200, RetryHints::default()));
                }
            }
            // What the others tell is told again by the items.
            _ => {}
        }
        Ok(Progress::More)
    }

    fn text(&mut self, event: &Value, delta: &str, out: &mut VecDeque<ModelEvent>) {
        // The number first: gateways give an item another id in each event.
        let key = |key: &str| event.get(key).filter(|value| !value.is_null()).cloned();
        let message = key("output_index").or_else(|| key("item_id"));
        if delta.is_empty() {
            return;
        }
        if self.message != message && !self.shown.is_empty() {
            self.show(MESSAGE_BREAK, out);
        }
        self.message = message;
        self.show(delta, out);
    }

    fn show(&mut self, text: &str, out: &mut VecDeque<ModelEvent>) {
        if !text.is_empty() {
            self.shown.push_str(text);
            out.push_back(ModelEvent::Text(text.to_owned()));
        }
    }

    fn reasoning(&mut self, text: &str, out: &mut VecDeque<ModelEvent>) {
        if !text.is_empty() {
            self.has_reasoned = true;
            out.push_back(ModelEvent::Reasoning(text.to_owned()));
        }
    }

    /// Takes the final response, and shows what the pieces did not.
    fn end(&mut self, response: &Value, stop: StopReason, out: &mut VecDeque<ModelEvent>) -> Result<(), Failed> {
        let status = response.get("status").and_then(Value::as_str);
        let mut stop = match status {
            Some("failed") => return Err(failure(response)),
            // There are servers that complete what is incomplete.
            Some("incomplete") => cut_off(response),
            _ => stop,
        };
        self.usage = usage(response);
        let output = response.get("output").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut items = self.items.complete(output).map_err(too_many)?;
        if stop == StopReason::Finished && self.items.lack_a_call(&items) {
            return Err(Failed::for_now(ModelError::Truncated));
        }
        if !self.has_reasoned {
            self.reasoning(&items::reasoning_of(&items), out);
        }
        let (mut text, is_refusal) = items::text_of(&items);
        if text.is_empty() && !self.shown.is_empty() {
            let before_calls = items.iter().position(is_call).unwrap_or(items.len());
            items.insert(before_calls, items::message(&self.shown));
            text.clone_from(&self.shown);
        } else if let Some(rest) = text.strip_prefix(&self.shown).map(str::to_owned) {
            self.show(&rest, out);
        }
        if is_refusal && stop == StopReason::Finished {
            stop = StopReason::Refused;
        }
        self.end = Some(End { items, text, stop });
        Ok(())
    }
}

impl Decode for Decoder {
    fn event(&mut self, event: &sse::Event, out: &mut VecDeque<ModelEvent>) -> Result<Progress, Failed> {
        match event.data.trim() {
            "" => Ok(Progress::More),
            // Gateways send it; it does not make a response whole.
            "[DONE]" => Ok(Progress::Done),
            data => {
                let value = self.json.read(data)?;
                let kind = value.get("type").and_then(Value::as_str).unwrap_or(&event.name);
                self.read(kind, &value, out)
            }
        }
    }

    fn whole(&mut self, body: &Value, out: &mut VecDeque<ModelEvent>) -> Result<(), Failed> {
        if let Some(error) = ProviderError::find(body) {
            return Err(error.classify(200, RetryHints::default()));
        }
        if !body.get("output").is_some_and(Value::is_array) {
            return Err(Failed::bad_response("it has no output"));
        }
        match body.get("status").and_then(Value::as_str) {
            Some(status @ ("queued" | "in_progress" | "cancelled")) => {
                Err(Failed::bad_response(format!("it is not complete: its status is {status}")))
            }
            _ => self.end(body, StopReason::Finished, out),
        }
    }

    fn finish(self) -> Result<ModelReply, Failed> {
        let End { items, text, stop } = self.end.ok_or_else(|| Failed::for_now(ModelError::Truncated))?;
        let (calls, items, stop) =
            take_calls(items, stop, self.fresh_id).map_err(|e| Failed::bad_response(e.to_string()))?;
        let verbatim = Verbatim { wire: WIRE.to_owned(), value: Value::Array(items) };
        let turn = AssistantTurn { text, calls, verbatim: Some(verbatim) };
        Ok(ModelReply { turn, stop, usage: self.usage })
    }
}

/// The calls among the items, and the items with ids and arguments in the form in which the calls have them.
///
/// A call that was cut off never runs. As the last one it stays, with arguments that did not begin, so that the model
/// is told; then the turn is one that reached its limit.
fn take_calls(
    items: Vec<Value>,
    mut stop: StopReason,
    fresh_id: fn() -> String,
) -> Result<(Vec<CallRequest>, Vec<Value>, StopReason), CallsError> {
    let last = items.iter().rposition(is_call);
    let (mut calls, mut kept, mut ids) = (Vec::new(), Vec::new(), HashSet::new());
    for (place, mut item) in items.into_iter().enumerate() {
        if !is_call(&item) {
            kept.push(item);
            continue;
        }
        let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_cut_off = text("status") == "incomplete";
        let arguments = match item.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            // An object where a text should be.
            Some(value) => value.to_string(),
        };
        let name = text("name");
        let says_nothing = name.is_empty() && arguments.trim().is_empty();
        if is_cut_off && last != Some(place) || says_nothing {
            continue;
        }
        if name.is_empty() {
            return Err(CallsError::Nameless);
        }
        if calls.len() == CALLS_MAX {
            return Err(CallsError::TooMany);
        }
        let arguments = match stop {
            _ if is_cut_off => {
                stop = if stop == StopReason::Refused { stop } else { StopReason::Length };
                String::new()
            }
            StopReason::Length if arguments.trim().is_empty() => String::new(),
            _ => arguments_text(arguments),
        };
        let id = [text("call_id"), text("id")].into_iter().find(|id| !id.is_empty() && !ids.contains(id));
        let id = id.unwrap_or_else(fresh_id);
        ids.insert(id.clone());
        item["call_id"] = json!(id);
        item["arguments"] = json!(arguments);
        kept.push(item);
        calls.push(CallRequest { id, name, arguments });
    }
    Ok((calls, kept, stop))
}

/// Why a response is incomplete. Another reason than the filter is a limit: what was cut off must not look complete.
fn cut_off(response: &Value) -> StopReason {
    match response.pointer("/incomplete_details/reason").and_then(Value::as_str) {
        Some("content_filter") => StopReason::Refused,
        _ => StopReason::Length,
    }
}

/// The failure in an event or in a response: flat, or in `error`.
fn failure(value: &Value) -> Failed {
    let broke_off = || ProviderError { message: "the model broke off".to_owned(), ..ProviderError::default() };
    ProviderError::find(value).unwrap_or_else(broke_off).classify(200, RetryHints::default())
}

fn too_many(error: TooManyItems) -> Failed {
    Failed::bad_response(error.to_string())
}

fn usage(response: &Value) -> Usage {
    // A negative or absent number counts as none.
    let tokens = |pointer: &str| response.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    Usage {
        input_tokens: tokens("/usage/input_tokens"),
        cache_read_tokens: tokens("/usage/input_tokens_details/cached_tokens"),
        cache_write_tokens: tokens("/usage/input_tokens_details/cache_write_tokens"),
        output_tokens: tokens("/usage/output_tokens"),
        reasoning_tokens: tokens("/usage/output_tokens_details/reasoning_tokens"),
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
pub(super) mod tests;
