//! Texts that a person will see or open: names without tricks, and URLs that say where they lead.

use crate::limits::{PART_NAME_BYTES_MAX, REQUEST_URL_BYTES_MAX};

/// A name that can be shown: the last segment of a path, without control and direction characters.
pub(super) fn display_name(name: &str) -> Option<String> {
    let last = name.rsplit(['/', '\\']).next()?;
    let mut shown: String = last.chars().filter(|c| !c.is_control() && !is_direction(*c)).collect();
    shown.truncate(shown.floor_char_boundary(PART_NAME_BYTES_MAX));
    let shown = shown.trim();
    (!matches!(shown, "" | "." | "..")).then(|| shown.to_owned())
}

/// Characters that change the direction of a text, and so what a person reads.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// An absolute URL that a person or a provider can open: http or https, a plain host, no user name, nothing hidden.
pub(super) fn is_web_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http"))
        && url.len() <= REQUEST_URL_BYTES_MAX
        && !authority.is_empty()
        && !authority.starts_with(':')
        && authority.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~:[]%".contains(&b))
        && !rest.chars().any(|c| c.is_control() || c.is_whitespace() || is_direction(c) || c == '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_without_directories_and_tricks() {
        let table = [
            ("../../etc/passwd", Some("passwd")),
            ("C:\\Windows\\evil.exe", Some("evil.exe")),
            ("a\u{202e}gnp.exe", Some("agnp.exe")),
            ("a\0b\nc", Some("abc")),
            ("dir/", None),
            (".", None),
            ("..", None),
            ("", None),
        ];
        for (name, expected) in table {
            assert_eq!(display_name(name).as_deref(), expected, "{name:?}");
        }
        assert_eq!(display_name(&"ä".repeat(5_000)), Some("ä".repeat(127)));
    }

    #[test]
    fn only_absolute_web_urls_are_taken() {
        for good in ["https://example.org", "HTTP://example.org:8080/a?b#c", "https://[::1]/x", "https://example.org/ü"]
        {
            assert!(is_web_url(good), "{good}");
        }
        let at = |bytes: usize| format!("https://example.org/{}", "x".repeat(bytes - 20));
        assert!(is_web_url(&at(REQUEST_URL_BYTES_MAX)));
        let bad = [
            "",
            "/etc/passwd",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "ftp://example.org",
            "https://",
            "https:///x",
            "https://:80",
            "https://bank.example@evil.example",
            "https://ex ample.org",
            "https://example.org/a b",
            "https://example.org/\r\nX: y",
            "https://example.org\\@evil",
            "https://example.org/\u{202e}",
            "data:,x",
            &at(REQUEST_URL_BYTES_MAX + 1),
        ];
        for bad in bad {
            assert!(!is_web_url(bad), "{bad}");
        }
    }
}
