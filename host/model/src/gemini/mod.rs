//! The wire format of Gemini's `generateContent`.
//!
//! [`encode`] makes a request of a prompt, [`decode`] a turn of a response, [`schema`] parameters of a tool's schema;
//! all are pure.

mod decode;
mod encode;
mod media;
#[cfg(test)]
mod regression_tests;
mod schema;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::num::NonZeroU32;

use serde_json::{Map, Number, Value};
use toolcell_agent::Prompt;

use crate::ask::{Delivery, Exchange, MediaUse, RequestBody};
use crate::call::{arguments_text, fresh_id};

/// The name of this wire in [`toolcell_agent::Verbatim::wire`].
pub(crate) const WIRE: &str = "gemini";

/// The largest whole number that a double holds exactly, as all numbers of a call's arguments are sent.
const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;

/// One question in this wire format.
pub(crate) struct GeminiExchange<'a> {
    /// What is asked.
    pub(crate) prompt: Prompt<'a>,
    /// Whom, with or without `models/` before the name.
    pub(crate) model: &'a str,
    /// The longest answer, in tokens.
    pub(crate) output_tokens_max: Option<NonZeroU32>,
    /// In pieces or whole.
    pub(crate) delivery: Delivery,
}

impl Exchange for GeminiExchange<'_> {
    type Decoder = decode::Decoder;

    fn path(&self) -> Cow<'_, str> {
        let model = path_segment(self.model.strip_prefix("models/").unwrap_or(self.model));
        match self.delivery {
            Delivery::Streamed => format!("models/{model}:streamGenerateContent?alt=sse").into(),
            Delivery::Whole => format!("models/{model}:generateContent").into(),
        }
    }

    fn encode(&self, media: MediaUse) -> RequestBody {
        encode::encode(self, media)
    }

    fn decoder(&self) -> decode::Decoder {
        decode::Decoder::new(fresh_id)
    }
}

/// What a model's name tells of what it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Generation {
    /// Gemini up to 2.5, and models of other families such as Gemma.
    Before3,
    /// Gemini 3 and later: results carry images and documents themselves, and the first call of a turn must be signed.
    Since3,
}

impl Generation {
    /// `gemini-3-pro` tells its generation by its number. `gemini-flash-latest` and the like mean the newest model, which
    /// is later than 3. Whatever has another name gets what all models take.
    fn of(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model);
        let Some(rest) = name.strip_prefix("gemini-") else { return Self::Before3 };
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let is_since_3 = match digits.parse::<u32>() {
            Ok(number) => number >= 3,
            Err(_) => rest.ends_with("-latest"),
        };
        if is_since_3 { Self::Since3 } else { Self::Before3 }
    }
}

/// A text as one segment of a path (RFC 3986): whatever is not unreserved is encoded.
fn path_segment(text: &str) -> String {
    let mut segment = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            segment.push(char::from(byte));
        } else {
            // Writing into a text cannot fail.
            let _ = write!(segment, "%{byte:02X}");
        }
    }
    segment
}

/// The arguments of a call as a text. Gemini holds them as doubles, and may write 3 as 3.0, which a tool's reader of
/// integers does not take: whole numbers that a double holds exactly are written as integers.
fn arguments_of(call: &Value) -> String {
    match call.get("args") {
        None | Some(Value::Null) => "{}".to_owned(),
        // There are gateways that put the text of the arguments there.
        Some(arguments) => arguments_text(with_integers(arguments).to_string()),
    }
}

fn with_integers(value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(integer(number).unwrap_or_else(|| number.clone())),
        Value::Array(list) => list.iter().map(with_integers).collect(),
        Value::Object(map) => {
            let map = map.iter().map(|(key, value)| (key.clone(), with_integers(value)));
            Value::Object(map.collect::<Map<_, _>>())
        }
        _ => value.clone(),
    }
}

fn integer(number: &Number) -> Option<Number> {
    let double =
        number.as_f64().filter(|double| number.is_f64() && double.fract() == 0.0 && double.abs() <= WHOLE_MAX)?;
    format!("{double:.0}").parse::<i64>().ok().map(Number::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_generation_is_read_from_the_name() {
        for name in ["gemini-3-pro-preview", "models/gemini-3.5-flash", "gemini-12-x", "gemini-flash-latest"] {
            assert_eq!(Generation::of(name), Generation::Since3, "{name}");
        }
        for name in ["gemini-2.5-flash", "gemini-1.5-pro-latest", "gemma-3-27b-it", "gemini-pro", "gemini-exp-1206", ""]
        {
            assert_eq!(Generation::of(name), Generation::Before3, "{name}");
        }
    }

    #[test]
    fn the_model_stands_in_the_path() {
        let path = |model: &str, delivery| {
            let prompt = Prompt { system: None, messages: &[], tools: &[] };
            GeminiExchange { prompt, model, output_tokens_max: None, delivery }.path().into_owned()
        };
        let streamed = "models/gemini-3-pro:streamGenerateContent?alt=sse";
        assert_eq!(path("gemini-3-pro", Delivery::Streamed), streamed);
        assert_eq!(path("models/gemini-3-pro", Delivery::Streamed), streamed);
        assert_eq!(path("gemini-2.5-flash", Delivery::Whole), "models/gemini-2.5-flash:generateContent");
        assert_eq!(path("a/../b?key=x#ü", Delivery::Whole), "models/a%2F..%2Fb%3Fkey%3Dx%23%C3%BC:generateContent");
    }

    #[test]
    fn whole_doubles_become_integers_and_nothing_else_changes() {
        let arguments = |args: Value| arguments_of(&json!({"name": "t", "args": args}));
        assert_eq!(
            arguments(json!({"n": 3.0, "list": [-2.0, 0.5], "deep": {"m": 4}, "text": "3.0", "zero": -0.0})),
            r#"{"n":3,"list":[-2,0.5],"deep":{"m":4},"text":"3.0","zero":0}"#
        );
        assert_eq!(arguments(json!({"n": WHOLE_MAX})), r#"{"n":9007199254740991}"#);
        assert_eq!(arguments(json!({"n": 1e300})), r#"{"n":1e+300}"#);
        assert_eq!(arguments(json!({"n": u64::MAX})), format!(r#"{{"n":{}}}"#, u64::MAX));
        assert_eq!(arguments_of(&json!({"name": "t"})), "{}");
        assert_eq!(arguments(Value::Null), "{}");
    }
}
