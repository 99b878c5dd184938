//! The content blocks of a turn, put together from the pieces of a stream. They stay in the provider's own form, with
//! all fields, because they go back to it.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};
use toolcell_agent::{CallRequest, ModelEvent, StopReason};

use crate::call::arguments_text;

/// Content blocks of one turn. A turn of a thousand calls would be no use to anyone.
const BLOCKS_MAX: usize = 1024;

/// The content blocks of one turn as they are collected.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    list: Vec<Block>,
}

/// Why blocks cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BlocksError {
    /// More than [`BLOCKS_MAX`].
    #[error("it holds more than {BLOCKS_MAX} content blocks")]
    TooMany,
    /// A piece belongs to a block that was never begun.
    #[error("it holds a piece of a content block that never began")]
    Stray,
    /// A piece would give a block a field that blocks of its kind do not have. Sent back, it would be refused.
    #[error("it holds a piece of another kind than its content block")]
    Misplaced,
    /// A call has no name.
    #[error("it holds a tool call without a name")]
    Nameless,
}

#[derive(Debug)]
struct Block {
    index: Option<u64>,
    value: Map<String, Value>,
    /// The text of a call's input, as far as it came.
    input: String,
}

/// The blocks once they are whole.
pub(super) struct Content {
    /// As they go back.
    pub(super) blocks: Vec<Value>,
    /// The calls among them.
    pub(super) calls: Vec<CallRequest>,
}

impl Blocks {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Begins a block. What it holds already is shown.
    pub(super) fn start(
        &mut self,
        index: Option<u64>,
        value: &Value,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), BlocksError> {
        if self.list.len() >= BLOCKS_MAX {
            return Err(BlocksError::TooMany);
        }
        let Some(value) = value.as_object().cloned() else { return Ok(()) };
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind(&value) {
            "text" => show(ModelEvent::Text, &text("text"), out),
            "thinking" => show(ModelEvent::Reasoning, &text("thinking"), out),
            _ => {}
        }
        self.list.push(Block { index, value, input: String::new() });
        Ok(())
    }

    /// Adds a piece to a block, and shows it.
    pub(super) fn add(
        &mut self,
        index: Option<u64>,
        delta: &Value,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), BlocksError> {
        let Some(delta) = delta.as_object() else { return Ok(()) };
        let text = |key: &str| delta.get(key).and_then(Value::as_str).unwrap_or_default();
        let block = self.block(index, kind(delta))?;
        if !fits(kind(&block.value), kind(delta)) {
            return Err(BlocksError::Misplaced);
        }
        match kind(delta) {
            "text_delta" => {
                block.append("text", text("text"));
                show(ModelEvent::Text, text("text"), out);
            }
            "thinking_delta" => {
                block.append("thinking", text("thinking"));
                show(ModelEvent::Reasoning, text("thinking"), out);
            }
            "input_json_delta" => match delta.get("partial_json") {
                Some(Value::String(text)) => block.input.push_str(text),
                Some(Value::Null) | None => {}
                // An object where a text should be.
                Some(value) => block.input.push_str(&value.to_string()),
            },
            // It comes in one piece.
            "signature_delta" => block.set("signature", json!(text("signature"))),
            "citations_delta" => block.add_citation(delta.get("citation").unwrap_or(&Value::Null)),
            _ => block.merge(delta),
        }
        Ok(())
    }

    /// The blocks and the calls among them.
    pub(super) fn finish(self, stop: &StopReason) -> Result<Content, BlocksError> {
        let last = self.list.len().saturating_sub(1);
        let mut content = Content { blocks: Vec::new(), calls: Vec::new() };
        for (place, mut block) in self.list.into_iter().enumerate() {
            let is_cut_off = *stop == StopReason::Length && place == last;
            let arguments = block.take_input(is_cut_off);
            if kind(&block.value) == "tool_use" {
                let id = block.unique_id(&content.calls);
                let name = block.value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
                if name.is_empty() {
                    return Err(BlocksError::Nameless);
                }
                content.calls.push(CallRequest { id, name, arguments });
            }
            content.blocks.push(Value::Object(block.value));
        }
        Ok(content)
    }

