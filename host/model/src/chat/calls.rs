//! The calls of a turn, put together from pieces that servers number, name and cut in their own ways.

use serde_json::{Map, Value, json};
use toolcell_agent::{CallRequest, StopReason};

use crate::call::{CALLS_MAX, CallsError, arguments_text};

/// The calls of one turn as they are collected.
#[derive(Debug, Default)]
pub(super) struct Calls {
    slots: Vec<Slot>,
}

/// How the pieces of a call are found together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbering {
    /// By `index`, as a stream has it.
    Given,
    /// By the place in the list: a whole message lists each call once.
    Place,
}

#[derive(Debug, Default)]
struct Slot {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: Arguments,
    /// Fields that only the vendor understands, for example Gemini's signature behind its compatible API.
    extra: Map<String, Value>,
}

/// One piece of a call.
struct Piece<'v> {
    index: Option<u64>,
    id: &'v str,
    name: &'v str,
    arguments: Option<&'v Value>,
    /// Another call stands before it in the same list.
    follows: bool,
}

impl Calls {
    /// Takes the `tool_calls` of a delta or of a message.
    pub(super) fn take(&mut self, value: &Value, numbering: Numbering) -> Result<(), CallsError> {
        let list = match value {
            Value::Array(list) => list.as_slice(),
            Value::Object(_) => std::slice::from_ref(value),
            _ => return Ok(()),
        };
        for (place, call) in list.iter().enumerate() {
            let text = |pointer: &str| call.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let index = match numbering {
                Numbering::Given => call.get("index").and_then(Value::as_u64),
                Numbering::Place => u64::try_from(place).ok(),
            };
            let arguments = call.pointer("/function/arguments");
            let piece = Piece { index, id: text("/id"), name: text("/function/name"), arguments, follows: place > 0 };
            let slot = self.slot_of(&piece)?;
            slot.add(&piece);
            for (key, value) in call.as_object().into_iter().flatten() {
                if !matches!(key.as_str(), "index" | "id" | "type" | "function") && !value.is_null() {
                    slot.extra.insert(key.clone(), value.clone());
                }
            }
        }
        Ok(())
    }

    /// The calls in our own form and as the message that goes back holds them. `fresh_id` makes an id for a call that
    /// has none of its own. When the model was cut off, arguments that did not begin stay empty: they are not the same
    /// as none.
    pub(super) fn finish(
        self,
        stop: &StopReason,
        fresh_id: fn() -> String,
    ) -> Result<(Vec<CallRequest>, Vec<Value>), CallsError> {
        let (mut calls, mut echo) = (Vec::<CallRequest>::new(), Vec::new());
        for slot in self.slots {
            let Slot { id, name, arguments, extra, .. } = slot;
            if name.is_empty() && arguments.text.trim().is_empty() {
                continue;
            }
            if name.is_empty() {
                return Err(CallsError::Nameless);
            }
            let is_taken = id.is_empty() || calls.iter().any(|call| call.id == id);
            let id = if is_taken { fresh_id() } else { id };
            let did_not_begin = *stop == StopReason::Length && arguments.text.trim().is_empty();
            let arguments = if did_not_begin { String::new() } else { arguments_text(arguments.text) };
            let mut call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
            if let Some(call) = call.as_object_mut() {
                call.extend(extra);
            }
            echo.push(call);
            calls.push(CallRequest { id, name, arguments });
        }
        Ok((calls, echo))
    }

    fn slot_of(&mut self, piece: &Piece<'_>) -> Result<&mut Slot, CallsError> {
        let found = match self.find(piece) {
            Some(found) => found,
            None if self.slots.len() >= CALLS_MAX => return Err(CallsError::TooMany),
            None => {
                self.slots.push(Slot { index: piece.index, ..Slot::default() });
                self.slots.len() - 1
            }
        };
        Ok(&mut self.slots[found])
    }

    /// The slot that a piece belongs to; `None` when it begins a new one.
    fn find(&self, piece: &Piece<'_>) -> Option<usize> {
        let last = |fits: &dyn Fn(&Slot) -> bool| self.slots.iter().rposition(fits);
        // The number decides; several calls may share one with a server that always says 0.
        let same_index = |slot: &Slot| piece.index.is_none() || slot.index == piece.index;
        if !piece.id.is_empty()
            && let Some(same) = last(&|slot| same_index(slot) && slot.id == piece.id)
        {
            return Some(same);
        }
        if piece.index.is_none() && piece.id.is_empty() && piece.follows && !piece.name.is_empty() {
            return None;
        }
        let candidate = last(&|slot| same_index(slot))?;
        let slot = self.slots.get(candidate)?;
        let is_other = if piece.id.is_empty() || slot.id.is_empty() {
            piece.begins_after(slot)
        } else {
            // Another id is another call, unless the piece plainly continues one that is not complete: there are
            // servers that make up an id for every piece.
            !piece.name.is_empty() || slot.name.is_empty() || slot.arguments.is_complete()
        };
        (!is_other).then_some(candidate)
    }
}

impl Piece<'_> {
    /// Whether a piece without an id begins a new call although its number says otherwise: it has a name and arguments
    /// of its own, and those of the slot are complete.
    fn begins_after(&self, slot: &Slot) -> bool {
        let brings_arguments = match self.arguments {
            Some(Value::String(text)) => !text.trim().is_empty(),
            Some(Value::Object(_)) => true,
            _ => false,
        };
        let is_renamed = !slot.name.is_empty() && self.name != slot.name;
        !self.name.is_empty() && slot.arguments.is_complete() && (brings_arguments || is_renamed)
    }
}

impl Slot {
    fn add(&mut self, piece: &Piece<'_>) {
        if self.id.is_empty() {
            piece.id.clone_into(&mut self.id);
        }
        // Some servers repeat the whole name in every piece.
        if self.name.is_empty() {
            piece.name.clone_into(&mut self.name);
        }
        match piece.arguments {
            Some(Value::String(text)) => self.arguments.push(text),
            Some(Value::Null) | None => {}
            // An object where a text should be, whole.
            Some(value) => self.arguments.push(&value.to_string()),
        }
    }
}

/// The text of a call's arguments, and whether it is complete so far.
#[derive(Debug, Default)]
struct Arguments {
    text: String,
    depth: usize,
    in_string: bool,
    after_backslash: bool,
    was_open: bool,
}

impl Arguments {
    fn push(&mut self, more: &str) {
        self.text.push_str(more);
        for byte in more.bytes() {
            match (self.in_string, byte) {
                (true, _) if self.after_backslash => self.after_backslash = false,
                (true, b'\\') => self.after_backslash = true,
                (_, b'"') => self.in_string = !self.in_string,
                (false, b'{' | b'[') => {
                    self.depth += 1;
                    self.was_open = true;
                }
                (false, b'}' | b']') => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Whether the braces that were opened are closed.
    fn is_complete(&self) -> bool {
        self.was_open && self.depth == 0 && !self.in_string
    }
}
