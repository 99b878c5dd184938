//! Names that come from outside: how they are shown, and which of them the host keeps for itself.

/// Names under which agent hosts offer powers of their own: a shell, a screen, skills, other agents. A model that was
/// trained on them would call a component in their place.
const RESERVED: [&str; 4] = ["bash", "computer", "skill", "task"];

/// The host's own word: alone, or before `_` or `-`, it is kept for tools of the host.
const RESERVED_PREFIX: &str = "toolcell";

/// Whether a tool may not have this name. Case does not matter.
pub(crate) fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let own = name.strip_prefix(RESERVED_PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', '-']));
    own || RESERVED.contains(&name.as_str())
}

/// A text as it may be shown: line breaks, terminal sequences and invisible or direction-changing characters are
/// written out. Quotes stay as they are; a backslash is doubled, so that no text can imitate an escape.
pub(crate) fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        match c {
            '\'' | '"' => shown.push(c),
            _ => shown.extend(c.escape_debug()),
        }
        shown
    })
}

/// A file name that is no UTF-8, as it may be shown.
pub(crate) fn escaped_bytes(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) => escaped(text),
        Err(_) => name.escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_host_are_reserved_in_any_case() {
        for name in ["bash", "Bash", "TASK", "toolcell", "toolcell_list", "Toolcell-x"] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["bashful", "task-list", "toolcellar", "math"] {
            assert!(!is_reserved(name), "{name}");
        }
    }

    #[test]
    fn what_could_steer_a_terminal_or_an_eye_is_written_out() {
        for (name, shown) in [
            ("it's \"fine\".wasm", "it's \"fine\".wasm"),
            ("größe.wasm", "größe.wasm"),
            ("a\nb", "a\\nb"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("\u{202e}msaw", "\\u{202e}msaw"),
            ("a\u{200b}b", "a\\u{200b}b"),
            ("a\\nb", "a\\\\nb"),
        ] {
            assert_eq!(escaped(name), shown);
        }
        assert_eq!(escaped_bytes(b"a\xff\n.wasm"), "a\\xff\\n.wasm");
    }
}
