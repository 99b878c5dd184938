//! The chart itself: title, axes, and a bar or a point for each number.

use embedded_graphics::prelude::Point;

use crate::Kind;
use crate::canvas::{Anchor, Canvas, Ink, Size};
use crate::data::Series;
use crate::scale::{Scale, format};

const WIDTH: i32 = 800;
const HEIGHT: i32 = 450;
/// Pixels between the border of the picture and what is drawn, and between things.
const MARGIN: i32 = 20;
const GAP: i32 = 8;
/// Pixels that the title takes.
const TITLE_HEIGHT: i32 = 30;
/// Pixels that the labels take.
const LABELS_HEIGHT: i32 = 22;
/// How much of a number's share of the width its bar takes, in hundredths.
const BAR_SHARE: i32 = 70;
/// Numbers that are written at their bars or points, if there is room.
const WRITTEN_MAX: usize = 25;

/// Characters of a label that are worth leaving out others.
const LABEL_CHARS_MAX: usize = 12;

/// The part of the picture that the axes enclose.
struct Plot {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    scale: Scale,
    count: usize,
}

/// The chart as a PNG file.
pub(crate) fn chart(series: &Series, kind: Kind) -> Vec<u8> {
    let mut canvas = Canvas::new(WIDTH.unsigned_abs(), HEIGHT.unsigned_abs());
    let plot = Plot::of(series, kind);
    if !series.title().is_empty() {
        let room = (WIDTH - 2 * MARGIN) / Size::Large.advance();
        let at = Point::new(WIDTH / 2, MARGIN - GAP / 2);
        canvas.text(&shortened(series.title(), room), at, Anchor::Top, Size::Large, Ink::Text);
    }
    plot.draw_grid(&mut canvas);
    match kind {
        Kind::Bar => plot.draw_bars(&mut canvas, series.values()),
        Kind::Line => plot.draw_line(&mut canvas, series.values()),
    }
    plot.draw_base(&mut canvas);
    plot.draw_values(&mut canvas, series.values(), kind);
    plot.draw_labels(&mut canvas, series);
    canvas.encode()
}

impl Plot {
    fn of(series: &Series, kind: Kind) -> Self {
        let ((_, low), (_, high)) = series.extremes();
        let scale = match kind {
            Kind::Bar => Scale::around(low.min(0.0), high.max(0.0)),
            Kind::Line => Scale::around(low, high),
        };
        let widest = scale.ticks().map(|tick| format(tick).len()).max().unwrap_or_default();
        let texts = i32::try_from(widest).unwrap_or_default() * Size::Small.advance();
        let title = if series.title().is_empty() { 0 } else { TITLE_HEIGHT };
        Self {
            left: MARGIN + texts + GAP,
            right: WIDTH - MARGIN,
            top: MARGIN + title,
            bottom: HEIGHT - MARGIN - LABELS_HEIGHT,
            scale,
            count: series.values().len(),
        }
    }

    /// The row of a value.
    fn y(&self, value: f64) -> i32 {
        let height = f64::from(self.bottom - self.top);
        #[allow(clippy::cast_possible_truncation, reason = "a fraction of the height")]
        let up = (self.scale.fraction(value) * height).round() as i32;
        self.bottom - up
    }

    /// The left and right end of the share of the width that a number has.
    fn share(&self, at: usize) -> (i32, i32) {
        let edge = |at: usize| {
            let width = usize::try_from(self.right - self.left).unwrap_or_default();
            self.left + i32::try_from(width * at / self.count).unwrap_or_default()
        };
        (edge(at), edge(at + 1))
    }

    fn middle(&self, at: usize) -> i32 {
        let (left, right) = self.share(at);
        left.midpoint(right)
    }

    /// Where bars begin: zero if it is on the scale.
    fn base(&self) -> i32 {
        self.y(0.0).clamp(self.top, self.bottom)
    }

    fn draw_grid(&self, canvas: &mut Canvas) {
        for tick in self.scale.ticks() {
            let y = self.y(tick);
            canvas.line(Point::new(self.left, y), Point::new(self.right, y), 1, Ink::Grid);
            canvas.text(&format(tick), Point::new(self.left - GAP, y), Anchor::Right, Size::Small, Ink::Axis);
        }
    }

