//! The data of a run that its store keeps whole: what a call holds while it waits, how it ended, how the run ended.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcell_contract::{Definition, Digest, FailureCode, Request, ToolResult};

use crate::answerer::{Asker, Question};
use crate::budget::RunLimit;
use crate::call_record::{CallEnding, CallRecord};
use crate::model::WarningKind;
use crate::run::RunStatus;
use crate::transcript::CallRequest;
use crate::window::Window;

/// What cannot be told from the turns and calls of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Checkpoint {
    /// Time in which it worked so far.
    #[serde(rename = "workedMs", with = "millis")]
    pub worked: Duration,
    /// The kinds of warnings that were told.
    pub warned: BTreeSet<WarningKind>,
    /// How much of the conversation is sent.
    pub window: Window,
}

/// A call that waits, as data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenCallRecord {
    /// The host's id of the call.
    pub call_id: String,
    /// What the model wrote.
    pub call: CallRequest,
    /// The tool as it was when it was called.
    pub tool: Definition,
    /// The component that asked, and that goes on after a yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The arguments that it goes on with.
    pub arguments: Value,
    /// Whether these are no longer the model's arguments.
    pub is_rewritten: bool,
    /// Whether a person has changed them.
    #[serde(default)]
    pub is_edited: bool,
    /// What is still to be asked before it runs at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<(Asker, Request)>,
    /// Time inside the sandbox so far.
    #[serde(rename = "spentMs", with = "millis")]
    pub spent: Duration,
    /// The question, under the host's id.
    pub request: Request,
    /// The tool's own id of the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_id: Option<String>,
    /// Bytes private to the tool.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "base64_bytes")]
    pub state: Option<Vec<u8>>,
    /// Whose question it is.
    pub asker: Asker,
    /// Questions of the tool so far, this one included.
    pub rounds: u32,
}

impl OpenCallRecord {
    /// What the person decides on.
    #[must_use]
    pub fn question(&self) -> Question {
        Question {
            call_id: self.call_id.clone(),
            tool: self.tool.name.clone(),
            arguments: self.arguments.clone(),
            digest: self.digest,
            asker: self.asker,
            request: self.request.clone(),
        }
    }
}

/// A call that has ended, as data that loses nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredRecord {
    /// The host's id of the call.
    pub call_id: String,
    /// What the model wrote.
    pub call: CallRequest,
    /// What the tool was to run with instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_arguments: Option<Value>,
    /// What the model reads.
    pub result: ToolResult,
    /// Set by the host alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<FailureCode>,
    /// Time inside the sandbox.
    #[serde(rename = "durationMs", with = "millis")]
    pub duration: Duration,
}

impl From<CallRecord> for StoredRecord {
    fn from(record: CallRecord) -> Self {
        let CallRecord { call_id, request: call, replaced_arguments, ending, duration } = record;
        let CallEnding { result, code } = ending;
        Self { call_id, call, replaced_arguments, result, code, duration }
    }
}

impl From<StoredRecord> for CallRecord {
    fn from(stored: StoredRecord) -> Self {
        let StoredRecord { call_id, call: request, replaced_arguments, result, code, duration } = stored;
        Self { call_id, request, replaced_arguments, ending: CallEnding { result, code }, duration }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredEnd {
    /// In one word.
    pub status: RunStatus,
    /// What the model said last.
    pub text: String,
    /// The limit that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<RunLimit>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// Bytes in base64 (RFC 4648, section 4).
mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    #[expect(clippy::ref_option, reason = "serde gives the field")]
    pub(super) fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => serializer.serialize_str(&STANDARD.encode(bytes)),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| STANDARD.decode(text).map_err(de::Error::custom)).transpose()
    }
}
