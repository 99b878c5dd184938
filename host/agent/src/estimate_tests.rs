use super::*;
use crate::transcript::Verbatim;
use serde::Deserialize;
use serde_json::json;

/// Texts with the number of tokens that OpenAI's o200k_base makes of them, counted with `gpt-tokenizer` 4.0.0.
#[derive(Deserialize)]
struct Known {
    /// What is written, what machines write, and what nobody would take for a text.
    texts: Vec<Case>,
    /// Texts whose few tokens nobody can tell without a dictionary.
    monotonous: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    text: String,
    tokens: u64,
}

fn known() -> Known {
    serde_json::from_str(include_str!("estimate_texts.json")).unwrap()
}

#[test]
fn an_estimate_is_at_least_the_truth_and_hardly_more_than_twice_as_much() {
    for Case { name, text: known, tokens } in known().texts {
        let estimate = text(&known);
        assert!((tokens..=tokens * 5 / 2).contains(&estimate), "{name}: {estimate} for {tokens}");
    }
}

#[test]
fn a_monotonous_text_is_not_taken_for_less_than_it_is() {
    for Case { name, text: known, tokens } in known().monotonous {
        assert!(text(&known) >= tokens, "{name}: {} for {tokens}", text(&known));
    }
}

#[test]
fn more_text_never_takes_fewer_tokens() {
    for Case { name, text: whole, .. } in known().texts {
        let ends: Vec<_> = whole.char_indices().map(|(at, _)| text(&whole[..at])).collect();
        assert!(ends.is_sorted(), "{name}: {ends:?}");
    }
}

#[test]
fn a_picture_takes_the_same_however_many_bytes_it_has_and_wherever_they_are() {
    let message_of = |part| message(&Message::User { content: vec![part] });
    let picture = |bytes| message_of(ContentPart::from_bytes(vec![0; bytes], "image/png").unwrap());
    assert_eq!(picture(10), picture(1 << 20));
    assert!(picture(10) > 1_000);
    assert_eq!(picture(10), message_of(ContentPart::from_url_as("https://example.org/a", "image/png").unwrap()));
}

#[test]
fn what_a_provider_gets_back_of_its_own_costs_what_it_is_long() {
    let calls = vec![CallRequest { id: "c1".into(), name: "read".into(), arguments: "{\"n\":1}".repeat(50) }];
    let plain = AssistantTurn { text: "I read it. ".repeat(50), calls, verbatim: None };
    let with = |value| {
        let verbatim = Some(Verbatim { wire: "w".into(), value });
        message(&Message::Assistant(AssistantTurn { verbatim, ..plain.clone() }))
    };
    let own = message(&Message::Assistant(plain.clone()));
    // 40 kB of encrypted reasoning.
    let reasoning =
        with(json!({"encrypted": "x".repeat(40_000), "text": plain.text, "arguments": plain.calls[0].arguments}));
    assert!(reasoning >= own + 10_000, "{reasoning} for {own}");
    // The same words once more are hardly counted.
    let echo = with(json!({"text": plain.text, "name": "read", "id": "c1", "arguments": plain.calls[0].arguments}));
    assert!((own..own * 3 / 2).contains(&echo), "{echo} for {own}");
}
