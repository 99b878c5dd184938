//! The vertical axis: round steps, and numbers as short texts.

/// How many steps an axis should have, about.
const STEPS: f64 = 5.0;

/// Steps of round numbers that enclose all values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    step: f64,
}

impl Scale {
    /// The scale for values between `low` and `high`.
    pub(crate) fn around(low: f64, high: f64) -> Self {
        // One value, or equal ones: a scale that begins or ends at zero.
        let (low, high) = if low < high { (low, high) } else { (low.min(0.0), high.max(0.0)) };
        let (low, high) = if low < high { (low, high) } else { (0.0, 1.0) };
        let step = round_step((high - low) / STEPS);
        Self { low: (low / step).floor() * step, high: (high / step).ceil() * step, step }
    }

    /// Where a value is on the scale, from 0 to 1.
    pub(crate) fn fraction(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    /// The values that get a line and a text.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = f64> {
        let count = ((self.high - self.low) / self.step).round();
        (0_u32..)
            .map(f64::from)
            .take_while(move |at| *at <= count)
            .map(|at| (self.low / self.step + at).round() * self.step)
    }
}

/// The next of 1, 2, 2.5, 5 and 10 times a power of ten.
fn round_step(raw: f64) -> f64 {
    let mut power = 1.0;
    while power * 10.0 <= raw {
        power *= 10.0;
    }
    while power > raw {
        power /= 10.0;
    }
    [1.0, 2.0, 2.5, 5.0].into_iter().map(|factor| factor * power).find(|step| *step >= raw).unwrap_or(10.0 * power)
}

/// A number with at most six significant digits, and k, M, G or T for thousands; no zeros at the end of a fraction.
pub(crate) fn format(value: f64) -> String {
    let magnitude = value.abs();
    let (divisor, suffix) = match magnitude {
        _ if magnitude >= 1e12 => (1e12, "T"),
        _ if magnitude >= 1e9 => (1e9, "G"),
        _ if magnitude >= 1e6 => (1e6, "M"),
        _ if magnitude >= 1e5 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let mut scaled = magnitude / divisor;
    let mut decimals = 0;
    // Digits behind the point, as whole number.
    while decimals < 9 && (scaled - scaled.round()).abs() > 1e-6 * scaled && scaled < 1e5 {
        scaled *= 10.0;
        decimals += 1;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a million, or whole")]
    let mut digits = (scaled.round() as u64).to_string();
    if decimals > 0 {
        while digits.len() <= decimals {
            digits.insert(0, '0');
        }
        digits.insert(digits.len() - decimals, '.');
        digits.truncate(digits.trim_end_matches('0').trim_end_matches('.').len());
    }
    let sign = if value < 0.0 && digits != "0" { "-" } else { "" };
    format!("{sign}{digits}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_texts() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (12.0, "12"),
            (-12.5, "-12.5"),
            (0.1 + 0.2, "0.3"),
            (1.0 / 3.0, "0.333333"),
            (99_999.0, "99999"),
            (100_000.0, "100k"),
            (1_234_567.0, "1.23457M"),
            (2.5e9, "2.5G"),
            (1e15, "1000T"),
            (0.000_012, "0.000012"),
            (-1e-12, "0"),
        ] {
            assert_eq!(format(value), text, "{value}");
        }
    }

    #[test]
    fn an_axis_has_round_steps_around_all_values() {
        for (low, high, ticks) in [
            (0.0, 12.0, vec!["0", "2.5", "5", "7.5", "10", "12.5"]),
            (-3.0, 7.0, vec!["-4", "-2", "0", "2", "4", "6", "8"]),
            (0.0, 0.0, vec!["0", "0.2", "0.4", "0.6", "0.8", "1"]),
            (5.0, 5.0, vec!["0", "1", "2", "3", "4", "5"]),
            (-5.0, -5.0, vec!["-5", "-4", "-3", "-2", "-1", "0"]),
            (0.101, 0.104, vec!["0.101", "0.102", "0.103", "0.104"]),
            (0.0, 1e6, vec!["0", "200k", "400k", "600k", "800k", "1M"]),
        ] {
            let texts: Vec<_> = Scale::around(low, high).ticks().map(format).collect();
            assert_eq!(texts, ticks, "{low} to {high}");
        }
    }
}
