//! What is looked for.

use regex_lite::{Regex, RegexBuilder};

use crate::{Error, Syntax};

/// Bytes of a pattern: a longer one would cost more time on every byte that is searched.
pub(crate) const PATTERN_BYTES_MAX: usize = 1_000;
/// Bytes of a compiled regular expression; `a{1000}{1000}` is refused.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A plain text or a regular expression.
#[derive(Debug)]
pub(crate) enum Pattern {
    /// Found byte by byte, which is much faster.
    Text(String),
    /// Everything else.
    Regex(Regex),
}

impl Pattern {
    /// Checks and compiles a pattern.
    pub(crate) fn new(pattern: &str, syntax: Syntax, ignore_case: bool) -> Result<Self, Error> {
        if !(1..=PATTERN_BYTES_MAX).contains(&pattern.len()) {
            return Err(Error::PatternLength);
        }
        let source = match syntax {
            Syntax::Plain if !ignore_case => return Ok(Self::Text(pattern.to_owned())),
            Syntax::Plain => regex_lite::escape(pattern),
            Syntax::Regex => pattern.to_owned(),
        };
        RegexBuilder::new(&source)
            .case_insensitive(ignore_case)
            .size_limit(COMPILED_BYTES_MAX)
            .build()
            .map(Self::Regex)
            .map_err(Error::Regex)
    }

    /// Where it is in a line, as bytes, in order and without overlap. A match of nothing is no match.
    pub(crate) fn find_in<'a>(&'a self, line: &'a str) -> Box<dyn Iterator<Item = (usize, usize)> + 'a> {
        match self {
            Self::Text(text) => Box::new(line.match_indices(text.as_str()).map(|(at, found)| (at, at + found.len()))),
            Self::Regex(regex) => {
                Box::new(regex.find_iter(line).map(|found| (found.start(), found.end())).filter(|(from, to)| from < to))
            }
        }
    }
}
