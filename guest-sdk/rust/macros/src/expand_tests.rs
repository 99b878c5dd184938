//! What `#[tool]` makes of right functions, and what it says about wrong ones, and where.

use super::*;

/// Each mistake, with the text that it points at.
fn mistakes(options: &str, item: &str) -> Vec<(String, String)> {
    let (_, constant) = expand(options.parse().unwrap(), item.parse().unwrap());
    let Err(errors) = constant else { return Vec::new() };
    errors.into_iter().map(|error| (error.to_string(), error.span().source_text().unwrap_or_default())).collect()
}

fn assert_mistake(options: &str, item: &str, text: &str, place: &str) {
    assert_eq!(mistakes(options, item), [(text.to_owned(), place.to_owned())], "#[tool({options})] {item}");
}

/// A described function with these parameters.
fn function(parameters: &str) -> String {
    format!("/// Adds.\nfn add({parameters}) -> String {{ String::new() }}")
}

#[test]
fn a_function_becomes_a_function_and_a_constant() {
    let item = "/// Adds.\n///\n/// Twice.\npub fn add(/// The first.\n a: u32, #[default(2)] b: u32, c: Option<String>, \
                context: &Context) -> u32 { a }";
    let (function, constant) = expand(TokenStream::new(), item.parse().unwrap());
    let constant = constant.unwrap().to_string();
    let expected = r#"# [doc = " Adds."] # [doc = ""] # [doc = " Twice."] pub fn add (a : u32 , b : u32 , c : Option < String > , context : & Context) -> u32 { a }"#;
    assert_eq!(function.to_string(), expected);
    for part in [
        "pub const tool_attribute_of_add",
        r#"name : "add""#,
        r#"description : "Adds.\n\nTwice.""#,
        "annotations : :: core :: option :: Option :: None",
        r#"name : "a" , description : :: core :: option :: Option :: Some ("The first.") , required : true"#,
        r#"name : "b" , description : :: core :: option :: Option :: None , required : false"#,
        r#"name : "c" , description : :: core :: option :: Option :: None , required : false"#,
        r#"add (arguments . required :: < u32 > ("a") ? , arguments . or_else :: < u32 > ("b" , || 2) ? , arguments . optional :: < Option < String > > ("c") ? , context)"#,
    ] {
        assert!(constant.contains(part), "{part}\n{constant}");
    }
}

#[test]
fn annotations_say_no_more_than_the_options() {
    let annotations = |options: &str| {
        let tokens = Options::parse(options.parse().unwrap()).unwrap().annotations().to_string();
        ["read_only", "destructive", "idempotent", "open_world"].map(|flag| tokens.contains(&format!("{flag} : true")))
    };
    assert_eq!(annotations("read_only"), [true, false, false, false]);
    assert_eq!(annotations("read_only, destructive = false"), [true, false, false, false]);
    assert_eq!(annotations("destructive, open_world"), [false, true, false, true]);
    assert_eq!(annotations("destructive = false, idempotent"), [false, false, true, false]);
    // What does not say that it is harmless may not be.
    assert_eq!(annotations("open_world"), [false, true, false, true]);
    assert_eq!(annotations("read_only = false"), [false, true, false, false]);
    assert!(Options::parse(TokenStream::new()).unwrap().annotations().to_string().ends_with("None"));
}

