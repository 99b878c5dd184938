//! One execution inside the guest: a store with every limit set, an instance, a call, and the end of its time.

use std::time::Instant;

use time::OffsetDateTime;
use tokio::time::error::Elapsed;
use tokio::time::timeout_at;
use toolcell_contract::{Answer, CallContext, Outcome};
use wasmtime::{Engine, Store, UpdateDeadline};

use crate::bindings::ToolPre;
use crate::bindings::toolcell::tool::tool_types as wit;
use crate::ending::{Fault, diagnose};
use crate::result;
use crate::state::CallState;

/// A fresh store with the limits of its state. After `deadline` the guest's code does not go on.
pub(crate) fn store(engine: &Engine, state: CallState, deadline: Instant) -> Store<CallState> {
    let limits = state.limits;
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.limiter);
    // The start functions of a component are guest code too, so this comes before the instance.
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(move |_| {
        Ok(if Instant::now() < deadline { UpdateDeadline::Yield(1) } else { UpdateDeadline::Interrupt })
    });
    store.set_hostcall_fuel(limits.hostcall_bytes_max);
    store.set_max_component_handles(limits.handles_max);
    store
}

/// Calls `call-tool` in a new instance.
pub(crate) async fn call_tool(
    store: &mut Store<CallState>,
    pre: &ToolPre<CallState>,
    tool: &str,
    arguments: &str,
    context: CallContext,
    deadline: Instant,
) -> Result<Outcome, Fault> {
    let run = async {
        let instance = pre.instantiate_async(&mut *store).await?;
        let context = context_of(context, deadline);
        instance.toolcell_tool_tools().call_call_tool(&mut *store, tool, arguments, &context).await
    };
    let ended = timeout_at(deadline.into(), run).await;
    result::outcome(returned(ended, store)?, OffsetDateTime::now_utc()).map_err(Fault::Result)
}

/// Calls `list-tools` in a new instance.
pub(crate) async fn list_tools(
    store: &mut Store<CallState>,
    pre: &ToolPre<CallState>,
    deadline: Instant,
) -> Result<Vec<wit::Definition>, Fault> {
    let run = async {
        let instance = pre.instantiate_async(&mut *store).await?;
        instance.toolcell_tool_tools().call_list_tools(&mut *store).await
    };
    let ended = timeout_at(deadline.into(), run).await;
    returned(ended, store)
}

/// What the guest returned, unless it was stopped. The epoch stops a guest that computes, the timer one that waits
/// in the host.
fn returned<T>(ended: Result<wasmtime::Result<T>, Elapsed>, store: &Store<CallState>) -> Result<T, Fault> {
    match ended {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(diagnose(&error, store.data().limiter.denied())),
        Err(_elapsed) => Err(Fault::Deadline),
    }
}

fn context_of(context: CallContext, deadline: Instant) -> wit::CallContext {
    let left = deadline.saturating_duration_since(Instant::now());
    wit::CallContext {
        call_id: context.call_id,
        deadline_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        answer: context.answer.map(answer_of),
        state: context.state,
    }
}

fn answer_of(answer: Answer) -> wit::Answer {
    let data = answer.data.map(|data| serde_json::Value::Object(data).to_string());
    wit::Answer { id: answer.id, ok: answer.ok, data, reason: answer.reason }
}
