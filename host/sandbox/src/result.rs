//! Turns what a guest returned into an outcome, or names the rule that it breaks. Pure: the time is given.

use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use toolcell_contract::limits::{
    ERROR_OUTPUT_BYTES_MAX, METADATA_BYTES_MAX, OUTPUT_BYTES_MAX, PART_BYTES_MAX, PARTS_BYTES_MAX, PARTS_MAX,
    PROMPT_CHARS_MAX, REQUEST_DATA_BYTES_MAX, REQUEST_TTL_SECONDS, REQUEST_TTL_SECONDS_MAX, REQUEST_URL_BYTES_MAX,
    STATE_BYTES_MAX,
};
use toolcell_contract::{ContentPart, Media, Object, Outcome, PartKind, Request, Source, Suspension, ToolResult};

use crate::bindings::toolcell::tool::tool_types as wit;
use crate::definition::check_schema;
use crate::ending::Fault;

/// A request lapses no sooner than this, so that a person can read it at all.
const REQUEST_TTL_SECONDS_MIN: i64 = 60;

/// Characters of the word that says what a request asks for.
const KIND_CHARS_MAX: usize = 64;

/// Bytes of the id that a tool gives its own request.
const GUEST_ID_BYTES_MAX: usize = 256;

/// Bytes of a part's name, as file systems allow.
const PART_NAME_BYTES_MAX: usize = 255;

/// What the model reads when a tool fails without a word.
const NO_ERROR_TEXT: &str = "the tool failed and did not say why";

/// The outcome of a returned result.
pub(crate) fn outcome(result: wit::ToolResult, now: OffsetDateTime) -> Result<Outcome, Fault> {
    Ok(match result {
        wit::ToolResult::Ok(plain) => Outcome::Done(ok(plain.output, Vec::new(), plain.metadata)?),
        wit::ToolResult::Parts(rich) => Outcome::Done(ok(rich.output, rich.parts, rich.metadata)?),
        wit::ToolResult::Error(plain) => Outcome::Done(error(plain)?),
        wit::ToolResult::Pending(suspension) => Outcome::Suspended(suspended(suspension, now)?),
    })
}

fn ok(output: String, parts: Vec<wit::ContentPart>, metadata: Option<String>) -> Result<ToolResult, Fault> {
    if output.len() > OUTPUT_BYTES_MAX {
        return Err(Fault::ResultTooLarge("output may have at most 256 KiB"));
    }
    Ok(ToolResult { output, is_error: false, parts: content_parts(parts)?, metadata: metadata_of(metadata)? })
}

fn error(plain: wit::Outcome) -> Result<ToolResult, Fault> {
    let mut output = plain.output;
    output.truncate(output.floor_char_boundary(ERROR_OUTPUT_BYTES_MAX));
    if output.chars().all(|c| c.is_whitespace() || c.is_control()) {
        NO_ERROR_TEXT.clone_into(&mut output);
    }
    Ok(ToolResult { output, is_error: true, parts: Vec::new(), metadata: metadata_of(plain.metadata)? })
}

fn metadata_of(text: Option<String>) -> Result<Option<Object>, Fault> {
    let Some(text) = text else { return Ok(None) };
    if text.len() > METADATA_BYTES_MAX {
        return Err(Fault::ResultTooLarge("metadata may have at most 64 KiB"));
    }
    let metadata = object(&text).ok_or(Fault::ResultInvalid("metadata must be a JSON object"))?;
    if metadata.contains_key(ToolResult::PENDING) {
        return Err(Fault::ResultInvalid("the metadata key \"pending\" is reserved: return a pending result instead"));
    }
    Ok(Some(metadata))
}

/// A JSON object of at most 128 levels, which is where the parser stops by itself.
fn object(text: &str) -> Option<Object> {
    serde_json::from_str(text).ok()
}

fn content_parts(parts: Vec<wit::ContentPart>) -> Result<Vec<ContentPart>, Fault> {
    if parts.len() > PARTS_MAX {
        return Err(Fault::ResultTooLarge("a result may have at most 16 parts"));
    }
    let mut bytes_sum = 0;
    parts
        .into_iter()
        .map(|part| {
            bytes_sum += size_of_part(&part)?;
            if bytes_sum > PARTS_BYTES_MAX {
                return Err(Fault::ResultTooLarge("the parts of a result may have at most 8 MiB together"));
            }
            content_part(part)
        })
        .collect()
}

fn size_of_part(part: &wit::ContentPart) -> Result<usize, Fault> {
    match part {
        wit::ContentPart::Text(text) if text.len() > OUTPUT_BYTES_MAX => {
            Err(Fault::ResultTooLarge("a text part may have at most 256 KiB"))
        }
        wit::ContentPart::Text(text) => Ok(text.len()),
        wit::ContentPart::Image(media) | wit::ContentPart::Audio(media) | wit::ContentPart::File(media) => {
            match &media.source {
                wit::Source::Bytes(bytes) if bytes.len() > PART_BYTES_MAX => {
                    Err(Fault::ResultTooLarge("a part may have at most 4 MiB"))
                }
                wit::Source::Bytes(bytes) => Ok(bytes.len()),
                wit::Source::Url(url) => Ok(url.len()),
            }
        }
    }
}

fn content_part(part: wit::ContentPart) -> Result<ContentPart, Fault> {
    match part {
        wit::ContentPart::Text(text) => Ok(ContentPart::Text(text)),
        wit::ContentPart::Image(media) => media_part(media, PartKind::Image),
        wit::ContentPart::Audio(media) => media_part(media, PartKind::Audio),
        wit::ContentPart::File(media) => media_part(media, PartKind::File),
    }
}

