//! What a component says of its tools: names, schemas, and a list that does not come.

use serde_json::json;
use toolcell_toolbox::{CachePlace, Options, Rejected};

use crate::guest::{Guest, ToolSpec, answering, offering, tool, with_schema};
use crate::support::{Place, call, codes, find, names, rejected};

#[tokio::test]
async fn tools_come_in_the_order_of_files_and_lists() {
    let place = Place::new();
    place.put("b.wasm", offering(vec![tool("one"), tool("two")]));
    place.put("a.wasm", offering(vec![tool("zero")]));
    assert_eq!(names(&place.open().await), ["zero", "one", "two"]);
}

#[tokio::test]
async fn a_tool_name_belongs_to_the_first_file_that_has_it() {
    let place = Place::new();
    place.put("a.wasm", answering("greet", "first"));
    place.put("b.wasm", offering(vec![tool("GREET"), tool("part")]));
    let toolbox = place.open().await;
    assert_eq!(names(&toolbox), ["greet", "part"]);
    assert_eq!(call(&toolbox, find(&toolbox, "greet")).await, "first");
    let reason = "the tool name \"GREET\" is taken by \"a.wasm\", which comes first by file name: rename or remove one \
                  of the two";
    let expected = Rejected { tool: Some("GREET".to_owned()), ..rejected("b.wasm", "duplicate-tool", reason) };
    assert_eq!(toolbox.rejected(), [expected]);
}

#[tokio::test]
async fn a_copy_of_a_file_is_reported_and_loaded_once() {
    let place = Place::new();
    place.put("a.wasm", answering("greet", "hello"));
    place.put("b.wasm", answering("greet", "hello"));
    let toolbox = place.open().await;
    assert_eq!((names(&toolbox), toolbox.last_report().compiled), (vec!["greet".to_owned()], 1));
    let reason = "it has the same content as \"a.wasm\", whose tools are offered once: remove one of the two";
    assert_eq!(toolbox.rejected(), [rejected("b.wasm", "duplicate-file", reason)]);
}

#[tokio::test]
async fn a_reserved_name_keeps_its_component_out() {
    let place = Place::new();
    place.put("a.wasm", offering(vec![tool("fine"), tool("Bash")]));
    place.put("b.wasm", offering(vec![tool("toolcell_run")]));
    let toolbox = place.open().await;
    let reason = |name| format!("the tool name \"{name}\" is reserved by the host: choose another");
    assert_eq!(
        toolbox.rejected(),
        [
            rejected("a.wasm", "reserved-name", &reason("Bash")),
            rejected("b.wasm", "reserved-name", &reason("toolcell_run")),
        ]
    );
    assert_eq!(names(&toolbox), [] as [&str; 0]);
}

#[tokio::test]
async fn a_schema_that_cannot_check_anything_keeps_its_component_out() {
    let place = Place::new();
    let remote = json!({"type": "object", "properties": {"a": {"$ref": "http://169.254.169.254/"}}});
    place.put("a.wasm", offering(vec![with_schema("remote", &remote)]));
    place.put("b.wasm", offering(vec![with_schema("odd", &json!({"type": "object", "required": 7}))]));
    let output = |schema: &str| ToolSpec { output_schema: Some(schema.to_owned()), ..tool("output") };
    place.put("c.wasm", offering(vec![output(r#"{"type":"objekt"}"#)]));
    place.put("d.wasm", offering(vec![output(r#"{"type":"object"}"#)]));
    let toolbox = place.open().await;
    assert_eq!(codes(&toolbox), ["a.wasm", "b.wasm", "c.wasm"].map(|file| (file.to_owned(), "bad-schema")));
    assert_eq!(names(&toolbox), ["output"]);
}

#[tokio::test]
async fn a_list_that_fails_keeps_its_component_out_and_no_other() {
    let place = Place::new();
    let failing = |before_list| Guest { tools: vec![tool("bad")], before_list, ..Guest::default() }.build();
    place.put("a.wasm", failing("unreachable"));
    place.put("b.wasm", failing("(loop $l (br $l))"));
    place.put("c.wasm", offering(vec![]));
    place.put("d.wasm", offering(vec![tool("not a name")]));
    place.put("e.wasm", offering((0..65).map(|i| tool(&format!("t{i}"))).collect()));
    place.put("f.wasm", answering("good", "hello"));
    let toolbox = place.open().await;
    let expected = [
        ("a.wasm", "list-failed"),
        ("b.wasm", "list-timeout"),
        ("c.wasm", "list-failed"),
        ("d.wasm", "bad-name"),
        ("e.wasm", "too-many-tools"),
    ];
    assert_eq!(codes(&toolbox), expected.map(|(file, code)| (file.to_owned(), code)));
    assert_eq!(names(&toolbox), ["good"]);
}

#[tokio::test]
async fn the_directory_offers_only_so_many_tools() {
    let place = Place::new();
    place.put("a.wasm", offering(vec![tool("one"), tool("two")]));
    place.put("b.wasm", offering(vec![tool("three"), tool("four")]));
    place.put("c.wasm", offering(vec![tool("five")]));
    let open = |tools_max| place.open_with(Options { cache: CachePlace::Off, tools_max, ..Options::default() });
    let toolbox = open(4).await.unwrap();
    assert_eq!(names(&toolbox), ["one", "two", "three", "four"]);
    let reason = "with its 1 tools the directory would offer more than 4: remove some or raise tools_max";
    assert_eq!(toolbox.rejected(), [rejected("c.wasm", "too-many-tools", reason)]);
    assert_eq!(names(&open(5).await.unwrap()).len(), 5);
}
