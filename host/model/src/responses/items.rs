//! The items of a turn: how they are collected, and in which form they go back.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Items of one turn. A model that writes more is caught in a loop.
const ITEMS_MAX: usize = 1024;

/// What stands between two messages of a turn, and between two parts of its reasoning.
pub(super) const MESSAGE_BREAK: &str = "\n\n";

/// More than [`ITEMS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it holds more than {ITEMS_MAX} items")]
pub(super) struct TooManyItems;

/// The items of a stream that are done.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// By their number. It is wider than the numbers of servers, so that there always is a next one.
    done: BTreeMap<u128, Value>,
    calls_begun: usize,
}

impl Items {
    /// Notes that an item has begun.
    pub(super) fn begin(&mut self, item: &Value) {
        self.calls_begun += usize::from(is_call(item));
    }

    /// Takes an item that is done. Without a number, or with one that another item has, it follows the others.
    pub(super) fn add(&mut self, number: Option<u64>, item: &Value) -> Result<(), TooManyItems> {
        let free = |number: &u128| self.done.get(number).is_none_or(|known| is_same(known, item));
        let next = || self.done.last_key_value().map_or(0, |(last, _)| last + 1);
        let number = number.map(u128::from).filter(free).unwrap_or_else(next);
        self.done.insert(number, item.clone());
        if self.done.len() > ITEMS_MAX { Err(TooManyItems) } else { Ok(()) }
    }

    /// Whether a call was begun that is not among the items.
    pub(super) fn lack_a_call(&self, items: &[Value]) -> bool {
        items.iter().filter(|item| is_call(item)).count() < self.calls_begun
    }

    /// All items: those of the final response, and among them what it leaves out although it was done.
    pub(super) fn complete(&mut self, output: &[Value]) -> Result<Vec<Value>, TooManyItems> {
        if output.len() > ITEMS_MAX {
            return Err(TooManyItems);
        }
        let done: Vec<_> = std::mem::take(&mut self.done).into_values().collect();
        let mut items: Vec<_> = output.iter().filter(|item| is_item(item)).cloned().collect();
        for (place, item) in done.iter().enumerate() {
            let by_id = items.iter().position(|known| is_same(known, item));
            // Gateways give an item another id in each event; then its place tells.
            let is_here = |known: &&Value| is_other_id_of(known, item) && !done.iter().any(|own| is_same(known, own));
            match by_id.or_else(|| items.get(place).filter(is_here).map(|_| place)) {
                Some(known) => fill(&mut items[known], item),
                None => items.insert(place.min(items.len()), item.clone()),
            }
        }
        Ok(items)
    }
}

/// Whether a value is an item at all. What is none would be refused when it goes back.
pub(super) fn is_item(value: &Value) -> bool {
    value.get("type").is_some_and(Value::is_string)
}

/// Whether an item is a call of a function.
pub(super) fn is_call(item: &Value) -> bool {
    is_a(item, "function_call")
}

/// An assistant's message as an item.
pub(super) fn message(text: &str) -> Value {
    json!({
        "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    })
}

/// What the messages among items say, and whether that is a refusal.
pub(super) fn text_of(items: &[Value]) -> (String, bool) {
    let (mut texts, mut is_refusal) = (Vec::new(), false);
    for item in items.iter().filter(|item| is_a(item, "message")) {
        let mut text = String::new();
        for part in list(item, "content") {
            let piece = |key: &str| part.get(key).and_then(Value::as_str).unwrap_or_default();
            text.push_str(piece("text"));
            text.push_str(piece("refusal"));
            is_refusal |= !piece("refusal").is_empty();
        }
        texts.push(text);
    }
    texts.retain(|text| !text.is_empty());
    (texts.join(MESSAGE_BREAK), is_refusal)
}

/// The reasoning among items that can be read.
pub(super) fn reasoning_of(items: &[Value]) -> String {
    let parts = items.iter().filter(|item| is_a(item, "reasoning"));
    let parts = parts.flat_map(|item| list(item, "summary").iter().chain(list(item, "content")));
    let texts: Vec<_> = parts.filter_map(|part| part.get("text")?.as_str()).filter(|text| !text.is_empty()).collect();
    texts.join(MESSAGE_BREAK)
}

/// The items as they go back. Reasoning that the server could not read is left out, and with it the ids by which the
/// other items depend on it; so is reasoning that nothing follows, which OpenAI refuses.
pub(super) fn echoed(items: &[Value]) -> Vec<Value> {
    let last = items.iter().rposition(|item| !is_a(item, "reasoning"));
    let followed = items.get(..last.map_or(0, |last| last + 1)).unwrap_or_default();
    let mut echoed: Vec<_> = followed.iter().filter(|item| can_be_read(item)).cloned().collect();
    if followed.iter().any(|item| is_a(item, "reasoning") && !can_be_read(item)) {
        for item in echoed.iter_mut().filter(|item| !is_a(item, "reasoning")).filter_map(Value::as_object_mut) {
            item.shift_remove("id");
        }
    }
    echoed
}

/// Whether a server that keeps nothing can read an item. OpenAI reads encrypted reasoning, llama.cpp its plain text. A
/// message that was cut off before its first word is refused.
fn can_be_read(item: &Value) -> bool {
    let is_text = |value: Option<&Value>| value.and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    match item.get("type").and_then(Value::as_str) {
        Some("reasoning") => {
            is_text(item.get("encrypted_content")) || list(item, "content").iter().any(|part| is_text(part.get("text")))
        }
        Some("message") => item.get("content").is_some_and(|content| !is_blank(content)),
        _ => true,
    }
}

/// Whether two items are one: by the id of the call, or else by the id of the item.
fn is_same(one: &Value, other: &Value) -> bool {
    let key = if is_call(one) { "call_id" } else { "id" };
    one.get("type") == other.get("type")
        && match (id_of(one, key), id_of(other, key)) {
            (Some(one), Some(other)) => one == other,
            _ => one == other,
        }
}

fn id_of<'v>(item: &'v Value, key: &str) -> Option<&'v str> {
    item.get(key)?.as_str().filter(|id| !id.is_empty())
}

/// Whether two items may be one although their ids differ. The id of a call is never changed.
fn is_other_id_of(one: &Value, other: &Value) -> bool {
    one.get("type") == other.get("type") && !is_call(one)
}

/// Adds the fields that an item lacks.
fn fill(item: &mut Value, from: &Value) {
    let (Some(item), Some(from)) = (item.as_object_mut(), from.as_object()) else { return };
    for (key, value) in from.iter().filter(|(_, value)| !is_blank(value)) {
        if item.get(key).is_none_or(is_blank) {
            item.insert(key.clone(), value.clone());
        }
    }
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

fn is_a(item: &Value, kind: &str) -> bool {
    item.get("type").is_some_and(|own| own == kind)
}

fn list<'v>(item: &'v Value, key: &str) -> &'v [Value] {
    item.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
