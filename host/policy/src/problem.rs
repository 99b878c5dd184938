//! What is wrong with a policy file, where, and how to mend it.

use std::fmt;
use std::ops::Range;

/// One thing that is wrong with a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The character of the line, from 1.
    pub column: usize,
    /// What is wrong, and how to mend it.
    pub message: String,
}

/// Why a text is no policy. Nothing of it is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError {
    /// The name of the file.
    pub file: String,
    /// All that is wrong, in the order of the file; at least one.
    pub problems: Vec<Problem>,
}

impl PolicyError {
    /// One problem at a place of a text.
    pub(crate) fn at(file: &str, text: &str, place: Range<usize>, message: &str) -> Self {
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { file: file.to_owned(), problems: vec![problem(text, &place, message)] }
    }
}

fn problem(text: &str, place: &Range<usize>, message: String) -> Problem {
    let before = text.get(..place.start).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Problem { line, column, message }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Problem { line, column, message }) in self.problems.iter().enumerate() {
            let line_end = if index == 0 { "" } else { "\n" };
            write!(f, "{line_end}{}:{line}:{column}: {message}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyError {}

/// Collects problems by their place in a text.
pub(crate) struct Problems<'t> {
    text: &'t str,
    found: Vec<(usize, Problem)>,
}

impl<'t> Problems<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, found: Vec::new() }
    }

    pub(crate) fn add(&mut self, place: Range<usize>, message: impl Into<String>) {
        self.found.push((place.start, problem(self.text, &place, message.into())));
    }

    /// The problems as an error, unless there are none.
    pub(crate) fn end(mut self, file: &str) -> Result<(), PolicyError> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort_by_key(|(start, _)| *start);
        let problems = self.found.into_iter().map(|(_, problem)| problem).collect();
        Err(PolicyError { file: file.to_owned(), problems })
    }
}
