//! What an answer of a model and an execution of a tool took. Numbers and names: never a text of either.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toolcell_contract::FailureCode;

use crate::model::Usage;

/// The numbers of one answer or of one execution. In JSON `of` says which; times are milliseconds with a fraction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Measured {
    /// A model was asked for one turn.
    Model {
        /// Who serves it.
        provider: String,
        /// Its name.
        model: String,
        /// From the question to the end of the answer.
        #[serde(rename = "durationMs", with = "milliseconds")]
        duration: Duration,
        /// From the question to the first piece of text or reasoning; none when there was none.
        #[serde(
            rename = "firstPieceMs",
            default,
            skip_serializing_if = "Option::is_none",
            with = "milliseconds::option"
        )]
        first_piece: Option<Duration>,
        /// Tokens, when the answer is whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// When the answer is not whole: [`crate::ModelError::kind`], `cancelled` or `timeout`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A tool was executed once. A call that suspends is executed again after its answer.
    Tool {
        /// Which call.
        call_id: String,
        /// The tool.
        name: String,
        /// The execution alone: not the wait for its turn, not the wait for an answer.
        #[serde(rename = "durationMs", with = "milliseconds")]
        duration: Duration,
        /// Whether it ended in an error. A suspension is none.
        is_error: bool,
        /// Whether it suspended.
        pending: bool,
        /// Why the host ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<FailureCode>,
    },
}

/// A duration as a number of milliseconds, exact to the microsecond.
mod milliseconds {
    use super::*;

    #[expect(clippy::cast_precision_loss, reason = "exact for 285 years of microseconds")]
    fn number(duration: Duration) -> f64 {
        duration.as_micros() as f64 / 1_000.0
    }

    fn duration<E: serde::de::Error>(number: f64) -> Result<Duration, E> {
        Duration::try_from_secs_f64(number / 1_000.0).map_err(E::custom)
    }

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(number(*duration))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        duration(f64::deserialize(deserializer)?)
    }

    pub(super) mod option {
        use super::*;

        #[expect(clippy::ref_option, reason = "serde gives a reference")]
        pub(in super::super) fn serialize<S: Serializer>(
            duration: &Option<Duration>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            duration.map(number).serialize(serializer)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Duration>, D::Error> {
            Option::<f64>::deserialize(deserializer)?.map(duration).transpose()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::RunEvent;
    use serde_json::json;

    #[test]
    fn both_kinds_survive_json_as_events() {
        let tool = Measured::Tool {
            call_id: "run-1.1.0".into(),
            name: "gpu".into(),
            duration: Duration::from_micros(153),
            is_error: false,
            pending: true,
            code: None,
        };
        let model = Measured::Model {
            provider: "openai".into(),
            model: "m".into(),
            duration: Duration::from_millis(1_500),
            first_piece: Some(Duration::from_millis(200)),
            usage: Some(Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() }),
            error: None,
        };
        let tool_json = json!({
            "type": "measured", "of": "tool", "callId": "run-1.1.0", "name": "gpu", "durationMs": 0.153,
            "isError": false, "pending": true,
        });
        let model_json = json!({
            "type": "measured", "of": "model", "provider": "openai", "model": "m", "durationMs": 1500.0,
            "firstPieceMs": 200.0, "usage": {"inputTokens": 10, "outputTokens": 5},
        });
        for (measured, text) in [(tool, tool_json), (model, model_json)] {
            let event = RunEvent::Measured { measured };
            assert_eq!(serde_json::to_value(&event).unwrap(), text);
            assert_eq!(serde_json::from_value::<RunEvent>(text).unwrap(), event);
        }
    }
}
