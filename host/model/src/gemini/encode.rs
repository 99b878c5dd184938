//! From a prompt to the body of a request.

use serde_json::{Map, Value, json};
use toolcell_agent::{AssistantTurn, CallRequest, Message, ModelWarning, ToolReply, WarningKind};
use toolcell_contract::{ContentPart, Definition};

use super::media::{Place, content_part, result_part};
use super::schema::reduce;
use super::{GeminiExchange, Generation, WIRE, arguments_of};
use crate::ask::{MediaUse, RequestBody};
use crate::echo::{NO_OUTPUT, echoed_arguments, push_line, wire_name};
use crate::media::MediaCount;

/// What stands for a signature on the first call of a turn that Gemini 3 did not make: it refuses the conversation
/// without one, and documents this text for turns of other models
/// (<https://ai.google.dev/gemini-api/docs/thought-signatures>).
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// What stands for a message that says nothing: Gemini refuses a message without parts, and an empty text.
const NO_TEXT: &str = "(empty message)";

/// Encodes a prompt.
pub(super) fn encode(exchange: &GeminiExchange<'_>, media_use: MediaUse) -> RequestBody {
    let GeminiExchange { prompt, model, output_tokens_max, .. } = exchange;
    let mut contents = Contents {
        list: Vec::new(),
        ids: Vec::new(),
        media: MediaCount::default(),
        media_use,
        generation: Generation::of(model),
    };
    for message in prompt.messages {
        match message {
            Message::User { content } => contents.user(content),
            Message::Assistant(turn) => contents.assistant(turn),
            Message::Tool { replies } => contents.replies(replies),
        }
    }
    let mut body = Map::new();
    if let Some(system) = prompt.system.filter(|text| !text.is_empty()) {
        body.insert("systemInstruction".to_owned(), json!({"parts": [{"text": system}]}));
    }
    body.insert("contents".to_owned(), Value::Array(contents.list));
    let mut warnings = Vec::new();
    if !prompt.tools.is_empty() {
        let (declarations, warning) = declarations(prompt.tools);
        body.insert("tools".to_owned(), json!([{"functionDeclarations": declarations}]));
        warnings.extend(warning);
    }
    if let Some(tokens) = output_tokens_max {
        body.insert("generationConfig".to_owned(), json!({"maxOutputTokens": tokens}));
    }
    RequestBody { json: Value::Object(body).to_string().into(), media: contents.media, warnings }
}

struct Contents {
    list: Vec<Value>,
    /// The ids of the calls of the turn before, as the model gave them; those without have none.
    ids: Vec<Option<String>>,
    media: MediaCount,
    media_use: MediaUse,
    generation: Generation,
}

impl Contents {
    fn user(&mut self, content: &[ContentPart]) {
        let mut parts = Vec::new();
        for part in content {
            match part {
                ContentPart::Text(text) if text.is_empty() => {}
                ContentPart::Text(text) => parts.push(text_part(text)),
                ContentPart::Media(media) => {
                    let part = content_part(media).filter(|_| self.media_use == MediaUse::Sent);
                    if part.is_some() {
                        self.media.add_sent();
                    }
                    parts.push(part.unwrap_or_else(|| text_part(&self.media.describe(media))));
                }
            }
        }
        if parts.is_empty() {
            parts.push(text_part(NO_TEXT));
        }
        self.push("user", parts);
    }

    fn assistant(&mut self, turn: &AssistantTurn) {
        let mut parts = own_parts(turn).cloned().unwrap_or_else(|| rebuilt(turn));
        for call in parts.iter_mut().filter_map(|part| part.get_mut("functionCall")) {
            mend_call(call);
        }
        if self.generation == Generation::Since3 {
            sign(&mut parts);
        }
        let id = |call: &Value| call.get("id")?.as_str().map(str::to_owned);
        self.ids = calls_of(&parts).map(id).collect();
        // A turn that says nothing is left out: no message may be without parts.
        if !parts.is_empty() {
            self.push("model", parts);
        }
    }

    /// The results, all in one message: first those of all calls, then the media that results do not carry.
    fn replies(&mut self, replies: &[ToolReply]) {
        let (mut parts, mut beside) = (Vec::new(), Vec::new());
        let ids = std::mem::take(&mut self.ids);
        for (position, reply) in replies.iter().enumerate() {
            let mut response = self.response(reply, &mut beside);
            if let Some(Some(id)) = ids.get(position) {
                response["id"] = json!(id);
            }
            parts.push(json!({"functionResponse": response}));
        }
        parts.append(&mut beside);
        self.push("user", parts);
    }

