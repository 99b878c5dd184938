//! Takes secrets out of what a server gives back: as they are, in base64 and percent-escaped. Other disguises are not found.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::secret::SecretValue;

/// What stands where a secret was.
const REDACTED: &[u8] = b"[redacted]";

/// Finds secrets.
pub(super) struct Redactor(Option<AhoCorasick>);

impl Redactor {
    pub(super) fn new<'a>(secrets: impl IntoIterator<Item = &'a SecretValue>) -> Self {
        let forms: Vec<_> = secrets.into_iter().flat_map(|secret| forms(secret.reveal())).collect();
        // Of two that begin alike the longer one: or its rest would be left.
        let mut finder = AhoCorasick::builder();
        finder.match_kind(MatchKind::LeftmostLongest);
        // Too many patterns for its memory is the only error; there are a dozen.
        Self(if forms.is_empty() { None } else { finder.build(forms).ok() })
    }

    pub(super) fn redact<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        match &self.0 {
            Some(finder) if finder.is_match(bytes) => {
                let mut clean = Vec::with_capacity(bytes.len());
                finder.replace_all_with_bytes(bytes, &mut clean, |_, _, clean| {
                    clean.extend_from_slice(REDACTED);
                    true
                });
                Cow::Owned(clean)
            }
            _ => Cow::Borrowed(bytes),
        }
    }
}

fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned(), percent(secret, false), percent(secret, true)];
    // In base64 of a longer text it looks in three ways, by the place at which it begins; the characters at its ends belong
    // to its neighbours, too.
    for before in 0..3_usize {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(secret.as_bytes());
        let whole = bytes.len() / 3 * 4;
        let first = (before * 4).div_ceil(3);
        for encoded in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            forms.push(encoded[first..whole].to_owned());
        }
    }
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// Percent-escaped (RFC 3986): what need not be escaped stands as it is, and the digits are large or small.
fn percent(secret: &str, small: bool) -> String {
    let escape = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ if small => format!("%{byte:02x}"),
        _ => format!("%{byte:02X}"),
    };
    secret.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;

    const SECRET: &str = "sk/live+0123456789=";

    fn redact(text: impl AsRef<[u8]>) -> String {
        let secret = SecretValue::new(SECRET).unwrap();
        String::from_utf8(Redactor::new([&secret]).redact(text.as_ref()).into_owned()).unwrap()
    }

    #[test]
    fn a_secret_is_found_as_it_is_and_escaped() {
        assert_eq!(redact(format!("a {SECRET}, {SECRET}b")), "a [redacted], [redacted]b");
        assert_eq!(redact("x=sk%2Flive%2B0123456789%3D&"), "x=[redacted]&");
        assert_eq!(redact("x=sk%2flive%2b0123456789%3d&"), "x=[redacted]&");
        assert_eq!(redact("nothing of it"), "nothing of it");
    }

    #[test]
    fn a_secret_is_found_in_base64_wherever_it_begins() {
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "x", "xy", "xyz"] {
                for engine in [&STANDARD, &base64::engine::general_purpose::URL_SAFE] {
                    let encoded = engine.encode(format!("{before}{SECRET}{after}"));
                    let clean = redact(&encoded);
                    assert!(clean.contains("[redacted]"), "{before:?} {after:?}: {encoded}");
                    // What is left is too little to be it.
                    let left = clean.replace("[redacted]", "");
                    assert!(left.len() < before.len() * 2 + after.len() * 2 + 12, "{clean}");
                }
            }
        }
    }

    #[test]
    fn without_secrets_nothing_is_looked_for() {
        assert!(matches!(Redactor::new([]).redact(b"text"), Cow::Borrowed(_)));
    }
}
