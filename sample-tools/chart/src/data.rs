//! The numbers of a chart, checked, and what they are in words.

use std::fmt;

use toolcell_guest::{PartError, serde_json};

use crate::Kind;

/// Numbers of one chart: more would be narrower than a pixel each.
const VALUES_MAX: usize = 200;
/// Characters of a label, and of the title.
const TEXT_CHARS_MAX: usize = 100;
/// Numbers that the description repeats.
const DESCRIBED_MAX: usize = 50;
/// The magnitude of a number: beyond it digits are lost.
const MAGNITUDE_MAX: f64 = 1e15;

/// Why nothing is drawn; the model reads it.
#[derive(Debug)]
pub(crate) enum Error {
    /// There is no number, or there are too many.
    Count(usize),
    /// There are some labels, but not one for each number.
    Labels {
        /// How many there are.
        labels: usize,
        /// How many there should be.
        values: usize,
    },
    /// A number is too large to be drawn.
    Magnitude {
        /// Which one, from 1.
        position: usize,
    },
    /// A label or the title is too long.
    Text(&'static str),
    /// The picture is no part.
    Part(PartError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "values must have 1 to {VALUES_MAX} numbers, not {count}"),
            Self::Labels { labels, values } => {
                write!(f, "labels must be as many as values or left out: there are {labels} labels for {values} values")
            }
            Self::Magnitude { position } => {
                write!(f, "number {position} of values is too large: draw thousands or millions instead")
            }
            Self::Text(which) => write!(f, "{which} must have at most {TEXT_CHARS_MAX} characters"),
            Self::Part(error) => write!(f, "the picture cannot be returned: {error}"),
        }
    }
}

/// The numbers of a chart; there is at least one.
pub(crate) struct Series {
    values: Vec<f64>,
    labels: Vec<String>,
    title: String,
}

impl Series {
    /// Checks what the model gives.
    pub(crate) fn new(values: Vec<f64>, labels: Vec<String>, title: String) -> Result<Self, Error> {
        if !(1..=VALUES_MAX).contains(&values.len()) {
            return Err(Error::Count(values.len()));
        }
        if !labels.is_empty() && labels.len() != values.len() {
            return Err(Error::Labels { labels: labels.len(), values: values.len() });
        }
        if let Some(at) = values.iter().position(|value| value.abs() > MAGNITUDE_MAX || value.is_nan()) {
            return Err(Error::Magnitude { position: at + 1 });
        }
        let fits = |text: &String| text.chars().count() <= TEXT_CHARS_MAX;
        if !fits(&title) {
            return Err(Error::Text("title"));
        }
        if !labels.iter().all(fits) {
            return Err(Error::Text("each of labels"));
        }
        Ok(Self { values, labels, title })
    }

    /// The numbers.
    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }

    /// The title; may be empty.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// What a number is: its label, or its position from 1.
    pub(crate) fn label(&self, at: usize) -> String {
        self.labels.get(at).cloned().unwrap_or_else(|| (at + 1).to_string())
    }

    /// The smallest and the largest number, and where they are.
    pub(crate) fn extremes(&self) -> ((usize, f64), (usize, f64)) {
        let first = (0, self.values.first().copied().unwrap_or_default());
        self.values.iter().copied().enumerate().fold((first, first), |(low, high), (at, value)| {
            (if value < low.1 { (at, value) } else { low }, if value > high.1 { (at, value) } else { high })
        })
    }

    /// The chart in words, for whoever does not see it.
    pub(crate) fn describe(&self, kind: Kind) -> String {
        let kind = match kind {
            Kind::Bar => "bar",
            Kind::Line => "line",
        };
        let title = if self.title.is_empty() { String::new() } else { format!(" \"{}\"", self.title) };
        let ((low_at, low), (high_at, high)) = self.extremes();
        let count = self.values.len();
        let plural = if count == 1 { "" } else { "s" };
        let mut text = format!(
            "A {kind} chart{title} of {count} value{plural}, smallest {} ({}), largest {} ({}):",
            format(low),
            self.label(low_at),
            format(high),
            self.label(high_at)
        );
        for (at, value) in self.values.iter().enumerate().take(DESCRIBED_MAX) {
            let separator = if at == 0 { " " } else { ", " };
            text.push_str(&format!("{separator}{} {}", self.label(at), format(*value)));
        }
        if count > DESCRIBED_MAX {
            text.push_str(&format!(" and {} more", count - DESCRIBED_MAX));
        }
        text
    }
}

/// All digits of a number; a whole one without `.0`.
fn format(value: f64) -> String {
    let json = serde_json::to_string(&value).unwrap_or_default();
    json.strip_suffix(".0").map(str::to_owned).unwrap_or(json)
}
