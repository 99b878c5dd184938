//! What a policy says, and what is refused, each with its place.

use super::*;
use proptest::prelude::*;

fn policy(text: &str) -> Policy {
    Policy::parse("toolcell.toml", text).unwrap()
}

fn refusal(text: &str) -> String {
    Policy::parse("toolcell.toml", text).unwrap_err().to_string()
}

#[test]
fn an_empty_file_grants_nothing() {
    for text in ["", "# nothing yet\n", "[defaults]", "[component.a]"] {
        assert!(policy(text).grants("a").is_empty(), "{text}");
    }
}

#[test]
fn a_component_has_its_own_grants_and_the_defaults_where_it_says_nothing() {
    let policy = policy(
        r#"
        defaults = { approve = "always", limits = { time_seconds = 10, memory_mib = 64 } }
        [component.a]
        approve = "never"
        limits = { memory_mib = 256 }
        environment = { LANGUAGE = "de", TZ = { from = "ZONE" } }
        [component.a.key_value]
        value_kib = 1
        "#,
    );
    let a = policy.grants("a");
    assert_eq!(a.approve, Some(Approve::Never));
    assert_eq!(a.limits, LimitGrants { time_seconds: Some(10), memory_mib: Some(256), log_lines: None });
    assert_eq!(a.environment["LANGUAGE"], Variable::Value("de".into()));
    assert_eq!(a.environment["TZ"], Variable::From("ZONE".into()));
    let quota = KeyValueGrant { total_bytes: 1 << 20, value_bytes: 1_024, keys: 10_000 };
    assert_eq!(a.key_value, Some(quota));
    let other = policy.grants("other");
    assert_eq!((other.approve, other.limits.time_seconds), (Some(Approve::Always), Some(10)));
    assert!(other.is_empty());
}

#[test]
fn whatever_is_not_understood_is_refused_with_its_place() {
    let table = [
        ("tools = 1", "toolcell.toml:1:1: unknown field `tools`, expected `defaults` or `component`"),
        ("[component.a]\nmount = []", "toolcell.toml:2:1: unknown field `mount`, expected one of"),
        ("[component.a]\napprove = \"sometimes\"", "toolcell.toml:2:11: unknown variant `sometimes`, expected one of"),
        ("[component.a\n", "toolcell.toml:1:13: "),
        ("[component.a]\n[component.a]\n", "toolcell.toml:2:"),
        ("[component.a]\napprove = \"never\"\napprove = \"always\"", "toolcell.toml:3:1: duplicate key"),
        ("[component.a]\nlimits = { time_seconds = 0 }", "toolcell.toml:2:10: time_seconds is 0: give 1 to 300"),
        ("[component.a]\nlimits = { memory_mib = 5000 }", "memory_mib is 5000: give 1 to 4096"),
        ("[component.a]\nlimits = { time_seconds = -1 }", "toolcell.toml:2:"),
        ("[component.\"a.wasm\"]", "is no name of a component: write the file's name without .wasm"),
        ("[component.\"../a\"]", "is no name of a component"),
        ("[component.a]\nenvironment = { \"A=B\" = \"c\" }", "is no variable"),
        (
            "[[component.a.mounts]]\nhost = \"data\"\nguest = \"/data\"\naccess = \"read-only\"",
            "must be an absolute path",
        ),
        (
            "[[component.a.mounts]]\nhost = \"/srv/../etc\"\nguest = \"/data\"\naccess = \"read-only\"",
            "must be an absolute path",
        ),
        (
            "[[component.a.mounts]]\nhost = \"/srv\"\nguest = \"data\"\naccess = \"read-only\"",
            "the guest's path must be absolute",
        ),
        (
            "[[component.a.mounts]]\nhost = \"/srv\"\nguest = \"/\"\naccess = \"read-only\"",
            "the guest's path must be absolute",
        ),
        ("[[component.a.mounts]]\nhost = \"/srv\"\nguest = \"/data\"", "missing field `access`"),
        ("[[component.a.http]]\norigin = \"api.example.org\"\nmethods = [\"GET\"]", "the URL must be absolute"),
        ("[[component.a.http]]\norigin = \"https://u:p@a.example\"\nmethods = [\"GET\"]", "a user name or a password"),
        ("[[component.a.http]]\norigin = \"https://a.example\"\nmethods = []", "name at least one method"),
        (
            "[[component.a.http]]\norigin = \"https://a.example\"\nmethods = [\"get\"]",
            "there is no method \"get\": give GET,",
        ),
        (
            "[[component.a.http]]\norigin = \"https://*.org\"\nmethods = [\"GET\"]",
            "a wildcard is the whole first label",
        ),
        (
            "[[component.a.http]]\norigin = \"https://a.example\"\nmethods = [\"GET\"]\npath = \"v1\"",
            "a path begins with /",
        ),
        (
            "[[component.a.http]]\norigin = \"https://a.example\"\nmethods = [\"GET\"]\nprivate_networks = [\"10.1\"]",
            "\"10.1\" is no network",
        ),
        (
            "[[component.a.http]]\norigin = \"https://a.example\"\nmethods = [\"GET\"]\nprivate_networks = [\"0.0.0.0/0\"]",
            "\"0.0.0.0/0\" is too wide",
        ),
        (
            "[[component.a.http]]\norigin = \"https://a.example\"\nmethods = [\"GET\"]\nprivate_networks = [\"10.1.2.3/8\"]",
            "\"10.1.2.3/8\" is an address within a network",
        ),
        (
            "[[component.a.http]]\norigin = \"https://a.example\"\nmethods = [\"GET\"]\nprivate_networks = [\"169.254.0.0/16\"]",
            "at which clouds tell a machine its keys",
        ),
        (
            "[[component.a.secrets]]\nname = \"key\"\norigin = \"https://*.a.example\"\nheader = \"x-key\"\nfrom = { env = \"KEY\" }",
            "a secret is sent to one host",
        ),
        ("[component.a]\nkey_value = { total_kib = 0 }", "total_kib is 0: give 1 to 65536"),
    ];
    for (text, expected) in table {
        let said = refusal(text);
        assert!(said.contains(expected), "{text}\n{said}");
        assert!(said.starts_with("toolcell.toml:"), "{said}");
    }
    assert!(refusal(&format!("#{}", "x".repeat(POLICY_BYTES_MAX))).contains("at most"));
}

