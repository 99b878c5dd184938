//! From a text to modules, and from modules to a PNG picture.

use std::fmt;

use qrcode::{Color, EcLevel, QrCode};
use toolcell_guest::{ContentPart, PartError, ToolResult};

use crate::ErrorCorrection;
use crate::png::{Depth, Picture};

const WHITE: [u8; 3] = [255; 3];
const BLACK: [u8; 3] = [0; 3];

/// The free border that ISO/IEC 18004 asks for, in modules.
const QUIET_ZONE: usize = 4;
/// Pixels of a picture's side.
const SIZES: std::ops::RangeInclusive<u32> = 32..=2_048;
/// Characters of the text that the output repeats.
const SHOWN_CHARS_MAX: usize = 80;

/// Why there is no picture; the model reads it.
#[derive(Debug)]
pub(crate) enum Error {
    /// There is no text.
    Empty,
    /// The text does not fit into the largest code.
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// The most that fit at this level of error correction.
        bytes_max: usize,
    },
    /// The size is out of range, or too small for the number of modules.
    Size {
        /// The smallest one that works.
        size_min: u32,
    },
    /// The picture is no part.
    Part(PartError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("text is empty: a QR code needs at least one character"),
            Self::TooLong { bytes, bytes_max } => {
                write!(f, "text has {bytes} bytes, but at most {bytes_max} fit at this error_correction: ")?;
                f.write_str("shorten it, use a lower error_correction, or encode a link to it")
            }
            Self::Size { size_min } => {
                write!(f, "size must be {size_min} to {} pixels for this text", SIZES.end())
            }
            Self::Part(error) => write!(f, "the picture cannot be returned: {error}"),
        }
    }
}

/// A QR code.
pub(crate) struct Code {
    text: String,
    modules: QrCode,
}

impl Code {
    /// Chooses the smallest code that holds the text.
    pub(crate) fn encode(text: &str, error_correction: ErrorCorrection) -> Result<Self, Error> {
        // ISO/IEC 18004, table 7: bytes in a code of version 40.
        let (level, bytes_max) = match error_correction {
            ErrorCorrection::Low => (EcLevel::L, 2_953),
            ErrorCorrection::Medium => (EcLevel::M, 2_331),
            ErrorCorrection::Quartile => (EcLevel::Q, 1_663),
            ErrorCorrection::High => (EcLevel::H, 1_273),
        };
        if text.is_empty() {
            return Err(Error::Empty);
        }
        // Digits and capitals alone take less room than bytes, so it is the encoder that says no.
        let modules = QrCode::with_error_correction_level(text, level)
            .map_err(|_| Error::TooLong { bytes: text.len(), bytes_max })?;
        Ok(Self { text: text.to_owned(), modules })
    }

    /// The picture, at most `size` pixels wide, each module a square of whole pixels.
    pub(crate) fn draw(&self, size: u32) -> Result<ToolResult, Error> {
        let across = self.modules.width() + 2 * QUIET_ZONE;
        let size_min = u32::try_from(across).unwrap_or(u32::MAX).max(*SIZES.start());
        if !(size_min..=*SIZES.end()).contains(&size) {
            return Err(Error::Size { size_min });
        }
        let scale = size as usize / across;
        let side = across * scale;
        let png = self.png(scale, side);
        let bytes = png.len();
        let part = ContentPart::from_bytes(png, "image/png").map_err(Error::Part)?.named("qr-code.png");
        let modules = self.modules.width();
        let output = format!(
            "A QR code of {} ({modules} by {modules} modules, {side} by {side} pixels, PNG, {bytes} bytes).",
            shown(&self.text)
        );
        Ok(ToolResult::ok_with_parts(output, [part]).with_metadata("modules", modules).with_metadata("pixels", side))
    }

    fn png(&self, scale: usize, side: usize) -> Vec<u8> {
        let mut pixels = Vec::with_capacity(side.div_ceil(8) * side);
        for row in 0..side / scale {
            let mut line = vec![0_u8; side.div_ceil(8)];
            for x in (0..side).filter(|x| self.is_dark(x / scale, row)) {
                if let Some(byte) = line.get_mut(x / 8) {
                    *byte |= 0x80 >> (x % 8);
                }
            }
            pixels.extend(std::iter::repeat_n(line, scale).flatten());
        }
        let side = u32::try_from(side).unwrap_or(u32::MAX);
        Picture { width: side, height: side, depth: Depth::One, palette: &[WHITE, BLACK], pixels: &pixels }.encode()
    }

    /// Whether a module is dark; coordinates count from the corner of the quiet zone.
    fn is_dark(&self, x: usize, y: usize) -> bool {
        let width = self.modules.width();
        match (x.checked_sub(QUIET_ZONE), y.checked_sub(QUIET_ZONE)) {
            (Some(x), Some(y)) if x < width && y < width => self.modules[(x, y)] == Color::Dark,
            _ => false,
        }
    }
}

fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}
