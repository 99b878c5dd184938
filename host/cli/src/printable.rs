//! Text of guests and models, made safe for a terminal: nothing in it can move the cursor or hide what stands there.

use std::fmt::Write as _;

/// The same text with control characters and invisible direction marks written as escapes. Line breaks and tabs stay.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let ends_line = c == '\r' && rest.peek() == Some(&'\n');
        if c == '\n' || c == '\t' || ends_line || !is_hidden(c) {
            out.push(c);
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "{}", c.escape_unicode());
        }
    }
    out
}

/// JSON whose strings hold no such character: each is written as `\uXXXX`, which means the same (RFC 8259 section 7).
pub(crate) fn escape_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || !is_hidden(c) {
            out.push(c);
        } else {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        }
    }
    out
}

/// The same on one line, cut after `chars_max` characters.
pub(crate) fn one_line(text: &str, chars_max: usize) -> String {
    let flat = printable(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    match flat.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &flat[..end]),
        None => flat,
    }
}

/// C0, DEL and C1 control characters, the bidirectional controls of UAX #9, and characters that take room and show nothing or
/// take none. The joiners
/// U+200C and U+200D stay: Persian, Indic scripts and emoji are written with them.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{3164}' | '\u{e0000}'..='\u{e007f}' |
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_shown_and_not_obeyed() {
        for (text, shown) in [
            ("plain\tä 日本\n", "plain\tä 日本\n"),
            ("\u{1b}[2J", r"\u{1b}[2J"),
            ("\u{1b}]52;c;AAAA\u{7}", r"\u{1b}]52;c;AAAA\u{7}"),
            ("a\rb", r"a\u{d}b"),
            ("a\r\nb", "a\r\nb"),
            ("\u{1f468}\u{200d}\u{1f469}", "\u{1f468}\u{200d}\u{1f469}"),
            ("\u{9b}31m", r"\u{9b}31m"),
            ("exe.\u{202e}gnp", r"exe.\u{202e}gnp"),
            ("zero\u{200b}width", r"zero\u{200b}width"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }

    #[test]
    fn json_means_the_same_without_a_character_that_a_terminal_obeys() {
        let value = serde_json::json!({"a\u{9b}": ["\u{1b}[2J", "exe.\u{202e}gnp", "ä"]});
        let escaped = escape_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!escaped.contains(['\u{9b}', '\u{1b}', '\u{202e}']), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }

    #[test]
    fn one_line_is_one_line_of_bounded_length() {
        assert_eq!(one_line("a\n  b\tc", 10), "a b c");
        assert_eq!(one_line("äöüß", 3), "äöü…");
        assert_eq!(one_line("äöü", 3), "äöü");
    }
}
