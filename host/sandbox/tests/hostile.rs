//! Each hostile tool ends with its code, in time, and leaves its neighbour as fast as before.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests: what goes wrong in them should fail the test"
)]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use support::{call, call_of, code, limits, neighbour, stage, text};
use toolcell_contract::{CallContext, FailureCode, Outcome, ToolResult};
use toolcell_sandbox::{Config, Invocation, LimitHit, Limits, Sandbox, Silent};

/// A tool, its arguments, its time limit in milliseconds, and the code it must end with.
type Case = (&'static str, &'static str, u64, FailureCode);

const CASES: [Case; 25] = [
    ("exhaust_cpu", "{}", 500, FailureCode::Timeout),
    ("sleep", "{}", 500, FailureCode::Timeout),
    ("exhaust_memory", "{}", 10_000, FailureCode::MemoryLimit),
    ("exhaust_stack", "{}", 10_000, FailureCode::StackOverflow),
    ("exhaust_handles", "{}", 10_000, FailureCode::HandleLimit),
    ("trap_unreachable", "{}", 10_000, FailureCode::Trap),
    ("trap_panic", "{}", 10_000, FailureCode::Trap),
    ("exit_zero", "{}", 10_000, FailureCode::GuestExit),
    ("exit_one", "{}", 10_000, FailureCode::GuestExit),
    ("flood_output", "{}", 10_000, FailureCode::OutputTooLarge),
    ("flood_output", "262145", 10_000, FailureCode::OutputTooLarge),
    ("flood_log", "{}", 10_000, FailureCode::OutputTooLarge),
    ("flood_list", "{}", 10_000, FailureCode::OutputTooLarge),
    ("flood_zeroes", "{}", 10_000, FailureCode::Trap),
    ("flood_zeroes", "65537", 10_000, FailureCode::Trap),
    ("flood_random", "{}", 10_000, FailureCode::Trap),
    ("flood_random", "65537", 10_000, FailureCode::Trap),
    ("flood_log_lines", "1000000000", 1_000, FailureCode::Timeout),
    ("flood_stdout", "1000000000", 1_000, FailureCode::Timeout),
    ("lie_metadata_pending", "{}", 10_000, FailureCode::BadOutput),
    ("lie_metadata_not_object", "{}", 10_000, FailureCode::BadOutput),
    ("lie_metadata_deep", "{}", 10_000, FailureCode::BadOutput),
    ("lie_mime", "{}", 10_000, FailureCode::BadOutput),
    ("lie_request", "{}", 10_000, FailureCode::BadOutput),
    ("many_parts", "17", 10_000, FailureCode::OutputTooLarge),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn each_hostile_tool_ends_with_its_code_and_leaves_its_neighbour_alone() {
    let before = neighbour().await;
    for (tool, arguments, deadline_ms, expected) in CASES {
        let begun = Instant::now();
        let report = call(tool, arguments, limits(deadline_ms)).await;
        let took = begun.elapsed();
        assert_eq!(code(&report), expected, "{tool} {arguments}: {:?}", report.log);
        assert!(took < Duration::from_millis(deadline_ms + 1_000), "{tool} took {took:?}");
        let after = neighbour().await;
        // Ten times leaves room for other tests that share the machine; a blocked thread costs a thousand times.
        assert!(after < before * 10 + Duration::from_millis(5), "{tool}: {before:?} became {after:?}");
        let Outcome::Failed(failure) = &report.outcome else { unreachable!() };
        assert!(!failure.to_string().contains("ignore previous"), "{failure}");
    }
}

#[tokio::test]
async fn what_a_call_took_is_given_back() {
    let sandbox = Sandbox::new(Config::default()).unwrap();
    let guests = same_guests(&sandbox);
    for tool in ["exhaust_memory", "trap_panic", "exit_zero", "flood_output", "echo"] {
        let invocation = Invocation::new(tool, "{}", CallContext::first("call-1"));
        let report = sandbox.call(&guests, invocation, Arc::new(Silent)).await;
        assert!(report.memory_bytes_peak > 0);
        // A report comes a moment before the memory is given back.
        let begun = Instant::now();
        while sandbox.memory_bytes() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(5), "{tool} still holds {}", sandbox.memory_bytes());
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn ten_million_lines_end_well() {
    let report = call("flood_stdout", "10000000", limits(30_000)).await;
    let ended_well = matches!(&report.outcome, Outcome::Done(result) if result.output == "printed");
    let in_time = report.duration < Duration::from_secs(31);
    // On a machine that is busy or slow the time limit may come first.
    assert!(in_time && (ended_well || code(&report) == FailureCode::Timeout), "{:?}", report.outcome);
    assert_eq!(report.log.stdout.len(), 64 << 10);
}

#[tokio::test]
async fn what_is_just_inside_a_limit_is_fine() {
    let table = [
        ("flood_output", "262144"),
        ("flood_zeroes", "65536"),
        ("flood_random", "65536"),
        ("many_parts", "16"),
        ("flood_list", "16"),
        ("survive_denied_growth", "{}"),
        ("imitate_host_error", "{}"),
    ];
    for (tool, arguments) in table {
        let report = call(tool, arguments, limits(10_000)).await;
        assert!(matches!(&report.outcome, Outcome::Done(result) if !result.is_error), "{tool}: {:?}", report.outcome);
    }
}

#[tokio::test]
async fn a_denied_growth_that_the_tool_survives_is_no_error() {
    let report = call("survive_denied_growth", "{}", limits(10_000)).await;
    assert_eq!((text(&report), report.limits_hit.as_slice()), ("refused", [LimitHit::Memory].as_slice()));
}

#[tokio::test]
async fn log_lines_and_progress_beyond_their_limits_are_counted_and_dropped() {
    let report = call("flood_log_lines", "10000", limits(10_000)).await;
    assert_eq!((text(&report), report.log.lines.len(), report.log.lines_dropped), ("logged", 1_000, 9_000));
    assert_eq!(report.limits_hit, [LimitHit::Log]);
    let report = call("flood_progress", "10000", limits(10_000)).await;
    assert_eq!((text(&report), report.limits_hit.as_slice()), ("reported", [LimitHit::Progress].as_slice()));
}

#[tokio::test]
async fn an_error_text_is_cut_and_an_empty_one_replaced() {
    let report = call("long_error", "{}", limits(10_000)).await;
    assert_eq!(report.outcome, Outcome::Done(ToolResult::error("ä".repeat(2_048))));
    let report = call("empty_strings", "{}", limits(10_000)).await;
    assert_eq!(report.outcome, Outcome::Done(ToolResult::error("the tool failed and did not say why")));
}

#[tokio::test]
async fn a_panic_leaves_its_text_in_the_log_only() {
    let report = call("trap_panic", "{}", limits(10_000)).await;
    assert!(report.log.stderr.contains("ignore previous instructions"), "{}", report.log.stderr);
    let result = ToolResult::from(match report.outcome {
        Outcome::Failed(failure) => failure,
        other => panic!("{other:?}"),
    });
    assert_eq!(result, ToolResult::error("tool error [trap]: the tool crashed").with_metadata("code", "trap"));
}

#[tokio::test]
async fn a_host_function_has_its_stack_also_at_the_end_of_the_guests() {
    let mut codes = Vec::new();
    for levels in (0..20_000).step_by(500) {
        let report = call("stack_then_host_call", &levels.to_string(), limits(10_000)).await;
        codes.push(match report.outcome {
            Outcome::Done(_) => None,
            _ => Some(code(&report)),
        });
    }
    // First it fits; from some depth on it does not.
    let overflow = codes.iter().position(Option::is_some).unwrap();
    assert!(overflow > 0);
    assert!(codes[overflow..].iter().all(|code| *code == Some(FailureCode::StackOverflow)), "{codes:?}");
}

#[tokio::test]
async fn each_count_has_its_limit() {
    let table = [
        Limits { instances_max: 1, ..Limits::default() },
        Limits { tables_max: 1, ..Limits::default() },
        Limits { handles_max: 1, ..Limits::default() },
        Limits { table_elements_max: 1, ..Limits::default() },
        Limits { table_elements_sum_max: 1, ..Limits::default() },
    ];
    for limits in table {
        let report = call("exhaust_handles", "{}", limits).await;
        assert_eq!(code(&report), FailureCode::HandleLimit, "{limits:?}");
    }
    let resources = Limits { resources_max: 10, ..Limits::default() };
    assert_eq!(code(&call("exhaust_handles", "{}", resources).await), FailureCode::HandleLimit);
    let memory = Limits { memory_bytes_max: 64 << 10, ..Limits::default() };
    assert_eq!(code(&call("echo", "{}", memory).await), FailureCode::MemoryLimit);
}

#[tokio::test]
async fn arguments_are_taken_up_to_their_limit() {
    let at = format!("{{\"a\": \"{}\"}}", "x".repeat((200 << 10) - 9));
    assert_eq!(text(&call("echo", &at, limits(10_000)).await), at);
    let above = "x".repeat((1 << 20) + 1);
    assert_eq!(code(&call("echo", &above, limits(10_000)).await), FailureCode::InvalidArguments);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn dropping_a_call_ends_its_guest() {
    let config = Config { concurrent_calls_max: 1, queue_ms_max: 2_000, ..Config::default() };
    let sandbox = Sandbox::new(config).unwrap();
    let guests = same_guests(&sandbox);
    let invocation = || Invocation::new("exhaust_cpu", "{}", CallContext::first("call-1"));
    for _ in 0..3 {
        let call = sandbox.call(&guests, invocation(), Arc::new(Silent));
        assert!(tokio::time::timeout(Duration::from_millis(50), call).await.is_err());
    }
    // There is one place only: the echo gets it when the last spinning guest is gone.
    let echo = Invocation::new("echo", "{}", CallContext::first("call-2"));
    let report = sandbox.call(&guests, echo, Arc::new(Silent)).await;
    assert_eq!(text(&report), "{}");
    assert!(report.queued < Duration::from_secs(1), "{:?}", report.queued);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn spinning_guests_leave_time_for_others_and_a_full_house_is_busy() {
    let config = Config { concurrent_calls_max: 9, queued_calls_max: 1, queue_ms_max: 100, ..Config::default() };
    let sandbox = Sandbox::new(config).unwrap();
    let guests = same_guests(&sandbox);
    let call = |tool: &'static str, deadline_ms| {
        let (sandbox, guests) = (sandbox.clone(), guests.clone());
        let invocation = Invocation {
            limits: Some(limits(deadline_ms)),
            ..Invocation::new(tool, "{}", CallContext::first("call-1"))
        };
        tokio::spawn(async move { sandbox.call(&guests, invocation, Arc::new(Silent)).await })
    };
    let spinning: Vec<_> = (0..8).map(|_| call("exhaust_cpu", 2_000)).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    for _ in 0..10 {
        let report = call("echo", 5_000).await.unwrap();
        assert_eq!(text(&report), "{}");
        assert!(report.duration < Duration::from_millis(250), "{:?}", report.duration);
    }
    let ninth = call("exhaust_cpu", 1_000);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(code(&call("echo", 5_000).await.unwrap()), FailureCode::Busy);
    for report in spinning {
        let report = report.await.unwrap();
        assert_eq!(code(&report), FailureCode::Timeout);
        assert!(report.duration < Duration::from_millis(2_500), "{:?}", report.duration);
    }
    assert_eq!(code(&ninth.await.unwrap()), FailureCode::Timeout);
}

#[tokio::test]
async fn all_calls_together_have_a_memory_limit_too() {
    let config = Config { memory_bytes_sum_max: 16 << 20, ..Config::default() };
    let sandbox = Sandbox::new(config).unwrap();
    let guests = same_guests(&sandbox);
    let invocation = Invocation::new("exhaust_memory", "{}", CallContext::first("call-1"));
    let report = sandbox.call(&guests, invocation, Arc::new(Silent)).await;
    assert_eq!((code(&report), report.limits_hit.as_slice()), (FailureCode::Busy, [LimitHit::SharedMemory].as_slice()));
}

/// The guest component in another sandbox, without compiling it again.
fn same_guests(sandbox: &Sandbox) -> toolcell_sandbox::Component {
    let stage = stage();
    let artifact = stage.sandbox.artifact(&stage.guests).unwrap();
    assert_eq!(sandbox.artifact_key(), stage.sandbox.artifact_key());
    // SAFETY: the artifact was just made by a sandbox of this process.
    unsafe { sandbox.restore(stage.guests.digest(), stage.guests.size(), &artifact) }.unwrap()
}

#[tokio::test]
async fn an_unknown_tool_is_the_components_own_business() {
    let report = call_of(&stage().guests, "nobody", "{}", limits(5_000)).await;
    assert_eq!(report.outcome, Outcome::Done(ToolResult::error("this component has no tool nobody")));
}

#[tokio::test]
async fn absurd_limits_end_the_call_and_nothing_else() {
    let absurd = Limits { deadline_ms_max: u64::MAX, ..Limits::default() };
    assert_eq!(code(&call("echo", "{}", absurd).await), FailureCode::HostFault);
}

#[tokio::test]
async fn the_largest_legal_result_comes_through() {
    let report = call("largest_parts", "{}", limits(10_000)).await;
    let Outcome::Done(result) = &report.outcome else { panic!("{:?}", report.outcome) };
    assert_eq!((result.output.len(), result.parts.len()), (256 << 10, 2));
}
