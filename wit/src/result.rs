//! How a call ends, as the model, the transcript and an embedding program see it.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{ContentPart, Object, Request};

/// The result of a call.
///
/// In JSON: `{"output", "isError", "parts"?, "metadata"?}`; `parts` is omitted when empty, `metadata` when absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// What the model reads, and all that a text-only world sees. Never null: a missing text is `""`.
    #[serde(default, deserialize_with = "null_as_default")]
    pub output: String,
    /// Whether the call failed or waits.
    #[serde(default, deserialize_with = "null_as_default")]
    pub is_error: bool,
    /// Images, sounds and files.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ContentPart>,
    /// For the host and its users; the model never sees it. The key [`ToolResult::PENDING`] is reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
}

impl ToolResult {
    /// The reserved metadata key under which a suspended result carries its request.
    pub const PENDING: &str = "pending";

    /// It worked.
    #[must_use]
    pub fn ok(output: impl Into<String>) -> Self {
        Self { output: output.into(), ..Self::default() }
    }

    /// A failure that the model can read and react to.
    #[must_use]
    pub fn error(output: impl Into<String>) -> Self {
        Self { output: output.into(), is_error: true, ..Self::default() }
    }

    /// It worked, and there are images, sounds or files.
    #[must_use]
    pub fn ok_with_parts(output: impl Into<String>, parts: impl Into<Vec<ContentPart>>) -> Self {
        Self { output: output.into(), parts: parts.into(), ..Self::default() }
    }

    /// Somebody must answer first. The output is the prompt, and the URL on a line of its own if there is one.
    ///
    /// An empty id is filled with a fresh one (see [`Request::id`]); inside a guest it stays empty, because there
    /// the host fills it.
    #[must_use]
    pub fn pending(request: Request) -> Self {
        #[cfg(not(target_family = "wasm"))]
        let request = if request.id.is_empty() { Request { id: Request::fresh_id(), ..request } } else { request };
        let output = match &request.url {
            Some(url) => format!("{}\n{url}", request.prompt),
            None => request.prompt.clone(),
        };
        let request = serde_json::to_value(request).unwrap_or(Value::Null);
        let metadata = Object::from_iter([(Self::PENDING.to_owned(), request)]);
        Self { output, is_error: true, parts: Vec::new(), metadata: Some(metadata) }
    }

    /// Somebody must grant access at `url` first. An empty prompt becomes
    /// [`Request::AUTHORIZATION_PROMPT`].
    #[must_use]
    pub fn auth_required(url: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self::pending(Request::authorization(url, prompt))
    }

    /// The request of a suspended result; `None` for every other.
    #[must_use]
    pub fn pending_of(&self) -> Option<Request> {
        let pending = self.metadata.as_ref()?.get(Self::PENDING)?;
        Request::deserialize(pending).ok()
    }

    /// The same result without parts: its output says below its text what they were.
    #[must_use]
    pub fn with_parts_described(mut self) -> Self {
        for part in self.parts.drain(..) {
            if !self.output.is_empty() {
                self.output.push('\n');
            }
            match part {
                ContentPart::Text(text) => self.output.push_str(&text),
                media @ ContentPart::Media(_) => self.output.push_str(&media.describe()),
            }
        }
        self
    }

    /// The same result with one more metadata value.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.get_or_insert_default().insert(key.into(), value.into());
        self
    }
}

fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequestKind;
    use serde_json::json;

    fn png(bytes: usize) -> ContentPart {
        ContentPart::from_bytes(vec![7; bytes], "image/png").unwrap()
    }

    #[test]
    fn results_with_equal_values_are_equal() {
        let make = || ToolResult::ok_with_parts("a chart", [png(3)]).with_metadata("rows", 3);
        assert_eq!(make(), make());
        assert_ne!(make(), make().with_metadata("rows", 4));
        assert_ne!(ToolResult::ok("a"), ToolResult::error("a"));
        assert_ne!(ToolResult::ok_with_parts("", [png(3)]), ToolResult::ok_with_parts("", [png(4)]));
    }

    #[test]
    fn a_missing_or_null_output_is_the_empty_text() {
        for text in [json!({}), json!({"output": null}), json!({"output": "", "isError": null, "parts": null})] {
            assert_eq!(serde_json::from_value::<ToolResult>(text).unwrap(), ToolResult::ok(""));
        }
    }

    #[test]
    fn empty_parts_and_absent_metadata_are_omitted() {
        assert_eq!(serde_json::to_value(ToolResult::ok("2")).unwrap(), json!({"output": "2", "isError": false}));
    }

    #[test]
    fn a_full_result_survives_json() {
        let result = ToolResult::ok_with_parts("a chart", [png(3), ContentPart::text("note")])
            .with_metadata("rows", json!([1, 2]));
        let text = json!({
            "output": "a chart",
            "isError": false,
            "parts": [
                {"type": "image", "mimeType": "image/png", "data": "BwcH"},
                {"type": "text", "text": "note"},
            ],
            "metadata": {"rows": [1, 2]},
        });
        assert_eq!(serde_json::to_value(&result).unwrap(), text);
        assert_eq!(serde_json::from_value::<ToolResult>(text).unwrap(), result);
    }

    #[test]
    fn pending_is_an_error_that_carries_its_request() {
        let request = Request::approval("Buy?").with_id("mine");
        let result = ToolResult::pending(request.clone());
        assert_eq!(
            serde_json::to_value(&result).unwrap(),
            json!({
                "output": "Buy?",
                "isError": true,
                "metadata": {"pending": {"id": "mine", "kind": "approval", "prompt": "Buy?"}},
            })
        );
        assert_eq!(result.pending_of(), Some(request));
    }

    #[test]
    fn pending_fills_an_empty_id_with_one_that_nobody_can_guess() {
        let id = || ToolResult::pending(Request::approval("Buy?")).pending_of().unwrap().id;
        let (one, two) = (id(), id());
        assert!(one.starts_with("pnd-") && one.len() == 36, "{one}");
        assert_ne!(one, two);
    }

    #[test]
    fn auth_required_puts_prompt_and_url_on_two_lines() {
        let result = ToolResult::auth_required("https://example.org/login", "Sign in to the calendar");
        assert_eq!(result.output, "Sign in to the calendar\nhttps://example.org/login");
        let bare = ToolResult::auth_required("https://example.org/login", "");
        assert_eq!(bare.output, "Authorization required to continue\nhttps://example.org/login");
        assert_eq!(bare.pending_of().unwrap().kind, RequestKind::Authorization);
    }

    #[test]
    fn only_a_suspended_result_has_a_request() {
        assert_eq!(ToolResult::ok("2").pending_of(), None);
        assert_eq!(ToolResult::error("no").with_metadata("rows", 1).pending_of(), None);
    }
}
