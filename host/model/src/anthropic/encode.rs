//! From a prompt to the body of a request.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use toolcell_agent::{AssistantTurn, CallRequest, Message, ModelWarning, ToolReply};
use toolcell_contract::{ContentPart, Media};

use super::{AnthropicExchange, AnthropicQuirks, OUTPUT_TOKENS_DEFAULT, WIRE, media, tools};
use crate::ask::{Delivery, MediaUse};
use crate::echo::{IdRule, NO_OUTPUT, echoed_arguments, push_line, wire_name};
use crate::media::MediaCount;

/// What stands for a person's message that holds nothing: a message without content is refused.
const NO_MESSAGE: &str = "(empty message)";

/// The ids of calls that Anthropic accepts.
const CALL_ID: IdRule = IdRule::Word;

/// Encodes a prompt.
pub(super) fn encode(exchange: &AnthropicExchange<'_>, media: MediaUse) -> (Value, MediaCount, Vec<ModelWarning>) {
    let AnthropicExchange { prompt, model, quirks, output_tokens_max, delivery } = exchange;
    let mut messages = Messages::new(quirks, media);
    for (index, message) in prompt.messages.iter().enumerate() {
        match message {
            Message::User { content } => messages.user(content),
            Message::Assistant(turn) => messages.assistant(index, turn),
            // A result names its call by the place of the turn before it.
            Message::Tool { replies } => messages.replies(index.saturating_sub(1), replies),
        }
    }
    messages.mark_for_cache();
    let max_tokens = output_tokens_max.unwrap_or(OUTPUT_TOKENS_DEFAULT);
    let mut body = json!({"model": model, "max_tokens": max_tokens});
    if *delivery == Delivery::Streamed {
        body["stream"] = json!(true);
    }
    if let Some(system) = prompt.system.filter(|text| !text.trim().is_empty()) {
        let mut block = text_block(system);
        mark(&mut block);
        body["system"] = json!([block]);
    }
    let (mut tools, warning) = tools::tools(prompt);
    if tools.is_empty() {
        tools = tools::tools_of_history(prompt.messages);
        if !tools.is_empty() {
            body["tool_choice"] = json!({"type": "none"});
        }
    }
    if !tools.is_empty() {
        body["tools"] = Value::Array(tools);
    }
    body["messages"] = Value::Array(messages.list);
    (body, messages.media, warning.into_iter().collect())
}

struct Messages<'a> {
    list: Vec<Value>,
    media: MediaCount,
    quirks: &'a AnthropicQuirks,
    media_use: MediaUse,
    /// The ids of calls so far: in the whole conversation none may come twice.
    ids: HashSet<String>,
    /// The ids of the calls whose results come next.
    open: Vec<String>,
}

impl<'a> Messages<'a> {
    fn new(quirks: &'a AnthropicQuirks, media_use: MediaUse) -> Self {
        let (ids, open) = (HashSet::new(), Vec::new());
        Self { list: Vec::new(), media: MediaCount::default(), quirks, media_use, ids, open }
    }

    /// Adds content to the last message if it has the same role: not every server takes two such messages in a row.
    fn push(&mut self, role: &str, mut content: Vec<Value>) {
        // A message without content is refused.
        if content.is_empty() {
            return;
        }
        let last = self.list.last_mut().filter(|last| last["role"] == role);
        match last.and_then(|last| last["content"].as_array_mut()) {
            Some(blocks) => blocks.append(&mut content),
            None => self.list.push(json!({"role": role, "content": content})),
        }
    }

    fn user(&mut self, content: &[ContentPart]) {
        let blocks = content.iter().filter_map(|part| match part {
            ContentPart::Text(text) => text_if_any(text),
            ContentPart::Media(media) => Some(self.media_block(media).unwrap_or_else(|line| text_block(&line))),
        });
        let mut blocks: Vec<_> = blocks.collect();
        if blocks.is_empty() {
            blocks.push(text_block(NO_MESSAGE));
        }
        self.push("user", blocks);
    }

    /// The block that carries media, or the line of text that stands for them.
    fn media_block(&mut self, media: &Media) -> Result<Value, String> {
        let block = match self.media_use {
            MediaUse::Sent => media::block(media, self.quirks.documents),
            MediaUse::Described => None,
        };
        let block = block.ok_or_else(|| self.media.describe(media))?;
        self.media.add_sent();
        Ok(block)
    }

    /// The turn as it came, or rebuilt where another wire made it or somebody changed it. A turn without content is
    /// left out: words in its place would be taken for the model's own.
    fn assistant(&mut self, index: usize, turn: &AssistantTurn) {
        let calls = turn.calls.iter().enumerate();
        let ids = calls.map(|(position, call)| self.fresh_id(&call.id, index, position)).collect();
        self.open = ids;
        let mut uses = turn.calls.iter().zip(&self.open).map(|(call, id)| tool_use(call, id));
        let content = match own_content(turn) {
            Some(own) => {
                let mut content: Vec<_> = own.iter().filter(|block| self.is_accepted(block)).cloned().collect();
                for block in content.iter_mut().filter(|block| is_tool_use(block)) {
                    mend(block, uses.next());
                }
                content
            }
            // Nothing may follow the calls.
            None => text_if_any(&turn.text).into_iter().chain(uses).collect(),
        };
        self.push("assistant", self.without_last_thoughts(content));
    }

