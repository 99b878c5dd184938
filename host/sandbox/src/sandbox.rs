//! The door of the crate: compile, restore, list, call.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use toolcell_contract::limits::ARGUMENTS_BYTES_MAX;
use toolcell_contract::{CallContext, Definition};
use wasmtime::component::Linker;
use wasmtime::{Engine, Store};

use crate::admission::Admission;
use crate::ending::Fault;
use crate::engine::{Ticker, artifact_key, engine};
use crate::inspect::{explain, inspect, quote};
use crate::limiter::SharedMemory;
use crate::state::CallState;
use crate::threads::{Start, Threads};
use crate::{CallLog, CallReport, Capabilities, Component, Config, Digest, Error, Limits, LoadError, Observer};
use crate::{call, definition, linker};

/// How long a list waits for a place while others are read at the start.
const LIST_WAIT_MAX: Duration = Duration::from_secs(60);

/// Bytes of a guest's stderr that the error of a failed list shows.
const STDERR_SHOWN_BYTES: usize = 180;

/// Giving back this much memory takes milliseconds, so it is done elsewhere than on a thread that runs guests.
const LARGE_MEMORY_BYTES: usize = 16 << 20;

/// Runs tools. Cheap to clone; all clones share one engine, its threads and its limits.
///
/// Guests run on threads of the sandbox's own, so one that spins takes no time from the caller's runtime. Only a
/// component whose last call took less than 2 ms starts the next one on the caller's thread, one call at a time; if
/// it is not done after at most 10 ms, it moves.
#[derive(Clone)]
pub struct Sandbox(Arc<Inner>);

struct Inner {
    config: Config,
    engine: Engine,
    linker: Linker<CallState>,
    ticker: Ticker,
    calls: Admission,
    lists: Admission,
    memory: Arc<SharedMemory>,
    threads: Threads,
}

/// One call.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The tool's name, as the component lists it.
    pub tool: String,
    /// A JSON object that satisfies the tool's input schema.
    pub arguments: String,
    /// What the call knows about itself. On a retry the answer's id must already be the one that the tool gave its
    /// request ([`toolcell_contract::Suspension::guest_id`]), if it gave one.
    pub context: CallContext,
    /// Other limits than the sandbox's own. Limits that are not [valid](Limits::validate) end the call with
    /// `host-fault`, so validate them where they are read.
    pub limits: Option<Limits>,
    /// What it may do beyond computing; by default nothing.
    pub capabilities: Arc<Capabilities>,
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("config", &self.0.config).finish_non_exhaustive()
    }
}

impl Invocation {
    /// A call under the sandbox's own limits, without any capability.
    #[must_use]
    pub fn new(tool: impl Into<String>, arguments: impl Into<String>, context: CallContext) -> Self {
        Self { tool: tool.into(), arguments: arguments.into(), context, limits: None, capabilities: Arc::default() }
    }
}

impl Sandbox {
    /// Starts the engine and the threads that run guests.
    ///
    /// # Errors
    /// [`Error::BadLimit`] for a configuration that cannot be kept, [`Error::Engine`] and [`Error::Threads`] when
    /// the machine refuses.
    pub fn new(config: Config) -> Result<Self, Error> {
        config.validate()?;
        let engine = engine()?;
        let wait_max = Duration::from_millis(config.queue_ms_max);
        Ok(Self(Arc::new(Inner {
            linker: linker::linker(&engine).map_err(Error::Engine)?,
            ticker: Ticker::start(&engine)?,
            calls: Admission::new(config.concurrent_calls_max, config.queued_calls_max, wait_max),
            lists: Admission::new(config.worker_threads, config.queued_calls_max, LIST_WAIT_MAX),
            memory: Arc::new(SharedMemory::new(config.memory_bytes_sum_max)),
            threads: Threads::start(config.worker_threads)?,
            config,
            engine,
        })))
    }

