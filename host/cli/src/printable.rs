//! Text of guests and models, made safe for a terminal: nothing in it can move the cursor or hide what stands there.

use std::fmt::Write as _;

/// The same text with control characters and invisible direction marks written as escapes. Line breaks and tabs stay.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || c == '\t' || !is_hidden(c) {
            out.push(c);
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "{}", c.escape_unicode());
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

/// C0, DEL and C1 control characters, the bidirectional controls of UAX #9, and zero-width characters.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
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
            ("\u{9b}31m", r"\u{9b}31m"),
            ("exe.\u{202e}gnp", r"exe.\u{202e}gnp"),
            ("zero\u{200b}width", r"zero\u{200b}width"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }

    #[test]
    fn one_line_is_one_line_of_bounded_length() {
        assert_eq!(one_line("a\n  b\tc", 10), "a b c");
        assert_eq!(one_line("äöüß", 3), "äöü…");
        assert_eq!(one_line("äöü", 3), "äöü");
    }
}