    fn response(&mut self, reply: &ToolReply, beside: &mut Vec<Value>) -> Value {
        let (mut text, mut within) = (reply.result.output.clone(), Vec::new());
        for part in &reply.result.parts {
            let media = match part {
                ContentPart::Text(more) => {
                    push_line(&mut text, more);
                    continue;
                }
                ContentPart::Media(media) => media,
            };
            match result_part(media, self.generation).filter(|_| self.media_use == MediaUse::Sent) {
                Some(Place::Result(part)) => {
                    self.media.add_sent();
                    within.push(part);
                }
                Some(Place::Content(part)) => {
                    self.media.add_sent();
                    beside.push(part);
                    // Nothing else tells which result they belong to.
                    push_line(
                        &mut text,
                        &format!("[{}: see part {} after the results]", media.mime_type(), beside.len()),
                    );
                }
                None => push_line(&mut text, &self.media.describe(media)),
            }
        }
        let text = if text.trim().is_empty() { NO_OUTPUT } else { &text };
        let key = if reply.result.is_error { "error" } else { "output" };
        let mut response = json!({"name": function_name(&reply.name), "response": {key: text}});
        if !within.is_empty() {
            response["parts"] = Value::Array(within);
        }
        response
    }

    /// Adds parts to the last message if it has the same role: roles must take turns.
    fn push(&mut self, role: &str, mut parts: Vec<Value>) {
        let last = self.list.last_mut().filter(|last| last["role"] == role);
        match last.and_then(|last| last["parts"].as_array_mut()) {
            Some(before) => before.append(&mut parts),
            None => self.list.push(json!({"role": role, "parts": parts})),
        }
    }
}

/// The parts of a turn that this wire made, unless somebody changed its calls; then our own form holds.
fn own_parts(turn: &AssistantTurn) -> Option<&Vec<Value>> {
    let own = turn.verbatim.as_ref().filter(|verbatim| verbatim.wire == WIRE)?;
    let parts = own.value.get("parts")?.as_array()?;
    // Ids are not compared: a call may have none, and results find their calls by their order.
    let calls = calls_of(parts).map(|call| (call.get("name").and_then(Value::as_str), arguments_of(call)));
    let same = calls.eq(turn.calls.iter().map(|call| (Some(call.name.as_str()), call.arguments.clone())));
    same.then_some(parts)
}

fn calls_of(parts: &[Value]) -> impl Iterator<Item = &Value> {
    parts.iter().filter_map(|part| part.get("functionCall"))
}

/// A turn that another wire made. Its ids stay behind: Gemini needs none, and they are not its own.
fn rebuilt(turn: &AssistantTurn) -> Vec<Value> {
    let text = Some(text_part(&turn.text)).filter(|_| !turn.text.is_empty());
    text.into_iter().chain(turn.calls.iter().map(function_call)).collect()
}

fn function_call(call: &CallRequest) -> Value {
    json!({"functionCall": {"name": call.name, "args": json_arguments(&call.arguments)}})
}

/// The arguments as an object; an empty one where they are none.
fn json_arguments(arguments: &str) -> Value {
    serde_json::from_str(echoed_arguments(arguments)).unwrap_or_else(|_| json!({}))
}

/// Changes of a call what Gemini would refuse, and nothing else.
fn mend_call(call: &mut Value) {
    if let Some(name) = call.get_mut("name") {
        *name = json!(function_name(name.as_str().unwrap_or_default()));
    }
    if call.get("args").is_some_and(|arguments| !arguments.is_object()) {
        call["args"] = json_arguments(&arguments_of(call));
    }
}

/// Signs the first call of a turn that has no signature.
fn sign(parts: &mut [Value]) {
    let first = parts.iter_mut().find(|part| part.get("functionCall").is_some()).and_then(Value::as_object_mut);
    if let Some(part) = first {
        part.entry("thoughtSignature").or_insert_with(|| json!(NO_SIGNATURE));
    }
}

/// All tools, and what is told when the model does not see a schema as it stands.
fn declarations(tools: &[&Definition]) -> (Vec<Value>, Option<ModelWarning>) {
    let (mut list, mut reduced) = (Vec::new(), Vec::new());
    for tool in tools {
        let description = if tool.description.is_empty() { &tool.name } else { &tool.description };
        let mut declaration = json!({"name": tool.name, "description": description});
        let schema = reduce(&tool.input_schema);
        if let Some((key, schema)) = schema.parameters {
            declaration[key] = schema;
        }
        if !schema.lost.is_empty() {
            let keywords = schema.lost.into_iter().collect::<Vec<_>>().join(", ");
            reduced.push(format!("\"{}\" ({keywords})", tool.name));
        }
        list.push(declaration);
    }
    let message = format!(
        "the model sees a weaker schema of {}: Gemini does not take these keywords; arguments are still checked \
         against the whole schema, and a description that says the same in words helps the model",
        reduced.join(", ")
    );
    let warning = ModelWarning { kind: WarningKind::SchemaReduced, message };
    (list, (!reduced.is_empty()).then_some(warning))
}

/// A name that a model made up may hold anything; Gemini's begin with a letter or `_`.
fn function_name(name: &str) -> String {
    let mut name = wire_name(name);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.replace_range(..1, "_");
    }
    name
}

fn text_part(text: &str) -> Value {
    json!({"text": text})
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
