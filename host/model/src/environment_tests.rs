//! Tests of how a provider is found.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::vendor::CUSTOM_VENDOR;

fn options(model: &str, base_url: &str) -> ModelOptions {
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    ModelOptions { model: given(model), base_url: given(base_url), ..ModelOptions::default() }
}

/// Vendor, address, model, and whether there is a key.
fn find(options: &ModelOptions, environment: &[(&str, &str)]) -> Result<(&'static str, String, String, bool), String> {
    let variable = |name: &str| {
        let found = environment.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned()).filter(|value| !value.trim().is_empty())
    };
    let found = resolve(options, &variable).and_then(|found| {
        Provider::new(found.clone())?;
        Ok(found)
    });
    found.map(|o| (o.vendor.name, o.base_url.to_string(), o.model, o.key.is_some())).map_err(|e| e.to_string())
}

fn ok(vendor: &'static str, url: &str, model: &str, key: Key) -> Result<(&'static str, String, String, bool), String> {
    Ok((vendor, url.into(), model.into(), key == Key::Sent))
}

#[derive(PartialEq)]
enum Key {
    Sent,
    None,
}

const OPENAI: (&str, &str) = ("OPENAI_API_KEY", "sk-test-1234");

#[test]
fn a_key_tells_the_vendor() {
    assert_eq!(
        find(&options("", ""), &[("OPENROUTER_API_KEY", "sk-or-1\n")]),
        ok("openrouter", "https://openrouter.ai/api/v1", "openrouter/auto", Key::Sent)
    );
    assert_eq!(find(&options("gpt-x", ""), &[OPENAI]), ok("openai", "https://api.openai.com/v1", "gpt-x", Key::Sent));
    assert_eq!(
        find(&options("", ""), &[OPENAI]).unwrap_err(),
        "no model is named for openai: name one or set TOOLCELL_MODEL; \
         https://developers.openai.com/api/docs/models shows which there are"
    );
}

#[test]
fn nothing_at_all_says_what_to_set_and_offers_the_demo() {
    for environment in [&[][..], &[("OPENAI_API_KEY", " ")]] {
        assert_eq!(
            find(&options("", ""), environment).unwrap_err(),
            "no model is configured. Do one of these:\n\
             \x20 - set OPENAI_API_KEY or ANTHROPIC_API_KEY or GEMINI_API_KEY or OPENROUTER_API_KEY or DEEPSEEK_API_KEY to use that provider\n\
             \x20 - use a server of your own, for example Ollama: --base-url http://localhost:11434/v1 --model llama3.2\n\
             \x20 - see everything work offline and without a key: cargo xtask demo"
        );
    }
}

#[test]
fn a_local_server_needs_an_address_and_a_model_but_no_key() {
    let ollama = "http://localhost:11434/v1";
    assert_eq!(find(&options("llama3.2", ollama), &[]), ok("ollama", ollama, "llama3.2", Key::None));
    assert_eq!(find(&options("ollama/llama3.2", ""), &[]), ok("ollama", ollama, "llama3.2", Key::None));
    assert_eq!(
        find(&options("", ollama), &[]).unwrap_err(),
        "no model is named for ollama: name one or set TOOLCELL_MODEL; `ollama list` shows which there are"
    );
}

#[test]
fn a_key_goes_to_its_own_vendor_only() {
    // The key of OpenAI is of no business to a server that has a key of its own.
    let ollama = "http://192.168.1.5:11434/v1";
    assert_eq!(find(&options("llama3.2", ollama), &[OPENAI]), ok("ollama", ollama, "llama3.2", Key::None));
    let deepseek = "https://api.deepseek.com";
    assert_eq!(
        find(&options("x", deepseek), &[OPENAI]).unwrap_err(),
        "deepseek needs a key: set DEEPSEEK_API_KEY, or see everything work offline and without a key: cargo xtask demo"
    );
}

