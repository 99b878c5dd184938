//! Whether a schema asks a person for a secret. An answer is kept, shown and logged as any other data, so a secret is
//! never typed into one: a page of its owner takes it, whose URL comes with a request of kind `authorization`.
//!
//! It goes by the words that people use; a tool that hides what it asks for is not found out by its schema.

use serde_json::Value;

/// Words of which one is enough.
const WORDS: [&str; 11] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "credential",
    "credentials",
    "apikey",
    "cvv",
    "cvc",
    "otp",
];

/// Words that mean a secret before `key`.
const KEYS: [&str; 6] = ["api", "access", "private", "secret", "signing", "encryption"];

/// Words that mean a secret before `token`.
const TOKENS: [&str; 8] = ["access", "auth", "authentication", "bearer", "refresh", "api", "session", "id"];

/// Whether a property below this schema, by its name, its format or its use, is a secret.
pub(super) fn asks_for_secret(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            members.get("format").and_then(Value::as_str) == Some("password")
                || members.get("writeOnly") == Some(&Value::Bool(true))
                || members.iter().any(|(key, value)| match (key.as_str(), value) {
                    ("properties", Value::Object(properties)) => properties.keys().any(|name| is_secret(name)),
                    _ => false,
                })
                || members.values().any(asks_for_secret)
        }
        Value::Array(items) => items.iter().any(asks_for_secret),
        _ => false,
    }
}

fn is_secret(name: &str) -> bool {
    let words = words(name);
    let pair = |second: &str, firsts: &[&str]| {
        words.windows(2).any(|pair| firsts.contains(&pair[0].as_str()) && pair[1] == second)
    };
    words.iter().any(|word| WORDS.contains(&word.as_str()))
        || words == ["token"]
        || pair("key", &KEYS)
        || pair("token", &TOKENS)
}

/// The words of `some_name`, `some-name`, `someName` and `some name`, in small letters.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for character in name.chars() {
        let begins = character.is_uppercase() && after_small;
        if begins || !character.is_alphanumeric() {
            words.push(String::new());
        }
        if character.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(character.to_lowercase());
        }
        after_small = character.is_lowercase() || character.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_known_by_the_words_that_people_use() {
        let secret = [
            "password",
            "Password",
            "user_password",
            "newPassword",
            "apiKey",
            "api-key",
            "API_KEY",
            "apikey",
            "client secret",
            "token",
            "access_token",
            "refreshToken",
            "privateKey",
            "cvc",
            "otp",
        ];
        for name in secret {
            assert!(asks_for_secret(&json!({"type": "object", "properties": {name: {"type": "string"}}})), "{name}");
        }
    }

    #[test]
    fn what_only_sounds_like_a_secret_may_be_asked() {
        for name in
            ["key", "tokens", "max_tokens", "secretary", "keyword", "passenger", "pin_color", "note", "keys", "Ö"]
        {
            assert!(!asks_for_secret(&json!({"type": "object", "properties": {name: {"type": "string"}}})), "{name}");
        }
        // As a value it is none.
        assert!(!asks_for_secret(&json!({"properties": {"kind": {"enum": ["password", "token"]}}})));
    }

    #[test]
    fn a_format_and_a_use_tell_too_also_far_below() {
        assert!(asks_for_secret(&json!({"properties": {"x": {"type": "string", "format": "password"}}})));
        assert!(asks_for_secret(&json!({"properties": {"x": {"type": "string", "writeOnly": true}}})));
        assert!(asks_for_secret(&json!({"anyOf": [{"type": "object"}, {"properties": {"password": {}}}]})));
        assert!(!asks_for_secret(&json!({"properties": {"x": {"type": "string", "writeOnly": false}}})));
    }
}
