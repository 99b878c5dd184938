//! What the tests of all wires share: turns, results and media of a conversation, and what comes of a response.

use std::collections::VecDeque;

use serde_json::Value;
use toolcell_agent::{AssistantTurn, CallRequest, Message, ModelEvent, ModelReply, ToolReply, Verbatim};
use toolcell_contract::{ContentPart, Definition, ToolResult};

use crate::ask::{Decode, Progress};
use crate::provider_error::Failed;
use crate::sse;

/// What came of a response.
#[derive(Debug, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) events: Vec<ModelEvent>,
    pub(crate) reply: Result<ModelReply, String>,
}

impl Decoded {
    fn new(events: VecDeque<ModelEvent>, reply: Result<ModelReply, Failed>) -> Self {
        Self { events: events.into(), reply: reply.map_err(|failed| failed.error.to_string()) }
    }

    pub(crate) fn reply(self) -> ModelReply {
        self.reply.unwrap()
    }

    /// Id, name and arguments of each call.
    pub(crate) fn calls(self) -> Vec<(String, String, String)> {
        let calls = self.reply().turn.calls;
        calls.into_iter().map(|call| (call.id, call.name, call.arguments)).collect()
    }

    /// What goes back as it came.
    pub(crate) fn verbatim(self) -> Value {
        self.reply().turn.verbatim.unwrap().value
    }
}

/// Decodes the pieces of a stream, as they arrive.
pub(crate) fn decode(decoder: impl Decode, pieces: impl IntoIterator<Item: AsRef<[u8]>>) -> Decoded {
    let (mut parser, mut events, mut out) = (sse::Parser::default(), Vec::new(), VecDeque::new());
    for piece in pieces {
        parser.push(piece.as_ref(), &mut events).unwrap();
    }
    parser.finish(&mut events).unwrap();
    let reply = read(decoder, &events, &mut out);
    Decoded::new(out, reply)
}

fn read(mut decoder: impl Decode, events: &[sse::Event], out: &mut VecDeque<ModelEvent>) -> Result<ModelReply, Failed> {
    for event in events {
        if decoder.event(event, out)? == Progress::Done {
            break;
        }
    }
    decoder.finish()
}

/// Decodes a response that came as one JSON value.
pub(crate) fn decode_whole(mut decoder: impl Decode, body: &Value) -> Decoded {
    let mut out = VecDeque::new();
    let reply = decoder.whole(body, &mut out).and_then(|()| decoder.finish());
    Decoded::new(out, reply)
}

/// The id that a call gets when its provider gives none.
pub(crate) fn fresh() -> String {
    "call_fresh".to_owned()
}

/// A call as [`Decoded::calls`] gives it.
pub(crate) fn called(id: &str, name: &str, arguments: &str) -> (String, String, String) {
    (id.into(), name.into(), arguments.into())
}

pub(crate) fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.into())
}

pub(crate) fn thought(text: &str) -> ModelEvent {
    ModelEvent::Reasoning(text.into())
}

pub(crate) fn call(id: &str, name: &str, arguments: &str) -> CallRequest {
    CallRequest { id: id.into(), name: name.into(), arguments: arguments.into() }
}

/// A turn that another wire made.
pub(crate) fn turn(text: &str, calls: &[CallRequest]) -> Message {
    Message::Assistant(AssistantTurn { text: text.into(), calls: calls.to_vec(), verbatim: None })
}

/// A turn that this wire made.
pub(crate) fn own_turn(wire: &str, text: &str, calls: &[CallRequest], value: Value) -> Message {
    let verbatim = Some(Verbatim { wire: wire.into(), value });
    Message::Assistant(AssistantTurn { text: text.into(), calls: calls.to_vec(), verbatim })
}

/// Id of the call, name of the tool, and result, of each call of a turn.
pub(crate) fn results(results: impl IntoIterator<Item = (&'static str, &'static str, ToolResult)>) -> Message {
    let reply =
        |(id, name, result): (&str, &str, ToolResult)| ToolReply { call_id: id.into(), name: name.into(), result };
    Message::Tool { replies: results.into_iter().map(reply).collect() }
}

/// Three bytes of that type.
pub(crate) fn media(mime_type: &str) -> ContentPart {
    ContentPart::from_bytes(vec![1, 2, 3], mime_type).unwrap()
}

pub(crate) fn tool(name: &str, input_schema: Value) -> Definition {
    let description = format!("does {name}");
    Definition { name: name.into(), title: None, description, input_schema, output_schema: None, annotations: None }
}
