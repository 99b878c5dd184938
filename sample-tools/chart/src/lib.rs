//! A tool that draws a chart of numbers.

mod canvas;
mod data;
mod draw;
mod png;
mod scale;

use data::Series;
use toolcell_guest::{ContentPart, ToolResult, argument, tool};

/// How the numbers are drawn.
#[argument]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A bar for each number, from zero: for amounts.
    Bar,
    /// A line through the numbers: for a course in time.
    Line,
}

/// Draws a bar or line chart of numbers as a PNG image, and says in words what it shows.
#[tool(title = "Chart", read_only, idempotent)]
fn chart(
    /// The numbers, 1 to 200 of them, from left to right.
    values: Vec<f64>,
    /// What each number is, below the axis; as many as there are numbers, or none.
    labels: Option<Vec<String>>,
    /// A line above the chart.
    title: Option<String>,
    #[default(Kind::Bar)] kind: Kind,
) -> Result<ToolResult, data::Error> {
    let series = Series::new(values, labels.unwrap_or_default(), title.unwrap_or_default())?;
    let picture = draw::chart(&series, kind);
    let part = ContentPart::from_bytes(picture, "image/png").map_err(data::Error::Part)?.named("chart.png");
    Ok(ToolResult::ok_with_parts(series.describe(kind), [part]).with_metadata("values", series.values().len()))
}

toolcell_guest::export!(chart);

#[cfg(test)]
mod tests;