#[test]
fn a_tool_may_have_another_name_than_its_function() {
    let (_, constant) = expand(quote!(name = "add-up", title = "Add up"), function("").parse().unwrap());
    let constant = constant.unwrap().to_string();
    assert!(constant.contains(r#"tool_attribute_of_add : :: toolcell_guest :: Tool"#), "{constant}");
    assert!(
        constant.contains(r#"name : "add-up" , title : :: core :: option :: Option :: Some ("Add up")"#),
        "{constant}"
    );
}

#[test]
fn a_missing_or_overlong_description_is_a_mistake() {
    let text = "a tool needs a description: write a doc comment (///) above the function, the model reads it";
    for item in ["fn add() {}", "///\nfn add() {}", "#[doc(hidden)] fn add() {}"] {
        assert_mistake("", item, text, "add");
    }
    assert_eq!(mistakes("", &format!("/// {}\nfn add() {{}}", "x".repeat(1024))), []);
    let text = "the doc comment has 1025 bytes; a description has at most 1024";
    assert_mistake("", &format!("/// {}\nfn add() {{}}", "x".repeat(1025)), text, "add");
    let text = "write the text itself here: the macro cannot read it elsewhere";
    assert_mistake("", "#[doc = include_str!(\"a.md\")] fn add() {}", text, "include_str!(\"a.md\")");
}

#[test]
fn a_function_that_is_no_tool_is_a_mistake() {
    let (generic, item) =
        ("a tool has one input schema, so its function cannot be generic: name the types", "/// A.\n");
    assert_mistake("", &format!("{item}fn add<T: Send>(a: T) {{}}"), generic, "<T: Send>");
    assert_mistake("", &format!("{item}fn add<'a>(a: String) {{}}"), generic, "<'a>");
    assert_mistake("", &format!("{item}async fn add() {{}}"), "a tool is called and returns: remove async", "async");
    let text = "a tool is an ordinary Rust function: remove extern";
    assert_mistake("", &format!("{item}extern \"C\" fn add() {{}}"), text, "extern \"C\"");
    assert_mistake("", &format!("{item}fn add(&self) {{}}"), "a tool is a free function: remove self", "&self");
    assert_mistake("", "struct Add { a: u32 }", "#[tool] goes on a function", "struct Add { a: u32 }");
}

#[test]
fn a_parameter_that_is_no_argument_is_a_mistake() {
    let text = "a parameter needs a plain name here, which becomes the name of the argument: take it apart in the body";
    for (parameter, place) in [("(a, b): (u32, u32)", "(a, b)"), ("_: u32", "_"), ("ref a: u32", "ref a")] {
        assert_mistake("", &function(parameter), text, place);
    }
    assert_mistake("", &function("größe: u32"), "the name of an argument is plain ASCII", "größe");
    for (ty, text) in [
        ("&str", "an argument is owned: write String in place of &str"),
        ("&[u8]", "an argument is owned: write Vec<…> in place of a slice"),
        ("&u32", "an argument is owned: remove the &"),
        ("&mut Context", "the context cannot be changed: write &Context"),
        ("impl Into<String>", "a tool has one input schema, so an argument cannot be impl Trait: name the type"),
        ("fn()", "this type cannot be an argument"),
    ] {
        assert_mistake("", &function(&format!("a: {ty}")), text, ty);
    }
    let text = "a tool has one context: remove the second one";
    assert_mistake("", &function("a: &Context, b: toolcell_guest::Context"), text, "b");
    let text = "the context is not an argument: it has neither description nor default";
    assert_mistake("", &function("/// It.\n a: &Context"), text, "a");
}

#[test]
fn a_default_that_cannot_be_used_is_a_mistake() {
    let text = "with a default the value is always there: remove the Option or the default";
    assert_mistake("", &function("#[default(5)] a: Option<u32>"), text, "5");
    let text = "write the default value in parentheses, as in #[default(10)]";
    for default in ["#[default]", "#[default = 5]", "#[default()]"] {
        assert_mistake("", &function(&format!("{default} a: u32")), text, default);
    }
    assert_mistake("", &function("#[default(1)] #[default(2)] a: u32"), "a parameter has one default", "#[default(2)]");
}

#[test]
fn an_option_that_is_unknown_or_wrong_is_a_mistake() {
    let text = "unknown option: use name = \"…\", title = \"…\", read_only, destructive, idempotent or open_world";
    assert_mistake("readonly", &function(""), text, "readonly");
    assert_mistake("read_only, read_only", &function(""), "this option is given twice", "read_only");
    let text = "a tool that is read_only destroys nothing: remove one of the two";
    assert_mistake("read_only, destructive", &function(""), text, "destructive");
    assert_mistake("title = \"\"", &function(""), "a title has 1 to 1024 bytes", "\"\"");
    assert_mistake("name = 5", &function(""), "expected string literal", "5");
}

#[test]
fn a_name_that_some_provider_refuses_is_a_mistake() {
    let advice = "use 1 to 64 of A-Z a-z 0-9 _ -, as in #[tool(name = \"my-tool\")]";
    for name in ["", "a b", "a.b", "wetter-für-morgen", &"x".repeat(65)] {
        let text = format!("\"{name}\" is not a tool name: {advice}");
        assert_mistake(&format!("name = \"{name}\""), &function(""), &text, &format!("\"{name}\""));
    }
    assert_eq!(mistakes(&format!("name = \"{}\"", "x".repeat(64)), &function("")), []);
    let text = format!("\"größe\" is not a tool name: {advice}");
    assert_mistake("", "/// A.\nfn größe() {}", &text, "größe");
}

#[test]
fn every_mistake_of_a_function_is_reported_at_once() {
    let found = mistakes("nonsense", "async fn add(&self, a: &str) {}");
    let places: Vec<_> = found.iter().map(|(_, place)| place.as_str()).collect();
    assert_eq!(places, ["nonsense", "async", "add", "&self", "&str"]);
}

#[test]
fn with_a_mistake_the_function_stays_without_what_only_the_macro_understands() {
    let tokens = tool(TokenStream::new(), "fn add(/// It.\n #[default(1)] a: u32) {}".parse().unwrap()).to_string();
    assert!(tokens.starts_with("fn add (a : u32) { }"), "{tokens}");
    assert!(tokens.contains("compile_error"), "{tokens}");
}
