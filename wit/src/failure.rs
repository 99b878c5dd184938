//! The failures that the host makes, each with a fixed code and a fixed sentence.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ToolResult;

/// Why the host ended or refused a call. The set is fixed, so a program can rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FailureCode {
    /// It ran longer than its time limit.
    Timeout,
    /// The run was cancelled.
    Cancelled,
    /// It needed more memory than its limit.
    MemoryLimit,
    /// It held more handles or tables than its limit.
    HandleLimit,
    /// It recursed too deeply.
    StackOverflow,
    /// It crashed: a panic, an abort, an illegal instruction.
    Trap,
    /// It broke the rules of the component model at the boundary.
    BadAbi,
    /// It ended its process instead of returning a result.
    GuestExit,
    /// It returned or passed more than the host accepts.
    OutputTooLarge,
    /// It returned a result that is no result.
    BadOutput,
    /// It used a power that its policy does not grant.
    Denied,
    /// A rule of the host program does not let this call through.
    Forbidden,
    /// The host has no room for another call.
    Busy,
    /// The host itself failed.
    HostFault,
    /// The host stopped while the call ran; whether it took effect is unknown.
    Interrupted,
    /// Its component cannot be used at the moment.
    ToolUnavailable,
    /// Its component is no longer the one that was asked for.
    ToolChanged,
    /// There is no such tool.
    UnknownTool,
    /// The arguments do not fit the tool's schema.
    InvalidArguments,
    /// A person said no.
    Declined,
    /// Nobody answered in time.
    Expired,
    /// It asked again after its question was answered.
    Unresolved,
}

impl FailureCode {
    /// Every code, for tests and tables.
    pub const ALL: [Self; 22] = [
        Self::Timeout,
        Self::Cancelled,
        Self::MemoryLimit,
        Self::HandleLimit,
        Self::StackOverflow,
        Self::Trap,
        Self::BadAbi,
        Self::GuestExit,
        Self::OutputTooLarge,
        Self::BadOutput,
        Self::Denied,
        Self::Forbidden,
        Self::Busy,
        Self::HostFault,
        Self::Interrupted,
        Self::ToolUnavailable,
        Self::ToolChanged,
        Self::UnknownTool,
        Self::InvalidArguments,
        Self::Declined,
        Self::Expired,
        Self::Unresolved,
    ];

    /// The code as it is written everywhere outside Rust.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::MemoryLimit => "memory-limit",
            Self::HandleLimit => "handle-limit",
            Self::StackOverflow => "stack-overflow",
            Self::Trap => "trap",
            Self::BadAbi => "bad-abi",
            Self::GuestExit => "guest-exit",
            Self::OutputTooLarge => "output-too-large",
            Self::BadOutput => "bad-output",
            Self::Denied => "denied",
            Self::Forbidden => "forbidden",
            Self::Busy => "busy",
            Self::HostFault => "host-fault",
            Self::Interrupted => "interrupted",
            Self::ToolUnavailable => "tool-unavailable",
            Self::ToolChanged => "tool-changed",
            Self::UnknownTool => "unknown-tool",
            Self::InvalidArguments => "invalid-arguments",
            Self::Declined => "declined",
            Self::Expired => "expired",
            Self::Unresolved => "unresolved",
        }
    }

    /// The one sentence that a model reads for this code.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Timeout => "the tool did not finish within its time limit",
            Self::Cancelled => "the call was cancelled",
            Self::MemoryLimit => "the tool needed more memory than it may use",
            Self::HandleLimit => "the tool held more handles than it may hold",
            Self::StackOverflow => "the tool recursed too deeply",
            Self::Trap => "the tool crashed",
            Self::BadAbi => "the tool broke the rules of the component model",
            Self::GuestExit => "the tool ended its process without a result",
            Self::OutputTooLarge => "the tool returned more than the host accepts",
            Self::BadOutput => "the tool returned a result that is not valid",
            Self::Denied => "the tool used a power that it is not granted",
            Self::Forbidden => "the host does not allow this call",
            Self::Busy => "the host is busy; try again later",
            Self::HostFault => "the host failed while it ran the tool",
            Self::Interrupted => "the host stopped while the tool ran; whether it took effect is unknown",
            Self::ToolUnavailable => "the tool cannot be used at the moment",
            Self::ToolChanged => "the tool is no longer the one that was asked for",
            Self::UnknownTool => "there is no tool of this name",
            Self::InvalidArguments => "the arguments do not fit the tool's input schema",
            Self::Declined => "the request was declined",
            Self::Expired => "nobody answered the request in time",
            Self::Unresolved => "the tool asked again after its request was answered",
        }
    }
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failure that the host made, in the host's words. A detail may quote what the model wrote and what the tool's own
/// schema says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which.
    pub code: FailureCode,
    /// More that the model can act on, in the host's words, for example which argument is wrong.
    pub detail: Option<String>,
}

impl Failure {
    /// A failure with its fixed sentence alone.
    #[must_use]
    pub fn new(code: FailureCode) -> Self {
        Self { code, detail: None }
    }

    /// A failure with more that the model can act on.
    #[must_use]
    pub fn with_detail(code: FailureCode, detail: impl Into<String>) -> Self {
        Self { code, detail: Some(detail.into()) }
    }
}

impl fmt::Display for Failure {
    /// `tool error [code]: sentence`, and the detail on the lines after it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tool error [{}]: {}", self.code, self.code.sentence())?;
        match &self.detail {
            Some(detail) => write!(f, "\n{detail}"),
            None => Ok(()),
        }
    }
}

impl From<Failure> for ToolResult {
    /// The error result that the model reads; the metadata key `code` holds the code.
    fn from(failure: Failure) -> Self {
        Self::error(failure.to_string()).with_metadata("code", failure.code.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_failure_becomes_an_error_result_with_its_code_beside_it() {
        let result = ToolResult::from(Failure::new(FailureCode::Timeout));
        assert_eq!(
            serde_json::to_value(result).unwrap(),
            json!({
                "output": "tool error [timeout]: the tool did not finish within its time limit",
                "isError": true,
                "metadata": {"code": "timeout"},
            })
        );
    }

    #[test]
    fn a_detail_follows_the_fixed_sentence() {
        let failure = Failure::with_detail(FailureCode::InvalidArguments, "/to: is required");
        assert_eq!(
            failure.to_string(),
            "tool error [invalid-arguments]: the arguments do not fit the tool's input schema\n/to: is required"
        );
    }

    #[test]
    fn the_written_code_is_the_one_of_json() {
        for code in FailureCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), json!(code.as_str()));
        }
    }
}
