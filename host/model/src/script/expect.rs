//! What a script expects to be sent, and how it differs from what came.

use std::fmt;

use serde::Deserialize;
use toolcell_agent::{Message, Prompt, ToolReply};
use toolcell_contract::ContentPart;

/// Characters of a text that came which are quoted.
const QUOTE_CHARS_MAX: usize = 200;

/// What must have been sent before a turn is played. What is absent is not looked at.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The text of the last message of a person.
    #[serde(default)]
    pub user: Option<TextMatch>,
    /// The standing instructions.
    #[serde(default)]
    pub system: Option<TextMatch>,
    /// The results that came last, one for each call and in their order.
    #[serde(default)]
    pub results: Option<Vec<ExpectedResult>>,
    /// Tools that must be offered, among others.
    #[serde(default)]
    pub tools: Vec<String>,
    /// How many messages the conversation has; the results of one turn are one message.
    #[serde(default)]
    pub messages: Option<usize>,
}

/// What the result of a call must be. What is absent is not looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedResult {
    /// The tool's name.
    #[serde(default)]
    pub tool: Option<String>,
    /// Whether it failed.
    #[serde(default)]
    pub is_error: Option<bool>,
    /// All of its output.
    #[serde(default)]
    pub equals: Option<String>,
    /// A piece of its output.
    #[serde(default)]
    pub contains: Option<String>,
    /// Its parts in order, each by a piece of its description: `image/png` fits `image (image/png, 82 bytes)`.
    #[serde(default)]
    pub parts: Option<Vec<String>>,
}

/// What a text must be. In a file a plain string stands for [`TextMatch::Contains`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextMatch {
    /// This is in it.
    Contains(String),
    /// It is this.
    Equals(String),
}

impl TextMatch {
    fn check(&self, what: &str, came: &str) -> Result<(), String> {
        let fits = match self {
            Self::Contains(text) => came.contains(text.as_str()),
            Self::Equals(text) => came == text,
        };
        if fits { Ok(()) } else { Err(format!("expected {what} {self}, but it is {}", quote(came))) }
    }
}

impl fmt::Display for TextMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contains(text) => write!(f, "to contain {text:?}"),
            Self::Equals(text) => write!(f, "to be {text:?}"),
        }
    }
}

impl Expectation {
    /// Compares; the error says what was expected and what came.
    pub(super) fn check(&self, prompt: &Prompt<'_>) -> Result<(), String> {
        if let Some(expected) = &self.user {
            expected.check("the last text of the user", &last_user_text(prompt.messages))?;
        }
        if let Some(expected) = &self.system {
            expected.check("the instructions", prompt.system.unwrap_or_default())?;
        }
        if let Some(expected) = &self.results {
            check_results(expected, last_replies(prompt.messages))?;
        }
        let offered: Vec<_> = prompt.tools.iter().map(|tool| tool.name.as_str()).collect();
        if let Some(missing) = self.tools.iter().find(|name| !offered.contains(&name.as_str())) {
            return Err(format!("expected the tool {missing:?} to be offered, but these are: {}", list(&offered)));
        }
        match self.messages.filter(|expected| *expected != prompt.messages.len()) {
            Some(expected) => Err(format!("expected {expected} messages, but there are {}", prompt.messages.len())),
            None => Ok(()),
        }
    }
}

impl ExpectedResult {
    fn check(&self, reply: &ToolReply) -> Result<(), String> {
        if let Some(tool) = self.tool.as_ref().filter(|tool| **tool != reply.name) {
            return Err(format!("expected to come from {tool:?}, but it is from {:?}", reply.name));
        }
        let result = &reply.result;
        if self.is_error.is_some_and(|expected| expected != result.is_error) {
            let (expected, came) = if result.is_error { ("success", "an error") } else { ("an error", "success") };
            return Err(format!("expected {expected}, but it is {came}: {}", quote(&result.output)));
        }
        let equals = self.equals.clone().map(TextMatch::Equals);
        let contains = self.contains.clone().map(TextMatch::Contains);
        for text in [equals, contains].iter().flatten() {
            text.check("the output", &result.output)?;
        }
        let Some(expected) = &self.parts else { return Ok(()) };
        let came: Vec<_> = result.parts.iter().map(ContentPart::describe).collect();
        let fit = expected.len() == came.len() && expected.iter().zip(&came).all(|(text, part)| part.contains(text));
        if fit { Ok(()) } else { Err(format!("expected the parts {expected:?}, but they are {came:?}")) }
    }
}

/// What the last message is, for an error.
pub(super) fn last_message(prompt: &Prompt<'_>) -> String {
    match prompt.messages.last() {
        None => "nothing was said".to_owned(),
        Some(Message::Assistant(turn)) => format!("the last message is the model's own: {}", quote(&turn.text)),
        Some(Message::User { .. }) => format!("the user said {}", quote(&last_user_text(prompt.messages))),
        Some(Message::Tool { replies }) => {
            let lines = replies.iter().map(|reply| format!("{} gave {}", reply.name, quote(&reply.result.output)));
            lines.collect::<Vec<_>>().join(", ")
        }
    }
}

fn check_results(expected: &[ExpectedResult], came: &[ToolReply]) -> Result<(), String> {
    if expected.len() != came.len() {
        let names: Vec<_> = came.iter().map(|reply| reply.name.as_str()).collect();
        let (expected, came) = (expected.len(), came.len());
        return Err(format!("expected {expected} results, but there are {came}: {}", list(&names)));
    }
    for (number, (expected, reply)) in expected.iter().zip(came).enumerate() {
        expected.check(reply).map_err(|problem| format!("result {} ({}): {problem}", number + 1, reply.name))?;
    }
    Ok(())
}

/// The results in the last message; none when it holds none.
fn last_replies(messages: &[Message]) -> &[ToolReply] {
    match messages.last() {
        Some(Message::Tool { replies }) => replies,
        _ => &[],
    }
}

fn last_user_text(messages: &[Message]) -> String {
    let content = messages.iter().rev().find_map(|message| match message {
        Message::User { content } => Some(content),
        _ => None,
    });
    let texts = content.into_iter().flatten().filter_map(|part| match part {
        ContentPart::Text(text) => Some(text.as_str()),
        ContentPart::Media(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn quote(text: &str) -> String {
    match text.char_indices().nth(QUOTE_CHARS_MAX) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
