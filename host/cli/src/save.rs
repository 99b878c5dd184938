//! Parts of a result, written to files whose names the tool cannot abuse.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use toolcell::contract::{ContentPart, Media, Source};

use crate::exit::HostFailure;

/// A name is a hint to a person; this is as much as a listing shows.
const NAME_CHARS_MAX: usize = 100;

/// A directory that already holds this many files of one name holds no room for another.
const COPIES_MAX: u32 = 10_000;

/// Makes the directory, before a tool runs whose result could not be saved.
pub(crate) fn make_directory(dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make the directory {}", dir.display()))
}

/// Writes the media of a result into `dir`, and returns the paths. Nothing is ever overwritten; a part that is a URL is
/// not fetched.
pub(crate) fn save_parts(dir: &Path, tool: &str, parts: &[ContentPart]) -> anyhow::Result<Vec<PathBuf>> {
    write_parts(dir, tool, parts).context(HostFailure)
}

fn write_parts(dir: &Path, tool: &str, parts: &[ContentPart]) -> anyhow::Result<Vec<PathBuf>> {
    make_directory(dir)?;
    let mut paths = Vec::new();
    for part in parts {
        let ContentPart::Media(media) = part else { continue };
        let Source::Bytes(bytes) = media.source() else { continue };
        paths.push(write_new(dir, &file_name(tool, media), bytes)?);
    }
    Ok(paths)
}

fn write_new(dir: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<PathBuf> {
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, "bin"));
    for copy in 0..COPIES_MAX {
        let name = if copy == 0 { format!("{stem}.{extension}") } else { format!("{stem}-{copy}.{extension}") };
        let path = dir.join(name);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                let written = file.write_all(bytes);
                if written.is_err() {
                    // Half a picture is worse than none, and its name would be taken.
                    let _ = std::fs::remove_file(&path);
                }
                written.with_context(|| format!("cannot write {}", path.display()))?;
                return Ok(path);
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e).with_context(|| format!("cannot write {}", path.display())),
        }
    }
    anyhow::bail!("{} already holds too many files named {stem}", dir.display())
}

/// The part's own name as far as it is harmless, and an extension that its MIME type stands for.
fn file_name(tool: &str, media: &Media) -> String {
    let extension = extension_of(media.mime_type());
    let given = media.name().map(harmless).unwrap_or_default();
    let stem = given.strip_suffix(&format!(".{extension}")).unwrap_or(&given);
    let stem = stem.trim_matches('.');
    format!("{}.{extension}", if stem.is_empty() { tool } else { stem })
}

fn harmless(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    name.rsplit(['/', '\\']).next().unwrap_or_default().chars().take(NAME_CHARS_MAX).map(keep).collect()
}

fn extension_of(mime_type: &str) -> &str {
    match mime_type {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "audio/mpeg" => "mp3",
        "audio/wav" => "wav",
        "text/plain" => "txt",
        "text/csv" => "csv",
        "text/markdown" => "md",
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(name: &str) -> ContentPart {
        ContentPart::from_bytes(*b"png", "image/png").unwrap().named(name)
    }

    #[test]
    fn a_name_never_leaves_the_directory_and_keeps_its_extension_honest() {
        for (given, name) in [
            ("chart.png", "chart.png"),
            ("../../etc/passwd", "passwd.png"),
            (r"C:\windows\x.exe", "x.exe.png"),
            ("..", "tool.png"),
            ("", "tool.png"),
            ("\u{202e}gnp.exe", "_gnp.exe.png"),
            ("a\0b", "a_b.png"),
        ] {
            let ContentPart::Media(media) = png(given) else { unreachable!() };
            assert_eq!(file_name("tool", &media), name, "{given:?}");
        }
    }

    #[test]
    fn nothing_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let parts = [png("a.png"), ContentPart::text("no file"), png("a.png")];
        let paths = save_parts(&out, "chart", &parts).unwrap();
        assert_eq!(paths, [out.join("a.png"), out.join("a-1.png")]);
        assert_eq!(save_parts(&out, "chart", &parts[..1]).unwrap(), [out.join("a-2.png")]);
        assert_eq!(std::fs::read(out.join("a.png")).unwrap(), b"png");
    }
}