#[test]
fn a_gateway_is_found_in_the_environment_with_its_key() {
    let gateway = ("OPENAI_BASE_URL", "https://gateway.example.org/v1/");
    assert_eq!(
        find(&options("gpt-x", ""), &[gateway, OPENAI]),
        ok("custom", "https://gateway.example.org/v1", "gpt-x", Key::Sent)
    );
    assert_eq!(
        find(&options("", ""), &[gateway, OPENAI, ("TOOLCELL_MODEL", "gpt-y")]),
        ok("custom", "https://gateway.example.org/v1", "gpt-y", Key::Sent)
    );
}

#[test]
fn a_key_in_clear_is_refused_unless_it_stays_on_this_machine() {
    assert_eq!(
        find(&options("m", "http://gateway.example.org/v1"), &[OPENAI]).unwrap_err(),
        "the key in OPENAI_API_KEY would travel unencrypted to http://gateway.example.org: use an https address, or \
         unset OPENAI_API_KEY if that server needs no key"
    );
    let plain = "http://gateway.example.org/v1";
    assert_eq!(find(&options("m", plain), &[]), ok("custom", plain, "m", Key::None));
    let here = "http://127.0.0.1:4000/v1";
    assert_eq!(find(&options("m", here), &[OPENAI]), ok("custom", here, "m", Key::Sent));
}

#[test]
fn a_vendor_can_be_named() {
    let named = |vendor: &str| ModelOptions { vendor: Some(vendor.into()), ..options("m/n", "") };
    assert_eq!(find(&named("vllm"), &[]), ok("vllm", "http://localhost:8000/v1", "m/n", Key::None));
    assert_eq!(
        find(&named("acme"), &[]).unwrap_err(),
        "there is no provider \"acme\": use one of openai, openai-responses, anthropic, gemini, openrouter, deepseek, ollama, \
         ollama-responses, lmstudio, llamacpp, llamacpp-responses, vllm, anthropic-compatible, or give a base URL"
    );
}

#[test]
fn openai_responses_is_used_when_it_is_named_and_only_then() {
    let named = ModelOptions { vendor: Some("openai-responses".into()), ..options("gpt-x", "") };
    let home = "https://api.openai.com/v1";
    assert_eq!(find(&named, &[OPENAI]), ok("openai-responses", home, "gpt-x", Key::Sent));
    let there = ModelOptions { base_url: Some("https://gateway.example.org/v1".into()), ..named };
    assert_eq!(find(&there, &[OPENAI]), ok("openai-responses", "https://gateway.example.org/v1", "gpt-x", Key::Sent));
    assert_eq!(find(&options("openai-responses/gpt-x", ""), &[OPENAI]).unwrap().0, "openai-responses");
    assert_eq!(find(&options("gpt-x", home), &[OPENAI]).unwrap().0, "openai");
    let local = "http://localhost:11434/v1";
    assert_eq!(find(&options("llama3.2", local), &[]).unwrap().0, "ollama");
    assert_eq!(find(&options("ollama-responses/m", ""), &[]), ok("ollama-responses", local, "m", Key::None));
}

#[test]
fn a_slash_in_a_models_name_is_not_always_a_vendor() {
    let gateway = ("OPENAI_BASE_URL", "https://gateway.example.org/v1");
    assert_eq!(find(&options("ollama/llama3", ""), &[gateway]), ok("custom", gateway.1, "ollama/llama3", Key::None));
    let openrouter = "https://openrouter.ai/api/v1";
    let key = ("OPENROUTER_API_KEY", "sk-or-1");
    for model in ["meta/llama", "openai/gpt-x", "deepseek/deepseek-chat"] {
        assert_eq!(find(&options(model, ""), &[key]), ok("openrouter", openrouter, model, Key::Sent));
    }
    assert_eq!(
        find(&options("openai/gpt-x", ""), &[key, OPENAI]),
        ok("openai", "https://api.openai.com/v1", "gpt-x", Key::Sent)
    );
    assert_eq!(
        find(&options("openrouter/auto", openrouter), &[key]),
        ok("openrouter", openrouter, "openrouter/auto", Key::Sent)
    );
}

