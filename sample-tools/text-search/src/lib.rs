//! A tool that searches for a text or a pattern, in a given text or in files.

mod directory;
mod files;
mod matches;
mod pattern;

use matches::Matches;
use pattern::Pattern;
use toolcell_guest::{Context, ToolResult, argument, tool};

/// What `pattern` is.
#[argument]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    /// The very text.
    Plain,
    /// A regular expression (Rust syntax, without Unicode classes).
    Regex,
}

/// Finds a text or a regular expression, in a given text or in the files below a granted directory.
///
/// The result is JSON: `{"matches": [{"file", "line", "column", "text"}], "truncated"}`. Lines and columns count
/// from 1. Hidden files, binary files and files above 4 MiB are left out.
#[tool(name = "text-search", title = "Text search", read_only, idempotent)]
fn text_search(
    /// What to look for.
    pattern: String,
    /// The text to search in, at most about 1 MB. Leave it out to search in files.
    text: Option<String>,
    /// The file or directory to search in. Leave it and `text` out to search in all granted directories.
    path: Option<String>,
    #[default(Syntax::Plain)] syntax: Syntax,
    /// Whether `a` also finds `A`; ASCII letters only.
    #[default(false)]
    ignore_case: bool,
    /// How many matches to return at most, 1 to 1000.
    #[default(100)]
    max_matches: u32,
    context: &Context,
) -> Result<ToolResult, Error> {
    let pattern = Pattern::new(&pattern, syntax, ignore_case)?;
    let mut matches = Matches::new(max_matches)?;
    match (text, path) {
        (Some(_), Some(_)) => return Err(Error::TextAndPath),
        (Some(text), None) => matches.search(&pattern, None, &text),
        (None, path) => files::search(&pattern, path.as_deref(), context, &mut matches)?,
    }
    Ok(matches.into_result())
}

/// Why there was no search; the model reads it.
#[derive(Debug)]
enum Error {
    /// The pattern is empty or too long.
    PatternLength,
    /// The pattern is no regular expression.
    Regex(regex_lite::Error),
    /// The number of matches is out of range.
    MaxMatches,
    /// Both places to search in.
    TextAndPath,
    /// No directory to search in.
    NotGranted,
    /// The path is in no granted directory, or there is nothing.
    Path {
        /// The path.
        path: String,
        /// The directories that are granted.
        granted: Vec<String>,
        /// Why it cannot be read.
        source: std::io::Error,
    },
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PatternLength => write!(f, "pattern must have 1 to {} bytes", pattern::PATTERN_BYTES_MAX),
            Self::Regex(error) => write!(f, "pattern is not a regular expression: {error}"),
            Self::MaxMatches => write!(f, "max_matches must be 1 to {}", matches::MATCHES_MAX),
            Self::TextAndPath => f.write_str("give text or path, not both"),
            Self::NotGranted => f.write_str(
                "no directory is granted to this tool, so it cannot read files: give the text itself as text",
            ),
            Self::Path { path, granted, source } => {
                write!(f, "cannot read \"{path}\": {source}; the granted directories are {}", granted.join(", "))
            }
        }
    }
}

toolcell_guest::export!(text_search);

#[cfg(test)]
mod tests;