    /// Compiles a component from its binary form; never from text, never from machine code.
    ///
    /// Takes up to tens of seconds of CPU: call it where blocking is allowed.
    ///
    /// # Errors
    /// A [`LoadError`] says what is wrong with the component and how to mend it.
    pub fn compile(&self, bytes: &[u8]) -> Result<Component, LoadError> {
        inspect(bytes, self.0.config.component_bytes_max)?;
        let compiled = wasmtime::component::Component::from_binary(&self.0.engine, bytes)
            .map_err(|refusal| explain(bytes, &refusal))?;
        self.link(&compiled, Digest::from_bytes(Sha256::digest(bytes).into()), bytes.len() as u64)
    }

    /// The machine code of a component, for [`Sandbox::restore`].
    ///
    /// # Errors
    /// [`Error::Artifact`] when it cannot be written out.
    pub fn artifact(&self, component: &Component) -> Result<Vec<u8>, Error> {
        let compiled = component.pre().instance_pre().component();
        compiled.serialize().map_err(|source| Error::Artifact { digest: component.digest(), source })
    }

    /// Brings back a component from its machine code, without compiling.
    ///
    /// # Safety
    /// `artifact` must come, unmodified, from [`Sandbox::artifact`]: it is executed as native code. The caller
    /// authenticates it. `digest` and `size` are those of the component it was made from.
    ///
    /// # Errors
    /// A [`LoadError`] when it was made by another version or configuration, and as for [`Sandbox::compile`].
    pub unsafe fn restore(&self, digest: Digest, size: u64, artifact: &[u8]) -> Result<Component, LoadError> {
        // SAFETY: the caller says that the bytes come unmodified from `artifact`, which serialized a component.
        let restored = unsafe { wasmtime::component::Component::deserialize(&self.0.engine, artifact) };
        let compiled = restored.map_err(|error| LoadError::HostFault(quote(&format!("{error:#}"))))?;
        self.link(&compiled, digest, size)
    }

    fn link(
        &self,
        compiled: &wasmtime::component::Component,
        digest: Digest,
        size: u64,
    ) -> Result<Component, LoadError> {
        Component::link(&self.0.linker, compiled, digest, size, &self.0.config.limits)
    }

    /// Names everything that makes an artifact usable here: wasmtime's version, the engine's configuration and
    /// this crate's version. 64 hexadecimal digits. Part of the key under which an artifact is cached.
    #[must_use]
    pub fn artifact_key(&self) -> String {
        artifact_key(&self.0.engine)
    }

