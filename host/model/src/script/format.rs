//! The file format of a script.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};
use toolcell_agent::{ModelError, StopReason, Usage};

use super::expect::{Expectation, TextMatch};

/// Bytes of a script that are read; what is longer is cut, and then no JSON any more.
const SCRIPT_BYTES_MAX: u64 = 64 << 20;

/// A conversation to be played.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The model's name; `scripted` when absent.
    #[serde(default = "default_name")]
    pub model: String,
    /// A wait before each word, in milliseconds, for people who watch.
    #[serde(default)]
    pub pace_ms: u64,
    /// What the model says, turn by turn.
    pub turns: Vec<ScriptedTurn>,
}

/// One turn of the model.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedTurn {
    /// What must have been sent.
    #[serde(default)]
    pub expect: Expectation,
    /// Reasoning, streamed before the text.
    #[serde(default)]
    pub reasoning: String,
    /// Text.
    #[serde(default)]
    pub say: String,
    /// Calls.
    #[serde(default)]
    pub calls: Vec<ScriptedCall>,
    /// Why the model stops.
    #[serde(default)]
    pub stop: ScriptedStop,
    /// Tokens of the turn; in the file `{"input_tokens": 3, "output_tokens": 4}`.
    #[serde(default, deserialize_with = "usage")]
    pub usage: Usage,
    /// Failures that come before the turn, one for each time it is asked for. They are counted in this process: in a
    /// new one they come again.
    #[serde(default)]
    pub fail: Vec<ScriptedFailure>,
}

/// A call that the model asks for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// The tool's name.
    pub tool: String,
    /// The arguments; in the file an object, or a string to be sent as it is, also when it is no JSON.
    #[serde(default)]
    pub arguments: ScriptedArguments,
    /// The id; `call-2-1` for the first call of the second turn when absent.
    #[serde(default)]
    pub id: Option<String>,
}

/// The text of a call's arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptedArguments(pub String);

/// Why the model stops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ScriptedStop {
    /// It has said what it wanted.
    #[default]
    Finished,
    /// It reached its limit of output.
    Length,
    /// It refuses to go on.
    Refused,
}

/// A failure of the provider.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedFailure {
    /// Which.
    pub kind: FailureKind,
    /// The HTTP status, where the failure has one.
    #[serde(default)]
    pub status: Option<u16>,
    /// The provider's words.
    #[serde(default)]
    pub message: String,
    /// Whether the turn's text is streamed before it.
    #[serde(default, rename = "after_text")]
    pub is_after_text: bool,
}

/// The kinds of failures: those of [`ModelError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FailureKind {
    /// [`ModelError::Unreachable`].
    Unreachable,
    /// [`ModelError::Unauthorized`].
    Unauthorized,
    /// [`ModelError::ContextTooLong`].
    ContextTooLong,
    /// [`ModelError::Refused`].
    Refused,
    /// [`ModelError::Unavailable`].
    Unavailable,
    /// [`ModelError::BadResponse`].
    BadResponse,
    /// [`ModelError::Truncated`].
    Truncated,
    /// [`ModelError::Idle`].
    Idle,
}

/// Why a script cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read the script {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is no script; the source names line and column.
    #[error("{} is not a script", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// The text is no script; the source names line and column.
    #[error("not a script")]
    Format(#[source] serde_json::Error),
}

impl Script {
    /// A script of these turns.
    #[must_use]
    pub fn of(turns: impl IntoIterator<Item = ScriptedTurn>) -> Self {
        Self { model: default_name(), pace_ms: 0, turns: turns.into_iter().collect() }
    }

    pub(super) fn from_json(text: &str) -> Result<Self, ScriptError> {
        serde_json::from_str(text).map_err(ScriptError::Format)
    }

