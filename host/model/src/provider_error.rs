//! What a provider says when it fails, in any of the shapes that servers give it, and what that means.

use std::time::Duration;

use serde_json::Value;
use toolcell_agent::ModelError;

use crate::retry::{Retry, RetryHints};

/// Characters of a provider's words that are shown. An HTML page or an echoed request says no more than its beginning.
const MESSAGE_CHARS_MAX: usize = 500;

/// Codes and types of a spent budget: HTTP 429 like a rate limit, but waiting does not help.
const BUDGET_CODES: [&str; 4] =
    ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_balance"];

/// A part of the names of Google's quotas that are used up until tomorrow: HTTP 429, but waiting does not help.
const DAILY_QUOTA: &str = "perday";

/// Codes of a key that is not accepted, where the status (Google's 400) says something else.
const KEY_CODES: [&str; 1] = ["api_key_invalid"];

/// Codes and types of a conversation that is too long: OpenAI's, and llama.cpp's.
const CONTEXT_CODES: [&str; 2] = ["context_length_exceeded", "exceed_context_size_error"];

/// Words of the servers that say the same without a code.
const CONTEXT_WORDS: [&str; 7] = [
    "maximum context length",
    "context length exceeded",
    "context size",
    "context window",
    "prompt is too long",
    "exceeds the maximum number of tokens",
    "exceed context limit",
];

/// Codes and types of a request that is wrong, where no status says so.
const REQUEST_CODES: [&str; 3] = ["invalid_request_error", "invalid_request", "badrequesterror"];

/// Types and states of a failure, where no status says what they mean: Anthropic's, and Google's.
const CODE_STATUS: [(&str, u16); 16] = [
    ("authentication_error", 401),
    ("unauthenticated", 401),
    ("billing_error", 402),
    ("permission_error", 403),
    ("permission_denied", 403),
    ("not_found_error", 404),
    ("not_found", 404),
    ("request_too_large", 413),
    ("rate_limit_error", 429),
    ("rate_limit_exceeded", 429),
    ("resource_exhausted", 429),
    ("api_error", 500),
    ("internal", 500),
    ("unavailable", 503),
    ("timeout_error", 504),
    ("overloaded_error", 529),
];

/// Codes of OpenAI Responses for a prompt that it cannot use; they come inside a stream, where no status says so.
const PROMPT_CODES: [&str; 15] = [
    "invalid_prompt",
    "invalid_image",
    "invalid_image_format",
    "invalid_base64_image",
    "invalid_image_url",
    "invalid_image_mode",
    "image_too_large",
    "image_too_small",
    "image_parse_error",
    "image_content_policy_violation",
    "image_file_too_large",
    "image_file_not_found",
    "unsupported_image_media_type",
    "empty_image_file",
    "failed_to_download_image",
];

/// Words of the servers about media that a model cannot take.
const MEDIA_WORDS: [&str; 7] = ["image", "audio", "vision", "multimodal", "multi-modal", "file", "pdf"];

/// A failure in the provider's words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProviderError {
    /// The status that the words themselves name, where the HTTP status is 200.
    pub(crate) status: Option<u16>,
    /// Code and type, and from Google's details the reason and the names of quotas, in lower case.
    pub(crate) codes: Vec<String>,
    /// What happened.
    pub(crate) message: String,
    /// How long to wait, where the words say so.
    pub(crate) after: Option<Duration>,
}

/// A request that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    /// What the caller is told when there is no retry.
    pub(crate) error: ModelError,
    /// Whether a retry may help.
    pub(crate) retry: Retry,
}

impl Failed {
    /// A failure that would come again.
    pub(crate) fn for_good(error: ModelError) -> Self {
        Self { error, retry: Retry::Never }
    }

    /// A failure that may pass.
    pub(crate) fn for_now(error: ModelError) -> Self {
        Self { error, retry: Retry::Later(None) }
    }

