//! From a prompt to the body of a request.

use serde_json::{Value, json};
use toolcell_agent::{AssistantTurn, CallRequest, Message, ToolReply};
use toolcell_contract::{ContentPart, Definition, Media};

use super::strict::fits_strict;
use super::{ResponsesExchange, ResponsesQuirks, WIRE, items, media};
use crate::ask::{Delivery, MediaUse};
use crate::echo::{IdRule, NO_OUTPUT, echoed_arguments, output_of, parameters, push_line, wire_name};
use crate::media::MediaCount;

/// The shortest limit of an answer that OpenAI accepts, in tokens.
const OUTPUT_TOKENS_MIN: u32 = 16;

/// The ids of calls that OpenAI accepts.
const CALL_IDS: IdRule = IdRule::Chars(64);

/// Encodes a prompt.
pub(super) fn encode(exchange: &ResponsesExchange<'_>, media: MediaUse) -> (Value, MediaCount) {
    let ResponsesExchange { prompt, model, quirks, output_tokens_max, delivery, asks_for_reasoning, .. } = exchange;
    let mut input = Input { list: Vec::new(), count: MediaCount::default(), quirks, media };
    for (index, message) in prompt.messages.iter().enumerate() {
        match message {
            Message::User { content } => input.user(content),
            Message::Assistant(turn) => input.assistant(index, turn),
            // A result names its call by the place of the turn before it.
            Message::Tool { replies } => input.replies(index.saturating_sub(1), replies),
        }
    }
    let mut body = json!({"model": model, "input": input.list, "store": false});
    if *asks_for_reasoning {
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    if let Some(system) = prompt.system.filter(|text| !text.is_empty()) {
        body["instructions"] = json!(system);
    }
    if *delivery == Delivery::Streamed {
        body["stream"] = json!(true);
    }
    if let Some(tokens) = output_tokens_max {
        body["max_output_tokens"] = json!(OUTPUT_TOKENS_MIN.max(tokens.get()));
    }
    if !prompt.tools.is_empty() {
        body["tools"] = prompt.tools.iter().map(|tool| function(tool)).collect();
    }
    (body, input.count)
}

struct Input<'a> {
    list: Vec<Value>,
    count: MediaCount,
    quirks: &'a ResponsesQuirks,
    media: MediaUse,
}

impl Input<'_> {
    fn user(&mut self, content: &[ContentPart]) {
        let mut parts: Vec<_> = content.iter().filter_map(|part| self.user_part(part)).collect();
        if parts.is_empty() {
            // A message without content is refused.
            parts.push(input_text(""));
        }
        self.push_user(parts);
    }

    /// Adds content to the last item if that is a message of the user: the templates of some models refuse two in a row.
    fn push_user(&mut self, mut content: Vec<Value>) {
        let last = self.list.last_mut().filter(|last| last["role"] == "user");
        match last.and_then(|last| last["content"].as_array_mut()) {
            Some(before) => before.append(&mut content),
            None => self.list.push(json!({"type": "message", "role": "user", "content": content})),
        }
    }

    fn user_part(&mut self, part: &ContentPart) -> Option<Value> {
        match part {
            ContentPart::Text(text) => Some(input_text(text)).filter(|_| !text.is_empty()),
            ContentPart::Media(media) => {
                Some(self.media_part(media).unwrap_or_else(|description| input_text(&description)))
            }
        }
    }

    /// The part that carries media, or the line of text that stands for them.
    fn media_part(&mut self, media: &Media) -> Result<Value, String> {
        let part = match self.media {
            MediaUse::Sent => media::input_part(media, self.quirks),
            MediaUse::Described => None,
        };
        let part = part.ok_or_else(|| self.count.describe(media))?;
        self.count.add_sent();
        Ok(part)
    }

    fn assistant(&mut self, index: usize, turn: &AssistantTurn) {
        let own = turn.verbatim.as_ref().filter(|verbatim| verbatim.wire == WIRE);
        let own = own.and_then(|verbatim| verbatim.value.as_array()).filter(|items| tell_the_same(items, turn));
        let mut items = own.map_or_else(|| rebuilt(turn), |items| items::echoed(items));
        let calls = items.iter_mut().filter(|item| items::is_call(item));
        for (position, call) in calls.enumerate() {
            mend_call(call, index, position);
        }
        self.list.append(&mut items);
    }

    fn replies(&mut self, turn: usize, replies: &[ToolReply]) {
        let mut following = Vec::new();
        for (position, reply) in replies.iter().enumerate() {
            let id = CALL_IDS.fit(&reply.call_id, turn, position);
            let (mut text, mut media) = (output_of(reply), Vec::new());
            for part in &reply.result.parts {
                match part {
                    ContentPart::Text(more) => push_line(&mut text, more),
                    ContentPart::Media(item) => match self.media_part(item) {
                        Ok(part) => media.push(part),
                        Err(description) => push_line(&mut text, &description),
                    },
                }
            }
            let mut text = if text.trim().is_empty() { NO_OUTPUT } else { &text };
            if !media.is_empty() && !self.quirks.media_in_results {
                following.push(input_text(&format!("Media returned by {} ({id}):", reply.name)));
                following.append(&mut media);
            } else if !media.is_empty() && text == NO_OUTPUT {
                // The media are the output.
                text = "";
            }
            self.list.push(json!({"type": "function_call_output", "call_id": id, "output": output(text, media)}));
        }
        if !following.is_empty() {
            self.push_user(following);
        }
    }
}

/// A result as a plain text where there is nothing else: the form that every server reads.
fn output(text: &str, media: Vec<Value>) -> Value {
    if media.is_empty() {
        return json!(text);
    }
    let text = Some(input_text(text)).filter(|_| !text.is_empty());
    text.into_iter().chain(media).collect()
}

/// Whether items kept verbatim have the calls of our own form. They have not when somebody changed the turn, and then
/// our own form holds.
fn tell_the_same(items: &[Value], turn: &AssistantTurn) -> bool {
    let own = turn.calls.iter().map(|call| Some((call.id.as_str(), call.name.as_str(), call.arguments.as_str())));
    items.iter().filter(|item| items::is_call(item)).map(same_call).eq(own)
}

fn same_call(item: &Value) -> Option<(&str, &str, &str)> {
    let text = |key: &str| item.get(key)?.as_str();
    Some((text("call_id")?, text("name")?, text("arguments")?))
}

/// Changes of a call what a server would refuse, and nothing else.
fn mend_call(item: &mut Value, turn: usize, position: usize) {
    let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
    let id = CALL_IDS.fit(text("call_id"), turn, position);
    let name = wire_name(text("name"));
    let arguments = echoed_arguments(text("arguments")).to_owned();
    item["call_id"] = json!(id);
    item["name"] = json!(name);
    item["arguments"] = json!(arguments);
}

/// A turn that another wire made.
fn rebuilt(turn: &AssistantTurn) -> Vec<Value> {
    let message = (!turn.text.is_empty()).then(|| items::message(&turn.text));
    message.into_iter().chain(turn.calls.iter().map(function_call)).collect()
}

fn function_call(call: &CallRequest) -> Value {
    json!({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments})
}

fn function(tool: &Definition) -> Value {
    let parameters = parameters(tool);
    // Without `strict` OpenAI changes the schema until it fits.
    let strict = fits_strict(&parameters);
    json!({
        "type": "function", "name": tool.name, "description": tool.description, "parameters": parameters,
        "strict": strict,
    })
}

fn input_text(text: &str) -> Value {
    json!({"type": "input_text", "text": text})
}

#[cfg(test)]
#[path = "encode_tests.rs"]
pub(super) mod tests;