fn media_part(media: wit::Media, kind: PartKind) -> Result<ContentPart, Fault> {
    let source = match media.source {
        wit::Source::Bytes(bytes) => Source::Bytes(bytes),
        wit::Source::Url(url) if is_web_url(&url) => Source::Url(url),
        wit::Source::Url(_) => {
            return Err(Fault::ResultInvalid(
                "the url of a part must be an absolute http or https URL of at most 2 KiB",
            ));
        }
    };
    let media = Media::new(&media.mime_type, source, media.name.as_deref().and_then(display_name))
        .map_err(|_| Fault::ResultInvalid("the mime-type of a part must be type/subtype without parameters"))?;
    // A file may be anything, also an image that should not be shown as one.
    if kind != PartKind::File && media.kind() != kind {
        return Err(Fault::ResultInvalid("an image part needs a mime-type image/…, an audio part audio/…"));
    }
    Ok(ContentPart::Media(media))
}

/// A name that can be shown: the last segment of a path, without control and direction characters.
fn display_name(name: &str) -> Option<String> {
    let last = name.rsplit(['/', '\\']).next()?;
    let mut shown: String = last.chars().filter(|c| !c.is_control() && !is_direction(*c)).collect();
    shown.truncate(shown.floor_char_boundary(PART_NAME_BYTES_MAX));
    let shown = shown.trim();
    (!matches!(shown, "" | "." | "..")).then(|| shown.to_owned())
}

/// Characters that change the direction of a text, and so what a person reads.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// An absolute URL that a person or a provider can open: http or https, a plain host, no user name, nothing hidden.
fn is_web_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http"))
        && url.len() <= REQUEST_URL_BYTES_MAX
        && !authority.is_empty()
        && !authority.starts_with(':')
        && authority.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~:[]%".contains(&b))
        && !rest.chars().any(|c| c.is_control() || c.is_whitespace() || is_direction(c) || c == '\\')
}

fn suspended(suspension: wit::Suspension, now: OffsetDateTime) -> Result<Suspension, Fault> {
    let wit::Suspension { request, state } = suspension;
    if state.as_ref().is_some_and(|state| state.len() > STATE_BYTES_MAX) {
        return Err(Fault::ResultTooLarge("the state of a suspension may have at most 64 KiB"));
    }
    if request.id.as_ref().is_some_and(|id| id.len() > GUEST_ID_BYTES_MAX) {
        return Err(Fault::ResultInvalid("the id of a request may have at most 256 bytes"));
    }
    let guest_id = request.id.clone().filter(|id| !id.is_empty());
    Ok(Suspension { request: request_of(request, now)?, guest_id, state })
}

fn request_of(request: wit::Request, now: OffsetDateTime) -> Result<Request, Fault> {
    if !(1..=KIND_CHARS_MAX).contains(&request.kind.chars().count()) || request.kind.chars().any(char::is_control) {
        return Err(Fault::ResultInvalid("the kind of a request must be a word of 1 to 64 characters"));
    }
    if !(1..=PROMPT_CHARS_MAX).contains(&request.prompt.chars().count()) {
        return Err(Fault::ResultInvalid("the prompt of a request must have 1 to 2,000 characters"));
    }
    if request.url.as_deref().is_some_and(|url| !is_web_url(url)) {
        return Err(Fault::ResultInvalid(
            "the url of a request must be an absolute http or https URL of at most 2 KiB",
        ));
    }
    Ok(Request {
        id: Request::fresh_id(),
        kind: request.kind.into(),
        prompt: request.prompt,
        url: request.url,
        data: request_data(request.data)?,
        expires_at: Some(expires_at(request.expires_at.as_deref(), now)?),
    })
}

fn request_data(text: Option<String>) -> Result<Option<Object>, Fault> {
    let Some(text) = text else { return Ok(None) };
    if text.len() > REQUEST_DATA_BYTES_MAX {
        return Err(Fault::ResultInvalid("the data of a request may have at most 16 KiB"));
    }
    let data = object(&text).ok_or(Fault::ResultInvalid("the data of a request must be a JSON object"))?;
    if data.get("schema").is_some_and(|schema| !schema.is_object()) {
        return Err(Fault::ResultInvalid("the schema in the data of a request must be a JSON object"));
    }
    // Whoever asks will check the answer against it.
    if data.get("schema").is_some_and(|schema| check_schema(schema).is_err()) {
        return Err(Fault::ResultInvalid(
            "the schema in the data of a request must be flat, and refer to nothing but small parts of itself",
        ));
    }
    Ok(Some(data))
}

/// When the request lapses: what the tool says, moved into the range that the host keeps.
fn expires_at(text: Option<&str>, now: OffsetDateTime) -> Result<String, Fault> {
    let malformed = Fault::ResultInvalid("expires-at must be a date and time of RFC 3339");
    let asked = match text {
        Some(text) => OffsetDateTime::parse(text, &Rfc3339).map_err(|_| malformed)?,
        None => now + Duration::seconds(REQUEST_TTL_SECONDS),
    };
    let earliest = now + Duration::seconds(REQUEST_TTL_SECONDS_MIN);
    let latest = now + Duration::seconds(REQUEST_TTL_SECONDS_MAX);
    let kept = asked.clamp(earliest, latest).to_offset(time::UtcOffset::UTC);
    kept.replace_nanosecond(0).ok().and_then(|kept| kept.format(&Rfc3339).ok()).ok_or(malformed)
}

#[cfg(test)]
#[path = "result_tests.rs"]
mod tests;
