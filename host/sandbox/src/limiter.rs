//! Counts the memories and tables of one call together, and refuses what goes beyond its limits.
//!
//! Wasmtime's own `StoreLimits` bounds each memory alone, so fifty memories would pass it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wasmtime::ResourceLimiter;

use crate::Limits;

/// The linear memory of all running calls together.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl SharedMemory {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), bytes_max }
    }

    /// Bytes in use now.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> bool {
        let taken = self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let fits = taken <= self.bytes_max;
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What was refused so far. A refusal alone is no error: the guest may live with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Denied {
    /// Growth beyond the call's own limit, or beyond what a memory can be.
    pub(crate) memory: bool,
    /// Growth beyond what all calls may have together.
    pub(crate) shared_memory: bool,
    /// Growth of a table.
    pub(crate) table: bool,
}

/// The counters of one call.
///
/// What was granted and then failed in the operating system stays counted until the call ends: a count that is too
/// high is safe, and wasmtime also reports failures that were never granted.
#[derive(Debug)]
pub(crate) struct Limiter {
    limits: Limits,
    memory_bytes: usize,
    table_elements: usize,
    denied: Denied,
    shared: Arc<SharedMemory>,
}

impl Limiter {
    pub(crate) fn new(limits: Limits, shared: Arc<SharedMemory>) -> Self {
        Self { limits, memory_bytes: 0, table_elements: 0, denied: Denied::default(), shared }
    }

    /// Memories never shrink, so what is in use is the peak.
    pub(crate) fn memory_bytes_peak(&self) -> usize {
        self.memory_bytes
    }

    pub(crate) fn denied(&self) -> Denied {
        self.denied
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let more = desired.saturating_sub(current);
        let Some(sum) = self.memory_bytes.checked_add(more).filter(|sum| *sum <= self.limits.memory_bytes_max) else {
            self.denied.memory = true;
            return Ok(false);
        };
        if !self.shared.take(more) {
            self.denied.shared_memory = true;
            return Ok(false);
        }
        self.memory_bytes = sum;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.denied.memory = true;
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let sum = self.table_elements.saturating_add(desired.saturating_sub(current));
        let fits = desired <= self.limits.table_elements_max && sum <= self.limits.table_elements_sum_max;
        if fits {
            self.table_elements = sum;
        } else {
            self.denied.table = true;
        }
        Ok(fits)
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        Ok(())
    }

    fn instances(&self) -> usize {
        self.limits.instances_max
    }

    fn tables(&self) -> usize {
        self.limits.tables_max
    }

    fn memories(&self) -> usize {
        self.limits.memories_max
    }
}

impl Drop for Limiter {
    fn drop(&mut self) {
        self.shared.give_back(self.memory_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn limiter(memory_bytes_max: usize, shared: &Arc<SharedMemory>) -> Limiter {
        let limits = Limits { memory_bytes_max, table_elements_sum_max: 30_000, ..Limits::default() };
        Limiter::new(limits, Arc::clone(shared))
    }

    fn grow(limiter: &mut Limiter, from: usize, to: usize) -> bool {
        limiter.memory_growing(from, to, None).unwrap()
    }

    #[test]
    fn memories_are_counted_together() {
        let shared = Arc::new(SharedMemory::new(1 << 30));
        let mut limiter = limiter(128 * MIB, &shared);
        assert!(grow(&mut limiter, 0, 64 * MIB));
        assert!(grow(&mut limiter, 0, 64 * MIB));
        assert_eq!(limiter.denied(), Denied::default());
        assert!(!grow(&mut limiter, 0, 1));
        assert_eq!(limiter.denied(), Denied { memory: true, ..Denied::default() });
        assert_eq!(limiter.memory_bytes_peak(), 128 * MIB);
    }

    #[test]
    fn a_growth_that_fails_without_a_grant_frees_nothing() {
        let shared = Arc::new(SharedMemory::new(1 << 30));
        let mut limiter = limiter(2 * MIB, &shared);
        assert!(grow(&mut limiter, 0, 2 * MIB));
        limiter.memory_grow_failed(wasmtime::format_err!("beyond the type")).unwrap();
        assert!(!grow(&mut limiter, 2 * MIB, 3 * MIB));
    }

    #[test]
    fn all_calls_share_a_sum_and_give_it_back() {
        let shared = Arc::new(SharedMemory::new(3 * MIB));
        let mut first = limiter(2 * MIB, &shared);
        let mut second = limiter(2 * MIB, &shared);
        assert!(grow(&mut first, 0, 2 * MIB));
        assert!(!grow(&mut second, 0, 2 * MIB));
        assert_eq!(second.denied(), Denied { shared_memory: true, ..Denied::default() });
        drop(first);
        assert!(grow(&mut second, 0, 2 * MIB));
        drop(second);
        assert_eq!(shared.bytes(), 0);
    }

    #[test]
    fn tables_are_bounded_each_and_together() {
        let shared = Arc::new(SharedMemory::new(MIB));
        let mut limiter = limiter(MIB, &shared);
        assert!(limiter.table_growing(0, 20_000, None).unwrap());
        assert!(!limiter.table_growing(20_000, 20_001, None).unwrap());
        assert!(limiter.table_growing(0, 10_000, None).unwrap());
        assert!(!limiter.table_growing(10_000, 10_001, None).unwrap());
    }

    #[test]
    fn what_a_module_forbids_itself_is_no_refusal_of_the_host() {
        let shared = Arc::new(SharedMemory::new(MIB));
        let mut limiter = limiter(MIB, &shared);
        assert!(!limiter.memory_growing(0, 2 * MIB, Some(MIB)).unwrap());
        assert_eq!(limiter.denied(), Denied::default());
    }
}
