//! Images, sounds and files, as far as all wires treat them alike.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use toolcell_agent::{ModelEvent, ModelWarning, WarningKind};
use toolcell_contract::{Media, Source};

/// The MIME type as providers write it.
pub(crate) fn mime_type(media: &Media) -> &str {
    match media.mime_type() {
        "image/jpg" => "image/jpeg",
        mime_type => mime_type,
    }
}

/// The bytes as a `data:` URL (RFC 2397).
pub(crate) fn data_url(mime_type: &str, bytes: &[u8]) -> String {
    format!("data:{mime_type};base64,{}", BASE64.encode(bytes))
}

/// The line of text that stands for media that cannot be sent.
pub(crate) fn placeholder(media: &Media) -> String {
    let mime_type = media.mime_type();
    match media.source() {
        Source::Bytes(bytes) => format!("[{mime_type}, {} bytes, not deliverable to this model]", bytes.len()),
        Source::Url(url) => format!("[{mime_type} at {url}, not deliverable to this model]"),
    }
}

/// What a request does with the media of its prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MediaCount {
    /// Media that are sent.
    pub(crate) sent: usize,
    /// The MIME types of media for which a line of text stands.
    pub(crate) described: Vec<String>,
}

impl MediaCount {
    /// Counts media that are sent.
    pub(crate) fn add_sent(&mut self) {
        self.sent += 1;
    }

    /// Counts media that are not sent, and gives the line that stands for them.
    pub(crate) fn describe(&mut self, media: &Media) -> String {
        let mime_type = media.mime_type();
        if !self.described.iter().any(|known| known == mime_type) {
            self.described.push(mime_type.to_owned());
        }
        placeholder(media)
    }

    /// What the run is told when not everything is sent.
    pub(crate) fn warning(&self) -> Option<ModelEvent> {
        let kinds = self.described.join(", ");
        let message = format!(
            "the model gets a line of text instead of each {kinds}: this provider does not take them; a model that \
             does, or a tool that returns text, mends it"
        );
        let warning = ModelWarning { kind: WarningKind::MediaDescribed, message };
        (!self.described.is_empty()).then_some(ModelEvent::Warning(warning))
    }
}
