//! Where a run writes down what it does, each time before it goes on.

use futures::future::BoxFuture;

use crate::call::CallState;
use crate::run::RunProgress;
use crate::store::{Decision, StoredReply};

/// Where a run writes down what it does.
///
/// A method returns when what it was told cannot be lost any more. It has no error: when the run cannot be written, or
/// another host has it, the method does not return at all, and whoever drives the run drops it with all that is under way.
pub(crate) trait Journal: Send + Sync {
    /// The model has answered; nothing of it was done yet.
    fn replied<'a>(&'a self, run: &'a RunProgress, reply: &'a StoredReply) -> BoxFuture<'a, ()>;

    /// A call is about to execute.
    fn executing<'a>(&'a self, call_id: &'a str) -> BoxFuture<'a, ()>;

    /// A call has its result, or waits. A decision when one is known already.
    fn came<'a>(&'a self, call_id: &'a str, state: &'a CallState) -> BoxFuture<'a, Option<Decision>>;

    /// Somebody has decided a question. The decision that counts, which may be another that came first.
    fn decided(&self, decision: Decision) -> BoxFuture<'_, Option<Decision>>;
}
