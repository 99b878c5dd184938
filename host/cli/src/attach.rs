//! Files that go with a prompt: media by their extension, and whatever is text.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use toolcell::contract::limits::PART_BYTES_MAX;
use toolcell::contract::{ContentPart, PartError, Source};

use crate::printable::printable;

/// Bytes of all files that go with a prompt. The smallest limit of a request that a provider names is 20 MB (Gemini);
/// base64 makes 16 MiB of these, and the conversation takes the rest.
const ATTACHED_BYTES_MAX: usize = 12 << 20;

/// The parts that carry these files, in the same order.
pub(crate) fn attach_all(paths: &[PathBuf]) -> anyhow::Result<Vec<ContentPart>> {
    let mut bytes = 0;
    let mut attach = |path: &PathBuf| {
        let part = attach(path)?;
        bytes += bytes_of(&part);
        ensure!(bytes <= ATTACHED_BYTES_MAX, "all attachments together may have at most {ATTACHED_BYTES_MAX} bytes");
        Ok(part)
    };
    let attached = paths
        .iter()
        .map(|path| attach(path).with_context(|| format!("cannot attach {}", printable(&path.display().to_string()))));
    attached.collect()
}

/// The part that carries a file: an image, a PDF or a sound by its extension, and any other file as text.
fn attach(path: &Path) -> anyhow::Result<ContentPart> {
    match ContentPart::from_path(path) {
        Err(PartError::UnknownExtension(_)) => text(path),
        part => Ok(part?),
    }
}

/// A pipe is read to its end, as `--attach <(command)` makes one; what has no end is not read further than a part may
/// reach, whatever size it says it has.
fn text(path: &Path) -> anyhow::Result<ContentPart> {
    let file = File::open(path).context("it cannot be opened")?;
    let mut bytes = Vec::new();
    file.take(PART_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).context("it cannot be read")?;
    ensure!(bytes.len() <= PART_BYTES_MAX, "it has more than the {PART_BYTES_MAX} bytes that can be attached");
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    let Some(text) = text else {
        bail!("it is neither text nor a png, jpg, jpeg, gif, webp, pdf, mp3 or wav file");
    };
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(ContentPart::text(format!("{name}:\n{text}")))
}

fn bytes_of(part: &ContentPart) -> usize {
    match part {
        ContentPart::Text(text) => text.len(),
        ContentPart::Media(media) => match media.source() {
            Source::Bytes(bytes) => bytes.len(),
            Source::Url(url) => url.len(),
        },
    }
}