    /// Whether guests can be interrupted; when not, every call is told `busy`, and the process should be replaced.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.0.ticker.is_alive()
    }

    /// Bytes of linear memory of all running calls together.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.0.memory.bytes()
    }

    /// The tools that a component offers, checked. It runs without any capability and for at most
    /// [`Config::list_ms_max`].
    ///
    /// # Errors
    /// A [`LoadError`] says which definition breaks which rule, or how the list failed.
    pub async fn list(&self, component: &Component) -> Result<Vec<Definition>, LoadError> {
        let place = match self.0.lists.enter().await {
            Ok(place) if self.0.ticker.is_alive() => place,
            _ => return Err(LoadError::HostFault("it is busy".into())),
        };
        let list_ms_max = self.0.config.list_ms_max;
        let deadline = Instant::now() + Duration::from_millis(list_ms_max);
        let state = CallState::new(self.0.config.limits, Arc::clone(&self.0.memory), None, Arc::default(), deadline);
        let state = state.map_err(|fault| LoadError::HostFault(fault.failure().code.to_string()))?;
        let (engine, component) = (self.0.engine.clone(), component.clone());
        let listing = |answer: oneshot::Sender<_>| async move {
            let mut store = call::store(&engine, state, deadline);
            let listed = call::list_tools(&mut store, component.pre(), deadline).await;
            let listed = listed.map_err(|fault| list_error(fault, list_ms_max, &store.data_mut().take_log()));
            // A caller that is gone wants no answer.
            let _ = answer.send(listed.and_then(definition::definitions));
            give_back(store, place);
        };
        let listed = self.0.threads.run(Start::Apart, listing).await;
        listed.unwrap_or_else(|fault| Err(LoadError::HostFault(fault.failure().code.to_string())))
    }

    /// Runs one call in a fresh sandbox, and always ends with one report. Dropping the future ends the guest.
    ///
    /// Must be awaited inside a tokio runtime.
    pub async fn call(&self, component: &Component, invocation: Invocation, observer: Arc<dyn Observer>) -> CallReport {
        let asked = Instant::now();
        let entered = match self.enter(&invocation).await {
            Ok(place) => place,
            Err(fault) => return CallReport::refused(fault, asked.elapsed(), Duration::ZERO),
        };
        let (queued, begun) = (asked.elapsed(), Instant::now());
        let limits = invocation.limits.unwrap_or(self.0.config.limits);
        let deadline = begun + Duration::from_millis(limits.deadline_ms_max);
        let memory = Arc::clone(&self.0.memory);
        // A directory may be far away, and nobody else is to wait for it.
        let has_mounts = !invocation.capabilities.mounts.is_empty();
        let (engine, pre) = (self.0.engine.clone(), component.pre().clone());
        let calling = |answer: oneshot::Sender<_>| async move {
            let Invocation { tool, arguments, context, limits: _, capabilities } = invocation;
            let state = match CallState::new(limits, memory, Some(observer), capabilities, deadline) {
                Ok(state) => state,
                Err(fault) => {
                    let _ = answer.send(CallReport::refused(fault, queued, begun.elapsed()));
                    return;
                }
            };
            let mut store = call::store(&engine, state, deadline);
            let ended = call::call_tool(&mut store, &pre, &tool, &arguments, context, deadline).await;
            let _ = answer.send(CallReport::new(ended, store.data_mut(), queued, begun.elapsed()));
            give_back(store, entered);
        };
        let start = if component.begin_call() && !has_mounts { Start::Here } else { Start::Apart };
        let ended = self.0.threads.run(start, calling).await;
        component.end_call(begun.elapsed());
        ended.unwrap_or_else(|fault| CallReport::refused(fault, queued, begun.elapsed()))
    }

    async fn enter(&self, invocation: &Invocation) -> Result<OwnedSemaphorePermit, Fault> {
        if invocation.arguments.len() > ARGUMENTS_BYTES_MAX {
            return Err(Fault::ArgumentsTooLarge);
        }
        if invocation.limits.is_some_and(|limits| limits.validate().is_err()) {
            return Err(Fault::Host);
        }
        let place = self.0.calls.enter().await?;
        if self.0.ticker.is_alive() { Ok(place) } else { Err(Fault::NoRoom) }
    }
}

/// Drops what a call held. Its place is free only when its memory is.
fn give_back(store: Store<CallState>, place: OwnedSemaphorePermit) {
    if store.data().limiter.memory_bytes_peak() < LARGE_MEMORY_BYTES {
        drop(store);
        drop(place);
    } else {
        tokio::task::spawn_blocking(move || {
            drop(store);
            drop(place);
        });
    }
}

fn list_error(fault: Fault, list_ms_max: u64, log: &CallLog) -> LoadError {
    match fault {
        Fault::Deadline => LoadError::ListTimeout(list_ms_max),
        Fault::HostcallBytes => LoadError::TooManyTools { found: "more than fit into one list of".into() },
        Fault::NoRoom | Fault::Host | Fault::Dropped => LoadError::HostFault(fault.failure().code.to_string()),
        _ => LoadError::ListFailed { reason: fault.failure().code.sentence().into(), stderr: quote_end(&log.stderr) },
    }
}

/// The end of a guest's stderr, where the message of a panic stands.
fn quote_end(stderr: &str) -> String {
    let stderr = stderr.trim_end();
    let start = stderr.ceil_char_boundary(stderr.len().saturating_sub(STDERR_SHOWN_BYTES));
    quote(&stderr[start..])
}
