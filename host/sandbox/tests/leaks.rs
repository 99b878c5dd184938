//! Repeated hostile calls leave nothing behind in the process. Alone in its binary, because it counts for all of it.
#![cfg(target_os = "linux")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests: what goes wrong in them should fail the test"
)]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use support::{call, limits, stage};
use toolcell_contract::CallContext;
use toolcell_sandbox::{Invocation, Silent};

#[derive(Debug, Clone, Copy)]
struct Process {
    resident_kib: u64,
    threads: u64,
    files: usize,
}

fn process() -> Process {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    Process {
        resident_kib: field("VmRSS:"),
        threads: field("Threads:"),
        files: std::fs::read_dir("/proc/self/fd").unwrap().count(),
    }
}

async fn round() {
    for tool in ["exhaust_memory", "exhaust_stack", "trap_panic", "exit_zero", "flood_output", "exhaust_handles"] {
        call(tool, "{}", limits(10_000)).await;
    }
    let spin = Invocation::new("exhaust_cpu", "{}", CallContext::first("call-1"));
    let cancelled = stage().sandbox.call(&stage().guests, spin, Arc::new(Silent));
    assert!(tokio::time::timeout(Duration::from_millis(5), cancelled).await.is_err());
    for _ in 0..100 {
        call("echo", "{}", limits(10_000)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn memory_threads_and_files_stay_as_they_were() {
    for _ in 0..10 {
        round().await;
    }
    let before = process();
    for _ in 0..30 {
        round().await;
    }
    let begun = Instant::now();
    while stage().sandbox.memory_bytes() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(5));
        tokio::task::yield_now().await;
    }
    let after = process();
    assert!(after.resident_kib < before.resident_kib + (16 << 10), "{before:?} became {after:?}");
    assert!(after.threads <= before.threads + 2 && after.files <= before.files + 2, "{before:?} became {after:?}");
    println!("{before:?} {after:?}");
}
