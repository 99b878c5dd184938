//! From a prompt to the body of a request.

use serde_json::{Map, Value, json};
use toolcell_agent::{AssistantTurn, CallRequest, Message, ToolReply};
use toolcell_contract::{ContentPart, Definition, Media};

use super::{ChatExchange, ChatQuirks, MediaSupport, ReasoningEcho, WIRE, media};
use crate::ask::Delivery;
use crate::echo::{IdRule, NO_OUTPUT, echoed_arguments, output_of, parameters, push_line, wire_name};
use crate::media::MediaCount;

/// The fields of an assistant's message that OpenAI knows; it refuses others.
const ASSISTANT_FIELDS: [&str; 4] = ["role", "content", "refusal", "tool_calls"];

/// The fields of a call that OpenAI knows.
const CALL_FIELDS: [&str; 3] = ["id", "type", "function"];

/// The fields of an assistant's message, beside its content, whose texts go on when a turn goes on.
const TEXT_FIELDS: [&str; 3] = ["refusal", "reasoning_content", "reasoning"];

/// What stands between two messages of a person that are sent as one.
const PARAGRAPH: &str = "\n\n";

/// Encodes a prompt.
pub(super) fn encode(exchange: &ChatExchange<'_>, support: &MediaSupport) -> (Value, MediaCount) {
    let ChatExchange { prompt, model, quirks, output_tokens_max, delivery, .. } = exchange;
    let call_ids = exchange.call_ids();
    let mut messages = Messages { list: Vec::new(), media: MediaCount::default(), quirks, support, call_ids };
    if let Some(system) = prompt.system.filter(|text| !text.is_empty()) {
        messages.list.push(json!({"role": "system", "content": system}));
    }
    for (index, message) in prompt.messages.iter().enumerate() {
        match message {
            Message::User { content } => messages.user(content),
            Message::Assistant(turn) => messages.assistant(index, turn),
            // A result names its call by the place of the turn before it.
            Message::Tool { replies } => messages.replies(index.saturating_sub(1), replies),
        }
    }
    let mut body = json!({"model": model, "messages": messages.list});
    if *delivery == Delivery::Streamed {
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
    }
    if let Some(tokens) = output_tokens_max {
        body[quirks.output_limit_key] = json!(tokens);
    }
    // An empty list of tools is refused, and so is a choice of tools without tools.
    if !prompt.tools.is_empty() {
        body["tools"] = prompt.tools.iter().map(|tool| function(tool)).collect();
    }
    (body, messages.media)
}

struct Messages<'a> {
    list: Vec<Value>,
    media: MediaCount,
    quirks: &'a ChatQuirks,
    support: &'a MediaSupport,
    call_ids: IdRule,
}

impl Messages<'_> {
    fn user(&mut self, content: &[ContentPart]) {
        let texts: Vec<_> = content.iter().filter_map(text_of).collect();
        let content = if texts.len() == content.len() {
            // The oldest and best understood form.
            json!(texts.join(PARAGRAPH))
        } else {
            content.iter().filter_map(|part| self.user_part(part)).collect()
        };
        self.push(Map::from_iter([("role".to_owned(), json!("user")), ("content".to_owned(), content)]));
    }

    /// Adds a message, to the last one if it has the same role: the templates of many models want the roles to take turns,
    /// and servers refuse what they cannot fill in.
    fn push(&mut self, message: Map<String, Value>) {
        let is_same = |last: &&mut Map<String, Value>| {
            last.get("role") == message.get("role") && !last.contains_key("tool_calls")
        };
        match self.list.last_mut().and_then(Value::as_object_mut).filter(is_same) {
            Some(last) => merge(last, message),
            None => self.list.push(Value::Object(message)),
        }
    }

    fn user_part(&mut self, part: &ContentPart) -> Option<Value> {
        let media = match part {
            ContentPart::Text(text) => return Some(text_part(text)).filter(|_| !text.is_empty()),
            ContentPart::Media(media) => media,
        };
        Some(self.media_part(media).unwrap_or_else(|description| text_part(&description)))
    }

    /// The part that carries media, or the line of text that stands for them.
    fn media_part(&mut self, media: &Media) -> Result<Value, String> {
        let part = media::content_part(media, self.support).ok_or_else(|| self.media.describe(media))?;
        self.media.add_sent();
        Ok(part)
    }

    fn assistant(&mut self, index: usize, turn: &AssistantTurn) {
        let own = turn.verbatim.as_ref().filter(|verbatim| verbatim.wire == WIRE);
        let own = own.and_then(|verbatim| verbatim.value.as_object()).filter(|message| tells_the_same(message, turn));
        let mut message = own.cloned().unwrap_or_else(|| rebuilt(turn));
        if let Some(calls) = message.get_mut("tool_calls").and_then(Value::as_array_mut) {
            for (position, call) in calls.iter_mut().enumerate() {
                self.mend_call(call, index, position);
            }
        }
        self.mend_fields(&mut message);
        self.push(message);
    }

    /// Changes of a call what a server would refuse, and nothing else.
    fn mend_call(&self, call: &mut Value, turn: usize, position: usize) {
        if let Some(id) = call.get_mut("id") {
            *id = json!(self.call_ids.fit(id.as_str().unwrap_or_default(), turn, position));
        }
        if let Some(name) = call.pointer_mut("/function/name") {
            *name = json!(wire_name(name.as_str().unwrap_or_default()));
        }
        if let Some(arguments) = call.pointer_mut("/function/arguments") {
            *arguments = json!(echoed_arguments(arguments.as_str().unwrap_or_default()));
        }
        if let (ReasoningEcho::Dropped, Some(call)) = (self.quirks.reasoning, call.as_object_mut()) {
            call.retain(|key, _| CALL_FIELDS.contains(&key.as_str()));
        }
    }

    fn mend_fields(&self, message: &mut Map<String, Value>) {
        match self.quirks.reasoning {
            ReasoningEcho::Dropped => message.retain(|key, _| ASSISTANT_FIELDS.contains(&key.as_str())),
            ReasoningEcho::Required if message.contains_key("tool_calls") => {
                message.entry("reasoning_content").or_insert_with(|| json!(""));
            }
            ReasoningEcho::Sent | ReasoningEcho::Required => {}
        }
    }

    /// The results, one message for each, and after them all their media in one message: a result itself carries text
    /// only.
    fn replies(&mut self, turn: usize, replies: &[ToolReply]) {
        let mut media = Vec::new();
        for (position, reply) in replies.iter().enumerate() {
            let id = self.call_ids.fit(&reply.call_id, turn, position);
            let (mut text, mut sent) = (output_of(reply), Vec::new());
            for part in &reply.result.parts {
                match part {
                    ContentPart::Text(more) => push_line(&mut text, more),
                    ContentPart::Media(item) => match self.media_part(item) {
                        Ok(part) => sent.push(part),
                        Err(description) => push_line(&mut text, &description),
                    },
                }
            }
            if !sent.is_empty() {
                media.push(text_part(&format!("Media returned by {} ({id}):", reply.name)));
                media.append(&mut sent);
            }
            let text = if text.trim().is_empty() { NO_OUTPUT } else { &text };
            self.list.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
        }
        if !media.is_empty() {
            self.push(Map::from_iter([("role".to_owned(), json!("user")), ("content".to_owned(), json!(media))]));
        }
    }
}

