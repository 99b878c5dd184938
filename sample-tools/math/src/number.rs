//! Numbers as people write them: from digits to a value and back.
//!
//! Both ways go through the JSON numbers that the tool carries anyway, which keeps it half as large as with those of
//! the standard library. Reading may be off by one in the seventeenth digit; fifteen are shown.

use toolcell_guest::serde_json;

/// Significant digits of what is no whole number: enough for any use, and few enough to hide that 0.1 + 0.2 is
/// 0.30000000000000004.
const DIGITS_MAX: usize = 15;

/// Below this magnitude a whole number is written with all its digits.
const WHOLE_MAX: f64 = 9_223_372_036_854_775_808.0;

/// Exponents of ten for which a number is written without one.
const PLAIN_EXPONENTS: std::ops::RangeInclusive<i64> = -7..=20;

/// The number at the start of a text, with its exponent; it may still be wrong, as `1.2.3` is.
pub(crate) fn literal(text: &str) -> &str {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let mut length = bytes.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    // An exponent only when digits follow: in `2 * e` the letter is a constant.
    if let Some(b'e' | b'E') = bytes.get(length) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits(length + 1 + sign);
        length += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    text.get(..length).unwrap_or(text)
}

/// The value of a literal. `None` when it has no digit, a second point or too large an exponent.
pub(crate) fn parse(literal: &str) -> Option<f64> {
    let (mantissa, exponent) = literal.split_once(['e', 'E']).unwrap_or((literal, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let exponent = exponent.parse::<i32>().ok()?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    match (digits, exponent) {
        ("", _) => Some(0.0),
        // A whole number without an exponent is read exactly.
        (_, 0) => serde_json::from_str(digits).ok(),
        _ => serde_json::from_str(&format!("{digits}e{exponent}")).ok(),
    }
}

/// A value as text: a whole number exactly, any other with [`DIGITS_MAX`] significant digits; no `.0`, no `-0`, an
/// exponent only where there would be many zeros.
pub(crate) fn format(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < WHOLE_MAX {
        #[allow(clippy::cast_possible_truncation, reason = "whole, and in the range")]
        return (value as i64).to_string();
    }
    let json = serde_json::to_string(&value.abs()).unwrap_or_default();
    let (digits, exponent) = round(decompose(&json));
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", write(&digits, exponent))
}

/// The digits of a JSON number without zeros in front, and the exponent of the first one.
fn decompose(json: &str) -> (Vec<u8>, i64) {
    let (mantissa, exponent) = json.split_once('e').unwrap_or((json, "0"));
    let mut exponent = exponent.parse::<i64>().unwrap_or_default() - 1;
    let mut digits = Vec::new();
    let mut after_point = false;
    for byte in mantissa.bytes() {
        match byte {
            b'.' => after_point = true,
            b'0' if digits.is_empty() => exponent -= i64::from(after_point),
            _ => {
                digits.push(byte - b'0');
                exponent += i64::from(!after_point);
            }
        }
    }
    (digits, exponent)
}

fn round((mut digits, mut exponent): (Vec<u8>, i64)) -> (Vec<u8>, i64) {
    let up = digits.get(DIGITS_MAX).is_some_and(|digit| *digit >= 5);
    digits.truncate(DIGITS_MAX);
    if up {
        while digits.last() == Some(&9) {
            digits.pop();
        }
        match digits.last_mut() {
            Some(last) => *last += 1,
            None => {
                digits.push(1);
                exponent += 1;
            }
        }
    }
    while digits.last() == Some(&0) {
        digits.pop();
    }
    (digits, exponent)
}

fn write(digits: &[u8], exponent: i64) -> String {
    let mut out = String::new();
    let plain = PLAIN_EXPONENTS.contains(&exponent);
    // The digits that stand before the point.
    let before = if plain { exponent + 1 } else { 1 };
    if before <= 0 {
        out.push_str("0.");
        (before..0).for_each(|_| out.push('0'));
    }
    for (at, digit) in (0..).zip(digits) {
        if at == before && at > 0 {
            out.push('.');
        }
        out.push(char::from(b'0' + digit));
    }
    (i64::try_from(digits.len()).unwrap_or_default()..before).for_each(|_| out.push('0'));
    if !plain {
        out.push('e');
        out.push_str(&exponent.to_string());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_ends_where_the_number_ends() {
        for (text, number) in [
            ("12+3", "12"),
            ("1.5e3)", "1.5e3"),
            ("2e", "2"),
            ("2e+", "2"),
            ("2E-3x", "2E-3"),
            ("1.2.3", "1.2.3"),
            ("é", ""),
        ] {
            assert_eq!(literal(text), number, "{text}");
        }
    }

    #[test]
    fn literals_have_the_value_that_people_mean() {
        for (text, value) in [
            ("0", 0.0),
            ("007", 7.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("0.1", 0.1),
            ("1e3", 1000.0),
            ("1.25e-2", 0.0125),
            ("9007199254740993", 9_007_199_254_740_992.0),
            ("0e999999", 0.0),
            ("00.00", 0.0),
        ] {
            assert_eq!(parse(text), Some(value), "{text}");
        }
        for text in [".", "1.2.3", "1e99999999999", "1e999", ""] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn whole_numbers_keep_all_digits() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (14.0, "14"),
            (-3.0, "-3"),
            (1_152_921_504_606_846_976.0, "1152921504606846976"),
            (1e19, "10000000000000000000"),
            (1e20, "100000000000000000000"),
            (1e21, "1e21"),
            (-1.5e300, "-1.5e300"),
        ] {
            assert_eq!(format(value), text);
        }
    }

    #[test]
    fn other_numbers_have_fifteen_digits() {
        for (value, text) in [
            (0.1 + 0.2, "0.3"),
            (1.0 / 3.0, "0.333333333333333"),
            (2.0 / 3.0, "0.666666666666667"),
            (std::f64::consts::PI, "3.14159265358979"),
            (1234.5, "1234.5"),
            (-0.001, "-0.001"),
            (1e-7, "0.0000001"),
            (1.5e-8, "1.5e-8"),
            (0.999_999_999_999_999_9, "1"),
            (9.999_999_999_999_999_8, "10"),
            (99.999_999_999_999_99, "100"),
            (f64::MIN_POSITIVE, "2.2250738585072e-308"),
        ] {
            assert_eq!(format(value), text);
        }
    }
}
