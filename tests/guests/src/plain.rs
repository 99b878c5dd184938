//! Tools that behave.

use std::time::Duration;

use crate::bindings::exports::toolcell::tool::tools::{CallContext, ToolResult};
use crate::bindings::toolcell::tool::tool_types::{
    ContentPart, Media, Outcome, Request, RichOutcome, Source, Suspension,
};
use crate::bindings::toolcell::tool::{log, progress};
use crate::{fail, say};

/// Gives its arguments back.
pub(crate) fn echo(arguments: &str, _: CallContext) -> ToolResult {
    say(arguments)
}

/// Tells its context.
pub(crate) fn context(_: &str, context: CallContext) -> ToolResult {
    let deadline = if (1..=30_000).contains(&context.deadline_ms) { "in time" } else { "wrong" };
    say(format!("{} {deadline}", context.call_id))
}

/// Asks for an approval, and tells the answer and its state on the retry.
pub(crate) fn ask(_: &str, context: CallContext) -> ToolResult {
    asks(None, context)
}

/// The same under an id of its own.
pub(crate) fn ask_with_own_id(_: &str, context: CallContext) -> ToolResult {
    asks(Some("mine".into()), context)
}

/// Asks for input; its arguments are the data of the request, and with them the schema of the answer.
pub(crate) fn ask_with_data(arguments: &str, context: CallContext) -> ToolResult {
    match asks(None, context) {
        ToolResult::Pending(asked) => {
            let request = Request { kind: "input".into(), url: None, data: Some(arguments.into()), ..asked.request };
            ToolResult::Pending(Suspension { request, ..asked })
        }
        answered => answered,
    }
}

fn asks(id: Option<String>, context: CallContext) -> ToolResult {
    match context.answer {
        Some(answer) => {
            let state = String::from_utf8_lossy(context.state.as_deref().unwrap_or_default()).into_owned();
            let data = answer.data.unwrap_or_default();
            say(format!("{} {} {data} {state}", answer.id, answer.ok))
        }
        None => ToolResult::Pending(Suspension {
            request: Request {
                id,
                kind: "approval".into(),
                prompt: "Buy 3 lamps?".into(),
                url: Some("https://example.org/lamps".into()),
                data: Some(r#"{"price": 120}"#.into()),
                expires_at: None,
            },
            state: Some(b"three lamps".to_vec()),
        }),
    }
}

/// Empty wherever it can be.
pub(crate) fn empty_strings(_: &str, _: CallContext) -> ToolResult {
    fail("")
}

/// Prints to both streams, as many lines as the arguments say, then fails in its own words.
pub(crate) fn print_and_fail(arguments: &str, _: CallContext) -> ToolResult {
    let lines: usize = arguments.parse().unwrap_or(1);
    for line in 0..lines {
        println!("out {line}");
        eprintln!("err {line}");
    }
    fail("no")
}

/// Writes one log line of each level.
pub(crate) fn log_lines(_: &str, _: CallContext) -> ToolResult {
    for level in [log::Level::Trace, log::Level::Debug, log::Level::Info, log::Level::Warn, log::Level::Error] {
        log::write(level, &format!("{level:?}"));
    }
    say("logged")
}

/// Reports progress twice, and once with a number that is none.
pub(crate) fn report_progress(_: &str, _: CallContext) -> ToolResult {
    progress::report(1.0, Some(2.0), Some("half"));
    progress::report(f64::NAN, None, None);
    progress::report(2.0, Some(f64::INFINITY), None);
    say("done")
}

/// A picture, a text and a link.
pub(crate) fn media(_: &str, _: CallContext) -> ToolResult {
    let picture = Media { mime_type: "image/png".into(), source: Source::Bytes(vec![0x89, b'P']), name: None };
    let link = Media {
        mime_type: "application/pdf".into(),
        source: Source::Url("https://example.org/a.pdf".into()),
        name: Some("a.pdf".into()),
    };
    ToolResult::Parts(RichOutcome {
        output: "a picture".into(),
        parts: vec![ContentPart::Image(picture), ContentPart::Text("note".into()), ContentPart::File(link)],
        metadata: Some(r#"{"rows": 3}"#.into()),
    })
}

/// Waits in the host for as many milliseconds as the arguments say.
pub(crate) fn sleep(arguments: &str, _: CallContext) -> ToolResult {
    std::thread::sleep(Duration::from_millis(arguments.parse().unwrap_or(3_600_000)));
    ToolResult::Ok(Outcome { output: "slept".into(), metadata: None })
}
