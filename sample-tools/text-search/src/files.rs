//! A walk through granted directories, within bounds: sorted, so that the same files give the same result.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use toolcell_guest::{Context, log, progress};

use crate::matches::Matches;
use crate::pattern::Pattern;
use crate::{Error, directory};

/// Bytes of one file; larger ones are left out.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Bytes of all files.
const BYTES_MAX: u64 = 256 << 20;
/// Files of one search.
const FILES_MAX: u32 = 20_000;
/// Levels of directories.
const DEPTH_MAX: usize = 32;
/// Bytes at the start of a file in which a zero makes it binary.
const BINARY_PROBE_BYTES: usize = 8 << 10;
/// Files from one progress report to the next.
const REPORT_EVERY: u32 = 50;

/// Searches a file or a directory, or all granted directories.
pub(crate) fn search(
    pattern: &Pattern,
    path: Option<&str>,
    context: &Context,
    matches: &mut Matches,
) -> Result<(), Error> {
    let granted = directory::granted();
    if granted.is_empty() {
        return Err(Error::NotGranted);
    }
    // Three quarters of the time, so that there is always a result.
    let until = Instant::now() + Duration::from_millis(context.deadline_ms() / 4 * 3);
    let mut walk = Walk { pattern, matches, until, files: 0, bytes: 0 };
    match path {
        Some(path) => {
            let unreadable = |source| Error::Path { path: path.to_owned(), granted, source };
            let root = Path::new(path);
            let kind = fs::metadata(root).map_err(unreadable)?;
            if kind.is_dir() { walk.directory(root, 0) } else { walk.file(root) }
        }
        None => granted.iter().for_each(|root| walk.directory(Path::new(root), 0)),
    }
    walk.finish();
    Ok(())
}

struct Walk<'a> {
    pattern: &'a Pattern,
    matches: &'a mut Matches,
    until: Instant,
    files: u32,
    bytes: u64,
}

impl Walk<'_> {
    fn directory(&mut self, path: &Path, depth: usize) {
        if depth == DEPTH_MAX {
            log::warn(format!("left out {}: more than {DEPTH_MAX} levels", path.display()));
            self.matches.truncate();
            return;
        }
        let entries = match sorted_entries(path) {
            Ok(entries) => entries,
            Err(error) => return log::warn(format!("left out {}: {error}", path.display())),
        };
        for (path, kind) in entries {
            if self.is_over() {
                return;
            }
            if kind.is_dir() {
                self.directory(&path, depth + 1);
            } else if kind.is_file() {
                self.file(&path);
            }
        }
    }

    fn file(&mut self, path: &Path) {
        let text = match read_text(path) {
            Ok(Some(text)) => text,
            Ok(None) => return log::debug(format!("left out {}: binary or too large", path.display())),
            Err(error) => return log::warn(format!("left out {}: {error}", path.display())),
        };
        self.files += 1;
        self.bytes += text.len() as u64;
        self.matches.search(self.pattern, Some(&path.to_string_lossy()), &text);
        if self.files.is_multiple_of(REPORT_EVERY) {
            progress(f64::from(self.files), None, Some(&format!("{} matches", self.matches.count())));
        }
    }

    /// Whether a bound is reached, which cuts the result.
    fn is_over(&mut self) -> bool {
        if self.files >= FILES_MAX || self.bytes >= BYTES_MAX || Instant::now() >= self.until {
            self.matches.truncate();
        }
        self.matches.is_full()
    }

    fn finish(self) {
        let Self { matches, files, .. } = self;
        progress(f64::from(files), Some(f64::from(files)), Some(&format!("{} matches", matches.count())));
        log::info(format!("{} matches in {files} files", matches.count()));
        matches.set_files(files);
    }
}

/// What is in a directory, without hidden entries and links: a link could lead in a circle.
fn sorted_entries(path: &Path) -> io::Result<Vec<(PathBuf, fs::FileType)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            entries.push((entry.path(), entry.file_type()?));
        }
    }
    entries.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    Ok(entries)
}

/// The text of a file; none when it is binary or too large. What is no UTF-8 becomes `�`.
fn read_text(path: &Path) -> io::Result<Option<String>> {
    let file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let is_binary = bytes.iter().take(BINARY_PROBE_BYTES).any(|byte| *byte == 0);
    if is_binary || bytes.len() as u64 > FILE_BYTES_MAX {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
