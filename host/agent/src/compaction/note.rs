//! The note that stands for messages that are left out. It stands in a person's message, so nothing of it may be a
//! model's words.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use toolcell_contract::Definition;

use crate::transcript::Message;

/// Tools that are named. The note reminds the model of what it has done; a longer list would take the room again.
pub(super) const TOOLS_NAMED_MAX: usize = 12;

/// What the model reads in the place of messages that are left out; none when there are none. Only tools that are
/// offered are named: any other name was made up by the model.
pub(super) fn note<'m>(missing: impl Iterator<Item = &'m Message>, tools: &[&Definition]) -> Option<String> {
    let (mut count, mut times) = (0_usize, tools.iter().map(|tool| (tool.name.as_str(), 0_usize)).collect::<Times>());
    for message in missing {
        count += 1;
        let Message::Assistant(turn) = message else { continue };
        for call in &turn.calls {
            if let Some(times) = times.get_mut(call.name.as_str()) {
                *times += 1;
            }
        }
    }
    let calls = called(times);
    (count > 0).then(|| format!("[{count} earlier messages are left out to save room{calls}]"))
}

type Times<'t> = BTreeMap<&'t str, usize>;

/// The tools that were called, the most called ones first.
fn called(times: Times) -> String {
    let mut called: Vec<_> = times.into_iter().filter(|(_, times)| *times > 0).collect();
    called.sort_by_key(|(name, times)| (Reverse(*times), *name));
    if called.is_empty() {
        return String::new();
    }
    let more = called.len().saturating_sub(TOOLS_NAMED_MAX);
    let names: Vec<_> = called.iter().take(TOOLS_NAMED_MAX).map(|(name, times)| format!("{name} ({times})")).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("; tools that were called: {}{more}", names.join(", "))
}