#[test]
fn what_cannot_be_used_is_named_by_where_it_came_from() {
    assert_eq!(
        find(&options("m", "localhost:11434"), &[]).unwrap_err(),
        "the base URL from the options cannot be used: it must begin with http:// or https://"
    );
    assert_eq!(
        find(&options("", ""), &[("OPENAI_BASE_URL", "https://me:secret@example.org")]).unwrap_err(),
        "the base URL from OPENAI_BASE_URL cannot be used: it holds a user name or a password; give the key apart \
         from it"
    );
    assert_eq!(
        find(&options("", ""), &[("OPENAI_API_KEY", "two words")]).unwrap_err(),
        "OPENAI_API_KEY does not hold a key: a key is one line of visible ASCII characters without spaces"
    );
}

#[test]
fn a_server_of_anthropic_messages_is_named_with_its_address() {
    let named = |model: &str, base_url: &str| ModelOptions {
        vendor: Some("anthropic-compatible".into()),
        ..options(model, base_url)
    };
    let (llamacpp, token) = ("http://localhost:8080/v1", ("ANTHROPIC_AUTH_TOKEN", "token-1234"));
    assert_eq!(find(&named("m", llamacpp), &[]), ok("anthropic-compatible", llamacpp, "m", Key::None));
    // Anthropic's own key stays at home.
    let own = ("ANTHROPIC_API_KEY", "sk-ant-1234");
    assert_eq!(find(&named("m", llamacpp), &[own]), ok("anthropic-compatible", llamacpp, "m", Key::None));
    assert_eq!(find(&named("m", llamacpp), &[own, token]), ok("anthropic-compatible", llamacpp, "m", Key::Sent));
    let address = ("ANTHROPIC_BASE_URL", "http://localhost:11434");
    assert_eq!(
        find(&named("m", ""), &[token, address]),
        ok("anthropic-compatible", "http://localhost:11434/v1", "m", Key::Sent)
    );
    let home = "https://api.anthropic.com/v1";
    assert_eq!(find(&options("claude-x", ""), &[own]), ok("anthropic", home, "claude-x", Key::Sent));
    assert_eq!(find(&options("anthropic/claude-x", ""), &[own]), ok("anthropic", home, "claude-x", Key::Sent));
}

#[test]
fn a_vendor_that_anyone_may_be_is_refused_without_an_address() {
    let words = "anthropic-compatible has no usual address: give its base URL or set ANTHROPIC_BASE_URL";
    let named = ModelOptions { vendor: Some("anthropic-compatible".into()), ..options("m", "") };
    assert_eq!(find(&named, &[]).unwrap_err(), words);
    assert_eq!(find(&options("anthropic-compatible/m", ""), &[]).unwrap_err(), words);
    let anyone = vendor_by_name("anthropic-compatible").unwrap();
    for (vendor, name) in [(anyone, "anthropic-compatible"), (&CUSTOM_VENDOR, "custom")] {
        let refused = ProviderOptions::new(vendor, "m").unwrap_err();
        assert!(matches!(refused, ConfigError::NoBaseUrl { vendor, .. } if vendor == name), "{refused}");
        // A program has options, but not those of the command line.
        assert!(!refused.to_string().contains("--"), "{refused}");
        let base_url = BaseUrl::parse("http://localhost:8080/v1").unwrap();
        assert!(Provider::new(ProviderOptions::at(base_url, vendor, "m")).is_ok());
    }
}

