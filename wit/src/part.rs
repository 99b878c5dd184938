//! One piece of a rich result: text, an image, a sound or a file, and its JSON form.

use std::fmt;
use std::io::Read;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use crate::limits::PART_BYTES_MAX;

/// The file extensions from which a MIME type is known.
const MIME_TYPES: [(&str, &str); 8] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("pdf", "application/pdf"),
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
];

/// A MIME type longer than this is no MIME type (RFC 6838 section 4.2 allows 127 characters for each half).
const MIME_TYPE_BYTES_MAX: usize = 255;

/// One piece of a rich result.
///
/// In JSON: `{"type": "text", "text": …}`, or `{"type": "image", "mimeType": …, "data": base64, "name": …}` with
/// `url` instead of `data` where the bytes are elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PartJson", into = "PartJson")]
pub enum ContentPart {
    /// Plain text.
    Text(String),
    /// An image, a sound or a file.
    Media(Media),
}

/// An image, a sound or a file: a MIME type that was checked, and where the bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    mime_type: String,
    source: Source,
    name: Option<String>,
}

/// Where the bytes of a media part are. Never a path.
#[derive(Clone, PartialEq, Eq)]
pub enum Source {
    /// The bytes themselves.
    Bytes(Vec<u8>),
    /// An absolute URL from which they can be read.
    Url(String),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
            Self::Url(url) => f.debug_tuple("Url").field(url).finish(),
        }
    }
}

/// What a part is, as its `type` in JSON says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartKind {
    /// Plain text.
    Text,
    /// A MIME type `image/…`.
    Image,
    /// A MIME type `audio/…`.
    Audio,
    /// Every other MIME type.
    File,
}

impl fmt::Display for PartKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Image => "image",
            Self::Audio => "audio",
            Self::File => "file",
        })
    }
}

