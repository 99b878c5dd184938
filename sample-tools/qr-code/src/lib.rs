//! A tool that draws a QR code.

mod code;
// The picture is written as in the chart tool.
#[path = "../../chart/src/png.rs"]
mod png;

use code::Code;
use toolcell_guest::{ToolResult, argument, tool};

/// How much of the picture may be lost or covered before it can no longer be read.
#[argument]
#[derive(Clone, Copy)]
enum ErrorCorrection {
    /// 7 %: the smallest picture.
    Low,
    /// 15 %.
    Medium,
    /// 25 %.
    Quartile,
    /// 30 %: for print, or with a logo on top.
    High,
}

/// Draws a QR code of a text or a link, as a PNG image.
#[tool(name = "qr-code", title = "QR code", read_only, idempotent)]
fn qr_code(
    /// What the code says, for example a URL. At most 2,953 bytes, fewer with more error correction.
    text: String,
    /// The width and height of the picture in pixels, 32 to 2,048. It is rounded down to whole modules.
    #[default(512)]
    size: u32,
    #[default(ErrorCorrection::Medium)] error_correction: ErrorCorrection,
) -> Result<ToolResult, code::Error> {
    Code::encode(&text, error_correction)?.draw(size)
}

toolcell_guest::export!(qr_code);

#[cfg(test)]
mod tests;
