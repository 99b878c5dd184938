//! A provider's secret key, as a type that cannot be printed.

use std::fmt;

use reqwest::header::HeaderValue;

/// A text shorter than this is no secret but a placeholder, as local servers want one ("x", "ollama"). Hiding it would
/// blank innocent words of error texts.
const SECRET_BYTES_MIN: usize = 8;

/// A provider's secret key. It has no `Display` and no JSON form, and its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

/// A text that cannot be sent as a key. It does not say which text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key is one line of visible ASCII characters without spaces")]
pub struct KeyError;

impl ApiKey {
    /// Takes a key; white space around it, such as the line end of a file, is dropped.
    ///
    /// # Errors
    /// [`KeyError`] when it is empty or could not stand in an HTTP header.
    pub fn new(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        let fits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        if fits { Ok(Self(text.to_owned())) } else { Err(KeyError) }
    }

    /// The value of the header that carries it, marked so that no client prints it.
    pub(crate) fn header(&self, scheme: &str) -> Result<HeaderValue, KeyError> {
        let mut value = HeaderValue::from_str(&format!("{scheme}{}", self.0)).map_err(|_| KeyError)?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// The text with every occurrence of the key taken out: a provider may quote what it refuses.
    pub(crate) fn remove_from(&self, text: &str) -> String {
        if self.0.len() < SECRET_BYTES_MIN { text.to_owned() } else { text.replace(&self.0, "(key)") }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_printed() {
        let key = ApiKey::new("sk-very-secret").unwrap();
        assert_eq!(format!("{key:?}"), "ApiKey(…)");
        assert_eq!(format!("{:?}", key.header("Bearer ").unwrap()), "Sensitive");
    }

    #[test]
    fn white_space_around_a_key_is_dropped() {
        assert_eq!(ApiKey::new(" sk-1\n"), ApiKey::new("sk-1"));
    }

    #[test]
    fn what_cannot_stand_in_a_header_is_no_key() {
        for bad in ["", " \n", "sk-1\nx: y", "sk 1", "schlüssel"] {
            assert_eq!(ApiKey::new(bad), Err(KeyError), "{bad:?}");
        }
    }

    #[test]
    fn a_key_is_taken_out_of_a_text_and_a_placeholder_is_not() {
        let key = ApiKey::new("sk-very-secret").unwrap();
        assert_eq!(key.remove_from("bad key sk-very-secret!"), "bad key (key)!");
        assert_eq!(ApiKey::new("x").unwrap().remove_from("max"), "max");
    }
}
