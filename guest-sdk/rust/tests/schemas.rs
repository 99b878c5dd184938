//! The schema of every kind of parameter is JSON, whatever stands in its descriptions, names and defaults.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use toolcell_guest::{Tool, argument, tool, tool_of};

/// Says "quoted", \ and
/// a second line.
#[argument]
enum Plain {
    /// The "first", \.
    First,
    SecondOne,
}

/// A struct with a "quote".
#[argument]
struct Own {
    /// A \ and a "quote".
    field: Option<Plain>,
    next: Vec<Own>,
}

/// An enum whose variants carry something.
#[argument]
enum Shape {
    Circle { radius: f64 },
    Nothing,
}

#[argument]
#[serde(rename_all = "UPPERCASE")]
enum Renamed {
    /// Low, said "low".
    Low,
    High,
}

/// One tool for each type, and the list of them.
macro_rules! tools {
    ($($name:ident: $type:ty, $default:expr;)*) => {
        mod by_type {
            use super::*;
            $(
                /// Takes it "as it is", as an option, in a list, and with a default.
                #[tool]
                #[allow(clippy::too_many_arguments, reason = "one of each")]
                pub(crate) fn $name(
                    bare: $type,
                    /// Says "quoted", \ and
                    /// a second line	with a tab.
                    described: $type,
                    maybe: Option<$type>,
                    /// May be "null".
                    described_maybe: Option<$type>,
                    list: Vec<$type>,
                    deep: Vec<Option<Vec<$type>>>,
                    maybe_list: Option<Vec<$type>>,
                    /// With a default.
                    #[default($default)]
                    defaulted: $type,
                    #[default(vec![$default])] defaulted_list: Vec<$type>,
                    pair: ($type, bool),
                    sorted: BTreeMap<String, $type>,
                    hashed: HashMap<String, $type>,
                ) {
                    let _ = (bare, described, maybe, described_maybe, list, deep, maybe_list);
                    let _ = (defaulted, defaulted_list, pair, sorted, hashed);
                }
            )*
        }

        fn tools() -> Vec<Tool> {
            vec![$(tool_of!(by_type::$name)),*]
        }
    };
}

tools! {
    value: Value, serde_json::json!({"a \"quoted\" key": [null, "\u{1}\\"]});
    boolean: bool, true;
    string: String, "a \"quoted\" text, \\ and\n\u{0}".to_owned();
    float_32: f32, f32::NAN;
    float_64: f64, f64::INFINITY;
    signed_8: i8, i8::MIN;
    unsigned_8: u8, u8::MAX;
    signed_16: i16, i16::MIN;
    unsigned_16: u16, u16::MAX;
    signed_32: i32, i32::MIN;
    unsigned_32: u32, u32::MAX;
    signed_64: i64, i64::MIN;
    unsigned_64: u64, u64::MAX;
    signed: isize, isize::MIN;
    unsigned: usize, usize::MAX;
    character: char, '"';
    plain: Plain, Plain::SecondOne;
    own: Own, Own { field: Some(Plain::First), next: Vec::new() };
    shape: Shape, Shape::Circle { radius: 0.5 };
    renamed: Renamed, Renamed::High;
}

#[test]
fn the_schema_of_every_kind_of_parameter_is_a_json_object() {
    let names = [
        "bare",
        "described",
        "maybe",
        "described_maybe",
        "list",
        "deep",
        "maybe_list",
        "defaulted",
        "defaulted_list",
        "pair",
        "sorted",
        "hashed",
    ];
    for tool in tools() {
        let text = tool.input_schema();
        let schema: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}: {text}", tool.name));
        let properties = schema["properties"].as_object().unwrap();
        assert_eq!(properties.keys().map(String::as_str).collect::<std::collections::BTreeSet<_>>(), names.into());
        assert!(properties.values().all(Value::is_object), "{text}");
        assert_eq!(tool.definition().input_schema, schema);
    }
}

#[test]
fn what_is_said_about_a_parameter_arrives_unchanged() {
    let said = "Says \"quoted\", \\ and\na second line\twith a tab.";
    for tool in [tool_of!(by_type::string), tool_of!(by_type::value), tool_of!(by_type::shape)] {
        let schema = tool.definition().input_schema;
        assert_eq!(schema["properties"]["described"]["description"], said, "{}", tool.name);
    }
}
