//! The one engine: what guests may be made of, how they are interrupted, and the thread that counts time for them.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, Strategy, WasmBacktraceDetails};

use crate::Error;

// A panic of the host inside one call must end that call and nothing else.
const _: () = assert!(cfg!(panic = "unwind"), "the sandbox must be built with panic = \"unwind\"");

/// How often a spinning guest gives up its thread.
const TICK: Duration = Duration::from_millis(10);

/// After this long without a tick nothing would stop a guest any more, so no call is started.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// Native stack of a guest's own code. What a host function needs comes on top, see [`FIBER_STACK_BYTES`].
const WASM_STACK_BYTES: usize = 512 << 10;

/// Native stack of a guest together with the host functions it calls: 1.5 MiB for the host.
const FIBER_STACK_BYTES: usize = 2 << 20;

/// Builds the engine.
pub(crate) fn engine() -> Result<Engine, Error> {
    Engine::new(&config()).map_err(Error::Engine)
}

fn config() -> Config {
    let mut config = Config::new();
    config.strategy(Strategy::Cranelift).wasm_component_model(true);
    // Every proposal that no tool chain needs is off: most advisories of the past years are about them.
    config
        .concurrency_support(false)
        .gc_support(false)
        .wasm_gc(false)
        .wasm_function_references(false)
        .wasm_exceptions(false)
        .wasm_threads(false)
        .wasm_memory64(false)
        .wasm_tail_call(false)
        .wasm_relaxed_simd(false)
        .wasm_wide_arithmetic(false)
        .wasm_custom_page_sizes(false)
        .wasm_stack_switching(false);
    // Fuel would cost 45 % in interpreters; epochs cost 10 %.
    config
        .epoch_interruption(true)
        .consume_fuel(false)
        .max_wasm_stack(WASM_STACK_BYTES)
        .async_stack_size(FIBER_STACK_BYTES)
        .async_stack_zeroing(true);
    // On demand: no slot of memory is ever used by two tenants. Copy-on-write starts an interpreter three times
    // as fast.
    config
        .guard_before_linear_memory(true)
        .memory_init_cow(true)
        .allocation_strategy(InstanceAllocationStrategy::OnDemand);
    // The texts of traps hold names that the guest chose; without them nothing of a guest gets into an error.
    config.wasm_backtrace_max_frames(None).wasm_backtrace_details(WasmBacktraceDetails::Disable).debug_info(false);
    config
}

/// Grows with every change of what a component or a definition must satisfy, so that what was accepted before the change
/// and kept in a cache is checked again.
const RULES: u32 = 2;

/// Names what makes machine code usable here, as 64 hexadecimal digits.
pub(crate) fn artifact_key(engine: &Engine) -> String {
    let mut hasher = Sha256Hasher(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    (env!("CARGO_PKG_VERSION"), RULES).hash(&mut hasher);
    hasher.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Collects what is hashed; only the digest is used, never the 64-bit hash.
struct Sha256Hasher(Sha256);

impl Hasher for Sha256Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

/// The heartbeat of the thread that advances the engine's epoch.
#[derive(Debug, Clone)]
pub(crate) struct Ticker {
    started: Instant,
    last_tick_ms: Arc<AtomicU64>,
}

impl Ticker {
    /// Starts the thread. It ends by itself when the engine is dropped.
    pub(crate) fn start(engine: &Engine) -> Result<Self, Error> {
        let ticker = Self { started: Instant::now(), last_tick_ms: Arc::default() };
        let (weak, beat) = (engine.weak(), ticker.clone());
        std::thread::Builder::new()
            .name("toolcell-epoch".into())
            .spawn(move || {
                while let Some(engine) = weak.upgrade() {
                    engine.increment_epoch();
                    drop(engine);
                    beat.last_tick_ms.store(beat.now_ms(), Ordering::Relaxed);
                    std::thread::sleep(TICK);
                }
            })
            .map_err(Error::Threads)?;
        Ok(ticker)
    }

    /// Whether guests can still be interrupted.
    pub(crate) fn is_alive(&self) -> bool {
        let silence_ms = self.now_ms().saturating_sub(self.last_tick_ms.load(Ordering::Relaxed));
        Duration::from_millis(silence_ms) < SILENCE_MAX
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_artifact_key_is_the_same_for_the_same_configuration() {
        let key = || artifact_key(&engine().unwrap());
        assert_eq!(key(), key());
        assert_eq!(key().len(), 64);
    }

    #[test]
    fn a_ticker_that_fell_silent_is_noticed() {
        let ticker = Ticker { started: Instant::now() - Duration::from_secs(5), last_tick_ms: Arc::default() };
        assert!(!ticker.is_alive());
        ticker.last_tick_ms.store(4_900, Ordering::Relaxed);
        assert!(ticker.is_alive());
    }
}
