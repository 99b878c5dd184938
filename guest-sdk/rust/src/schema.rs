//! The JSON Schema of a tool's arguments, from the types of its parameters.
//!
//! The schemas of plain types are written as text. Only a tool with types of its own carries schemars, which costs
//! about 50 KB.

use std::marker::PhantomData;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::arguments::Argument;
use crate::tool::Parameter;

/// The members of the schema of one value, as JSON text, and the schemas that it refers to by name.
#[derive(Default)]
pub struct SchemaText {
    members: String,
    definitions: Vec<(String, String)>,
}

/// The schema of an object with these parameters.
pub(crate) fn of_parameters(parameters: &[Parameter]) -> String {
    let mut out = String::from(r#"{"type":"object","properties":{"#);
    let mut schema = SchemaText::default();
    let mut required = String::new();
    for parameter in parameters {
        (parameter.schema)(&mut schema, parameter.description);
        if let Some(default) = parameter.default {
            member(&mut schema.members, "default", &default());
        }
        member(&mut out, parameter.name, &format!("{{{}}}", schema.members));
        schema.members.clear();
        if parameter.required {
            separate(&mut required);
            required.push_str(&string(parameter.name));
        }
    }
    // A misspelt optional argument is a mistake that the model should hear of.
    out.push_str(r#"},"additionalProperties":false"#);
    if !required.is_empty() {
        member(&mut out, "required", &format!("[{required}]"));
    }
    if !schema.definitions.is_empty() {
        let mut definitions = String::new();
        for (name, definition) in &schema.definitions {
            member(&mut definitions, name, definition);
        }
        member(&mut out, "$defs", &format!("{{{definitions}}}"));
    }
    out.push('}');
    out
}

/// Appends a member to the members of an object.
fn member(members: &mut String, key: &str, json: &str) {
    separate(members);
    members.push_str(&string(key));
    members.push(':');
    members.push_str(json);
}

fn separate(list: &mut String) {
    if !list.is_empty() && !list.ends_with('{') {
        list.push(',');
    }
}

/// A text as JSON.
fn string(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// A type whose schema needs no schemars.
pub trait PlainSchema {
    /// The value of `type`; none when every type will do.
    const TYPE: Option<&str>;

    /// What the type says about itself, when a parameter says nothing.
    const DESCRIPTION: Option<&str> = None;

    /// What is said about the possible values, below the description.
    const VALUES: Option<&str> = None;

    /// The members beside `type`, each after a comma.
    const REST: &str = "";

    /// The same for a value that may be null.
    const REST_OR_NULL: &str = Self::REST;

    /// Appends the members of what is inside.
    fn write_inside(_members: &mut String) {}

    /// Appends all members.
    fn write(members: &mut String) {
        if let Some(kind) = Self::TYPE {
            member(members, "type", kind);
        }
        members.push_str(Self::REST);
        Self::write_inside(members);
    }
}

/// Appends the description, if there is any.
fn describe<T: PlainSchema>(members: &mut String, description: Option<&str>) {
    let text = match (description.or(T::DESCRIPTION), T::VALUES) {
        (Some(description), Some(values)) => &format!("{description}\n{values}"),
        (Some(text), None) | (None, Some(text)) => text,
        (None, None) => return,
    };
    member(members, "description", &string(text));
}

macro_rules! plain {
    ($($type:ty: $kind:expr, $rest:literal;)*) => {$(
        impl PlainSchema for $type {
            const TYPE: Option<&str> = $kind;
            const REST: &str = $rest;
        }
    )*};
}

plain! {
    Value: None, "";
    bool: Some(r#""boolean""#), "";
    String: Some(r#""string""#), "";
    f32: Some(r#""number""#), "";
    f64: Some(r#""number""#), "";
    i8: Some(r#""integer""#), r#","minimum":-128,"maximum":127"#;
    u8: Some(r#""integer""#), r#","minimum":0,"maximum":255"#;
    i16: Some(r#""integer""#), r#","minimum":-32768,"maximum":32767"#;
    u16: Some(r#""integer""#), r#","minimum":0,"maximum":65535"#;
    i32: Some(r#""integer""#), "";
    u32: Some(r#""integer""#), r#","minimum":0"#;
    i64: Some(r#""integer""#), "";
    u64: Some(r#""integer""#), r#","minimum":0"#;
    isize: Some(r#""integer""#), "";
    usize: Some(r#""integer""#), r#","minimum":0"#;
}

impl<T: PlainSchema> PlainSchema for Vec<T> {
    const TYPE: Option<&str> = Some(r#""array""#);

    fn write_inside(members: &mut String) {
        members.push_str(r#","items":{"#);
        T::write(members);
        describe::<T>(members, None);
        members.push('}');
    }
}

impl<T: PlainSchema> PlainSchema for Option<T> {
    const TYPE: Option<&str> = T::TYPE;
    const DESCRIPTION: Option<&str> = T::DESCRIPTION;
    const VALUES: Option<&str> = T::VALUES;

    fn write_inside(members: &mut String) {
        T::write_inside(members);
    }

    fn write(members: &mut String) {
        // Many models write null for an argument that they leave out.
        if let Some(kind) = T::TYPE {
            member(members, "type", &format!("[{kind},\"null\"]"));
        }
        members.push_str(T::REST_OR_NULL);
        T::write_inside(members);
    }
}

/// Finds the way to the schema of `T`: `(&Probe::<T>::NEW).write(…)` is [`ByText`] where `T` allows it, else
/// [`BySchemars`], because method lookup tries the receiver as it is before it borrows it once more.
pub struct Probe<T>(PhantomData<T>);

impl<T: Argument> Probe<T> {
    /// The probe of this type.
    pub const NEW: Self = Self(PhantomData);
}

/// The way without schemars.
pub trait ByText {
    /// Writes the schema; a description is added to it.
    fn write(&self, schema: &mut SchemaText, description: Option<&str>);
}

/// The way of every other type.
pub trait BySchemars {
    /// Writes the schema; a description replaces that of the type.
    fn write(&self, schema: &mut SchemaText, description: Option<&str>);
}

impl<T: PlainSchema> ByText for Probe<T> {
    fn write(&self, schema: &mut SchemaText, description: Option<&str>) {
        T::write(&mut schema.members);
        describe::<T>(&mut schema.members, description);
    }
}

impl<T: JsonSchema> BySchemars for &Probe<T> {
    fn write(&self, schema: &mut SchemaText, description: Option<&str>) {
        // Written out where it is used: not every provider follows a `$ref`.
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let mut generator = settings.into_generator();
        let mut value = generator.subschema_for::<T>().to_value();
        if let (Some(object), Some(description)) = (value.as_object_mut(), description) {
            object.insert("description".to_owned(), description.into());
        }
        simplify(&mut value);
        // The schema `true`, which allows everything, has no members.
        for (key, value) in value.as_object().into_iter().flatten() {
            member(&mut schema.members, key, &value.to_string());
        }
        // What refers to itself cannot be written out.
        for (name, mut value) in generator.take_definitions(false) {
            if schema.definitions.iter().all(|(known, _)| *known != name) {
                simplify(&mut value);
                schema.definitions.push((name, value.to_string()));
            }
        }
    }
}

/// Rewrites what schemars says with keywords that some providers refuse.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Object(object) => {
            object.values_mut().for_each(simplify);
            drop_number_format(object);
            merge_constants(object);
            merge_null(object);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// `uint8`, `double` … are names of Rust's types, not formats of JSON Schema.
fn drop_number_format(object: &mut Map<String, Value>) {
    if let Some(Value::String(format)) = object.get("format")
        && (format.trim_start_matches('u').starts_with("int") || format == "float" || format == "double")
    {
        object.remove("format");
    }
}

/// An enum whose variants have docs is a `oneOf` of constants; it becomes an `enum`, and the docs its description.
fn merge_constants(object: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = object.get("oneOf") else { return };
    let mut names = Vec::new();
    let mut lines: Vec<String> =
        object.get("description").and_then(Value::as_str).map(str::to_owned).into_iter().collect();
    for variant in variants {
        if variant.get("type").and_then(Value::as_str) != Some("string") {
            return;
        }
        match (variant.get("const"), variant.get("enum")) {
            (Some(Value::String(name)), None) => {
                let doc = variant.get("description").and_then(Value::as_str).unwrap_or_default();
                lines.push(format!("{name}: {doc}"));
                names.push(Value::String(name.clone()));
            }
            (None, Some(Value::Array(more))) => names.extend(more.iter().cloned()),
            _ => return,
        }
    }
    object.remove("oneOf");
    object.insert("type".to_owned(), "string".into());
    object.insert("enum".to_owned(), names.into());
    object.insert("description".to_owned(), lines.join("\n").into());
}

/// `anyOf: [X, null]` becomes X with a type that allows null.
fn merge_null(object: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = object.get_mut("anyOf") else { return };
    let [Value::Object(choice), null] = choices.as_mut_slice() else { return };
    let is_null = null.get("type").and_then(Value::as_str) == Some("null");
    let Some(Value::String(kind)) = choice.get("type").filter(|_| is_null) else { return };
    let kind = Value::Array(vec![kind.as_str().into(), "null".into()]);
    let mut choice = std::mem::take(choice);
    choice.insert("type".to_owned(), kind);
    if let Some(Value::Array(names)) = choice.get_mut("enum") {
        names.push(Value::Null);
    }
    object.remove("anyOf");
    for (key, value) in choice {
        object.entry(key).or_insert(value);
    }
}