    /// A response that is not what it should be.
    pub(crate) fn bad_response(message: impl Into<String>) -> Self {
        Self::for_good(ModelError::BadResponse { message: message.into() })
    }

    /// An event of a stream that is not JSON. It is quoted whole: only where the key was taken out of a text may the
    /// text be cut, or a part of the key would stay.
    pub(crate) fn not_json(error: &serde_json::Error, data: &str) -> Self {
        Self::bad_response(format!("an event is not JSON ({error}): {data}"))
    }

    /// Whether the provider may have refused the media of the request rather than the request.
    pub(crate) fn is_about_media(&self) -> bool {
        match &self.error {
            ModelError::Refused { status: 413, .. } => true,
            // Also 500: llama.cpp says so with it.
            ModelError::Refused { status: 400 | 404 | 415 | 422, message }
            | ModelError::Unavailable { status: 500, message } => contains_any(message, &MEDIA_WORDS),
            _ => false,
        }
    }
}

impl ProviderError {
    /// Finds a failure in a JSON value: `{"error": …}` with a text or an object, the same inside a choice, `{"detail":
    /// …}` as FastAPI writes it, or a bare `{"message": …}`. A value that holds choices is a failure only when it also
    /// says so.
    pub(crate) fn find(value: &Value) -> Option<Self> {
        // Some gateways wrap the failure into an array of one.
        let value = value.as_array().and_then(|array| array.first()).unwrap_or(value);
        let choice = value.pointer("/choices/0");
        let error = [value.get("error"), choice.and_then(|choice| choice.get("error"))];
        if let Some(error) = error.into_iter().flatten().find(|error| is_given(error)) {
            return Some(Self::read(error));
        }
        let bare = value.get("choices").is_none()
            && ["detail", "message"].iter().any(|key| value.get(key).is_some_and(is_given));
        bare.then(|| Self::read(value))
    }

    /// Reads the body of a response whose status says that it failed.
    pub(crate) fn from_body(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let found = serde_json::from_str(&text).ok().and_then(|value| Self::find(&value));
        found.unwrap_or_else(|| Self {
            message: html_title(&text).unwrap_or_else(|| text.into_owned()),
            ..Self::default()
        })
    }

    fn read(error: &Value) -> Self {
        let text = |key: &str| error.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        // Gateways write the number as a text, too.
        let number = |key: &str| error.get(key)?.as_u64().or_else(|| text(key)?.parse().ok());
        let number = number("code").or_else(|| number("status"));
        let codes = ["code", "type", "status"].into_iter().filter_map(text).chain(detail_codes(error));
        let codes: Vec<_> = codes.map(str::to_ascii_lowercase).collect();
        let is_code = |code: &str| codes.iter().any(|own| own == code);
        let of_prompt = PROMPT_CODES.iter().any(|code| is_code(code)).then_some(400);
        let named = CODE_STATUS.iter().find(|(code, _)| is_code(code)).map(|(_, status)| *status).or(of_prompt);
        let mut message = match error {
            Value::String(message) => message.clone(),
            _ => text("message")
                .map(str::to_owned)
                .or_else(|| error.get("detail").and_then(detail_text))
                .unwrap_or_else(|| error.to_string()),
        };
        // OpenRouter says "Provider returned error", and in `metadata.raw` what that error was.
        if let Some(raw) = error.pointer("/metadata/raw").and_then(Value::as_str) {
            message = format!("{message}: {raw}");
        }
        let status = number.and_then(|n| u16::try_from(n).ok()).filter(|n| (400..600).contains(n));
        let status = status.or(named);
        Self { status, codes, message, after: retry_info(error) }
    }

