//! What was found, within bounds.

use toolcell_guest::serde_json::{Value, json};
use toolcell_guest::{Object, ToolResult};

use crate::Error;
use crate::pattern::Pattern;

/// Matches of one search.
pub(crate) const MATCHES_MAX: u32 = 1_000;
/// Bytes of all matches as JSON; the output of a tool has at most 256 KiB.
const OUTPUT_BYTES_MAX: usize = 200 << 10;
/// Characters of a line that are shown around a match.
const SHOWN_CHARS_MAX: usize = 200;
/// How many of them stand before it.
const SHOWN_CHARS_BEFORE: usize = 60;

/// The matches so far.
pub(crate) struct Matches {
    found: Vec<Value>,
    bytes: usize,
    count_max: usize,
    truncated: bool,
    files: Option<u32>,
}

impl Matches {
    /// Nothing yet.
    pub(crate) fn new(count_max: u32) -> Result<Self, Error> {
        if !(1..=MATCHES_MAX).contains(&count_max) {
            return Err(Error::MaxMatches);
        }
        Ok(Self { found: Vec::new(), bytes: 0, count_max: count_max as usize, truncated: false, files: None })
    }

    /// Whether there is no room for more, or the search was broken off.
    pub(crate) fn is_full(&self) -> bool {
        self.truncated
    }

    /// Notes that something was left out.
    pub(crate) fn truncate(&mut self) {
        self.truncated = true;
    }

    /// Notes how many files were searched.
    pub(crate) fn set_files(&mut self, files: u32) {
        self.files = Some(files);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    /// Searches a text line by line.
    pub(crate) fn search(&mut self, pattern: &Pattern, file: Option<&str>, text: &str) {
        for (number, line) in (1_usize..).zip(text.lines()) {
            // Columns are counted from the match before, so that a long line is gone through once.
            let (mut counted, mut column) = (0, 1);
            for (from, _) in pattern.find_in(line) {
                column += line.get(counted..from).unwrap_or_default().chars().count();
                counted = from;
                let found = Found { file, number, column, text: shown(line, from) };
                if !self.add(&found) {
                    return;
                }
            }
        }
    }

    /// Adds a match; `false` when there is no room for it.
    fn add(&mut self, found: &Found<'_>) -> bool {
        if self.found.len() == self.count_max {
            self.truncated = true;
            return false;
        }
        let found = found.to_json();
        self.bytes += found.to_string().len() + 1;
        if self.bytes > OUTPUT_BYTES_MAX {
            self.truncated = true;
            return false;
        }
        self.found.push(found);
        true
    }

    /// JSON for the model, and the numbers beside it for the host.
    pub(crate) fn into_result(self) -> ToolResult {
        let count = self.found.len();
        let output = json!({"matches": self.found, "truncated": self.truncated}).to_string();
        let result = ToolResult::ok(output).with_metadata("count", count).with_metadata("truncated", self.truncated);
        match self.files {
            Some(files) => result.with_metadata("files", files),
            None => result,
        }
    }
}

/// One match.
struct Found<'a> {
    file: Option<&'a str>,
    number: usize,
    column: usize,
    text: String,
}

impl Found<'_> {
    fn to_json(&self) -> Value {
        let mut members = Object::new();
        if let Some(file) = self.file {
            members.insert("file".to_owned(), file.into());
        }
        members.insert("line".to_owned(), self.number.into());
        members.insert("column".to_owned(), self.column.into());
        members.insert("text".to_owned(), self.text.as_str().into());
        Value::Object(members)
    }
}

/// The part of a line around a byte of it, with `…` where something is missing.
fn shown(line: &str, at: usize) -> String {
    let (before, _) = line.split_at_checked(at).unwrap_or((line, ""));
    let from = before.char_indices().rev().nth(SHOWN_CHARS_BEFORE - 1).map_or(0, |(from, _)| from);
    let rest = line.get(from..).unwrap_or_default();
    if from == 0 && rest.chars().nth(SHOWN_CHARS_MAX).is_none() {
        return line.to_owned();
    }
    let length = rest.char_indices().nth(SHOWN_CHARS_MAX).map_or(rest.len(), |(length, _)| length);
    let (middle, missing) = rest.split_at_checked(length).unwrap_or((rest, ""));
    let mark = |is_missing: bool| if is_missing { "…" } else { "" };
    format!("{}{middle}{}", mark(from > 0), mark(!missing.is_empty()))
}