    fn draw_base(&self, canvas: &mut Canvas) {
        let y = self.base();
        canvas.line(Point::new(self.left, y), Point::new(self.right, y), 1, Ink::Axis);
        canvas.line(Point::new(self.left, self.top), Point::new(self.left, self.bottom), 1, Ink::Axis);
    }

    fn draw_bars(&self, canvas: &mut Canvas, values: &[f64]) {
        for (at, value) in values.iter().enumerate() {
            let (left, right) = self.share(at);
            let width = ((right - left) * BAR_SHARE / 100).max(1);
            let from = left + (right - left - width) / 2;
            canvas.fill(Point::new(from, self.y(*value)), Point::new(from + width - 1, self.base()), Ink::Value);
        }
    }

    fn draw_line(&self, canvas: &mut Canvas, values: &[f64]) {
        let points: Vec<_> =
            values.iter().enumerate().map(|(at, value)| Point::new(self.middle(at), self.y(*value))).collect();
        for (from, to) in points.iter().zip(points.iter().skip(1)) {
            canvas.line(*from, *to, 3, Ink::Value);
        }
        if points.len() <= 2 * WRITTEN_MAX {
            for point in points {
                canvas.dot(point, 9, Ink::Paper);
                canvas.dot(point, 7, Ink::Value);
            }
        }
    }

    fn draw_values(&self, canvas: &mut Canvas, values: &[f64], kind: Kind) {
        let texts: Vec<_> = values.iter().map(|value| format(*value)).collect();
        let fits = |at: usize, text: &String| {
            let (left, right) = self.share(at);
            i32::try_from(text.len()).unwrap_or(i32::MAX).saturating_mul(Size::Small.advance()) < right - left
        };
        if values.len() > WRITTEN_MAX || !texts.iter().enumerate().all(|(at, text)| fits(at, text)) {
            return;
        }
        let away = if kind == Kind::Bar { 2 } else { GAP };
        for (at, (value, text)) in values.iter().zip(&texts).enumerate() {
            let (x, y) = (self.middle(at), self.y(*value));
            let below = *value < 0.0 && y + away + Size::Small.height() <= self.bottom;
            let (at, anchor) = match below {
                true => (Point::new(x, y + away), Anchor::Top),
                false => (Point::new(x, y - away), Anchor::Bottom),
            };
            // The number of a bar that reaches the bottom stands inside of it.
            let inside = kind == Kind::Bar && *value < 0.0 && !below;
            canvas.text(text, at, anchor, Size::Small, if inside { Ink::Paper } else { Ink::Text });
        }
    }

    /// Every label if they fit, else as many as do, at equal distances.
    fn draw_labels(&self, canvas: &mut Canvas, series: &Series) {
        let labels: Vec<_> = (0..self.count).map(|at| series.label(at)).collect();
        let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or_default();
        let share = ((self.right - self.left) / i32::try_from(self.count).unwrap_or(i32::MAX)).max(1);
        let needed = i32::try_from(longest.min(LABEL_CHARS_MAX) + 1).unwrap_or_default() * Size::Small.advance();
        let every = usize::try_from((needed + share - 1) / share).unwrap_or(1).max(1);
        let room = share.saturating_mul(i32::try_from(every).unwrap_or(1)) / Size::Small.advance() - 1;
        for (at, label) in labels.iter().enumerate().step_by(every) {
            let point = Point::new(self.middle(at), self.bottom + GAP);
            canvas.text(&shortened(label, room), point, Anchor::Top, Size::Small, Ink::Axis);
        }
    }
}

/// A text that has at most so many characters.
fn shortened(text: &str, room: i32) -> String {
    let room = usize::try_from(room).unwrap_or_default();
    if text.chars().count() <= room {
        return text.to_owned();
    }
    // The fonts have no `…`.
    text.chars().take(room.saturating_sub(2)).chain("..".chars()).collect()
}