#[test]
fn all_that_is_wrong_is_told_at_once_in_the_order_of_the_file() {
    let said = refusal(
        "[component.b]\nlimits = { time_seconds = 0 }\n[[component.a.http]]\norigin = \"x\"\nmethods = [\"GET\"]\n\
         [component.a.key_value]\nkeys = 0\n",
    );
    let lines: Vec<_> = said.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(lines, ["toolcell.toml:2:10", "toolcell.toml:3:1", "toolcell.toml:6:1"], "{said}");
}

fn mount(component: &str, host: &str, guest: &str, access: &str, more: &str) -> String {
    format!("[[component.{component}.mounts]]\nhost = \"{host}\"\nguest = \"{guest}\"\naccess = \"{access}\"\n{more}\n")
}

#[test]
fn directories_that_overlap_or_are_written_by_one_and_read_by_another_are_told() {
    let nested = mount("a", "/srv", "/x", "read-only", "") + &mount("a", "/srv/data", "/y", "read-only", "");
    assert!(refusal(&nested).contains("it overlaps with /srv as /x"));
    let same_guest = mount("a", "/srv", "/x", "read-only", "") + &mount("a", "/var/x", "/x/y", "read-only", "");
    assert!(refusal(&same_guest).contains("it overlaps with /srv as /x"));
    let two =
        |shared: &str| mount("a", "/srv", "/x", "read-write", shared) + &mount("b", "/srv", "/x", "read-only", shared);
    assert!(refusal(&two("")).contains("say shared = true at both"));
    policy(&two("shared = true"));
    policy(&mount("a", "/srv/.hidden/a..b", "/x", "read-only", ""));
    policy(&(mount("a", "/srv", "/x", "read-only", "") + &mount("b", "/srv", "/x", "read-only", "")));
}

fn secret(origin: &str, from: &str) -> String {
    format!("[[component.a.secrets]]\nname = \"key\"\norigin = \"{origin}\"\nheader = \"X-Api-Key\"\nfrom = {from}\n")
}

#[test]
fn a_secret_has_one_source_and_travels_unread() {
    let read = policy(&secret("https://a.example", "{ env = \"KEY\" }"));
    let SecretGrant { name, header, source, .. } = &read.grants("a").secrets[0];
    assert_eq!((name.as_str(), header.as_str(), source), ("key", "x-api-key", &SecretFrom::Env("KEY".into())));
    policy(&secret("http://127.0.0.1:8080", "{ file = \"/run/secrets/key\" }"));
    policy(&secret("https://a.example", "{ command = [\"pass\", \"show\", \"key\"] }"));
    assert!(refusal(&secret("http://a.example", "{ env = \"KEY\" }")).contains("https only"));
    for from in ["{}", "{ env = \"\" }", "{ env = \"A\", file = \"/b\" }", "{ file = \"b\" }", "{ command = [] }"] {
        assert!(refusal(&secret("https://a.example", from)).contains("a secret comes from one of"), "{from}");
    }
    let twice = secret("https://a.example", "{ env = \"KEY\" }").repeat(2);
    assert!(refusal(&twice).contains("stands here twice"));
}

#[test]
fn the_schema_of_the_file_is_one_and_knows_every_key() {
    let schema = Policy::json_schema();
    let text = schema.to_string();
    for key in
        ["defaults", "component", "approve", "mounts", "private_networks", "time_seconds", "total_kib", "command"]
    {
        assert!(text.contains(&format!("\"{key}\"")), "{key}");
    }
    let validator = jsonschema::validator_for(&schema).unwrap();
    let valid = |text: &str| validator.is_valid(&toml::from_str::<serde_json::Value>(text).unwrap());
    assert!(valid("[component.a]\napprove = \"never\"\nlimits = { time_seconds = 5 }"));
    assert!(valid("[component.a]\nenvironment = { A = \"b\", C = { from = \"D\" } }"));
    assert!(!valid("[component.a]\nmount = []"));
    assert!(!valid("[component.a]\nlimits = { time_seconds = 0 }"));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "(\\PC|[\\[\\]=\"\\n.{}]){0,200}") {
        let _ = Policy::parse("toolcell.toml", &text);
        let _ = Policy::parse("toolcell.toml", &format!("[[component.a.http]]\norigin = \"{text}\"\nmethods = [\"GET\"]"));
    }
}

#[test]
fn the_example_of_the_readme_is_a_policy() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let example =
        readme.split("```toml\n[component.weather]").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let policy = policy(&format!("[component.weather]{example}"));
    let weather = policy.grants("weather");
    let all = (weather.http.len(), weather.secrets.len(), weather.mounts.len(), weather.environment.len());
    assert_eq!((all, weather.key_value.is_some()), ((1, 1, 1, 1), true));
}