    /// The block of that number. Text and thoughts may come without a beginning: nothing of them can be mistaken.
    fn block(&mut self, index: Option<u64>, delta: &str) -> Result<&mut Block, BlocksError> {
        let found = match index {
            Some(_) => self.list.iter().rposition(|block| block.index == index),
            None => self.list.len().checked_sub(1),
        };
        let found = match (found, delta) {
            (Some(found), _) => found,
            (None, "text_delta") => self.begin(index, json!({"type": "text", "text": ""}))?,
            (None, "thinking_delta") => self.begin(index, json!({"type": "thinking", "thinking": ""}))?,
            (None, _) => return Err(BlocksError::Stray),
        };
        self.list.get_mut(found).ok_or(BlocksError::Stray)
    }

    fn begin(&mut self, index: Option<u64>, value: Value) -> Result<usize, BlocksError> {
        self.start(index, &value, &mut VecDeque::new())?;
        Ok(self.list.len() - 1)
    }
}

impl Block {
    fn set(&mut self, key: &str, value: Value) {
        self.value.insert(key.to_owned(), value);
    }

    fn append(&mut self, key: &str, more: &str) {
        match self.value.get_mut(key) {
            Some(Value::String(text)) => text.push_str(more),
            _ => self.set(key, json!(more)),
        }
    }

    fn add_citation(&mut self, citation: &Value) {
        match self.value.get_mut("citations") {
            Some(Value::Array(citations)) => citations.push(citation.clone()),
            _ => self.set("citations", json!([citation])),
        }
    }

    /// A piece of an unknown kind, for a block of an unknown kind: texts are continued, everything else replaced. Of a
    /// known block nothing may change that is not understood.
    fn merge(&mut self, delta: &Map<String, Value>) {
        if matches!(kind(&self.value), "text" | "thinking" | "redacted_thinking" | "tool_use") {
            return;
        }
        for (key, value) in delta.iter().filter(|(key, _)| *key != "type") {
            match value {
                Value::String(more) => self.append(key, more),
                _ => self.set(key, value.clone()),
            }
        }
    }

    /// The input as the model wrote it, and the input of the block made of it. A call without arguments has no pieces;
    /// when the model was cut off that is something else, and the text stays empty. Some servers give the whole input
    /// at once with the beginning.
    fn take_input(&mut self, is_cut_off: bool) -> String {
        let mut written = std::mem::take(&mut self.input);
        if written.trim().is_empty() {
            match self.value.get("input") {
                Some(Value::Object(input)) if !input.is_empty() => return json!(input).to_string(),
                Some(Value::String(text)) if !text.trim().is_empty() => written.clone_from(text),
                _ if is_cut_off => return String::new(),
                _ => return "{}".to_owned(),
            }
        }
        let written = arguments_text(written);
        let input = serde_json::from_str::<Map<String, Value>>(&written).unwrap_or_default();
        self.set("input", Value::Object(input));
        written
    }

    /// The id of the call; where it is missing or taken the block gets another one, as well.
    fn unique_id(&mut self, calls: &[CallRequest]) -> String {
        let is_taken = |id: &str| id.is_empty() || calls.iter().any(|call| call.id == id);
        let mut id = self.value.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut number = calls.len();
        while is_taken(&id) {
            id = format!("call_{number}");
            number += 1;
        }
        self.set("id", json!(id));
        id
    }
}

/// Whether a block of that kind takes a piece of that kind. Of kinds that are not known here nothing is known.
fn fits(block: &str, delta: &str) -> bool {
    match delta {
        "text_delta" | "citations_delta" => !matches!(block, "thinking" | "redacted_thinking" | "tool_use"),
        "thinking_delta" | "signature_delta" => !matches!(block, "text" | "redacted_thinking" | "tool_use"),
        "input_json_delta" => !matches!(block, "text" | "thinking" | "redacted_thinking"),
        _ => true,
    }
}

/// The type of a block or of a piece.
pub(super) fn kind(value: &Map<String, Value>) -> &str {
    value.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn show(event: fn(String) -> ModelEvent, text: &str, out: &mut VecDeque<ModelEvent>) {
    if !text.is_empty() {
        out.push_back(event(text.to_owned()));
    }
}