    /// Whether a block of an own turn goes back.
    fn is_accepted(&self, block: &Value) -> bool {
        let has_text = |key: &str| block[key].as_str().is_some_and(|text| !text.is_empty());
        match kind(block) {
            "text" => block["text"].as_str().is_some_and(|text| !text.trim().is_empty()),
            // It was cut off before it was signed.
            "thinking" => self.quirks.unsigned_thinking || has_text("signature"),
            "redacted_thinking" => has_text("data"),
            _ => true,
        }
    }

    /// Anthropic refuses a turn that ends with a thought, as one does that was cut off.
    fn without_last_thoughts(&self, mut content: Vec<Value>) -> Vec<Value> {
        while !self.quirks.unsigned_thinking
            && content.last().is_some_and(|block| matches!(kind(block), "thinking" | "redacted_thinking"))
        {
            content.pop();
        }
        content
    }

    /// All results in one message, and after them the media of those that failed: a failure carries text only.
    fn replies(&mut self, turn: usize, replies: &[ToolReply]) {
        let mut ids = std::mem::take(&mut self.open).into_iter();
        let (mut blocks, mut media) = (Vec::new(), Vec::new());
        for (position, reply) in replies.iter().enumerate() {
            let id = ids.next().unwrap_or_else(|| CALL_ID.fit(&reply.call_id, turn, position));
            let mut content: Vec<_> = text_if_any(&reply.result.output).into_iter().collect();
            for part in &reply.result.parts {
                match part {
                    ContentPart::Text(text) => content.extend(text_if_any(text)),
                    ContentPart::Media(item) => {
                        content.push(self.media_block(item).unwrap_or_else(|line| text_block(&line)));
                    }
                }
            }
            let mut result = json!({"type": "tool_result", "tool_use_id": id});
            if reply.result.is_error {
                result["is_error"] = json!(true);
                let (texts, mut others): (Vec<_>, Vec<_>) =
                    content.into_iter().partition(|block| kind(block) == "text");
                content = texts;
                if !others.is_empty() {
                    media.push(text_block(&format!("Media returned by {} ({id}):", reply.name)));
                    media.append(&mut others);
                }
            }
            result["content"] = result_content(content);
            blocks.push(result);
        }
        blocks.append(&mut media);
        self.push("user", blocks);
    }

    /// An id that no call before has.
    fn fresh_id(&mut self, id: &str, turn: usize, position: usize) -> String {
        let mut fresh = CALL_ID.fit(id, turn, position);
        if self.ids.contains(&fresh) {
            fresh = CALL_ID.fit("", turn, position);
        }
        while !self.ids.insert(fresh.clone()) {
            fresh.push('_');
        }
        fresh
    }

    /// Everything up to here will come again with the next question.
    fn mark_for_cache(&mut self) {
        let last = self.list.iter_mut().rev().find(|message| message["role"] == "user");
        if let Some(block) = last.and_then(|message| message["content"].as_array_mut()?.last_mut()) {
            mark(block);
        }
    }
}

/// The blocks of a turn that this wire made, if they tell the same as our own form. They do not when somebody changed
/// the turn, and then our own form holds. Arguments are taken from there in either case.
fn own_content(turn: &AssistantTurn) -> Option<&[Value]> {
    let own = turn.verbatim.as_ref().filter(|verbatim| verbatim.wire == WIRE)?;
    let content = own.value.get("content")?.as_array().filter(|_| own.value["role"] == "assistant")?;
    let text: String =
        content.iter().filter(|block| kind(block) == "text").filter_map(|b| b["text"].as_str()).collect();
    let calls = content.iter().filter(|block| is_tool_use(block)).map(|b| (b["id"].as_str(), b["name"].as_str()));
    let same = calls.eq(turn.calls.iter().map(|call| (Some(call.id.as_str()), Some(call.name.as_str()))));
    (same && text == turn.text).then_some(content.as_slice())
}

/// Changes of a call what a server would refuse, and nothing else.
fn mend(block: &mut Value, own: Option<Value>) {
    if let (Some(block), Some(Value::Object(own))) = (block.as_object_mut(), own) {
        block.extend(own);
    }
}

fn tool_use(call: &CallRequest, id: &str) -> Value {
    let input: Map<String, Value> = serde_json::from_str(echoed_arguments(&call.arguments)).unwrap_or_default();
    json!({"type": "tool_use", "id": id, "name": wire_name(&call.name), "input": input})
}

/// The oldest and best understood form where there is nothing but text.
fn result_content(content: Vec<Value>) -> Value {
    if content.iter().any(|block| kind(block) != "text") {
        return Value::Array(content);
    }
    let mut text = String::new();
    for line in content.iter().filter_map(|block| block["text"].as_str()) {
        push_line(&mut text, line);
    }
    json!(if text.is_empty() { NO_OUTPUT } else { &text })
}

fn mark(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}

fn kind(block: &Value) -> &str {
    block["type"].as_str().unwrap_or_default()
}

fn is_tool_use(block: &Value) -> bool {
    kind(block) == "tool_use"
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// No block for what is empty: white space alone is refused, too.
fn text_if_any(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| text_block(text))
}

#[cfg(test)]
#[path = "encode_tests.rs"]
pub(super) mod tests;
