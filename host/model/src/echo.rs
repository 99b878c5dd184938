//! What goes back to a provider: ids, names, arguments and outputs, made so that none refuses them.

use serde_json::{Value, json};
use toolcell_agent::ToolReply;
use toolcell_contract::Definition;
use toolcell_contract::limits::{ARGUMENTS_BYTES_MAX, NAME_BYTES_MAX};

/// What a model reads where a tool said nothing: several servers refuse a message without content.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// Which ids of calls a provider accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdRule {
    /// Those of at most so many characters.
    Chars(usize),
    /// Those of ASCII letters, digits, `_` and `-`.
    Word,
    /// Those of exactly nine ASCII letters and digits, as the templates of Mistral's models demand.
    Nine,
}

impl IdRule {
    /// The id itself where the provider accepts it; otherwise one that is made of the call's place in the conversation,
    /// so that the call and its result get the same. `turn` is the index of the assistant's message.
    pub(crate) fn fit(self, id: &str, turn: usize, position: usize) -> String {
        let fits = match self {
            Self::Chars(chars_max) => id.chars().count() <= chars_max,
            Self::Word => id.chars().all(is_word_char),
            Self::Nine => id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
        };
        match self {
            _ if fits && !id.is_empty() => id.to_owned(),
            Self::Chars(_) | Self::Word => format!("call_{turn}_{position}"),
            Self::Nine => format!("{:05}{:04}", turn % 100_000, position % 10_000),
        }
    }
}

/// The arguments as they go back: a JSON object. Servers that put them into a template fail on anything else, and go
/// on failing for the rest of the conversation; the result says to the model what was wrong.
pub(crate) fn echoed_arguments(arguments: &str) -> &str {
    let is_object = arguments.len() <= ARGUMENTS_BYTES_MAX
        && serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object());
    if is_object { arguments } else { "{}" }
}

/// A name that a model made up may hold anything; going back it must look like a name.
pub(crate) fn wire_name(name: &str) -> String {
    let name: String = name.chars().take(NAME_BYTES_MAX).map(|c| if is_word_char(c) { c } else { '_' }).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

/// The output of a result, on a wire that has no mark for an error but its text.
pub(crate) fn output_of(reply: &ToolReply) -> String {
    let output = &reply.result.output;
    let lower = output.trim_start().get(..10).unwrap_or(output.trim_start()).to_ascii_lowercase();
    let says_so = lower.starts_with("error") || lower.starts_with("tool error");
    match (reply.result.is_error && !says_so, output.trim().is_empty()) {
        (true, true) => format!("Error: {NO_OUTPUT}"),
        (true, false) => format!("Error: {output}"),
        (false, _) => output.clone(),
    }
}

/// The schema of a tool's arguments: OpenAI refuses an object without `properties`; the dialect says nothing to a model.
pub(crate) fn parameters(tool: &Definition) -> Value {
    let mut parameters = tool.input_schema.clone();
    if let Some(schema) = parameters.as_object_mut() {
        schema.entry("properties").or_insert_with(|| json!({}));
        schema.shift_remove("$schema");
    }
    parameters
}

/// Adds a line to a text.
pub(crate) fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() && !line.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

fn is_word_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_stays_where_it_fits_and_else_tells_its_place() {
        for (rule, id, fitted) in [
            (IdRule::Chars(3), "äöü", "äöü"),
            (IdRule::Chars(3), "abcd", "call_7_2"),
            (IdRule::Chars(3), "", "call_7_2"),
            (IdRule::Word, "a_-9", "a_-9"),
            (IdRule::Word, "a.b", "call_7_2"),
            (IdRule::Word, "", "call_7_2"),
            (IdRule::Nine, "aB3dE6gH9", "aB3dE6gH9"),
            (IdRule::Nine, "call_abcd", "000070002"),
            (IdRule::Nine, "aB3dE6gH", "000070002"),
            (IdRule::Nine, "aB3dE6gH9x", "000070002"),
            (IdRule::Nine, "", "000070002"),
        ] {
            assert_eq!(rule.fit(id, 7, 2), fitted, "{rule:?} {id}");
        }
        assert_eq!(IdRule::Nine.fit("", usize::MAX, usize::MAX).len(), 9);
    }
}
