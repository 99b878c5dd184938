//! How much one run may use.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How much one run may use. What a single call may use is the sandbox's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Times that the model is asked: a model that calls tools for ever has lost its way long before.
    pub turns_max: NonZeroU32,
    /// Calls of one turn that run; the others get the result `busy`, so that the model asks again for fewer.
    pub calls_per_turn_max: NonZeroUsize,
    /// Calls that run at the same moment.
    pub calls_at_once_max: NonZeroUsize,
    /// Suspensions of one call. The call that suspends once more is `unresolved`.
    pub suspensions_per_call_max: u32,
    /// Tokens read and written, all turns together. None: only the turns count.
    pub tokens_max: Option<NonZeroU64>,
    /// Time in which the model and the tools work; waiting for a person does not count.
    pub time_max: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        const TURNS: NonZeroU32 = NonZeroU32::new(25).unwrap();
        const CALLS: NonZeroUsize = NonZeroUsize::new(16).unwrap();
        const AT_ONCE: NonZeroUsize = NonZeroUsize::new(8).unwrap();
        Self {
            turns_max: TURNS,
            calls_per_turn_max: CALLS,
            calls_at_once_max: AT_ONCE,
            suspensions_per_call_max: 1,
            tokens_max: None,
            time_max: Duration::from_secs(30 * 60),
        }
    }
}

/// The limit that ended a run before the model had said all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunLimit {
    /// [`Budget::turns_max`].
    Turns,
    /// [`Budget::tokens_max`], or the model's own limit of output.
    Tokens,
    /// [`Budget::time_max`].
    Time,
}

impl std::fmt::Display for RunLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Turns => "turns",
            Self::Tokens => "tokens",
            Self::Time => "time",
        })
    }
}
