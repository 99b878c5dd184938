//! A day of the calendar in which the world counts.

use std::fmt;
use std::str::FromStr;

/// A day from the year 1 to 9999, Gregorian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Date {
    year: u32,
    month: u32,
    day: u32,
}

impl Date {
    /// Days since 0001-01-01, which is day 0.
    pub(crate) fn number(self) -> u32 {
        let before = self.year - 1;
        let leap_days = before / 4 - before / 100 + before / 400;
        let months: u32 = (1..self.month).map(|month| days_in(self.year, month)).sum();
        before * 365 + leap_days + months + self.day - 1
    }

    /// The name of the day.
    pub(crate) fn weekday(self) -> &'static str {
        // 0001-01-01 was a Monday.
        match self.number() % 7 {
            0 => "Monday",
            1 => "Tuesday",
            2 => "Wednesday",
            3 => "Thursday",
            4 => "Friday",
            5 => "Saturday",
            _ => "Sunday",
        }
    }
}

impl FromStr for Date {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fields: Vec<_> = text.split('-').collect();
        let number = |field: &str, length: usize| {
            (field.len() == length && field.bytes().all(|byte| byte.is_ascii_digit()))
                .then(|| field.parse::<u32>().ok())
                .flatten()
        };
        if let [year, month, day] = fields.as_slice()
            && let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2))
            && year >= 1
            && (1..=12).contains(&month)
            && (1..=days_in(year, month)).contains(&day)
        {
            return Ok(Self { year, month, day });
        }
        let shown: String = text.chars().take(20).flat_map(char::escape_default).collect();
        Err(format!("\"{shown}\" is not a date: write an existing day as YYYY-MM-DD, for example 2026-12-24"))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

fn days_in(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
