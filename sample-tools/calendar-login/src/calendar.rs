//! The calendar behind the tool. It is made up: the events of a day follow from its date, and nothing is fetched.

use toolcell_guest::serde_json::{Value, json};
use toolcell_guest::{Context, ToolResult};

use crate::date::Date;

/// Whose calendar it is when the answer does not say.
const DEFAULT_ACCOUNT: &str = "you@example.org";

/// Characters of an account that the output repeats.
const ACCOUNT_CHARS_MAX: usize = 100;

/// What may happen on a working day, in the order of the clock.
const MEETINGS: [(&str, &str, &str); 7] = [
    ("09:00", "09:15", "Stand-up"),
    ("09:30", "10:30", "Planning"),
    ("11:00", "11:45", "Interview with a candidate"),
    ("12:30", "13:30", "Lunch with Ada"),
    ("14:00", "15:00", "Design review"),
    ("15:30", "16:00", "One-to-one with Grace"),
    ("17:00", "18:00", "Release call"),
];

/// What may happen on a free day.
const LEISURE: [(&str, &str, &str); 2] = [("10:00", "12:00", "Farmers' market"), ("19:00", "22:00", "Concert")];

/// The page at which the user would sign in; `state` ties the visit to this call, as OAuth 2.0 (RFC 6749) wants it.
pub(crate) fn sign_in_url(context: &Context) -> String {
    let mut url = String::from("https://calendar.example.org/login?state=");
    for byte in context.call_id().bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    url
}

/// The events of a day: the output for the model, and the same as data for the host.
pub(crate) fn events(date: Date, account: Option<&str>) -> ToolResult {
    let account: String = account.unwrap_or(DEFAULT_ACCOUNT).chars().take(ACCOUNT_CHARS_MAX).collect();
    let events = events_of(date);
    let mut output = format!("{}, {date}, calendar of {account} (sample data):", date.weekday());
    for (from, to, title) in &events {
        output.push_str(&format!("\n{from}-{to} {title}"));
    }
    if events.is_empty() {
        output.push_str("\nno events");
    }
    let events: Vec<Value> =
        events.iter().map(|(from, to, title)| json!({"from": from, "to": to, "title": title})).collect();
    ToolResult::ok(output)
        .with_metadata("date", date.to_string())
        .with_metadata("account", account)
        .with_metadata("events", events)
        .with_metadata("sample", true)
}

/// The bits of a number that the date gives decide which events there are.
fn events_of(date: Date) -> Vec<&'static (&'static str, &'static str, &'static str)> {
    let bits = date.number().wrapping_mul(0x9E37_79B1) >> 16;
    let possible: &[_] = if matches!(date.weekday(), "Saturday" | "Sunday") { &LEISURE } else { &MEETINGS };
    possible.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, event)| event).collect()
}
