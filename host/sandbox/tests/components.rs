//! Components that lie, loop or break the canonical ABI: made of text, one deed each.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests: what goes wrong in them should fail the test"
)]

mod support;

use std::time::{Duration, Instant};

use support::{call_of, code, limits, neighbour, stage, text};
use toolcell_contract::{Definition, FailureCode};
use toolcell_sandbox::{Component, LoadError};
use toolcell_tests::small::{self, Module};

const SPIN: &str = "(loop (br 0)) (unreachable)";

fn load(module: &Module) -> Component {
    stage().sandbox.compile(&module.tool()).unwrap()
}

async fn list(module: Module) -> Result<Vec<Definition>, LoadError> {
    stage().sandbox.list(&load(&module)).await
}

async fn code_of_call(module: Module) -> FailureCode {
    code(&call_of(&load(&module), "small", "{}", limits(500)).await)
}

fn refused(bytes: &[u8]) -> (&'static str, String) {
    let error = stage().sandbox.compile(bytes).unwrap_err();
    (error.code(), error.to_string())
}

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

#[tokio::test]
async fn a_small_component_works() {
    let module = Module::default();
    let expected = Definition {
        name: "small".into(),
        title: None,
        description: "small".into(),
        input_schema: serde_json::json!({"type": "object"}),
        output_schema: None,
        annotations: None,
    };
    assert_eq!(list(module.clone()).await.unwrap(), [expected]);
    assert_eq!(text(&call_of(&load(&module), "small", "{}", limits(500)).await), "fine");
}

#[tokio::test]
async fn the_hostile_guests_list_themselves() {
    let listed = stage().sandbox.list(&stage().guests).await.unwrap();
    assert_eq!(listed.len(), 48);
}

#[tokio::test]
async fn a_list_that_loops_is_refused_after_two_seconds() {
    let begun = Instant::now();
    let error = list(Module { list: SPIN.into(), ..Module::default() }).await.unwrap_err();
    assert_eq!(error.code(), "list-timeout");
    let took = begun.elapsed();
    assert!((Duration::from_secs(2)..Duration::from_secs(3)).contains(&took), "{took:?}");
    neighbour().await;
}

#[tokio::test]
async fn a_list_that_traps_or_lies_is_refused() {
    // Writes over the length of the list before it is returned.
    let of_length = |length: u32| format!("(i32.store (i32.const 2052) (i32.const {length})) (i32.const 2048)");
    let renamed = "(i32.store8 (i32.const 1024) (i32.const 32)) (i32.const 2048)";
    let table = [
        ("(unreachable)", "1", "list-failed"),
        ("(i32.const 65536)", "1", "list-failed"),
        (&of_length(0), "1", "list-failed"),
        (&of_length(65), "1", "too-many-tools"),
        (&of_length(1_000_000), "900", "too-many-tools"),
        (renamed, "1", "bad-name"),
    ];
    for (body, memory, expected) in table {
        let module = Module { list: body.into(), memory: memory.into(), ..Module::default() };
        assert_eq!(list(module).await.unwrap_err().code(), expected, "{body}");
    }
}

#[tokio::test]
async fn a_list_that_panics_shows_its_author_why() {
    let error = LoadError::ListFailed { reason: "the tool crashed".into(), stderr: "no such file".into() };
    assert_eq!(
        error.to_string(),
        "list-tools failed: the tool crashed; it must return a constant list and use no capability; it wrote: no such file"
    );
}

#[tokio::test]
async fn guest_code_is_stopped_wherever_it_spins() {
    let table = [
        Module { call: SPIN.into(), ..Module::default() },
        Module { realloc: SPIN.into(), ..Module::default() },
        Module { fields: format!("(func $start {SPIN}) (start $start)"), ..Module::default() },
        Module { fields: post_return(SPIN), ..Module::default() },
        Module {
            call: "(loop (memory.fill (i32.const 0) (i32.const 0) (i32.const 130023424)) (br 0)) (unreachable)".into(),
            memory: "1984".into(),
            ..Module::default()
        },
    ];
    for module in table {
        let begun = Instant::now();
        assert_eq!(code_of_call(module.clone()).await, FailureCode::Timeout, "{module:?}");
        assert!(begun.elapsed() < Duration::from_millis(1_500), "{module:?}");
        neighbour().await;
    }
}