    pub(super) fn from_file(path: &Path) -> Result<Self, ScriptError> {
        let mut text = String::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(SCRIPT_BYTES_MAX).read_to_string(&mut text))
            .map_err(|source| ScriptError::Read { path: path.to_owned(), source })?;
        serde_json::from_str(&text).map_err(|source| ScriptError::File { path: path.to_owned(), source })
    }
}

impl ScriptedTurn {
    /// A turn of text.
    #[must_use]
    pub fn say(text: impl Into<String>) -> Self {
        Self { say: text.into(), ..Self::default() }
    }

    /// The same turn with one more call. `arguments` is an object, or a string to be sent as it is.
    #[must_use]
    pub fn call(mut self, tool: impl Into<String>, arguments: impl Into<Value>) -> Self {
        let text = match arguments.into() {
            Value::String(text) => text,
            value => value.to_string(),
        };
        self.calls.push(ScriptedCall { tool: tool.into(), arguments: ScriptedArguments(text), id: None });
        self
    }

    /// The same turn, only after that was sent.
    #[must_use]
    pub fn expect(self, expect: Expectation) -> Self {
        Self { expect, ..self }
    }

    /// The same turn, after one more failure of the provider.
    #[must_use]
    pub fn fail(mut self, kind: FailureKind) -> Self {
        self.fail.push(ScriptedFailure { kind, status: None, message: String::new(), is_after_text: false });
        self
    }
}

impl ScriptedStop {
    pub(super) fn reason(self) -> StopReason {
        match self {
            Self::Finished => StopReason::Finished,
            Self::Length => StopReason::Length,
            Self::Refused => StopReason::Refused,
        }
    }
}

impl ScriptedFailure {
    pub(super) fn error(&self) -> ModelError {
        let message = if self.message.is_empty() { "as scripted" } else { &self.message }.to_owned();
        let status = |usual: u16| self.status.unwrap_or(usual);
        match self.kind {
            FailureKind::Unreachable => {
                ModelError::Unreachable { endpoint: "the script".to_owned(), source: message.into() }
            }
            FailureKind::Unauthorized => ModelError::Unauthorized { status: status(401), message },
            FailureKind::ContextTooLong => ModelError::ContextTooLong { message },
            FailureKind::Refused => ModelError::Refused { status: status(400), message },
            FailureKind::Unavailable => ModelError::Unavailable { status: status(503), message },
            FailureKind::BadResponse => ModelError::BadResponse { message },
            FailureKind::Truncated => ModelError::Truncated,
            FailureKind::Idle => ModelError::Idle { seconds: 0 },
        }
    }
}

impl Default for ScriptedArguments {
    fn default() -> Self {
        Self("{}".to_owned())
    }
}

impl<'de> Deserialize<'de> for ScriptedArguments {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Arguments;
        impl<'de> Visitor<'de> for Arguments {
            type Value = ScriptedArguments;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object, or a string to be sent as it is")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(ScriptedArguments(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let object = Map::<String, Value>::deserialize(MapAccessDeserializer::new(map))?;
                Ok(ScriptedArguments(Value::Object(object).to_string()))
            }
        }
        from.deserialize_any(Arguments)
    }
}

impl<'de> Deserialize<'de> for TextMatch {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Full {
            Contains(String),
            Equals(String),
        }
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = TextMatch;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string that must be contained, {\"contains\": …} or {\"equals\": …}")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(TextMatch::Contains(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Ok(match Full::deserialize(MapAccessDeserializer::new(map))? {
                    Full::Contains(text) => TextMatch::Contains(text),
                    Full::Equals(text) => TextMatch::Equals(text),
                })
            }
        }
        from.deserialize_any(Text)
    }
}

fn usage<'de, D: Deserializer<'de>>(from: D) -> Result<Usage, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Tokens {
        input_tokens: u64,
        output_tokens: u64,
    }
    let Tokens { input_tokens, output_tokens } = Tokens::deserialize(from)?;
    Ok(Usage { input_tokens, output_tokens, ..Usage::default() })
}

fn default_name() -> String {
    "scripted".to_owned()
}
