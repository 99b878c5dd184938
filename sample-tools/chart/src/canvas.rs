//! A picture in memory, on which shapes and texts are drawn in a few inks.

use std::convert::Infallible;

use embedded_graphics::mono_font::iso_8859_1::{FONT_7X13, FONT_9X18_BOLD};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::raw::RawU8;
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::{Circle, Line, PrimitiveStyle, Rectangle};
use embedded_graphics::text::{Alignment, Baseline, Text, TextStyleBuilder};

use crate::png::{Depth, Picture};

/// A colour of the palette.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    Paper,
    Text,
    Axis,
    Grid,
    Value,
}

/// Red, green and blue of each ink, in its order.
const PALETTE: [[u8; 3]; 5] =
    [[0xff, 0xff, 0xff], [0x1f, 0x29, 0x37], [0x6b, 0x72, 0x80], [0xe5, 0xe7, 0xeb], [0x25, 0x63, 0xeb]];

impl PixelColor for Ink {
    type Raw = RawU8;
}

/// The size of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Small,
    Large,
}

impl Size {
    fn font(self) -> &'static MonoFont<'static> {
        match self {
            Self::Small => &FONT_7X13,
            Self::Large => &FONT_9X18_BOLD,
        }
    }

    /// Pixels from one character to the next.
    pub(crate) fn advance(self) -> i32 {
        let font = self.font();
        (font.character_size.width + font.character_spacing).cast_signed()
    }

    /// Pixels that a line of text is high.
    pub(crate) fn height(self) -> i32 {
        self.font().character_size.height.cast_signed()
    }
}

/// Where a text stands in relation to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// The point is above its middle.
    Top,
    /// The point is below its middle.
    Bottom,
    /// The point is at its right end.
    Right,
}

/// The picture.
pub(crate) struct Canvas {
    width: u32,
    height: u32,
    pixels: Vec<u8>,
}

impl Canvas {
    /// A white picture.
    pub(crate) fn new(width: u32, height: u32) -> Self {
        Self { width, height, pixels: vec![Ink::Paper as u8; width as usize * height as usize] }
    }

    /// A filled rectangle; both corners belong to it, in any order.
    pub(crate) fn fill(&mut self, from: Point, to: Point, ink: Ink) {
        let style = PrimitiveStyle::with_fill(ink);
        let Ok(()) = Rectangle::with_corners(from, to).into_styled(style).draw(self);
    }

    /// A straight line.
    pub(crate) fn line(&mut self, from: Point, to: Point, width: u32, ink: Ink) {
        let style = PrimitiveStyle::with_stroke(ink, width);
        let Ok(()) = Line::new(from, to).into_styled(style).draw(self);
    }

    /// A filled circle.
    pub(crate) fn dot(&mut self, centre: Point, diameter: u32, ink: Ink) {
        let style = PrimitiveStyle::with_fill(ink);
        let Ok(()) = Circle::with_center(centre, diameter).into_styled(style).draw(self);
    }

    /// A text on one line.
    pub(crate) fn text(&mut self, text: &str, at: Point, anchor: Anchor, size: Size, ink: Ink) {
        let (alignment, baseline) = match anchor {
            Anchor::Top => (Alignment::Center, Baseline::Top),
            Anchor::Bottom => (Alignment::Center, Baseline::Bottom),
            Anchor::Right => (Alignment::Right, Baseline::Middle),
        };
        let style = TextStyleBuilder::new().alignment(alignment).baseline(baseline).build();
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let Ok(_) = Text::with_text_style(&text, at, MonoTextStyle::new(size.font(), ink), style).draw(self);
    }

    /// The picture as a PNG file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self { width, height, pixels } = self;
        Picture { width: *width, height: *height, depth: Depth::Eight, palette: &PALETTE, pixels }.encode()
    }
}

impl OriginDimensions for Canvas {
    fn size(&self) -> embedded_graphics::geometry::Size {
        embedded_graphics::geometry::Size::new(self.width, self.height)
    }
}

impl DrawTarget for Canvas {
    type Color = Ink;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Ink>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        for Pixel(point, ink) in pixels {
            let (Ok(x), Ok(y)) = (u32::try_from(point.x), u32::try_from(point.y)) else { continue };
            if x < self.width
                && let Some(pixel) = self.pixels.get_mut(y as usize * self.width as usize + x as usize)
            {
                *pixel = ink as u8;
            }
        }
        Ok(())
    }
}
