//! The tools of the worked examples, as a tool author writes them.

use toolcell_guest::{ContentPart, Context, Request, ToolResult, tool};

/// A picture of one dot, the smallest that every provider takes: a PNG of 1 × 1 pixels.
const DOT: &[u8] = include_bytes!("dot.png");

/// Divides one number by another.
#[tool(read_only, idempotent)]
fn divide(dividend: f64, divisor: f64) -> Result<String, String> {
    if divisor == 0.0 { Err("cannot divide by zero".to_owned()) } else { Ok((dividend / divisor).to_string()) }
}

/// Tells how many of an item are in stock.
#[tool(read_only, idempotent)]
fn stock(item: String) -> ToolResult {
    ToolResult::ok(serde_json::json!({"item": item, "count": 3}).to_string())
        .with_metadata("warehouse", "north-7")
        .with_metadata("queryMs", 12)
}

/// Draws a chart.
#[tool(read_only, idempotent)]
fn chart(title: String, values: Vec<f64>) -> Result<ToolResult, String> {
    let dot = ContentPart::from_bytes(DOT.to_vec(), "image/png").map_err(|error| error.to_string())?;
    let parts = [dot.named("chart.png")];
    Ok(ToolResult::ok_with_parts(format!("a chart of {} values: {title}", values.len()), parts))
}

/// Fails.
#[tool(read_only, idempotent)]
fn fail() -> Result<String, String> {
    Err("the paper ran out".to_owned())
}

/// Reserves the GPU, once a person has approved it.
#[tool(destructive)]
fn gpu(context: &Context) -> ToolResult {
    match context.answer() {
        None => context.suspend(Request::approval("Use the GPU for an hour?"), "gpu"),
        Some(_) => {
            let reserved = context.state().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
            ToolResult::ok(format!("approved: {reserved}"))
        }
    }
}

toolcell_guest::export!(divide, stock, chart, fail, gpu);
