//! Both outputs of the program. Standard output is safe on a terminal, untouched for a file or a program, and quiet when its
//! reader goes away; standard error never ends the program.

use std::io::{ErrorKind, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::exit::Exit;
use crate::printable::{escape_json, printable};

/// A line on standard error, formatted as by `eprintln!`, which would panic when nobody reads it.
macro_rules! note {
    ($($text:tt)*) => { $crate::output::write_note(format_args!("{}\n", format_args!($($text)*))) };
}

/// The same without a line break.
macro_rules! note_part {
    ($($text:tt)*) => { $crate::output::write_note(format_args!($($text)*)) };
}

pub(crate) use {note, note_part};

/// Writes to standard error. What cannot be said there can be said nowhere.
pub(crate) fn write_note(text: std::fmt::Arguments<'_>) {
    let mut stderr = std::io::stderr();
    let _ = stderr.write_fmt(text).and_then(|()| stderr.flush());
}

/// Writes a piece of text. On a terminal control characters are shown as escapes; a pipe gets the text as it is.
pub(crate) fn write(text: &str) {
    let written = if std::io::stdout().is_terminal() { printable(text) } else { text.to_owned() };
    end_if_unread(std::io::stdout().write_all(written.as_bytes()).and_then(|()| std::io::stdout().flush()));
}

/// Writes a line of text.
pub(crate) fn line(text: &str) {
    write(&format!("{text}\n"));
}

/// Writes one value as JSON on a line. Characters that a terminal would obey are written as escapes of JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    raw_line(&escape_json(&serde_json::to_string(value)?));
    Ok(())
}

/// Writes one value as JSON on several lines.
pub(crate) fn pretty_json(value: &impl Serialize) -> anyhow::Result<()> {
    raw_line(&escape_json(&serde_json::to_string_pretty(value)?));
    Ok(())
}

fn raw_line(text: &str) {
    end_if_unread(writeln!(std::io::stdout(), "{text}"));
}

/// `toolcell tools | head -1`: whoever read has enough, which is no failure. Any other one has nowhere to be said but
/// standard error.
fn end_if_unread(written: std::io::Result<()>) {
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            note!("error: cannot write to standard output: {error}");
            std::process::exit(Exit::HostFailed.code().into());
        }
    }
}
