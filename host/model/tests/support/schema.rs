//! Checks request bodies against the JSON Schemas of the providers, which lie beside the repository or where
//! `TOOLCELL_SHARED` says. Without them the checks are skipped, visibly; in CI that is a failure.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{LazyLock, Once};

use serde_json::Value;

/// The schema of OpenAI itself.
pub const OPENAI: &str = "openai-chat";
/// The looser schema of its compatible servers.
pub const COMPATIBLE: &str = "openai-compatible-chat";
/// The schema of OpenAI Responses.
pub const RESPONSES: &str = "openai-responses";
/// The schema of Anthropic Messages, version 2026-10-21.
pub const ANTHROPIC: &str = "anthropic-messages";
/// The schema of Anthropic Messages, version 2023-06-01.
pub const ANTHROPIC_2023: &str = "anthropic-messages-2023-06-01";
/// The schema of Gemini generateContent.
pub const GEMINI: &str = "gemini-generatecontent";

const ALL: [&str; 6] = [OPENAI, COMPATIBLE, RESPONSES, ANTHROPIC, ANTHROPIC_2023, GEMINI];

static SCHEMAS: LazyLock<Option<HashMap<&'static str, jsonschema::Validator>>> = LazyLock::new(|| {
    let compile = |name: &'static str| {
        let schema = read(&format!("{name}.request.json"))?;
        Some((name, jsonschema::validator_for(&schema).expect("a schema that compiles")))
    };
    ALL.into_iter().map(compile).collect()
});

/// Panics when the body does not fit.
pub fn check(schema: &str, body: &Value) {
    let Some(validator) = validator(schema) else { return };
    let problems: Vec<_> = validator.iter_errors(body).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(problems.is_empty(), "the body does not fit {schema}: {problems:#?}\n{body:#}");
}

/// Panics when a sample that is meant to be refused is accepted, or a good one refused: then the checks prove nothing.
pub fn check_samples(schema: &str) {
    let (Some(validator), Some(samples)) = (validator(schema), read("samples.json")) else { return };
    let list = |kind: &str| samples[schema][kind].as_array().expect("a list of samples");
    for body in list("valid") {
        assert!(validator.is_valid(body), "{schema} refuses {body:#}");
    }
    assert!(!list("invalid").is_empty());
    for sample in list("invalid") {
        assert!(!validator.is_valid(&sample["body"]), "{schema} accepts: {}", sample["why"]);
    }
}

fn validator(schema: &str) -> Option<&'static jsonschema::Validator> {
    static NOTE: Once = Once::new();
    let Some(schemas) = SCHEMAS.as_ref() else {
        assert!(std::env::var_os("CI").is_none(), "no schemas in {}, and CI skips no check", folder().display());
        NOTE.call_once(|| eprintln!("NOTE: no schemas in {}: request bodies are not checked", folder().display()));
        return None;
    };
    Some(schemas.get(schema).expect("a known schema"))
}

fn read(file: &str) -> Option<Value> {
    let text = std::fs::read_to_string(folder().join(file)).ok()?;
    Some(serde_json::from_str(&text).expect("JSON"))
}

fn folder() -> PathBuf {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared"));
    std::env::var_os("TOOLCELL_SHARED").map_or_else(beside, PathBuf::from).join("schemas")
}
