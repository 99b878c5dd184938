//! The JSON of the events of a stream, also where a server cut a character in two.

use std::mem;

use serde_json::Value;

use crate::provider_error::Failed;

/// Reads the events of one stream, one after the other.
///
/// JSON writes a character beyond the first plane as two escapes, as in `\ud83d\ude00`. Servers that cut texts by their
/// UTF-16 units put one half at the end of an event and the other into the next, where neither is JSON by itself. The
/// halves are put together again; a half that stays alone becomes the replacement character.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The first half of a character, in hexadecimal digits, whose second is expected.
    half: Option<String>,
}

impl Reader {
    /// The value of an event.
    ///
    /// # Errors
    /// [`Failed`] when it is not JSON.
    pub(crate) fn read(&mut self, data: &str) -> Result<Value, Failed> {
        self.parse(data).map_err(|error| Failed::not_json(&error, data))
    }

    fn parse(&mut self, data: &str) -> Result<Value, serde_json::Error> {
        serde_json::from_str(data).or_else(|error| serde_json::from_str(&self.without_halves(data)).map_err(|_| error))
    }

    /// The text with whole characters only: a first half at the end of a string waits for the next event.
    fn without_halves(&mut self, data: &str) -> String {
        let mut mended = String::with_capacity(data.len());
        let mut rest = data;
        while let Some(at) = rest.find('\\') {
            let (before, escape) = rest.split_at(at);
            mended.push_str(before);
            let Some(unit) = unit(escape) else {
                // Another escape: the character after the backslash belongs to it.
                let end = escape.char_indices().nth(2).map_or(escape.len(), |(end, _)| end);
                mended.push_str(&escape[..end]);
                rest = &escape[end..];
                continue;
            };
            let (digits, after) = (&escape[2..UNIT_BYTES], &escape[UNIT_BYTES..]);
            rest = after;
            match unit {
                0xd800..0xdc00 if is_second_half(after) => {
                    mended.push_str(&escape[..2 * UNIT_BYTES]);
                    rest = &after[UNIT_BYTES..];
                }
                0xd800..0xdc00 if after.starts_with('"') => {
                    self.half = Some(digits.to_owned());
                }
                0xd800..0xdc00 => mended.push_str(REPLACEMENT),
                0xdc00..0xe000 => match mem::take(&mut self.half).filter(|_| mended.ends_with('"')) {
                    Some(first) => mended.push_str(&format!("\\u{first}\\u{digits}")),
                    None => mended.push_str(REPLACEMENT),
                },
                _ => mended.push_str(&escape[..UNIT_BYTES]),
            }
        }
        mended.push_str(rest);
        mended
    }
}

/// The value of a text that stands by itself.
///
/// # Errors
/// [`serde_json::Error`] when it is not JSON.
pub(crate) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    Reader::default().parse(text)
}

/// Bytes of an escape such as `\ud83d`.
const UNIT_BYTES: usize = 6;

const REPLACEMENT: &str = "\\ufffd";

/// The UTF-16 unit that an escape stands for, where the text begins with one.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    if digits.bytes().all(|b| b.is_ascii_hexdigit()) { u16::from_str_radix(digits, 16).ok() } else { None }
}

fn is_second_half(text: &str) -> bool {
    unit(text).is_some_and(|unit| (0xdc00..0xe000).contains(&unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(events: &[&str]) -> Vec<Value> {
        let mut reader = Reader::default();
        events.iter().map(|data| reader.read(data).unwrap()).collect()
    }

    #[test]
    fn the_halves_of_a_character_are_put_together() {
        assert_eq!(read(&[r#"{"a":"x\ud83d"}"#, r#"{"a":"\ude00y"}"#]), [json!({"a": "x"}), json!({"a": "😀y"})]);
        // What comes between does not matter.
        let between = [r#"{"a":"\ud83d"}"#, r#"{"ping":1}"#, r#"{"a":"\uDE00\ud83d\ude00"}"#];
        assert_eq!(read(&between), [json!({"a": ""}), json!({"ping": 1}), json!({"a": "😀😀"})]);
    }

    #[test]
    fn a_half_that_stays_alone_is_replaced() {
        assert_eq!(read(&[r#"{"a":"\ude00x\ud83dy"}"#]), [json!({"a": "\u{fffd}x\u{fffd}y"})]);
        assert_eq!(read(&[r#"["\ud83d","\ud83d"]"#, r#"["\ude00\ude00"]"#]), [json!(["", ""]), json!(["😀\u{fffd}"])]);
    }

    #[test]
    fn a_backslash_that_is_a_character_begins_no_escape() {
        assert_eq!(read(&[r#"["\\ud83d","\ud83d"]"#, r#"["\ude00"]"#]), [json!(["\\ud83d", ""]), json!(["😀"])]);
    }

    #[test]
    fn what_is_not_json_stays_an_error() {
        for data in ["", "{", "\\", "\\u", "\\ud83", "\\u+123", "\\ü", "{\"a\":\"\\ud83d\\", "\"\\ud83d\\u\"", "oops"]
        {
            assert!(Reader::default().read(data).is_err(), "{data}");
        }
    }

    proptest! {
        #[test]
        fn a_text_cut_anywhere_between_its_units_is_the_same(text in any::<String>(), at in any::<prop::sample::Index>()) {
            let units: Vec<u16> = text.encode_utf16().collect();
            let (before, after) = units.split_at(at.index(units.len() + 1));
            let event = |units: &[u16]| {
                let escapes: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
                format!("{{\"text\":\"{escapes}\"}}")
            };
            let read = read(&[&event(before), &event(after)]);
            let joined: String = read.iter().filter_map(|value| value["text"].as_str()).collect();
            prop_assert_eq!(joined, text);
        }
    }
}
