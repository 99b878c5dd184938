//! Files that go with a prompt: media by their extension, and whatever is text.

use std::path::Path;

use anyhow::{Context as _, bail};
use toolcell::contract::limits::PART_BYTES_MAX;
use toolcell::contract::{ContentPart, PartError};

/// The part that carries a file: an image, a PDF or a sound by its extension, and any other file as text.
pub(crate) fn attach(path: &Path) -> anyhow::Result<ContentPart> {
    match ContentPart::from_path(path) {
        Err(PartError::UnknownExtension(_)) => text(path),
        part => Ok(part?),
    }
}

fn text(path: &Path) -> anyhow::Result<ContentPart> {
    let size = std::fs::metadata(path).context("it cannot be opened")?.len();
    if size > PART_BYTES_MAX as u64 {
        bail!("it has {size} bytes, and at most {PART_BYTES_MAX} can be attached");
    }
    let bytes = std::fs::read(path).context("it cannot be read")?;
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    let Some(text) = text else {
        bail!("it is neither text nor a png, jpg, jpeg, gif, webp, pdf, mp3 or wav file");
    };
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(ContentPart::text(format!("{name}:\n{text}")))
}
