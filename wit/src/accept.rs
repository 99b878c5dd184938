//! What a host takes from whoever ends a call, a component, a function of the program or a hook: checked, bounded, with
//! ids and times of the host's. Pure but for the ids: the time is given.
//!
//! A guest cannot be trusted with this, so it is not there when a component is built.

use serde::Serialize;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use crate::limits::{
    ERROR_OUTPUT_BYTES_MAX, JSON_LEVELS_MAX, METADATA_BYTES_MAX, OUTPUT_BYTES_MAX, PART_BYTES_MAX, PARTS_BYTES_MAX,
    PARTS_MAX, PROMPT_CHARS_MAX, REQUEST_DATA_BYTES_MAX, REQUEST_ID_BYTES_MAX, REQUEST_KIND_CHARS_MAX,
    REQUEST_TTL_SECONDS, REQUEST_TTL_SECONDS_MAX, REQUEST_TTL_SECONDS_MIN, STATE_BYTES_MAX,
};
use crate::{ContentPart, Media, Object, Outcome, Request, RequestKind, Source, Suspension, ToolResult, check_schema};

mod secret;
mod shown;
mod violation;

pub use violation::Violation;

use secret::asks_for_secret;
use shown::{display_name, is_web_url};

/// What the model reads when a tool fails without a word.
const NO_ERROR_TEXT: &str = "the tool failed and did not say why";

/// The outcome of a result that may be a question, as [`ToolResult::pending`] makes one.
///
/// # Errors
/// A [`Violation`], for example when the metadata key [`ToolResult::PENDING`] was set by hand.
pub fn outcome(result: ToolResult, now: OffsetDateTime) -> Result<Outcome, Violation> {
    match question_of(&result)? {
        Some(request) => suspension(request, None, now).map(Outcome::Suspended),
        None => self::result(result).map(Outcome::Done),
    }
}

/// A result that is no question. The text of an error is cut at [`ERROR_OUTPUT_BYTES_MAX`] and says what its parts
/// were; names of parts lose directories and what could not be shown.
///
/// # Errors
/// The [`Violation`] when it breaks a rule.
pub fn result(result: ToolResult) -> Result<ToolResult, Violation> {
    result.metadata.as_ref().map_or(Ok(()), check_metadata)?;
    if result.is_error {
        let ToolResult { output, metadata, .. } = result.with_parts_described();
        return Ok(ToolResult { metadata, ..ToolResult::error(error_text(output)) });
    }
    if result.output.len() > OUTPUT_BYTES_MAX {
        return Err(Violation::OutputTooLong);
    }
    Ok(ToolResult { parts: parts(result.parts)?, ..result })
}

/// A question with the state of who asks. Outside it has an id of the host's; the asker's own stands beside it.
///
/// # Errors
/// The [`Violation`] when it breaks a rule.
pub fn suspension(request: Request, state: Option<Vec<u8>>, now: OffsetDateTime) -> Result<Suspension, Violation> {
    if state.as_ref().is_some_and(|state| state.len() > STATE_BYTES_MAX) {
        return Err(Violation::StateTooLarge);
    }
    let guest_id = Some(request.id.clone()).filter(|id| !id.is_empty());
    Ok(Suspension { request: self::request(request, now)?, guest_id, state })
}

/// A question under a fresh id of the host's. Its end is moved into the time that the host keeps a question: between
/// [`REQUEST_TTL_SECONDS_MIN`] and [`REQUEST_TTL_SECONDS_MAX`] from now, [`REQUEST_TTL_SECONDS`] when it names none.
///
/// # Errors
/// The [`Violation`] when it breaks a rule.
pub fn request(request: Request, now: OffsetDateTime) -> Result<Request, Violation> {
    if request.id.len() > REQUEST_ID_BYTES_MAX {
        return Err(Violation::RequestIdTooLong);
    }
    check_kind(&request.kind)?;
    if !(1..=PROMPT_CHARS_MAX).contains(&request.prompt.chars().count()) {
        return Err(Violation::Prompt);
    }
    if request.url.as_deref().is_some_and(|url| !is_web_url(url)) {
        return Err(Violation::RequestUrl);
    }
    request.data.as_ref().map_or(Ok(()), check_request_data)?;
    let expires_at = expires_at(request.expires_at.as_deref(), now)?;
    Ok(Request { id: Request::fresh_id(), expires_at: Some(expires_at), ..request })
}

/// Reads metadata that were written down.
///
/// # Errors
/// The [`Violation`] when they are too large to be read, or no JSON object.
pub fn metadata_from_text(text: &str) -> Result<Object, Violation> {
    if text.len() > METADATA_BYTES_MAX {
        return Err(Violation::MetadataTooLarge);
    }
    object(text).ok_or(Violation::MetadataNoObject)
}

/// Reads the data of a request that were written down.
///
/// # Errors
/// The [`Violation`] when they are too large to be read, or no JSON object.
pub fn request_data_from_text(text: &str) -> Result<Object, Violation> {
    if text.len() > REQUEST_DATA_BYTES_MAX {
        return Err(Violation::RequestDataTooLarge);
    }
    object(text).ok_or(Violation::RequestDataNoObject)
}

/// The parser stops at 128 levels by itself, so it does not recurse far.
fn object(text: &str) -> Option<Object> {
    serde_json::from_str(text).ok()
}

