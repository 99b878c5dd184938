//! The question that a suspended call asks, and its answer.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Object;

/// What a suspended call asks of a person or of the outside world.
///
/// In JSON: `{"id", "kind", "prompt", "url"?, "data"?, "expiresAt"?}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Outside the sandbox always the host's: it starts with `pnd-` and cannot be guessed. Empty: not given yet.
    #[serde(default)]
    pub id: String,
    /// What is asked for.
    pub kind: RequestKind,
    /// What the person reads.
    pub prompt: String,
    /// A page to open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// More about the question; the key `schema` may hold a flat JSON Schema of what [`Answer::data`] should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Object>,
    /// When the question lapses, as a date and time of RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// What a request asks for. The set is open: an unknown word is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum RequestKind {
    /// A yes or no before something is done.
    Approval,
    /// Something to type or to choose, never a secret.
    Input,
    /// Access that is granted elsewhere, at a URL.
    Authorization,
    /// A question in plain words.
    Question,
    /// Another word.
    Other(String),
}

impl RequestKind {
    /// The word that stands for it in JSON and in WIT.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Approval => "approval",
            Self::Input => "input",
            Self::Authorization => "authorization",
            Self::Question => "question",
            Self::Other(word) => word,
        }
    }
}

impl From<String> for RequestKind {
    fn from(word: String) -> Self {
        match word.as_str() {
            "approval" => Self::Approval,
            "input" => Self::Input,
            "authorization" => Self::Authorization,
            "question" => Self::Question,
            _ => Self::Other(word),
        }
    }
}

impl From<RequestKind> for String {
    fn from(kind: RequestKind) -> Self {
        match kind {
            RequestKind::Other(word) => word,
            known => known.as_str().to_owned(),
        }
    }
}

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Request {
    /// The prompt with which [`Request::authorization`] fills an empty one.
    pub const AUTHORIZATION_PROMPT: &str = "Authorization required to continue";

    /// A request of any kind, without id, URL, data or end.
    #[must_use]
    pub fn new(kind: RequestKind, prompt: impl Into<String>) -> Self {
        Self { id: String::new(), kind, prompt: prompt.into(), url: None, data: None, expires_at: None }
    }

    /// Asks for a yes or no.
    #[must_use]
    pub fn approval(prompt: impl Into<String>) -> Self {
        Self::new(RequestKind::Approval, prompt)
    }

    /// Asks for something to type or to choose; `schema` is a flat JSON Schema of the answer's data.
    #[must_use]
    pub fn input(prompt: impl Into<String>, schema: serde_json::Value) -> Self {
        let data = Object::from_iter([("schema".to_owned(), schema)]);
        Self { data: Some(data), ..Self::new(RequestKind::Input, prompt) }
    }

    /// Asks to grant access at `url`. An empty prompt becomes [`Request::AUTHORIZATION_PROMPT`].
    #[must_use]
    pub fn authorization(url: impl Into<String>, prompt: impl Into<String>) -> Self {
        let mut prompt = prompt.into();
        if prompt.is_empty() {
            Self::AUTHORIZATION_PROMPT.clone_into(&mut prompt);
        }
        Self { url: Some(url.into()), ..Self::new(RequestKind::Authorization, prompt) }
    }

    /// The same request under an id of the caller's.
    #[must_use]
    pub fn with_id(self, id: impl Into<String>) -> Self {
        Self { id: id.into(), ..self }
    }

    /// The flat JSON Schema of the answer's data, if the request has one.
    #[must_use]
    pub fn answer_schema(&self) -> Option<&serde_json::Value> {
        self.data.as_ref()?.get("schema")
    }

    /// An id that starts with `pnd-` and cannot be guessed: 122 random bits of the operating system.
    #[cfg(not(target_family = "wasm"))]
    #[must_use]
    pub fn fresh_id() -> String {
        format!("pnd-{}", uuid::Uuid::new_v4().simple())
    }
}

/// The answer to a [`Request`].
///
/// In JSON: `{"id", "ok", "data"?, "reason"?}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The id of the request.
    pub id: String,
    /// Whether the person agreed.
    pub ok: bool,
    /// What was typed or chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Object>,
    /// When not ok: `declined`, `cancelled` or `expired`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Answer {
    /// A yes.
    #[must_use]
    pub fn approve(id: impl Into<String>) -> Self {
        Self { id: id.into(), ok: true, data: None, reason: None }
    }

    /// A no, with its reason: `declined`, `cancelled` or `expired`.
    #[must_use]
    pub fn decline(id: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { id: id.into(), ok: false, data: None, reason: Some(reason.into()) }
    }

    /// The same answer with what was typed or chosen.
    #[must_use]
    pub fn with_data(self, data: Object) -> Self {
        Self { data: Some(data), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_has_exactly_the_keys_of_the_contract() {
        let full = Request {
            id: "pnd-1".into(),
            kind: RequestKind::Input,
            prompt: "Which seat?".into(),
            url: Some("https://example.org/seats".into()),
            data: Some(Object::from_iter([("schema".into(), json!({"type": "object"}))])),
            expires_at: Some("2026-12-01T12:00:00Z".into()),
        };
        let text = json!({
            "id": "pnd-1", "kind": "input", "prompt": "Which seat?", "url": "https://example.org/seats",
            "data": {"schema": {"type": "object"}}, "expiresAt": "2026-12-01T12:00:00Z",
        });
        assert_eq!(serde_json::to_value(&full).unwrap(), text);
        assert_eq!(serde_json::from_value::<Request>(text).unwrap(), full);
    }

    #[test]
    fn optional_keys_of_a_request_are_omitted() {
        let request = Request::approval("Go?").with_id("a");
        assert_eq!(serde_json::to_value(request).unwrap(), json!({"id": "a", "kind": "approval", "prompt": "Go?"}));
    }

    #[test]
    fn an_unknown_kind_is_kept() {
        let request: Request = serde_json::from_value(json!({"kind": "captcha", "prompt": "?"})).unwrap();
        assert_eq!(request.kind, RequestKind::Other("captcha".into()));
        assert_eq!(serde_json::to_value(request).unwrap()["kind"], json!("captcha"));
    }

    #[test]
    fn an_answer_has_exactly_the_keys_of_the_contract() {
        let data = Object::from_iter([("seat".into(), json!("4A"))]);
        assert_eq!(
            serde_json::to_value(Answer::approve("pnd-1").with_data(data)).unwrap(),
            json!({"id": "pnd-1", "ok": true, "data": {"seat": "4A"}})
        );
        assert_eq!(
            serde_json::to_value(Answer::decline("pnd-1", "expired")).unwrap(),
            json!({"id": "pnd-1", "ok": false, "reason": "expired"})
        );
    }

    #[test]
    fn authorization_without_a_prompt_gets_the_fixed_one() {
        let request = Request::authorization("https://example.org/login", "");
        assert_eq!(request.kind, RequestKind::Authorization);
        assert_eq!(request.prompt, "Authorization required to continue");
        assert_eq!(request.url.as_deref(), Some("https://example.org/login"));
    }

    #[test]
    fn fresh_ids_start_with_pnd_and_do_not_repeat() {
        let ids: std::collections::HashSet<_> = (0..1_000).map(|_| Request::fresh_id()).collect();
        assert_eq!(ids.len(), 1_000);
        assert!(ids.iter().all(|id| id.len() == 36 && id.starts_with("pnd-")), "{ids:?}");
    }
}
