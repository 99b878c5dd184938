//! The sign-in, the events after it, and what is refused.

use super::*;
use toolcell_guest::serde_json::{Value, json};
use toolcell_guest::{Answer, Object, RequestKind, testing};

fn answered(date: &str, answer: Answer) -> ToolResult {
    let first = testing::first_call();
    calendar_login(date.to_owned(), &first).unwrap();
    calendar_login(date.to_owned(), &testing::retry(&first, answer)).unwrap()
}

#[test]
fn the_first_call_asks_to_sign_in() {
    let context = testing::first_call();
    let result = calendar_login("2026-12-01".to_owned(), &context).unwrap();
    assert_eq!(result.output, "Sign in to the calendar\nhttps://calendar.example.org/login?state=call-1");
    let request = result.pending_of().unwrap();
    assert_eq!(request.kind, RequestKind::Authorization);
    assert_eq!(request.url.as_deref(), Some("https://calendar.example.org/login?state=call-1"));
}

#[test]
fn after_the_sign_in_the_events_of_the_day_are_there() {
    let data = Object::from_iter([("account".to_owned(), json!("ada@example.org"))]);
    let result = answered("2026-12-01", Answer::approve("x").with_data(data));
    assert_eq!(
        result.output,
        "Tuesday, 2026-12-01, calendar of ada@example.org (sample data):\n\
         09:30-10:30 Planning\n\
         11:00-11:45 Interview with a candidate\n\
         12:30-13:30 Lunch with Ada\n\
         14:00-15:00 Design review"
    );
    assert_eq!(result.metadata.unwrap()["account"], json!("ada@example.org"));
}

#[test]
fn the_same_day_has_the_same_events_and_another_day_others() {
    let events = |date: &str| answered(date, Answer::approve("x")).metadata.unwrap()["events"].clone();
    assert_eq!(events("2026-12-02"), events("2026-12-02"));
    let week: std::collections::HashSet<_> =
        (1..=7).map(|day| events(&format!("2026-12-0{day}")).to_string()).collect();
    assert!(week.len() > 3, "{week:?}");
}

#[test]
fn every_hour_of_the_sample_is_in_order() {
    for day in 1..=28 {
        let metadata = answered(&format!("2027-02-{day:02}"), Answer::approve("x")).metadata.unwrap();
        let times: Vec<&str> =
            metadata["events"].as_array().unwrap().iter().map(|event| event["from"].as_str().unwrap()).collect();
        assert!(times.is_sorted(), "{times:?}");
        assert_eq!(metadata["sample"], Value::Bool(true));
    }
}

#[test]
fn without_the_sign_in_nothing_is_read() {
    let first = testing::first_call();
    calendar_login("2026-12-01".to_owned(), &first).unwrap();
    let declined = testing::retry(&first, Answer::decline("x", "declined"));
    assert_eq!(
        calendar_login("2026-12-01".to_owned(), &declined),
        Err("not signed in: the calendar cannot be read".to_owned())
    );
}

#[test]
fn a_sign_in_for_another_day_is_not_used() {
    let first = testing::first_call();
    let _ = calendar_login("2026-12-01".to_owned(), &first);
    let result = calendar_login("2026-12-02".to_owned(), &testing::retry(&first, Answer::approve("x")));
    assert_eq!(result, Err("the sign-in was for another day: ask again".to_owned()));
}

#[test]
fn only_days_that_exist_are_dates() {
    for (text, weekday) in [
        ("0001-01-01", "Monday"),
        ("2000-02-29", "Tuesday"),
        ("2026-12-01", "Tuesday"),
        ("2028-02-29", "Tuesday"),
        ("9999-12-31", "Friday"),
    ] {
        let date: Date = text.parse().unwrap();
        assert_eq!((date.to_string().as_str(), date.weekday()), (text, weekday));
    }
    for text in [
        "",
        "2026-2-1",
        "2026-02-29",
        "1900-02-29",
        "2026-13-01",
        "2026-00-10",
        "2026-12-32",
        "0000-01-01",
        "+026-12-01",
        "2026-12-01T00:00",
    ] {
        let error = format!("\"{text}\" is not a date: write an existing day as YYYY-MM-DD, for example 2026-12-24");
        assert_eq!(text.parse::<Date>(), Err(error));
    }
}
