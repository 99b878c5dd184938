//! A model that plays a conversation from a file, and checks what it is sent.
//!
//! A script is JSON:
//!
//! ```json
//! {
//!   "turns": [
//!     {
//!       "expect": {"user": "2+2", "tools": ["math"]},
//!       "say": "Let me compute.",
//!       "calls": [{"tool": "math", "arguments": {"expression": "2+2"}}]
//!     },
//!     {
//!       "expect": {"results": [{"tool": "math", "is_error": false, "equals": "4"}]},
//!       "say": "It is 4."
//!     }
//!   ]
//! }
//! ```
//!
//! The turn to play is the number of assistant turns that the conversation already holds. So nothing has to be
//! remembered: a run that goes on in another process goes on at the right turn.

mod expect;
mod format;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use toolcell_agent::{AssistantTurn, CallRequest, Message, Model, ModelError, ModelEvent, ModelReply, Prompt};

pub use expect::{Expectation, ExpectedResult, TextMatch};
pub use format::{
    FailureKind, Script, ScriptError, ScriptedArguments, ScriptedCall, ScriptedFailure, ScriptedStop, ScriptedTurn,
};

/// A model that plays a [`Script`].
///
/// ```
/// use serde_json::json;
/// use toolcell_model::{Script, ScriptedModel, ScriptedTurn};
///
/// let model = ScriptedModel::new(Script::of([
///     ScriptedTurn::say("Let me compute.").call("math", json!({"expression": "2+2"})),
///     ScriptedTurn::say("It is 4."),
/// ]));
/// ```
#[derive(Debug)]
pub struct ScriptedModel {
    script: Script,
    /// For each turn, how often it has failed so far. Only failures are counted: they leave no trace in a conversation.
    failures: Vec<AtomicUsize>,
}

impl ScriptedModel {
    /// Plays a script.
    #[must_use]
    pub fn new(script: Script) -> Self {
        let failures = script.turns.iter().map(|_| AtomicUsize::new(0)).collect();
        Self { script, failures }
    }

    /// Reads a script.
    ///
    /// # Errors
    /// [`ScriptError::Format`] with line and column.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        Script::from_json(text).map(Self::new)
    }

    /// Reads a script from a file.
    ///
    /// # Errors
    /// [`ScriptError::Read`] when the file cannot be read, [`ScriptError::File`] with line and column when it holds no
    /// script.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ScriptError> {
        Script::from_file(path.as_ref()).map(Self::new)
    }

    /// What happens next: pieces, and how they end.
    fn play(&self, prompt: &Prompt<'_>) -> Played {
        let number = prompt.messages.iter().filter(|message| matches!(message, Message::Assistant(_))).count();
        let Some(turn) = self.script.turns.get(number) else {
            return Played::fail(past_the_end(number, self.script.turns.len(), prompt));
        };
        if let Err(problem) = turn.expect.check(prompt) {
            return Played::fail(ModelError::Script { message: format!("turn {}: {problem}", number + 1) });
        }
        let failed = self.failures.get(number).map_or(0, |count| count.fetch_add(1, Ordering::Relaxed));
        match turn.fail.get(failed) {
            // What a broken stream has shown before it breaks is the turn's own text.
            Some(failure) if failure.is_after_text => Played { pieces: pieces(turn), end: Err(failure.error()) },
            Some(failure) => Played::fail(failure.error()),
            None => Played { pieces: pieces(turn), end: Ok(ModelEvent::Finished(reply(turn, number))) },
        }
    }
}

struct Played {
    pieces: Vec<ModelEvent>,
    end: Result<ModelEvent, ModelError>,
}

impl Played {
    fn fail(error: ModelError) -> Self {
        Self { pieces: Vec::new(), end: Err(error) }
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> &str {
        &self.script.model
    }

    fn provider(&self) -> &str {
        "scripted"
    }

    fn ask<'a>(&'a self, prompt: Prompt<'a>) -> BoxStream<'a, Result<ModelEvent, ModelError>> {
        let Played { pieces, end } = self.play(&prompt);
        let pace = Duration::from_millis(self.script.pace_ms);
        let pieces = stream::iter(pieces).then(move |piece| async move {
            if !pace.is_zero() {
                tokio::time::sleep(pace).await;
            }
            Ok(piece)
        });
        pieces.chain(stream::iter([end])).boxed()
    }
}

/// Reasoning and text word by word, so that streaming is seen.
fn pieces(turn: &ScriptedTurn) -> Vec<ModelEvent> {
    let words = |text: &str| text.split_inclusive(char::is_whitespace).map(str::to_owned).collect::<Vec<_>>();
    let reasoning = words(&turn.reasoning).into_iter().map(ModelEvent::Reasoning);
    reasoning.chain(words(&turn.say).into_iter().map(ModelEvent::Text)).collect()
}

fn reply(turn: &ScriptedTurn, number: usize) -> ModelReply {
    let call = |(place, call): (usize, &ScriptedCall)| CallRequest {
        id: call.id.clone().unwrap_or_else(|| format!("call-{}-{}", number + 1, place + 1)),
        name: call.tool.clone(),
        arguments: call.arguments.0.clone(),
    };
    let calls = turn.calls.iter().enumerate().map(call).collect();
    let turn_said = AssistantTurn { text: turn.say.clone(), calls, verbatim: None };
    ModelReply { turn: turn_said, stop: turn.stop.reason(), usage: turn.usage }
}

fn past_the_end(number: usize, turns: usize, prompt: &Prompt<'_>) -> ModelError {
    let came = expect::last_message(prompt);
    ModelError::Script { message: format!("turn {} was asked for, but it has only {turns}; {came}", number + 1) }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