#[test]
fn a_named_vendor_is_reached_where_its_variable_says() {
    let named = |vendor: &str| ModelOptions { vendor: Some(vendor.into()), ..options("m", "") };
    let url = |variable| (variable, "https://gateway.example.org/v1/");
    for vendor in ["openai", "openai-responses"] {
        assert_eq!(
            find(&named(vendor), &[OPENAI, url("OPENAI_BASE_URL")]),
            ok(vendor, "https://gateway.example.org/v1", "m", Key::Sent)
        );
        assert_eq!(
            find(&named(vendor), &[OPENAI, ("OPENAI_BASE_URL", " ")]),
            ok(vendor, "https://api.openai.com/v1", "m", Key::Sent)
        );
        // What was typed is nearer than what the environment holds.
        let typed = ModelOptions { base_url: Some("https://typed.example.org/v1".into()), ..named(vendor) };
        assert_eq!(
            find(&typed, &[OPENAI, url("OPENAI_BASE_URL")]),
            ok(vendor, "https://typed.example.org/v1", "m", Key::Sent)
        );
    }
    // An empty text where an address should be is a slip, and no reason to send the key elsewhere.
    let empty = ModelOptions { base_url: Some(String::new()), ..named("openai") };
    assert!(find(&empty, &[OPENAI]).unwrap_err().starts_with("the base URL from the options cannot be used"));
    // OpenAI's variable is of no business to others.
    let anthropic = ("ANTHROPIC_API_KEY", "sk-ant-1234");
    assert_eq!(
        find(&named("anthropic"), &[anthropic, url("OPENAI_BASE_URL")]),
        ok("anthropic", "https://api.anthropic.com/v1", "m", Key::Sent)
    );
}

#[test]
fn a_variable_of_an_sdk_that_adds_the_version_itself_means_the_same_here() {
    let anthropic = ("ANTHROPIC_API_KEY", "sk-ant-1234");
    let gemini = ("GEMINI_API_KEY", "gm-1234567");
    for (vendor, key, variable, given, used) in [
        ("anthropic", anthropic, "ANTHROPIC_BASE_URL", "https://g.example.org", "https://g.example.org/v1"),
        ("anthropic", anthropic, "ANTHROPIC_BASE_URL", "https://g.example.org/a/", "https://g.example.org/a/v1"),
        ("anthropic", anthropic, "ANTHROPIC_BASE_URL", "https://g.example.org/v1", "https://g.example.org/v1"),
        ("gemini", gemini, "GOOGLE_GEMINI_BASE_URL", "https://g.example.org", "https://g.example.org/v1beta"),
        ("gemini", gemini, "GOOGLE_GEMINI_BASE_URL", "https://g.example.org/v1beta", "https://g.example.org/v1beta"),
    ] {
        let named = ModelOptions { vendor: Some(vendor.into()), ..options("m", "") };
        let prefixed = options(&format!("{vendor}/m"), "");
        for options in [named, prefixed, options("m", "")] {
            assert_eq!(find(&options, &[key, (variable, given)]), ok(vendor, used, "m", Key::Sent), "{given}");
        }
    }
    // An address that is typed is taken as it is.
    let typed = ModelOptions { vendor: Some("anthropic".into()), ..options("m", "https://g.example.org/messages-api") };
    assert_eq!(find(&typed, &[anthropic]).unwrap().1, "https://g.example.org/messages-api");
}

#[test]
fn googles_two_variables_count_in_the_order_of_its_sdk() {
    let (google, gemini) = (("GOOGLE_API_KEY", "key-google-1"), ("GEMINI_API_KEY", "key-gemini-1"));
    let key = |environment: &[(&str, &str)]| {
        let variable =
            |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, key)| (*key).to_owned());
        let found = resolve(&options("gemini/m", ""), &variable).unwrap();
        found.key
    };
    assert_eq!(key(&[google]), ApiKey::new(google.1).ok());
    assert_eq!(key(&[gemini]), ApiKey::new(gemini.1).ok());
    assert_eq!(key(&[gemini, google]), ApiKey::new(google.1).ok());
    let home = "https://generativelanguage.googleapis.com/v1beta";
    assert_eq!(find(&options("m", ""), &[google]), ok("gemini", home, "m", Key::Sent));
    // What is wrong with a key is said of the variable that it is in.
    assert_eq!(
        find(&options("gemini/m", ""), &[gemini, ("GOOGLE_API_KEY", "two words")]).unwrap_err(),
        "GOOGLE_API_KEY does not hold a key: a key is one line of visible ASCII characters without spaces"
    );
    let plain = ModelOptions { vendor: Some("gemini".into()), ..options("m", "http://gateway.example.org/v1beta") };
    assert_eq!(
        find(&plain, &[google]).unwrap_err(),
        "the key in GOOGLE_API_KEY would travel unencrypted to http://gateway.example.org: use an https address, or \
         unset GOOGLE_API_KEY if that server needs no key"
    );
}