fn post_return(body: &str) -> String {
    format!(r#"(func (export "cabi_post_toolcell:tool/tools@0.1.0#call-tool") (param i32) {body})"#)
}

#[tokio::test]
async fn what_breaks_the_canonical_abi_traps() {
    let store =
        |offset: u32, value: i64| format!("(i32.store (i32.const {offset}) (i32.const {value})) (i32.const 3072)");
    let text_at = |pointer: i64, length: i64| {
        format!("(i32.store (i32.const 3080) (i32.const {length})) {}", store(3076, pointer))
    };
    let called = |call: String| Module { call, ..Module::default() };
    let table = [
        // The result itself: beyond the end, unaligned.
        (called("(i32.const 65536)".into()), FailureCode::Trap),
        (called("(i32.const -1)".into()), FailureCode::Trap),
        (called("(i32.const 3073)".into()), FailureCode::Trap),
        // The output: beyond the end, longer than memory, no UTF-8.
        (called(text_at(65_535, 2)), FailureCode::Trap),
        (called(text_at(1_024, -1)), FailureCode::Trap),
        (called(format!("(i32.store8 (i32.const 1072) (i32.const 255)) {}", store(3072, 0))), FailureCode::BadAbi),
        // The case: there are four.
        (called(store(3_072, 9)), FailureCode::BadAbi),
        // Where the arguments should go: beyond the end, unaligned, nowhere.
        (Module { realloc: "(i32.const 65535)".into(), ..Module::default() }, FailureCode::Trap),
        (Module { realloc: "(i32.const -8)".into(), ..Module::default() }, FailureCode::Trap),
        (Module { realloc: "(unreachable)".into(), ..Module::default() }, FailureCode::Trap),
        (Module { fields: post_return("(unreachable)"), ..Module::default() }, FailureCode::Trap),
    ];
    for (module, expected) in table {
        assert_eq!(code_of_call(module.clone()).await, expected, "{module:?}");
    }
    neighbour().await;
}

#[tokio::test]
async fn a_host_call_after_the_result_traps() {
    let imports = r#"(import "toolcell:tool/log@0.1.0" "write" (func $log (param i32 i32 i32)))"#;
    let log = "(call $log (i32.const 0) (i32.const 1024) (i32.const 5))";
    let module = Module { imports: imports.into(), fields: post_return(log), ..Module::default() };
    assert_eq!(code_of_call(module).await, FailureCode::Trap);
}

#[tokio::test]
async fn memory_is_counted_over_all_memories() {
    let two_more = "(memory 1000) (memory 1000)";
    let module = Module { memory: "1000".into(), fields: two_more.into(), ..Module::default() };
    assert_eq!(code_of_call(module).await, FailureCode::MemoryLimit);
}

#[tokio::test]
async fn what_can_never_start_is_refused_when_it_is_loaded() {
    let table = [
        (
            Module { memory: "65536".into(), ..Module::default() },
            "it starts with 4294967296 bytes of memory, and a call may have 134217728",
        ),
        (
            Module { fields: "(memory 1)".repeat(8), ..Module::default() },
            "it starts with 9 memories, and a call may have 8",
        ),
        (
            Module { fields: "(table 20001 funcref)".into(), ..Module::default() },
            "it starts with 20001 table elements, and a call may have 20000",
        ),
        (
            Module { fields: "(table 1 funcref)".repeat(33), ..Module::default() },
            "it starts with 33 tables, and a call may have 32",
        ),
    ];
    for (module, rule) in table {
        assert_eq!(refused(&module.tool()), ("too-large", format!("the component is too large: {rule}")));
    }
}

#[tokio::test]
async fn a_table_grows_up_to_its_limit_and_the_call_goes_on() {
    let grow = "(loop (br_if 0 (i32.ne (table.grow (ref.null func) (i32.const 1000)) (i32.const -1))))
        (i32.const 3072)";
    let module = Module { call: grow.into(), fields: "(table 1 funcref)".into(), ..Module::default() };
    assert_eq!(text(&call_of(&load(&module), "small", "{}", limits(5_000)).await), "fine");
}

#[tokio::test]
async fn what_is_no_component_is_refused_with_a_hint() {
    let module = wat::parse_str("(module)").unwrap();
    assert_eq!(
        refused(&module),
        (
            "not-a-component",
            "not a WebAssembly component: this is a core module: build it for wasm32-wasip2 or wrap it with \
             `wasm-tools component new`"
                .into()
        )
    );
    let machine_code = stage().sandbox.artifact(&stage().guests).unwrap();
    assert_eq!(refused(&machine_code).0, "not-a-component");
    assert_eq!(refused(b"(component)").0, "not-a-component");
}

#[tokio::test]
async fn a_component_of_another_world_is_told_what_it_exports() {
    let wrong = "the component does not export toolcell:tool/tools@0.1.0, so it is no tool; ";
    assert_eq!(refused(&component("(component)")), ("wrong-world", format!("{wrong}it exports nothing")));
    let other = r#"(component (instance $i) (export "wasi:cli/run@0.2.6" (instance $i)) (export "b" (instance $i)))"#;
    assert_eq!(refused(&component(other)), ("wrong-world", format!("{wrong}it exports wasi:cli/run@0.2.6, b")));
    let later = r#"(component (instance $i) (export "toolcell:tool/tools@0.2.0" (instance $i)))"#;
    assert_eq!(refused(&component(later)).0, "wrong-world");
    let empty = r#"(component (instance $i) (export "toolcell:tool/tools@0.1.0" (instance $i)))"#;
    assert_eq!(refused(&component(empty)).0, "wrong-world");
}

#[tokio::test]
async fn an_unknown_import_is_named() {
    let wit = "package test:hostile; interface door { open: func(); }
        world hostile { import door; export toolcell:tool/tools@0.1.0; }";
    let imports = r#"(import "test:hostile/door" "open" (func))"#;
    let module = Module { imports: imports.into(), ..Module::default() };
    let bytes = small::in_world(&module.text(), wit, "test:hostile/hostile");
    assert_eq!(
        refused(&bytes),
        (
            "unknown-import",
            "the component imports what this host does not provide: test:hostile/door; build it without them".into()
        )
    );
}

#[tokio::test]
async fn a_feature_that_is_off_is_named() {
    for module in ["(core module (type (struct)))", "(core module (memory i64 1))", "(core module (memory 1 1 shared))"]
    {
        let (code, text) = refused(&component(&format!("(component {module})")));
        assert_eq!(code, "unsupported-feature", "{text}");
    }
}

#[tokio::test]
async fn a_function_that_would_compile_for_minutes_is_refused_at_once() {
    let nested = |times: usize| format!("(func (param i32) {} {})", "loop ".repeat(times), "end ".repeat(times));
    let joined = |locals: usize, blocks: usize| {
        let body = "block local.get 0 br_if 0 local.get 1 local.get 2 i32.add local.set 1 end ".repeat(blocks);
        format!("(func (param i32) (local {}) {body})", "i32 ".repeat(locals - 1))
    };
    let begun = Instant::now();
    for fields in [nested(30_000), joined(2_000, 20_000), joined(5_000, 60_000)] {
        let (code, text) = refused(&Module { fields, ..Module::default() }.tool());
        assert_eq!(code, "compile-limit", "{text}");
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    for fields in [nested(100), joined(99, 10_000)] {
        let module = Module { fields, ..Module::default() };
        assert_eq!(text(&call_of(&load(&module), "small", "{}", limits(500)).await), "fine");
    }
}

#[tokio::test]
async fn damaged_bytes_are_refused_or_loaded_and_never_more() {
    let bytes = Module::default().tool();
    for end in 0..bytes.len() {
        let _ = stage().sandbox.compile(&bytes[..end]);
    }
    // A fixed sequence, so that a failure can be repeated.
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..2_000 {
        let mut damaged = bytes.clone();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let bit = usize::try_from(random).unwrap() % (bytes.len() * 8);
        damaged[bit / 8] ^= 1 << (bit % 8);
        let _ = stage().sandbox.compile(&damaged);
    }
    neighbour().await;
}

#[tokio::test]
async fn machine_code_comes_back_only_whole() {
    let stage = stage();
    let artifact = stage.sandbox.artifact(&stage.guests).unwrap();
    // SAFETY: the artifact was just made by this sandbox.
    let restored = unsafe { stage.sandbox.restore(stage.guests.digest(), stage.guests.size(), &artifact) }.unwrap();
    assert_eq!(restored.imports(), stage.guests.imports());
    assert_eq!(text(&call_of(&restored, "echo", "{}", limits(5_000)).await), "{}");
    // SAFETY: a file that ends in its header is refused before any code of it is looked at.
    let cut = unsafe { stage.sandbox.restore(stage.guests.digest(), 1, &artifact[..100]) };
    assert_eq!(cut.unwrap_err().code(), "host-fault");
}

#[tokio::test]
async fn a_component_tells_what_it_imports() {
    assert_eq!(load(&Module::default()).imports(), Vec::<String>::new());
    let imports = stage().guests.imports();
    assert!(imports.iter().any(|name| name == "toolcell:tool/http@0.1.0"), "{imports:?}");
    assert!(imports.iter().any(|name| name.starts_with("wasi:filesystem/types@0.2.")), "{imports:?}");
}
