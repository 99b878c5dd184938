//! The rules that a result or a question can break.

use crate::limits::{
    JSON_LEVELS_MAX, METADATA_BYTES_MAX, OUTPUT_BYTES_MAX, PART_BYTES_MAX, PARTS_BYTES_MAX, PARTS_MAX,
    PROMPT_CHARS_MAX, REQUEST_DATA_BYTES_MAX, REQUEST_ID_BYTES_MAX, REQUEST_KIND_CHARS_MAX, REQUEST_URL_BYTES_MAX,
    STATE_BYTES_MAX,
};
use crate::{Failure, FailureCode, SchemaRule};

/// A rule that a result or a question breaks. The text says which and how to keep it, and quotes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The output is longer than [`OUTPUT_BYTES_MAX`].
    #[error("the output may have at most {} KiB: return less, or the rest as a file", OUTPUT_BYTES_MAX >> 10)]
    OutputTooLong,
    /// The metadata have more bytes than [`METADATA_BYTES_MAX`].
    #[error("metadata may have at most {} KiB as JSON: leave something out", METADATA_BYTES_MAX >> 10)]
    MetadataTooLarge,
    /// The metadata have more levels than [`JSON_LEVELS_MAX`].
    #[error("metadata may have at most {JSON_LEVELS_MAX} levels: write them flatter")]
    MetadataDeep,
    /// The metadata are no JSON object.
    #[error("metadata must be a JSON object")]
    MetadataNoObject,
    /// The metadata key [`crate::ToolResult::PENDING`] was not set by [`crate::ToolResult::pending`] alone.
    #[error("the metadata key \"pending\" is reserved: to ask something, return a pending result as it is made")]
    PendingByHand,
    /// There are more parts than [`PARTS_MAX`].
    #[error("a result may have at most {PARTS_MAX} parts: return fewer at once")]
    TooManyParts,
    /// The parts together have more bytes than [`PARTS_BYTES_MAX`].
    #[error("the parts of a result may have at most {} MiB together: return fewer at once", PARTS_BYTES_MAX >> 20)]
    PartsTooLarge,
    /// A part has more bytes than [`PART_BYTES_MAX`].
    #[error("a part may have at most {} MiB: make it smaller, or give its URL", PART_BYTES_MAX >> 20)]
    PartTooLarge,
    /// A text part is longer than [`OUTPUT_BYTES_MAX`].
    #[error("a text part may have at most {} KiB: return less, or a file", OUTPUT_BYTES_MAX >> 10)]
    TextPartTooLong,
    /// The URL of a part cannot be opened, or hides where it leads.
    #[error("the url of a part must be an absolute http or https URL of at most {} KiB", REQUEST_URL_BYTES_MAX >> 10)]
    PartUrl,
    /// The MIME type of a part is none.
    #[error("the mime-type of a part must be type/subtype without parameters")]
    MimeType,
    /// A part is called what its MIME type says it is not.
    #[error("an image part needs a mime-type image/…, an audio part audio/…: use a file part for anything else")]
    PartKind,
    /// The state has more bytes than [`STATE_BYTES_MAX`].
    #[error("the state of a suspension may have at most {} KiB: keep less", STATE_BYTES_MAX >> 10)]
    StateTooLarge,
    /// The asker's id is longer than [`REQUEST_ID_BYTES_MAX`].
    #[error("the id of a request may have at most {REQUEST_ID_BYTES_MAX} bytes: leave it out and the host makes one")]
    RequestIdTooLong,
    /// The kind is empty, longer than [`REQUEST_KIND_CHARS_MAX`], or cannot be shown.
    #[error("the kind of a request must be a word of 1 to {REQUEST_KIND_CHARS_MAX} characters, for example approval")]
    RequestKind,
    /// The prompt is empty or longer than [`PROMPT_CHARS_MAX`].
    #[error("the prompt of a request must have 1 to {PROMPT_CHARS_MAX} characters: put more into its data")]
    Prompt,
    /// The URL of a request cannot be opened, or hides where it leads.
    #[error(
        "the url of a request must be an absolute http or https URL of at most {} KiB",
        REQUEST_URL_BYTES_MAX >> 10
    )]
    RequestUrl,
    /// The data of a request have more bytes than [`REQUEST_DATA_BYTES_MAX`].
    #[error("the data of a request may have at most {} KiB as JSON: leave something out", REQUEST_DATA_BYTES_MAX >> 10)]
    RequestDataTooLarge,
    /// The data of a request have more levels than [`JSON_LEVELS_MAX`].
    #[error("the data of a request may have at most {JSON_LEVELS_MAX} levels: write them flatter")]
    RequestDataDeep,
    /// The data of a request are no JSON object.
    #[error("the data of a request must be a JSON object")]
    RequestDataNoObject,
    /// The schema of the answer could take for ever to check an answer, or leads elsewhere.
    #[error("the schema in the data of a request {0}")]
    AnswerSchema(SchemaRule),
    /// The schema of the answer asks for a secret.
    #[error("the schema in the data of a request asks for a secret: send the person to a url with kind authorization")]
    SecretAsked,
    /// The end of a request cannot be read.
    #[error("the end of a request must be a date and time of RFC 3339, for example 2026-12-01T12:00:00Z")]
    ExpiresAt,
}

impl Violation {
    /// `output-too-large` where a result is too large, `bad-output` for every other rule.
    #[must_use]
    pub fn code(self) -> FailureCode {
        match self {
            Self::OutputTooLong
            | Self::MetadataTooLarge
            | Self::TooManyParts
            | Self::PartsTooLarge
            | Self::PartTooLarge
            | Self::TextPartTooLong
            | Self::StateTooLarge => FailureCode::OutputTooLarge,
            _ => FailureCode::BadOutput,
        }
    }
}

impl From<Violation> for Failure {
    fn from(violation: Violation) -> Self {
        Self::with_detail(violation.code(), violation.to_string())
    }
}