#[test]
fn a_key_that_may_be_for_something_else_of_google_chooses_no_vendor_before_others() {
    let (google, openrouter) = (("GOOGLE_API_KEY", "key-google-1"), ("OPENROUTER_API_KEY", "sk-or-1"));
    assert_eq!(find(&options("m", ""), &[google, openrouter]).unwrap().0, "openrouter");
    assert_eq!(find(&options("m", ""), &[google, openrouter, ("GEMINI_API_KEY", "key-gemini-1")]).unwrap().0, "gemini");
}

/// Variables that hold keys, and the variable that says where each goes.
const KEYS: [(&str, Option<&str>); 12] = [
    ("OPENAI_API_KEY", Some("OPENAI_BASE_URL")),
    ("ANTHROPIC_API_KEY", Some("ANTHROPIC_BASE_URL")),
    ("ANTHROPIC_AUTH_TOKEN", Some("ANTHROPIC_BASE_URL")),
    ("GEMINI_API_KEY", Some("GOOGLE_GEMINI_BASE_URL")),
    ("GOOGLE_API_KEY", Some("GOOGLE_GEMINI_BASE_URL")),
    ("OPENROUTER_API_KEY", None),
    ("DEEPSEEK_API_KEY", None),
    ("OLLAMA_API_KEY", None),
    ("LM_API_TOKEN", None),
    ("LLAMA_API_KEY", None),
    ("VLLM_API_KEY", None),
    ("UNRELATED_API_KEY", None),
];

/// The text of the key in a variable, which says whose it is.
fn key_of(variable: &str) -> String {
    format!("key-of-{variable}")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_key_goes_to_a_host_that_was_not_configured_for_it(
        vendor in prop::option::of(prop::sample::select(VENDORS.iter().map(|vendor| vendor.name).collect::<Vec<_>>())),
        prefix in prop::option::of(prop::sample::select(VENDORS.iter().map(|vendor| vendor.name).collect::<Vec<_>>())),
        typed in prop::option::of(prop::sample::select(vec!["https://typed.example.org/v1", "http://localhost:4000/v1"])),
        keys in prop::sample::subsequence(KEYS.to_vec(), 0..=KEYS.len()),
        urls in prop::collection::vec(prop::sample::select(vec!["", " ", "https://gateway.example.org/x"]), 3),
    ) {
        let urls = ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"].into_iter().zip(urls);
        let environment: BTreeMap<&str, String> = urls
            .map(|(name, url)| (name, url.to_owned()))
            .chain(keys.iter().map(|(name, _)| (*name, key_of(name))))
            .collect();
        let variable = |name: &str| environment.get(name).filter(|value| !value.trim().is_empty()).cloned();
        let model = prefix.map_or_else(|| "m".to_owned(), |prefix| format!("{prefix}/m"));
        let options = ModelOptions { vendor: vendor.map(str::to_owned), ..options(&model, typed.unwrap_or_default()) };
        let Ok(found) = resolve(&options, &variable) else { return Ok(()) };
        let Some(key) = found.key else { return Ok(()) };
        let (name, address) = KEYS.iter().find(|(name, _)| ApiKey::new(&key_of(name)).unwrap() == key).unwrap();
        prop_assert!(found.vendor.key.variables().any(|own| own == *name), "{name}");
        let there = typed.map(str::to_owned).or_else(|| address.and_then(variable));
        let host = |url: &str| BaseUrl::parse(url).unwrap().origin();
        let home = || found.vendor.base_url.unwrap().to_owned();
        prop_assert_eq!(found.base_url.origin(), host(&there.unwrap_or_else(home)), "{} in {:?}", name, environment);
    }
}
