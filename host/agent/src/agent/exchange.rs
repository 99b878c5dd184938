//! One question to the model and its answer: through the hooks, within the run's time, measured.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use tracing::Instrument as _;

use super::run_loop::Loop;
use crate::budget::RunLimit;
use crate::estimate;
use crate::event::{RestartCause, RunEvent};
use crate::hooks::chain::{self, DeniedCalls, Stopped};
use crate::model::{ModelError, ModelEvent, ModelReply, Prompt, WarningKind};
use crate::run::RunEnd;
use crate::telemetry::ModelWatch;
use crate::work_clock::Halt;

/// A model's answer.
pub(super) struct Answered {
    pub(super) reply: ModelReply,
    /// What was asked, after the hooks, in tokens of ours; none where nobody learns from it.
    pub(super) estimated_tokens: Option<u64>,
}

impl Loop<'_> {
    /// Asks the model what the hooks let through.
    pub(super) async fn exchange(
        &self,
        prompt: Prompt<'_>,
        warned: &mut BTreeSet<WarningKind>,
    ) -> Result<Answered, RunEnd> {
        let hooks = self.agent.hooks.as_slice();
        let instead =
            if hooks.is_empty() { None } else { self.caller.working(chain::before_model(hooks, prompt)).await?? };
        let sent = instead.as_ref().map_or(prompt, |sent| sent.with_tools(prompt));
        let reply = self.measure(sent, warned).await?;
        let estimated_tokens = self.agent.compaction.map(|_| estimate::prompt(sent));
        Ok(Answered { reply, estimated_tokens })
    }

    /// Shows the answer to the hooks, before anything of it is used.
    pub(super) async fn review(&self, reply: &mut ModelReply) -> Result<DeniedCalls, RunEnd> {
        let hooks = self.agent.hooks.as_slice();
        if hooks.is_empty() {
            return Ok(DeniedCalls::new());
        }
        let review = self.caller.working(chain::after_model(hooks, reply)).await?;
        let withheld = "the answer was withheld by the host program";
        let review = review.inspect_err(|_| self.unsay(RestartCause::Withheld, withheld.to_owned()))?;
        if review.is_rewritten {
            self.unsay(RestartCause::Changed, "the answer was changed by the host program".to_owned());
            self.events.emit(RunEvent::Text { text: reply.turn.text.clone() });
        }
        Ok(review.denied)
    }

    /// What was said of the answer so far is void.
    pub(super) fn unsay(&self, cause: RestartCause, reason: String) {
        self.events.emit(RunEvent::Restarted { cause, reason });
    }

    async fn measure(&self, prompt: Prompt<'_>, warned: &mut BTreeSet<WarningKind>) -> Result<ModelReply, RunEnd> {
        let mut watch = ModelWatch::new(self.agent.model.as_ref());
        let span = watch.span();
        let answer = self.caller.working(self.collect(prompt, warned, &mut watch).instrument(span)).await;
        watch.end(&answer, self.events.as_ref());
        answer?.map_err(RunEnd::Failed)
    }

    async fn collect(
        &self,
        prompt: Prompt<'_>,
        warned: &mut BTreeSet<WarningKind>,
        watch: &mut ModelWatch<'_>,
    ) -> Result<ModelReply, ModelError> {
        let mut stream = self.agent.model.ask(prompt);
        while let Some(event) = stream.next().await {
            let event = event?;
            watch.saw(&event);
            match event {
                ModelEvent::Text(text) => self.events.emit(RunEvent::Text { text }),
                ModelEvent::Reasoning(text) => self.events.emit(RunEvent::Reasoning { text }),
                ModelEvent::Restarted { reason } => self.unsay(RestartCause::BrokeOff, reason),
                ModelEvent::Warning(warning) => {
                    if warned.insert(warning.kind) {
                        self.events.emit(RunEvent::Warning { warning });
                    }
                }
                ModelEvent::Finished(reply) => return Ok(reply),
            }
        }
        Err(ModelError::Truncated)
    }
}

impl From<Halt> for RunEnd {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Cancelled => Self::Cancelled,
            Halt::TimeOver => Self::Incomplete(RunLimit::Time),
        }
    }
}

impl From<Stopped> for RunEnd {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped { reason: stopped.reason }
    }
}
