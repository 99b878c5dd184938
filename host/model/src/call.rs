//! The calls of a turn, as far as all wires treat them alike.

use serde_json::{Map, Value};

/// Calls of one turn; OpenAI accepts no more when the turn goes back.
pub(crate) const CALLS_MAX: usize = 128;

/// Characters of an id that is made here.
const FRESH_ID_CHARS: usize = 24;

/// Why calls cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallsError {
    /// More than [`CALLS_MAX`].
    #[error("it holds more than {CALLS_MAX} tool calls")]
    TooMany,
    /// One has arguments but no name.
    #[error("it holds a tool call without a name")]
    Nameless,
}

/// The text of a call's arguments as the model wrote it, except where a server changed its form: nothing and `null`
/// stand for no arguments, and a JSON text that holds the JSON text is taken out of it.
pub(crate) fn arguments_text(text: String) -> String {
    let trimmed = text.trim();
    if trimmed.is_empty() || trimmed == "null" {
        return "{}".to_owned();
    }
    let inner = trimmed.starts_with('"').then(|| serde_json::from_str::<String>(trimmed).ok()).flatten();
    inner.filter(|inner| serde_json::from_str::<Map<String, Value>>(inner).is_ok()).unwrap_or(text)
}

/// An id for a call that came without one.
pub(crate) fn fresh_id() -> String {
    const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut id = "call_".to_owned();
    for _ in 0..FRESH_ID_CHARS {
        // Nothing rests on these ids being hard to guess; without randomness they are still different by time.
        let number = getrandom::u32().unwrap_or_else(|_| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(0, |time| time.subsec_nanos())
        });
        id.push(char::from(ALPHABET[(number % 62) as usize]));
    }
    id
}
