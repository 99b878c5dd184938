//! What the host keeps for one guest: its limits, its WASI context, its captured output.

use std::sync::Arc;
use std::time::Instant;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::WasiHttpCtx;

use crate::bindings::toolcell::tool::tool_types;
use crate::capabilities::Capabilities;
use crate::capability::log::Lines;
use crate::capability::progress::Reports;
use crate::capability::wasi_http::FIELDS_BYTES_MAX;
use crate::ending::Fault;
use crate::http::Traffic;
use crate::limiter::{Limiter, SharedMemory};
use crate::missing::Missing;
use crate::stdio::Capture;
use crate::{CallLog, LimitHit, Limits, Observer};

/// The data of one store.
pub(crate) struct CallState {
    pub(crate) limits: Limits,
    pub(crate) limiter: Limiter,
    pub(crate) lines: Lines,
    pub(crate) reports: Reports,
    /// None while tools are listed: then nobody listens.
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) capabilities: Arc<Capabilities>,
    pub(crate) traffic: Traffic,
    stdout: Capture,
    stderr: Capture,
    wasi: WasiCtx,
    pub(crate) wasi_http: WasiHttpCtx,
    pub(crate) table: ResourceTable,
}

impl CallState {
    /// What a guest begins with. [`Fault::MountChanged`] when a directory that it was granted is not there any more.
    pub(crate) fn new(
        limits: Limits,
        shared: Arc<SharedMemory>,
        observer: Option<Arc<dyn Observer>>,
        capabilities: Arc<Capabilities>,
        deadline: Instant,
    ) -> Result<Self, Fault> {
        let stdout = Capture::new(limits.stdio_bytes_max);
        let stderr = Capture::new(limits.stdio_bytes_max);
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.resources_max);
        let mut wasi_http = WasiHttpCtx::new();
        wasi_http.set_field_size_limit(FIELDS_BYTES_MAX);
        Ok(Self {
            wasi: context(&limits, &capabilities, &stdout, &stderr)?,
            wasi_http,
            traffic: Traffic::new(capabilities.http.clone(), deadline),
            capabilities,
            limiter: Limiter::new(limits, shared),
            lines: Lines::default(),
            reports: Reports::default(),
            observer,
            stdout,
            stderr,
            table,
            limits,
        })
    }

    /// Notes what the guest asked for and is not granted, and says it.
    pub(crate) fn missing(&self, missing: Missing) -> String {
        let text = missing.to_string();
        self.traffic.miss(missing);
        text
    }

    /// The log so far. Empties it.
    pub(crate) fn take_log(&mut self) -> CallLog {
        let lines = std::mem::take(&mut self.lines);
        let (stdout, stdout_bytes_dropped) = self.stdout.take();
        let (stderr, stderr_bytes_dropped) = self.stderr.take();
        CallLog {
            lines: lines.kept,
            lines_dropped: lines.dropped,
            stdout,
            stdout_bytes_dropped,
            stderr,
            stderr_bytes_dropped,
        }
    }

    /// The limits that the guest ran into and survived, as far as the log tells them.
    pub(crate) fn limits_hit(&self, log: &CallLog) -> Vec<LimitHit> {
        let denied = self.limiter.denied();
        [
            (denied.memory, LimitHit::Memory),
            (denied.shared_memory, LimitHit::SharedMemory),
            (denied.table, LimitHit::Tables),
            (log.lines_dropped > 0, LimitHit::Log),
            (self.reports.dropped > 0, LimitHit::Progress),
            (log.stdout_bytes_dropped > 0, LimitHit::Stdout),
            (log.stderr_bytes_dropped > 0, LimitHit::Stderr),
        ]
        .into_iter()
        .filter_map(|(hit, limit)| hit.then_some(limit))
        .collect()
    }
}

/// A WASI context that can tell the time, draw random bytes and print, and what it was granted beside.
fn context(limits: &Limits, capabilities: &Capabilities, stdout: &Capture, stderr: &Capture) -> Result<WasiCtx, Fault> {
    let mut context = WasiCtxBuilder::new();
    context
        .stdout(stdout.clone())
        .stderr(stderr.clone())
        .max_random_size(limits.random_bytes_max)
        .allow_blocking_current_thread(false)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .envs(&capabilities.environment);
    for mount in &capabilities.mounts {
        mount.grant(&mut context).map_err(|error| {
            tracing::error!(directory = %mount.host().display(), "a directory that is granted cannot be opened: {error}");
            Fault::MountChanged
        })?;
    }
    Ok(context.build())
}

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl tool_types::Host for CallState {}
