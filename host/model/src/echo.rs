//! What goes back to a provider: ids, names, arguments and outputs, made so that none refuses them.

use serde_json::{Value, json};
use toolcell_agent::ToolReply;
use toolcell_contract::Definition;
use toolcell_contract::limits::{ARGUMENTS_BYTES_MAX, NAME_BYTES_MAX};

/// What a model reads where a tool said nothing: several servers refuse a message without content.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// Which ids of calls a provider accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdRule {
    /// The longest id, in characters.
    pub(crate) chars_max: usize,
    /// Whether it may hold nothing but ASCII letters, digits, `_` and `-`.
    pub(crate) is_word: bool,
}

impl IdRule {
    /// The id itself where the provider accepts it; otherwise one that is made of the call's place in the conversation,
    /// so that the call and its result get the same. `turn` is the index of the assistant's message.
    pub(crate) fn fit(self, id: &str, turn: usize, position: usize) -> String {
        let fits =
            !id.is_empty() && id.chars().count() <= self.chars_max && (!self.is_word || id.chars().all(is_word_char));
        if fits { id.to_owned() } else { format!("call_{turn}_{position}") }
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