/// Makes one message of two. What a person says later is a new paragraph; what the model says later goes on where it
/// paused, and nothing of what it thought before is lost.
fn merge(message: &mut Map<String, Value>, later: Map<String, Value>) {
    let gap = if message.get("role").is_some_and(|role| role == "assistant") { "" } else { PARAGRAPH };
    for (key, after) in later {
        let before = message.get_mut(&key).map(Value::take).unwrap_or_default();
        let both = match (before, after) {
            (Value::Null, one) | (one, Value::Null) => one,
            (before, after) if key == "content" => joined(before, after, gap),
            (Value::String(before), Value::String(after)) if TEXT_FIELDS.contains(&key.as_str()) => {
                json!(before + &after)
            }
            (Value::Array(before), Value::Array(after)) => before.into_iter().chain(after).collect(),
            (Value::Object(before), Value::Object(after)) => Value::Object(before.into_iter().chain(after).collect()),
            (_, after) => after,
        };
        message.insert(key, both);
    }
}

fn joined(before: Value, after: Value, gap: &str) -> Value {
    match (before, after) {
        (Value::String(text), content) | (content, Value::String(text)) if text.is_empty() => content,
        (Value::String(before), Value::String(after)) => json!(format!("{before}{gap}{after}")),
        (before, after) => content_parts(before).into_iter().chain(content_parts(after)).collect(),
    }
}

fn content_parts(content: Value) -> Vec<Value> {
    match content {
        Value::Array(parts) => parts,
        Value::String(text) => vec![text_part(&text)],
        _ => Vec::new(),
    }
}

/// Whether a turn kept verbatim has the calls of our own form. It has not when somebody changed the turn, and then our
/// own form holds.
fn tells_the_same(message: &Map<String, Value>, turn: &AssistantTurn) -> bool {
    let calls = message.get("tool_calls").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    message.get("role").is_some_and(|role| role == "assistant")
        && calls
            .iter()
            .map(same_call)
            .eq(turn.calls.iter().map(|call| Some((call.id.as_str(), call.name.as_str(), call.arguments.as_str()))))
}

fn same_call(call: &Value) -> Option<(&str, &str, &str)> {
    let text = |pointer: &str| call.pointer(pointer).and_then(Value::as_str);
    Some((text("/id")?, text("/function/name")?, text("/function/arguments")?))
}

/// A turn that another wire made.
fn rebuilt(turn: &AssistantTurn) -> Map<String, Value> {
    let mut message = Map::from_iter([("role".to_owned(), json!("assistant"))]);
    let content = if turn.text.is_empty() && !turn.calls.is_empty() { Value::Null } else { json!(turn.text) };
    message.insert("content".to_owned(), content);
    // An empty list of calls is refused.
    if !turn.calls.is_empty() {
        message.insert("tool_calls".to_owned(), turn.calls.iter().map(function_call).collect());
    }
    message
}

fn function_call(call: &CallRequest) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

fn function(tool: &Definition) -> Value {
    let function = json!({"name": tool.name, "description": tool.description, "parameters": parameters(tool)});
    json!({"type": "function", "function": function})
}

fn text_of(part: &ContentPart) -> Option<&str> {
    match part {
        ContentPart::Text(text) => Some(text),
        ContentPart::Media(_) => None,
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[cfg(test)]
#[path = "encode_tests.rs"]
pub(super) mod tests;
