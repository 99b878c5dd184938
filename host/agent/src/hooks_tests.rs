use serde_json::json;

use super::*;
use crate::transcript::{CallRequest, Verbatim};

fn turn(text: &str, calls: &[&str]) -> AssistantTurn {
    let call = |id: &&str| CallRequest { id: (*id).into(), name: "t".into(), arguments: "{}".into() };
    let verbatim = Some(Verbatim { wire: "chat".into(), value: json!({"content": text}) });
    AssistantTurn { text: text.into(), calls: calls.iter().map(call).collect(), verbatim }
}

#[test]
fn a_changed_turn_loses_the_words_of_its_provider_and_an_unchanged_one_keeps_them() {
    let changes = [
        (ReplyEdit::default(), true),
        (ReplyEdit::default().with_text("a secret"), true),
        (ReplyEdit::default().deny_call("1", "no"), true),
        (ReplyEdit::default().drop_call("other"), true),
        (ReplyEdit::default().with_text("a ***"), false),
        (ReplyEdit::default().drop_call("2"), false),
    ];
    for (edit, is_kept) in changes {
        let mut changed = turn("a secret", &["1", "2"]);
        edit.clone().apply(&mut changed);
        assert_eq!(changed.verbatim.is_some(), is_kept, "{edit:?}");
    }
}

#[test]
fn a_prompt_that_no_provider_takes_cannot_be_made() {
    let messages = vec![Message::user("hi"), Message::Assistant(turn("", &["1"]))];
    assert!(matches!(SentPrompt::new(None, messages), Err(RunError::Unbalanced)));
}

#[test]
fn words_of_a_provider_are_sent_only_beside_the_turn_that_they_stand_for() {
    let own = [Message::Assistant(turn("a secret", &[])), Message::Assistant(turn("plain", &[]))];
    let hidden = AssistantTurn { text: "a ***".into(), ..turn("a secret", &[]) };
    let sent = SentPrompt::new(None, vec![Message::Assistant(hidden.clone()), own[1].clone()]).unwrap();
    let expected = [Message::Assistant(AssistantTurn { verbatim: None, ..hidden }), own[1].clone()];
    assert_eq!(sent.without_stale_words(&own).messages, expected);
}
