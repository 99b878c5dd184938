//! Between the types of the contract and those of the WIT bindings.

use serde_json::Value;
use toolcell_contract::{Annotations, ContentPart, Object, PartKind, Source, ToolResult};

use crate::bindings::exports::toolcell::tool::tools as exports;
use crate::bindings::toolcell::tool::tool_types as wit;
use crate::context::GivenAnswer;
use crate::{Context, Tool};

pub(crate) fn definition(tool: &Tool) -> wit::Definition {
    wit::Definition {
        name: tool.name.to_owned(),
        title: tool.title.map(str::to_owned),
        description: tool.description.to_owned(),
        input_schema: tool.input_schema(),
        output_schema: None,
        annotations: tool.annotations.map(annotations),
    }
}

fn annotations(hints: Annotations) -> wit::Annotations {
    let Annotations { read_only, destructive, idempotent, open_world } = hints;
    wit::Annotations { read_only, destructive, idempotent, open_world }
}

pub(crate) fn context(context: exports::CallContext) -> Context {
    let answer = context.answer.map(|wit::Answer { id, ok, data, reason }| GivenAnswer { id, ok, data, reason });
    Context::new(context.call_id, context.deadline_ms, answer, context.state)
}

/// A result that is text alone.
pub(crate) fn text(output: String) -> wit::Outcome {
    wit::Outcome { output, metadata: None }
}

/// `state` goes with a result that is pending and with no other.
pub(crate) fn result(result: ToolResult, state: Option<Vec<u8>>) -> wit::ToolResult {
    // An error has no parts.
    let result = if result.is_error { result.with_parts_described() } else { result };
    let ToolResult { output, is_error, parts, metadata } = result;
    if metadata.as_ref().is_some_and(|object| object.contains_key(ToolResult::PENDING)) {
        let pending = metadata.into_iter().flatten().find(|(key, _)| key == ToolResult::PENDING);
        return wit::ToolResult::Pending(wit::Suspension { request: request(pending.map(|(_, value)| value)), state });
    }
    let metadata = metadata.map(object);
    if is_error {
        wit::ToolResult::Error(wit::Outcome { output, metadata })
    } else if parts.is_empty() {
        wit::ToolResult::Ok(wit::Outcome { output, metadata })
    } else {
        let parts = parts.into_iter().map(part).collect();
        wit::ToolResult::Parts(wit::RichOutcome { output, parts, metadata })
    }
}

/// The request as [`ToolResult::pending`] writes it down; the host refuses one without kind and prompt.
fn request(pending: Option<Value>) -> wit::Request {
    let mut request =
        wit::Request { id: None, kind: String::new(), prompt: String::new(), url: None, data: None, expires_at: None };
    let Some(Value::Object(members)) = pending else { return request };
    for (key, value) in members {
        match (key.as_str(), value) {
            ("id", Value::String(text)) => request.id = (!text.is_empty()).then_some(text),
            ("kind", Value::String(text)) => request.kind = text,
            ("prompt", Value::String(text)) => request.prompt = text,
            ("url", Value::String(text)) => request.url = Some(text),
            ("expiresAt", Value::String(text)) => request.expires_at = Some(text),
            ("data", data @ Value::Object(_)) => request.data = Some(data.to_string()),
            _ => {}
        }
    }
    request
}

fn part(part: ContentPart) -> wit::ContentPart {
    let kind = part.kind();
    match part {
        ContentPart::Text(text) => wit::ContentPart::Text(text),
        ContentPart::Media(media) => {
            let (mime_type, source, name) = media.into_parts();
            let source = match source {
                Source::Bytes(bytes) => wit::Source::Bytes(bytes),
                Source::Url(url) => wit::Source::Url(url),
            };
            let media = wit::Media { mime_type, source, name };
            match kind {
                PartKind::Image => wit::ContentPart::Image(media),
                PartKind::Audio => wit::ContentPart::Audio(media),
                PartKind::Text | PartKind::File => wit::ContentPart::File(media),
            }
        }
    }
}

fn object(object: Object) -> String {
    Value::Object(object).to_string()
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
