use super::*;
use crate::transcript::{AssistantTurn, CallRequest, is_balanced};
use proptest::prelude::*;

fn picture() -> ContentPart {
    ContentPart::from_bytes(vec![7; 40], "image/png").unwrap()
}

fn call(id: String, name: &str) -> CallRequest {
    CallRequest { id, name: name.into(), arguments: "{\"n\":1}".into() }
}

/// An exchange: a turn with so many calls, and their results.
fn exchange(number: usize, calls: usize, output: &str) -> [Message; 2] {
    let ids = || (0..calls).map(|call| format!("c{number}_{call}"));
    let turn =
        AssistantTurn { text: "Thinking.".into(), calls: ids().map(|id| call(id, "chart")).collect(), verbatim: None };
    let reply =
        |id| ToolReply { call_id: id, name: "chart".into(), result: ToolResult::ok_with_parts(output, [picture()]) };
    [Message::Assistant(turn), Message::Tool { replies: ids().map(reply).collect() }]
}

fn conversation(exchanges: usize, output: &str) -> Vec<Message> {
    let task = Message::User { content: vec![ContentPart::text("Draw."), picture()] };
    [task].into_iter().chain((0..exchanges).flat_map(|number| exchange(number, 2, output))).collect()
}

fn tokens(messages: &[Message]) -> u64 {
    messages.iter().map(estimate::message).sum()
}

fn shrunk(messages: &[Message], target: u64) -> Vec<Message> {
    View::default().shrink(messages, 0, 1.0, target).apply(messages).into_owned()
}

#[test]
fn what_fits_is_sent_as_it_is() {
    let messages = conversation(3, "a chart");
    let view = View::default().shrink(&messages, 0, 1.0, u64::MAX);
    assert_eq!(view, View::default());
    assert!(matches!(view.apply(&messages), Cow::Borrowed(_)));
}

#[test]
fn pictures_give_way_to_their_description_before_anything_else_and_the_oldest_first() {
    let messages = conversation(3, "a chart");
    let sent = shrunk(&messages, tokens(&messages) - 1);
    let Message::User { content } = &sent[0] else { panic!("{sent:?}") };
    // The newest message of a person is his only one.
    assert_eq!(content[1], picture());
    let Message::Tool { replies } = &sent[2] else { panic!("{sent:?}") };
    assert_eq!(replies[0].result, ToolResult::ok("a chart\n[image (image/png, 40 bytes)]"));
    assert_eq!(sent[3..], messages[3..]);
}

#[test]
fn long_outputs_keep_both_ends_and_say_what_is_missing() {
    let mut text = format!("{}{}{}", "a".repeat(ENDS_CHARS), "b".repeat(5_000), "c".repeat(ENDS_CHARS));
    shorten_text(&mut text);
    let (a, c) = ("a".repeat(ENDS_CHARS), "c".repeat(ENDS_CHARS));
    assert_eq!(text, format!("{a}\n[5000 characters are left out]\n{c}"));
    let mut short = "x".repeat(2 * ENDS_CHARS + 10);
    shorten_text(&mut short);
    assert_eq!(short.len(), 2 * ENDS_CHARS + 10);
}

#[test]
fn whole_exchanges_are_left_out_and_a_note_stands_for_them() {
    let messages = conversation(6, "a chart");
    let sent = shrunk(&messages, 0);
    let Message::User { content } = &sent[0] else { panic!("{sent:?}") };
    let note = "[10 earlier messages are left out to save room; tools that were called: chart (10)]";
    assert_eq!(content[2], ContentPart::text(note));
    // The task, and the latest exchange.
    assert_eq!(sent.len(), 3);
    assert_eq!(sent[1..], messages[messages.len() - 2..]);
}

#[test]
fn the_newest_message_of_a_person_stays_although_much_came_after_it() {
    let mut messages = conversation(3, "a chart");
    messages.push(Message::Assistant(AssistantTurn { text: "There.".into(), ..AssistantTurn::default() }));
    messages.push(Message::user("And now in red."));
    messages.extend((3..8).flat_map(|number| exchange(number, 1, "a chart")));
    let sent = shrunk(&messages, 0);
    let Message::User { content } = &sent[0] else { panic!("{sent:?}") };
    let texts: Vec<_> = content.iter().map(ContentPart::describe).collect();
    assert_eq!(content[0], ContentPart::text("Draw."), "{texts:?}");
    assert_eq!(content.last(), Some(&ContentPart::text("And now in red.")));
    assert_eq!(sent.len(), 3);
}

#[test]
fn a_view_only_ever_moves_on() {
    let mut messages = conversation(4, &"long ".repeat(2_000));
    let first = View::default().shrink(&messages, 0, 1.0, 9_000);
    messages.extend(exchange(9, 2, "short"));
    let next = first.shrink(&messages, 0, 1.0, 1_000_000);
    assert_eq!(next, first);
    let harder = first.shrink(&messages, 0, 1.0, 100);
    assert!(harder.described >= first.described && harder.left_out >= first.left_out);
}

/// Any balanced conversation.
fn conversations() -> impl Strategy<Value = Vec<Message>> {
    let piece = prop_oneof![
        (1..4_usize, 0..3_000_usize).prop_map(|(calls, length)| (calls, length)),
        (0..200_usize).prop_map(|length| (0, length)),
    ];
    (any::<bool>(), prop::collection::vec((piece, any::<bool>()), 0..12)).prop_map(|(starts, pieces)| {
        let mut messages = Vec::new();
        if starts {
            messages.push(Message::user("The task."));
        }
        for (number, ((calls, length), is_user)) in pieces.into_iter().enumerate() {
            match (is_user, calls) {
                (true, _) => messages.push(Message::user("w ".repeat(length))),
                (false, 0) => messages.push(Message::Assistant(AssistantTurn::default())),
                (false, calls) => messages.extend(exchange(number, calls, &"w ".repeat(length))),
            }
        }
        messages
    })
}

proptest! {
    #[test]
    fn what_is_sent_is_always_balanced_and_never_more_than_before(messages in conversations(), target in 0..20_000_u64) {
        prop_assume!(is_balanced(&messages));
        let view = View::default().shrink(&messages, 0, 1.0, target);
        let sent = view.apply(&messages);
        prop_assert!(is_balanced(&sent));
        prop_assert!(tokens(&sent) <= tokens(&messages) + NOTE_TOKENS);
        // It fits, or nothing more can give way.
        let least = View::default().shrink(&messages, 0, 1.0, 0);
        prop_assert!(tokens(&sent) <= target + NOTE_TOKENS || view == least);
        // The newest words are there, if need be behind older ones of the same person.
        match (sent.last(), messages.last()) {
            (Some(Message::User { content }), Some(Message::User { content: newest })) => {
                prop_assert!(content.ends_with(newest));
            }
            (sent, newest) => prop_assert_eq!(sent, newest),
        }
        // The same again changes nothing.
        prop_assert_eq!(view.shrink(&messages, 0, 1.0, target), view);
    }
}