/// Why something is not a content part.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// The file extension stands for no known MIME type.
    #[error(
        "unknown file extension \"{0}\": use one of png, jpg, jpeg, gif, webp, pdf, mp3, wav, or give the MIME type with from_bytes"
    )]
    UnknownExtension(String),
    /// The MIME type is not `type/subtype`.
    #[error("\"{}\" is not a MIME type: write type/subtype without parameters, as in image/png", .0.escape_debug())]
    BadMimeType(String),
    /// JSON gave a `type` that its `mimeType` contradicts.
    #[error("a part of type \"{kind}\" cannot have the MIME type \"{mime_type}\"")]
    KindMismatch {
        /// The `type`.
        kind: PartKind,
        /// The `mimeType`.
        mime_type: String,
    },
    /// JSON gave both `data` and `url`.
    #[error("a media part has both data and url: give exactly one of them")]
    BothSources,
    /// JSON gave neither `data` nor `url`.
    #[error("a media part has neither data nor url: give exactly one of them")]
    NoSource,
    /// JSON gave a part a key that belongs to another type.
    #[error("a part of type \"{kind}\" needs the key \"{key}\"")]
    MissingKey {
        /// The `type`.
        kind: PartKind,
        /// The missing key.
        key: &'static str,
    },
    /// The base64 text does not decode.
    #[error("the data of a part is not base64")]
    BadBase64(#[source] base64::DecodeError),
    /// A `data:` URL is not of the form of RFC 2397.
    #[error("a data URL must look like data:image/png;base64,…")]
    BadDataUrl,
    /// The bytes exceed [`PART_BYTES_MAX`].
    #[error("a part may have at most {PART_BYTES_MAX} bytes")]
    TooLarge,
    /// The file or the reader failed.
    #[error("cannot read the bytes of a part")]
    Io(#[from] std::io::Error),
}

impl ContentPart {
    /// A text part.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A media part from a file; its extension gives the MIME type, and only its file name is kept.
    ///
    /// # Errors
    /// [`PartError::UnknownExtension`] names the extension; [`PartError::Io`] and [`PartError::TooLarge`] as for
    /// [`ContentPart::from_reader`].
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, PartError> {
        let path = path.as_ref();
        let mime_type = mime_type_of(path.extension().and_then(|e| e.to_str()).unwrap_or_default())?;
        let part = Self::from_reader(std::fs::File::open(path)?, mime_type)?;
        Ok(match path.file_name().and_then(|name| name.to_str()) {
            Some(name) => part.named(name),
            None => part,
        })
    }

    /// A media part from bytes and their MIME type.
    ///
    /// # Errors
    /// [`PartError::BadMimeType`] when `mime_type` is not `type/subtype`.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>, mime_type: &str) -> Result<Self, PartError> {
        Media::new(mime_type, Source::Bytes(bytes.into()), None).map(Self::Media)
    }

    /// A media part from everything that a reader gives, up to [`PART_BYTES_MAX`].
    ///
    /// # Errors
    /// [`PartError::Io`] when reading fails, [`PartError::TooLarge`] when there is more than a part may hold.
    pub fn from_reader(reader: impl Read, mime_type: &str) -> Result<Self, PartError> {
        let mut bytes = Vec::new();
        reader.take(PART_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > PART_BYTES_MAX {
            return Err(PartError::TooLarge);
        }
        Self::from_bytes(bytes, mime_type)
    }

    /// A media part from a URL. A `data:` URL is decoded; of any other the extension gives the MIME type.
    ///
    /// # Errors
    /// [`PartError::BadDataUrl`] or [`PartError::BadBase64`] for a broken `data:` URL,
    /// [`PartError::UnknownExtension`] when the path says nothing about the type: then use
    /// [`ContentPart::from_url_as`].
    pub fn from_url(url: impl Into<String>) -> Result<Self, PartError> {
        let url = url.into();
        if is_data_url(&url) {
            let (mime_type, bytes) = decode_data_url(&url)?;
            return Self::from_bytes(bytes, &mime_type);
        }
        let mime_type = mime_type_of(extension_of_url(&url))?;
        Self::from_url_as(url, mime_type)
    }

    /// A media part from a URL whose MIME type is known. A `data:` URL is decoded, and says its type itself.
    ///
    /// # Errors
    /// As for [`ContentPart::from_url`], and [`PartError::BadMimeType`].
    pub fn from_url_as(url: impl Into<String>, mime_type: &str) -> Result<Self, PartError> {
        let url = url.into();
        if is_data_url(&url) {
            return Self::from_url(url);
        }
        Media::new(mime_type, Source::Url(url), None).map(Self::Media)
    }

    /// The same part with a name to show. A text part has none and stays as it is.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        match self {
            Self::Media(media) => Self::Media(Media { name: Some(name.into()), ..media }),
            text @ Self::Text(_) => text,
        }
    }

    /// What the part is.
    #[must_use]
    pub fn kind(&self) -> PartKind {
        match self {
            Self::Text(_) => PartKind::Text,
            Self::Media(media) => media.kind(),
        }
    }

    /// One line that stands for the part where only text can go, for example `image (image/png, 82 bytes)`.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Text(text) => format!("text ({} bytes)", text.len()),
            Self::Media(media) => match media.source() {
                Source::Bytes(bytes) => {
                    format!("{} ({}, {} bytes)", media.kind(), media.mime_type(), bytes.len())
                }
                Source::Url(url) => format!("{} ({}, {url})", media.kind(), media.mime_type()),
            },
        }
    }
}

impl Media {
    /// A media part with a checked MIME type.
    ///
    /// # Errors
    /// [`PartError::BadMimeType`] when `mime_type` is not `type/subtype`.
    pub fn new(mime_type: &str, source: Source, name: Option<String>) -> Result<Self, PartError> {
        if !is_mime_type(mime_type) {
            return Err(PartError::BadMimeType(mime_type.chars().take(MIME_TYPE_BYTES_MAX).collect()));
        }
        Ok(Self { mime_type: mime_type.to_ascii_lowercase(), source, name })
    }

    /// `type/subtype`, in lower case.
    #[must_use]
    pub fn mime_type(&self) -> &str {
        &self.mime_type
    }

    /// Where the bytes are.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// A name to show.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What the MIME type makes it.
    #[must_use]
    pub fn kind(&self) -> PartKind {
        match self.mime_type.split_once('/') {
            Some(("image", _)) => PartKind::Image,
            Some(("audio", _)) => PartKind::Audio,
            _ => PartKind::File,
        }
    }