/// The request of a result that [`ToolResult::pending`] made, and nobody changed.
fn question_of(result: &ToolResult) -> Result<Option<Request>, Violation> {
    if !result.metadata.as_ref().is_some_and(|metadata| metadata.contains_key(ToolResult::PENDING)) {
        return Ok(None);
    }
    let request = result.pending_of().ok_or(Violation::PendingByHand)?;
    if ToolResult::pending(request.clone()) == *result { Ok(Some(request)) } else { Err(Violation::PendingByHand) }
}

fn check_metadata(metadata: &Object) -> Result<(), Violation> {
    if metadata.contains_key(ToolResult::PENDING) {
        return Err(Violation::PendingByHand);
    }
    if is_deep(metadata) {
        return Err(Violation::MetadataDeep);
    }
    if json_bytes(metadata) > METADATA_BYTES_MAX { Err(Violation::MetadataTooLarge) } else { Ok(()) }
}

fn error_text(mut output: String) -> String {
    output.truncate(output.floor_char_boundary(ERROR_OUTPUT_BYTES_MAX));
    if output.chars().all(|c| c.is_whitespace() || c.is_control()) {
        NO_ERROR_TEXT.clone_into(&mut output);
    }
    output
}

fn parts(parts: Vec<ContentPart>) -> Result<Vec<ContentPart>, Violation> {
    if parts.len() > PARTS_MAX {
        return Err(Violation::TooManyParts);
    }
    let mut bytes_sum = 0;
    parts
        .into_iter()
        .map(|part| {
            bytes_sum += size_of_part(&part)?;
            if bytes_sum > PARTS_BYTES_MAX { Err(Violation::PartsTooLarge) } else { content_part(part) }
        })
        .collect()
}

fn size_of_part(part: &ContentPart) -> Result<usize, Violation> {
    match part {
        ContentPart::Text(text) if text.len() > OUTPUT_BYTES_MAX => Err(Violation::TextPartTooLong),
        ContentPart::Text(text) => Ok(text.len()),
        ContentPart::Media(media) => match media.source() {
            Source::Bytes(bytes) if bytes.len() > PART_BYTES_MAX => Err(Violation::PartTooLarge),
            Source::Bytes(bytes) => Ok(bytes.len()),
            Source::Url(url) => Ok(url.len()),
        },
    }
}

fn content_part(part: ContentPart) -> Result<ContentPart, Violation> {
    let ContentPart::Media(media) = part else { return Ok(part) };
    let (mime_type, source, name) = media.into_parts();
    if matches!(&source, Source::Url(url) if !is_web_url(url)) {
        return Err(Violation::PartUrl);
    }
    let media = Media::new(&mime_type, source, name.as_deref().and_then(display_name));
    media.map(ContentPart::Media).map_err(|_| Violation::MimeType)
}

fn check_kind(kind: &RequestKind) -> Result<(), Violation> {
    let word = kind.as_str();
    let fits = (1..=REQUEST_KIND_CHARS_MAX).contains(&word.chars().count()) && !word.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(Violation::RequestKind) }
}

fn check_request_data(data: &Object) -> Result<(), Violation> {
    if is_deep(data) {
        return Err(Violation::RequestDataDeep);
    }
    if json_bytes(data) > REQUEST_DATA_BYTES_MAX {
        return Err(Violation::RequestDataTooLarge);
    }
    // Whoever asks will check the answer against it.
    let Some(schema) = data.get("schema") else { return Ok(()) };
    check_schema(schema).map_err(Violation::AnswerSchema)?;
    if asks_for_secret(schema) { Err(Violation::SecretAsked) } else { Ok(()) }
}

/// When a question lapses: what its asker says, moved into the range that the host keeps.
fn expires_at(text: Option<&str>, now: OffsetDateTime) -> Result<String, Violation> {
    let asked = match text {
        Some(text) => OffsetDateTime::parse(text, &Rfc3339).map_err(|_| Violation::ExpiresAt)?,
        None => now + Duration::seconds(REQUEST_TTL_SECONDS),
    };
    let earliest = now + Duration::seconds(REQUEST_TTL_SECONDS_MIN);
    let latest = now + Duration::seconds(REQUEST_TTL_SECONDS_MAX);
    let kept = asked.clamp(earliest, latest).to_offset(time::UtcOffset::UTC);
    kept.replace_nanosecond(0).ok().and_then(|kept| kept.format(&Rfc3339).ok()).ok_or(Violation::ExpiresAt)
}

/// Whether an object has more levels than [`JSON_LEVELS_MAX`]. It looks no deeper than that.
fn is_deep(object: &Object) -> bool {
    fn is_deeper(value: &serde_json::Value, levels: usize) -> bool {
        let below = |value| levels == 0 || is_deeper(value, levels - 1);
        match value {
            serde_json::Value::Object(map) => levels == 0 || map.values().any(below),
            serde_json::Value::Array(items) => levels == 0 || items.iter().any(below),
            _ => false,
        }
    }
    object.values().any(|value| is_deeper(value, JSON_LEVELS_MAX - 1))
}

/// The size of a value as JSON, without writing it down.
fn json_bytes(value: &impl Serialize) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        // What cannot be written down does not fit anywhere.
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
#[path = "accept/accept_tests.rs"]
mod tests;
