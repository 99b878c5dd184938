//! The shorter forms of one message. Each is taken only where it really is shorter, and copies nothing that it drops.

use std::borrow::Cow;

use toolcell_contract::{ContentPart, ToolResult};

use crate::estimate;
use crate::transcript::{Message, ToolReply};

/// Characters of an older text that stay at each of its ends.
pub(super) const ENDS_CHARS: usize = 600;

/// How a message is sent; each form is at most as long as the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As it is.
    Whole,
    /// Its media are descriptions.
    Described,
    /// The long outputs of its tools have only their ends besides.
    Shortened,
    /// So have a person's long words.
    Pressed,
}

/// A message in a form.
pub(super) fn seen(message: &Message, form: Form) -> Cow<'_, Message> {
    match message {
        _ if form == Form::Whole => Cow::Borrowed(message),
        Message::Assistant(_) => Cow::Borrowed(message),
        Message::User { content } => {
            Cow::Owned(Message::User { content: content.iter().map(|part| part_in(part, form)).collect() })
        }
        Message::Tool { replies } => {
            Cow::Owned(Message::Tool { replies: replies.iter().map(|reply| reply_in(reply, form)).collect() })
        }
    }
}

fn part_in(part: &ContentPart, form: Form) -> ContentPart {
    match part {
        ContentPart::Media(_) => shorter_part(part, ContentPart::text(format!("[{}]", part.describe()))),
        ContentPart::Text(text) if form == Form::Pressed => ContentPart::Text(shortened(text).into_owned()),
        ContentPart::Text(_) => part.clone(),
    }
}

fn shorter_part(part: &ContentPart, other: ContentPart) -> ContentPart {
    if estimate::part(&other) < estimate::part(part) { other } else { part.clone() }
}

fn reply_in(reply: &ToolReply, form: Form) -> ToolReply {
    let ToolReply { call_id, name, result } = reply;
    let mut result = described(result);
    if form != Form::Described
        && let Cow::Owned(output) = shortened(&result.output)
    {
        result.output = output;
    }
    ToolReply { call_id: call_id.clone(), name: name.clone(), result }
}

/// A result whose parts are lines of its output.
fn described(result: &ToolResult) -> ToolResult {
    let mut output = result.output.clone();
    for part in &result.parts {
        if !output.is_empty() {
            output.push('\n');
        }
        match part {
            ContentPart::Text(text) => output.push_str(text),
            ContentPart::Media(_) => output.push_str(&format!("[{}]", part.describe())),
        }
    }
    let described =
        ToolResult { output, is_error: result.is_error, parts: Vec::new(), metadata: result.metadata.clone() };
    if estimate::result(&described) < estimate::result(result) { described } else { result.clone() }
}

/// The ends of a long text.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    let Some(missing) = text.chars().count().checked_sub(2 * ENDS_CHARS) else { return Cow::Borrowed(text) };
    let place = |chars| text.char_indices().nth(chars).map_or(text.len(), |(place, _)| place);
    let (head, tail) = (&text[..place(ENDS_CHARS)], &text[place(ENDS_CHARS + missing)..]);
    let ends = format!("{head}\n[{missing} characters are left out]\n{tail}");
    if ends.len() < text.len() && estimate::text(&ends) < estimate::text(text) {
        Cow::Owned(ends)
    } else {
        Cow::Borrowed(text)
    }
}