    /// Takes the part apart.
    #[must_use]
    pub fn into_parts(self) -> (String, Source, Option<String>) {
        (self.mime_type, self.source, self.name)
    }
}

/// The flat object that a part is in JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PartJson {
    #[serde(rename = "type")]
    kind: PartKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl TryFrom<PartJson> for ContentPart {
    type Error = PartError;

    fn try_from(json: PartJson) -> Result<Self, PartError> {
        if json.kind == PartKind::Text {
            let text = json.text.ok_or(PartError::MissingKey { kind: json.kind, key: "text" })?;
            return Ok(Self::Text(text));
        }
        let source = match (json.data, json.url) {
            (Some(_), Some(_)) => return Err(PartError::BothSources),
            (None, None) => return Err(PartError::NoSource),
            (Some(data), None) => Source::Bytes(BASE64.decode(data).map_err(PartError::BadBase64)?),
            (None, Some(url)) if is_data_url(&url) => Source::Bytes(decode_data_url(&url)?.1),
            (None, Some(url)) => Source::Url(url),
        };
        let mime_type = json.mime_type.ok_or(PartError::MissingKey { kind: json.kind, key: "mimeType" })?;
        let media = Media::new(&mime_type, source, json.name)?;
        if media.kind() != json.kind {
            return Err(PartError::KindMismatch { kind: json.kind, mime_type: media.mime_type });
        }
        Ok(Self::Media(media))
    }
}

impl From<ContentPart> for PartJson {
    fn from(part: ContentPart) -> Self {
        let kind = part.kind();
        match part {
            ContentPart::Text(text) => {
                Self { kind, text: Some(text), mime_type: None, data: None, url: None, name: None }
            }
            ContentPart::Media(media) => {
                let (mime_type, source, name) = media.into_parts();
                let (data, url) = match source {
                    Source::Bytes(bytes) => (Some(BASE64.encode(bytes)), None),
                    Source::Url(url) => (None, Some(url)),
                };
                Self { kind, text: None, mime_type: Some(mime_type), data, url, name }
            }
        }
    }
}

fn mime_type_of(extension: &str) -> Result<&'static str, PartError> {
    MIME_TYPES
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(extension))
        .map(|(_, mime_type)| *mime_type)
        .ok_or_else(|| PartError::UnknownExtension(extension.to_owned()))
}

/// The extension of the last segment of a URL's path, without query and fragment.
fn extension_of_url(url: &str) -> &str {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = after_scheme.split(['?', '#']).next().unwrap_or_default();
    let Some((_, segment)) = path.rsplit_once('/') else { return "" };
    segment.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn is_mime_type(text: &str) -> bool {
    // RFC 6838 section 4.2: restricted-name for both halves.
    let restricted = |half: &str| {
        half.starts_with(|c: char| c.is_ascii_alphanumeric())
            && half.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    text.len() <= MIME_TYPE_BYTES_MAX
        && text.split_once('/').is_some_and(|(kind, subtype)| restricted(kind) && restricted(subtype))
}

fn is_data_url(url: &str) -> bool {
    url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

/// RFC 2397; the MIME type without its parameters, `text/plain` when there is none.
fn decode_data_url(url: &str) -> Result<(String, Vec<u8>), PartError> {
    let (head, body) = url[5..].split_once(',').ok_or(PartError::BadDataUrl)?;
    let mut fields = head.split(';');
    let mime_type = match fields.next() {
        Some("") | None => "text/plain",
        Some(mime_type) => mime_type,
    };
    let body = percent_decode(body)?;
    let bytes = if fields.next_back().is_some_and(|last| last.eq_ignore_ascii_case("base64")) {
        BASE64.decode(body).map_err(PartError::BadBase64)?
    } else {
        body
    };
    Ok((mime_type.to_owned(), bytes))
}

fn percent_decode(text: &str) -> Result<Vec<u8>, PartError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16)).ok_or(PartError::BadDataUrl);
        let value = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(value).map_err(|_| PartError::BadDataUrl)?);
    }
    Ok(bytes)
}

#[cfg(test)]
#[path = "part_tests.rs"]
mod tests;
