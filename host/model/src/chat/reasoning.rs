//! A model's reasoning, in the fields that servers of chat completions have for it.

use serde_json::{Map, Value, json};

/// Details of one turn's reasoning, after pieces of one were put together. A model that writes more is caught in a loop.
const DETAILS_MAX: usize = 16_384;

/// More than [`DETAILS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its reasoning has more than {DETAILS_MAX} details")]
pub(super) struct TooManyDetails;

/// The reasoning of one turn as it is collected.
#[derive(Debug, Default)]
pub(super) struct Reasoning {
    /// DeepSeek, vLLM, llama.cpp. Kept apart from an absent field also when it is empty: DeepSeek wants it back.
    reasoning_content: Option<String>,
    /// Ollama, OpenRouter.
    reasoning: Option<String>,
    /// OpenRouter: what goes back to the vendors behind it, with their signatures.
    details: Vec<Value>,
}

impl Reasoning {
    /// Takes the fields of a delta; gives what is new of the text. A server that sends the text in two fields is read
    /// once.
    pub(super) fn take<'d>(&mut self, delta: &'d Map<String, Value>) -> Result<Option<&'d str>, TooManyDetails> {
        let text = |key: &str| delta.get(key).and_then(Value::as_str);
        let (content, plain) = (text("reasoning_content"), text("reasoning"));
        if let Some(text) = content {
            self.reasoning_content.get_or_insert_default().push_str(text);
        }
        if let Some(text) = plain {
            self.reasoning.get_or_insert_default().push_str(text);
        }
        let details = delta.get("reasoning_details").and_then(Value::as_array).into_iter().flatten();
        // What is no object would be refused when it goes back.
        for detail in details.filter(|detail| detail.is_object()) {
            self.take_detail(detail);
            if self.details.len() > DETAILS_MAX {
                return Err(TooManyDetails);
            }
        }
        Ok([content, plain].into_iter().flatten().find(|text| !text.is_empty()))
    }

    /// Puts the fields into a message that goes back.
    pub(super) fn put(self, message: &mut Map<String, Value>) {
        if let Some(text) = self.reasoning_content {
            message.insert("reasoning_content".to_owned(), json!(text));
        }
        if let Some(text) = self.reasoning {
            message.insert("reasoning".to_owned(), json!(text));
        }
        if !self.details.is_empty() {
            message.insert("reasoning_details".to_owned(), Value::Array(self.details));
        }
    }

    /// Details come in pieces: a piece of the same block continues it, and brings its signature at the end.
    fn take_detail(&mut self, detail: &Value) {
        let Some(key) = text_key(detail) else {
            self.details.push(detail.clone());
            return;
        };
        let same = |field: &str, last: &Value| last.get(field) == detail.get(field);
        let last = self.details.last_mut().filter(|last| same("type", last) && same("index", last));
        let Some(last) = last.and_then(Value::as_object_mut) else {
            self.details.push(detail.clone());
            return;
        };
        for (field, value) in detail.as_object().into_iter().flatten() {
            match (last.get_mut(field), value) {
                (Some(Value::String(text)), Value::String(more)) if field == key => text.push_str(more),
                (_, Value::Null) => {}
                _ => {
                    last.insert(field.clone(), value.clone());
                }
            }
        }
    }
}

/// The field of a detail whose text comes in pieces.
fn text_key(detail: &Value) -> Option<&'static str> {
    match detail.get("type").and_then(Value::as_str) {
        Some("reasoning.text") => Some("text"),
        Some("reasoning.summary") => Some("summary"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(deltas: &[Value]) -> (Vec<String>, Value) {
        let (mut reasoning, mut message) = (Reasoning::default(), Map::new());
        let texts =
            deltas.iter().filter_map(|delta| reasoning.take(delta.as_object().unwrap()).unwrap().map(str::to_owned));
        let texts = texts.collect();
        reasoning.put(&mut message);
        (texts, Value::Object(message))
    }

    #[test]
    fn a_text_in_two_fields_is_read_once_and_goes_back_in_both() {
        assert_eq!(
            collect(&[
                json!({"reasoning_content": "a", "reasoning": "a"}),
                json!({"reasoning_content": "b", "reasoning": "b"})
            ]),
            (vec!["a".into(), "b".into()], json!({"reasoning_content": "ab", "reasoning": "ab"}))
        );
    }

    #[test]
    fn an_empty_reasoning_is_told_from_none() {
        assert_eq!(collect(&[json!({"reasoning_content": ""})]), (vec![], json!({"reasoning_content": ""})));
        assert_eq!(collect(&[json!({"reasoning_content": null})]), (vec![], json!({})));
    }

    #[test]
    fn pieces_of_a_detail_become_one_with_its_signature() {
        let text = |index: u64, text: &str, signature: Value| {
            json!({"reasoning_details": [
                {"type": "reasoning.text", "index": index, "text": text, "signature": signature, "format": "f"},
            ]})
        };
        let encrypted = json!({"reasoning_details": [{"type": "reasoning.encrypted", "index": 2, "data": "x"}]});
        let deltas = [
            text(0, "a", json!(null)),
            text(0, "b", json!("sig")),
            text(1, "c", json!(null)),
            encrypted.clone(),
            encrypted,
        ];
        let encrypted = json!({"type": "reasoning.encrypted", "index": 2, "data": "x"});
        assert_eq!(
            collect(&deltas).1,
            json!({"reasoning_details": [
                {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "sig", "format": "f"},
                {"type": "reasoning.text", "index": 1, "text": "c", "signature": null, "format": "f"},
                encrypted, encrypted,
            ]})
        );
    }
}
