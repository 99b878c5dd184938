//! What was said so far, in a form that belongs to no provider.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcell_contract::{ContentPart, ToolResult};

/// One entry of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    /// What a person said.
    User {
        /// Text, and media that go with it.
        content: Vec<ContentPart>,
    },
    /// What the model said, and the calls that it asked for.
    Assistant(AssistantTurn),
    /// The results of all calls of the assistant's turn before it, in call order.
    Tool {
        /// One for each call.
        replies: Vec<ToolReply>,
    },
}

impl Message {
    /// A person's message of plain text.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { content: vec![ContentPart::text(text)] }
    }
}

/// One answer of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantTurn {
    /// What it said.
    pub text: String,
    /// The calls it asked for, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallRequest>,
    /// The same turn as its provider sent it, to be echoed to that provider unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbatim: Option<Verbatim>,
}

/// A turn as its provider sent it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verbatim {
    /// The wire format that made it and can read it.
    pub wire: String,
    /// The provider's own JSON.
    pub value: Value,
}

/// A call that the model asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRequest {
    /// The provider's id of the call; unique within its turn.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What should be a JSON object, exactly as the model wrote it.
    pub arguments: String,
}

/// The result of one call, as it goes back to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolReply {
    /// [`CallRequest::id`].
    pub call_id: String,
    /// The tool.
    pub name: String,
    /// How the call ended. The model sees output and parts, never the metadata.
    pub result: ToolResult,
}

/// Whether every call has exactly one result, straight after its turn and in call order. Providers refuse any other
/// transcript, and go on refusing it.
#[must_use]
pub fn is_balanced(messages: &[Message]) -> bool {
    let mut open: Option<&[CallRequest]> = None;
    for message in messages {
        let calls = open.take();
        match (calls, message) {
            (Some(calls), Message::Tool { replies }) => {
                let asked = calls.iter().map(|call| &call.id);
                if !asked.eq(replies.iter().map(|reply| &reply.call_id)) {
                    return false;
                }
            }
            (None, Message::Assistant(turn)) => open = Some(&turn.calls).filter(|c| !c.is_empty()).map(Vec::as_slice),
            (None, Message::User { .. }) => {}
            _ => return false,
        }
    }
    open.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn turn(ids: &[&str]) -> Message {
        let calls = ids.iter().map(|id| CallRequest { id: (*id).into(), name: "t".into(), arguments: "{}".into() });
        Message::Assistant(AssistantTurn { calls: calls.collect(), ..AssistantTurn::default() })
    }

    fn replies(ids: &[&str]) -> Message {
        let reply = |id: &&str| ToolReply { call_id: (*id).into(), name: "t".into(), result: ToolResult::ok("") };
        Message::Tool { replies: ids.iter().map(reply).collect() }
    }

    #[test]
    fn a_transcript_is_balanced_when_every_call_has_one_result_in_order() {
        let user = || Message::user("hi");
        for good in [vec![], vec![user(), turn(&[])], vec![user(), turn(&["a", "b"]), replies(&["a", "b"]), turn(&[])]]
        {
            assert!(is_balanced(&good), "{good:?}");
        }
        for bad in [
            vec![user(), turn(&["a"])],
            vec![user(), turn(&["a", "b"]), replies(&["a"])],
            vec![user(), turn(&["a", "b"]), replies(&["b", "a"])],
            vec![user(), turn(&["a"]), user(), replies(&["a"])],
            vec![user(), replies(&["a"])],
        ] {
            assert!(!is_balanced(&bad), "{bad:?}");
        }
    }

    #[test]
    fn messages_survive_json() {
        let messages = vec![Message::user("hi"), turn(&["a"]), replies(&["a"])];
        let text = serde_json::to_value(&messages).unwrap();
        assert_eq!(text[0], json!({"role": "user", "content": [{"type": "text", "text": "hi"}]}));
        assert_eq!(serde_json::from_value::<Vec<Message>>(text).unwrap(), messages);
    }
}
