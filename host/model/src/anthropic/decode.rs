//! From the pieces of a response to a turn.
//!
//! A stream has ended properly when a stop reason was read and then `message_stop` came. Without either the turn was
//! cut off, also when the body ended properly.

use std::collections::VecDeque;

use serde_json::{Value, json};
use toolcell_agent::{AssistantTurn, ModelError, ModelEvent, ModelReply, StopReason, Usage, Verbatim};

use super::WIRE;
use super::blocks::{Blocks, BlocksError};
use crate::ask::{Decode, Progress};
use crate::json::Reader;
use crate::provider_error::{Failed, ProviderError};
use crate::retry::RetryHints;
use crate::sse;

/// A response as it is put together.
#[derive(Default)]
pub(crate) struct Decoder {
    json: Reader,
    blocks: Blocks,
    stop_reason: Option<String>,
    /// Why the model refused.
    explanation: String,
    is_whole: bool,
    tokens: Tokens,
}

/// Tokens as the wire counts them: the three kinds of input are apart from each other.
#[derive(Debug, Default)]
struct Tokens {
    input: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
    thinking: u64,
}

impl Tokens {
    /// Takes what is given; each number is the sum so far.
    fn take(&mut self, usage: &Value) {
        for (own, pointer) in [
            (&mut self.input, "/input_tokens"),
            (&mut self.cache_read, "/cache_read_input_tokens"),
            (&mut self.cache_write, "/cache_creation_input_tokens"),
            (&mut self.output, "/output_tokens"),
            (&mut self.thinking, "/output_tokens_details/thinking_tokens"),
        ] {
            *own = usage.pointer(pointer).and_then(Value::as_u64).unwrap_or(*own);
        }
    }

    fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.input.saturating_add(self.cache_read).saturating_add(self.cache_write),
            cache_read_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
            output_tokens: self.output,
            reasoning_tokens: self.thinking,
        }
    }
}

impl Decoder {
    fn read(&mut self, name: &str, data: &Value, out: &mut VecDeque<ModelEvent>) -> Result<Progress, Failed> {
        let kind = data["type"].as_str().unwrap_or(name);
        let index = data["index"].as_u64();
        match kind {
            "message_start" => self.tokens.take(&data["message"]["usage"]),
            "content_block_start" => self.blocks.start(index, &data["content_block"], out).map_err(unusable)?,
            "content_block_delta" => self.blocks.add(index, &data["delta"], out).map_err(unusable)?,
            "message_delta" => {
                self.take_stop(&data["delta"], out);
                self.tokens.take(&data["usage"]);
            }
            "message_stop" => {
                self.is_whole = true;
                return Ok(Progress::Done);
            }
            // A block is whole when the turn is; pings say nothing.
            "content_block_stop" | "ping" => {}
            "error" => return Err(failure(data)),
            // A gateway's failure in another form, or an event that is not known yet.
            _ if data.get("error").is_some_and(|error| !error.is_null()) => return Err(failure(data)),
            _ => {}
        }
        Ok(Progress::More)
    }

    /// Takes the reason from a message or from its delta.
    fn take_stop(&mut self, value: &Value, out: &mut VecDeque<ModelEvent>) {
        if let Some(reason) = value["stop_reason"].as_str().filter(|reason| !reason.is_empty()) {
            self.stop_reason = Some(reason.to_owned());
        }
        if let Some(text) = value["stop_details"]["explanation"].as_str().filter(|text| !text.trim().is_empty()) {
            let gap = if self.blocks.is_empty() { "" } else { "\n\n" };
            self.explanation = format!("{gap}{text}");
            out.push_back(ModelEvent::Text(self.explanation.clone()));
        }
    }
}

impl Decode for Decoder {
    fn event(&mut self, event: &sse::Event, out: &mut VecDeque<ModelEvent>) -> Result<Progress, Failed> {
        match event.data.trim() {
            // Gateways add the marker of another wire.
            "" | "[DONE]" => Ok(Progress::More),
            data => {
                let value = self.json.read(data)?;
                self.read(&event.name, &value, out)
            }
        }
    }

    fn whole(&mut self, body: &Value, out: &mut VecDeque<ModelEvent>) -> Result<(), Failed> {
        let Some(content) = body["content"].as_array() else {
            let has_failed = body["type"] == "error" || ProviderError::find(body).is_some();
            return Err(if has_failed { failure(body) } else { Failed::bad_response("it has no content") });
        };
        for block in content {
            self.blocks.start(None, block, out).map_err(unusable)?;
        }
        self.take_stop(body, out);
        self.tokens.take(&body["usage"]);
        // One JSON value is whole by itself, whatever it says.
        self.stop_reason.get_or_insert_with(|| "end_turn".to_owned());
        self.is_whole = true;
        Ok(())
    }

    fn finish(self) -> Result<ModelReply, Failed> {
        let reason =
            self.stop_reason.filter(|_| self.is_whole).ok_or_else(|| Failed::for_now(ModelError::Truncated))?;
        let stop = match reason.as_str() {
            "end_turn" | "stop_sequence" | "tool_use" => StopReason::Finished,
            "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
            "pause_turn" => StopReason::Paused,
            "refusal" => StopReason::Refused,
            _ => StopReason::Other(reason),
        };
        let content = self.blocks.finish(&stop).map_err(unusable)?;
        let texts = content.blocks.iter().filter(|block| block["type"] == "text").filter_map(|b| b["text"].as_str());
        let text = texts.chain([self.explanation.as_str()]).collect();
        let value = json!({"role": "assistant", "content": content.blocks});
        let verbatim = Some(Verbatim { wire: WIRE.to_owned(), value });
        let turn = AssistantTurn { text, calls: content.calls, verbatim };
        Ok(ModelReply { turn, stop, usage: self.tokens.usage() })
    }
}

fn failure(value: &Value) -> Failed {
    let error = ProviderError::find(value);
    let error = error.unwrap_or_else(|| ProviderError { message: value.to_string(), ..ProviderError::default() });
    error.classify(200, RetryHints::default())
}

fn unusable(error: BlocksError) -> Failed {
    Failed::bad_response(error.to_string())
}

#[cfg(test)]
#[path = "decode_tests.rs"]
pub(super) mod tests;
