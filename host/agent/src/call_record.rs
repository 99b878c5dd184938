//! A call that has ended, for the program and for its user.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use toolcell_contract::{Failure, FailureCode, ToolResult};

use crate::transcript::CallRequest;

/// How a call ended: its result, and the host's code where the host made that result.
#[derive(Debug, Clone, PartialEq)]
pub struct CallEnding {
    /// What the model reads.
    pub result: ToolResult,
    /// Set by the host alone, never read out of a tool's text.
    pub code: Option<FailureCode>,
}

impl From<ToolResult> for CallEnding {
    fn from(result: ToolResult) -> Self {
        Self { result, code: None }
    }
}

impl From<Failure> for CallEnding {
    fn from(failure: Failure) -> Self {
        Self { code: Some(failure.code), result: failure.into() }
    }
}

/// A call that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRecord {
    /// The host's id of the call.
    pub call_id: String,
    /// What the model wrote.
    pub request: CallRequest,
    /// What the tool was to run with instead, where a hook replaced the arguments.
    pub replaced_arguments: Option<Value>,
    /// How it ended.
    pub ending: CallEnding,
    /// Time inside the sandbox, all executions together.
    pub duration: Duration,
}

/// The flat object that a call is in the JSON of a run.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallRecordJson<'a> {
    call_id: &'a str,
    name: &'a str,
    arguments: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced_arguments: Option<&'a Value>,
    #[serde(flatten)]
    result: &'a ToolResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<FailureCode>,
    duration_ms: u64,
}

impl Serialize for CallRecord {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = &self.request.arguments;
        CallRecordJson {
            call_id: &self.call_id,
            name: &self.request.name,
            arguments: serde_json::from_str(written).unwrap_or_else(|_| Value::String(written.clone())),
            replaced_arguments: self.replaced_arguments.as_ref(),
            result: &self.ending.result,
            code: self.ending.code,
            duration_ms: u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
        }
        .serialize(serializer)
    }
}
