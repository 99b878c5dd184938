//! Takes what a guest returned out of the types of the WIT bindings; the contract says what of it a host accepts.

use time::OffsetDateTime;
use toolcell_contract::accept::{self, Violation};
use toolcell_contract::{ContentPart, Media, Outcome, PartKind, Request, Source, ToolResult};

use crate::bindings::toolcell::tool::tool_types as wit;

/// The outcome of a returned result.
pub(crate) fn outcome(result: wit::ToolResult, now: OffsetDateTime) -> Result<Outcome, Violation> {
    let (is_error, output, parts, metadata) = match result {
        wit::ToolResult::Pending(wit::Suspension { request, state }) => {
            return accept::suspension(request_of(request)?, state, now).map(Outcome::Suspended);
        }
        wit::ToolResult::Ok(wit::Outcome { output, metadata }) => (false, output, Vec::new(), metadata),
        wit::ToolResult::Error(wit::Outcome { output, metadata }) => (true, output, Vec::new(), metadata),
        wit::ToolResult::Parts(wit::RichOutcome { output, parts, metadata }) => (false, output, parts, metadata),
    };
    let parts = parts.into_iter().map(content_part).collect::<Result<_, _>>()?;
    let metadata = metadata.as_deref().map(accept::metadata_from_text).transpose()?;
    accept::result(ToolResult { output, is_error, parts, metadata }).map(Outcome::Done)
}

fn content_part(part: wit::ContentPart) -> Result<ContentPart, Violation> {
    match part {
        wit::ContentPart::Text(text) => Ok(ContentPart::Text(text)),
        wit::ContentPart::Image(media) => media_part(media, PartKind::Image),
        wit::ContentPart::Audio(media) => media_part(media, PartKind::Audio),
        wit::ContentPart::File(media) => media_part(media, PartKind::File),
    }
}

fn media_part(media: wit::Media, kind: PartKind) -> Result<ContentPart, Violation> {
    let source = match media.source {
        wit::Source::Bytes(bytes) => Source::Bytes(bytes),
        wit::Source::Url(url) => Source::Url(url),
    };
    let media = Media::new(&media.mime_type, source, media.name).map_err(|_| Violation::MimeType)?;
    // A file may be anything, also an image that should not be shown as one.
    if kind != PartKind::File && media.kind() != kind {
        return Err(Violation::PartKind);
    }
    Ok(ContentPart::Media(media))
}

fn request_of(request: wit::Request) -> Result<Request, Violation> {
    let wit::Request { id, kind, prompt, url, data, expires_at } = request;
    let data = data.as_deref().map(accept::request_data_from_text).transpose()?;
    Ok(Request { id: id.unwrap_or_default(), kind: kind.into(), prompt, url, data, expires_at })
}

#[cfg(test)]
#[path = "result_tests.rs"]
mod tests;
