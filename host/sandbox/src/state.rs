//! What the host keeps for one guest: its limits, its WASI context, its captured output.

use std::sync::Arc;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::bindings::toolcell::tool::tool_types;
use crate::capability::log::Lines;
use crate::capability::progress::Reports;
use crate::limiter::{Limiter, SharedMemory};
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
    stdout: Capture,
    stderr: Capture,
    wasi: WasiCtx,
    table: ResourceTable,
}

impl CallState {
    pub(crate) fn new(limits: Limits, shared: Arc<SharedMemory>, observer: Option<Arc<dyn Observer>>) -> Self {
        let stdout = Capture::new(limits.stdio_bytes_max);
        let stderr = Capture::new(limits.stdio_bytes_max);
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.resources_max);
        Self {
            wasi: powerless(&limits, &stdout, &stderr),
            limiter: Limiter::new(limits, shared),
            lines: Lines::default(),
            reports: Reports::default(),
            observer,
            stdout,
            stderr,
            table,
            limits,
        }
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

/// A WASI context that can tell the time, draw random bytes and print, and nothing else.
fn powerless(limits: &Limits, stdout: &Capture, stderr: &Capture) -> WasiCtx {
    WasiCtxBuilder::new()
        .stdout(stdout.clone())
        .stderr(stderr.clone())
        .max_random_size(limits.random_bytes_max)
        .allow_blocking_current_thread(false)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .build()
}

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl tool_types::Host for CallState {}