    /// What the failure means. `status` is the one of the HTTP response: 200 when the failure came inside a stream.
    pub(crate) fn classify(self, status: u16, hints: RetryHints) -> Failed {
        let status = self.status.filter(|_| status < 400).unwrap_or(status);
        let has_code = |known: &[&str]| self.codes.iter().any(|code| known.contains(&code.as_str()));
        let message = if self.message.trim().is_empty() { "no message".to_owned() } else { self.message.clone() };
        if has_code(&KEY_CODES) {
            return Failed::for_good(ModelError::Unauthorized { status, message });
        }
        if has_code(&BUDGET_CODES) || self.codes.iter().any(|code| code.contains(DAILY_QUOTA)) {
            return Failed::for_good(ModelError::Refused { status, message });
        }
        let wrong = matches!(status, 400 | 413 | 422) || has_code(&REQUEST_CODES);
        if has_code(&CONTEXT_CODES) || wrong && contains_any(&message, &CONTEXT_WORDS) {
            return Failed::for_good(ModelError::ContextTooLong { message });
        }
        let (error, may_pass) = match status {
            401 | 403 => (ModelError::Unauthorized { status, message }, false),
            408 | 409 | 425 | 429 | 500.. => (ModelError::Unavailable { status, message }, true),
            200..300 if !has_code(&REQUEST_CODES) => (ModelError::Unavailable { status, message }, true),
            _ => (ModelError::Refused { status, message }, false),
        };
        let after = hints.after.or(self.after);
        let retry = if hints.should_retry.unwrap_or(may_pass) { Retry::Later(after) } else { Retry::Never };
        Failed { error, retry }
    }
}

/// The wait in Google's details, as in `{"@type": "…google.rpc.RetryInfo", "retryDelay": "34s"}`.
fn retry_info(error: &Value) -> Option<Duration> {
    let details = error.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

/// What Google's details name: the `reason` of an ErrorInfo, and the `quotaId` of each violation of a QuotaFailure.
fn detail_codes(error: &Value) -> impl Iterator<Item = &str> {
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    details.flat_map(|detail| {
        let violations = detail.get("violations").and_then(Value::as_array).into_iter().flatten();
        let quotas = violations.filter_map(|violation| violation.get("quotaId")?.as_str());
        detail.get("reason").and_then(Value::as_str).into_iter().chain(quotas)
    })
}

/// The text without control characters and line breaks, shortened: it goes to a terminal and to a log.
pub(crate) fn shorten(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

/// What an HTML page is about; `None` for a text that is none.
pub(crate) fn html_title(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let is_html = ["<!doctype html", "<html", "<head", "<body"].iter().any(|tag| lower.trim_start().starts_with(tag));
    if !is_html {
        return None;
    }
    let title = ["title", "h1"].iter().find_map(|tag| {
        let start = lower.find(&format!("<{tag}>"))? + tag.len() + 2;
        let end = start + lower.get(start..)?.find("</")?;
        text.get(start..end).map(str::trim).filter(|title| !title.is_empty())
    });
    Some(title.map_or_else(|| "an HTML page".to_owned(), |title| format!("an HTML page, \"{title}\"")))
}

/// FastAPI gives a text, or a list of objects with `msg` and the place.
fn detail_text(detail: &Value) -> Option<String> {
    match detail {
        Value::String(text) => Some(text.clone()),
        Value::Array(problems) => {
            let line = |problem: &Value| {
                let text = problem.get("msg")?.as_str()?;
                let place = problem.get("loc").and_then(Value::as_array)?;
                let place: Vec<_> =
                    place.iter().map(|step| step.as_str().map_or(step.to_string(), str::to_owned)).collect();
                Some(format!("{}: {text}", place.join(".")))
            };
            Some(problems.iter().filter_map(line).collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
        }
        Value::Object(_) => Some(detail.to_string()),
        _ => None,
    }
}

fn is_given(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(object) => !object.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Bool(true) => true,
    }
}

fn contains_any(text: &str, words: &[&str]) -> bool {
    let lower = text.to_ascii_lowercase();
    words.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
#[path = "provider_error_tests.rs"]
mod tests;
