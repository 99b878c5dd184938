//! `toolcell tools`: what a directory offers.

use serde::Serialize;
use serde_json::Value;
use toolcell::contract::{Definition, Digest};
use toolcell::{Host, Tool};

use crate::args::ToolsArgs;
use crate::exit::Exit;
use crate::host;
use crate::output::{self, note};
use crate::printable::{one_line, printable};

pub(crate) async fn run(args: ToolsArgs) -> anyhow::Result<Exit> {
    let host = host::open(&args.place).await?;
    if args.json {
        output::pretty_json(&listing(&host))?;
        return Ok(Exit::Done);
    }
    let files = host.toolbox().components();
    if files.is_empty() {
        note!("{} holds no tools: put .wasm components into it", printable(&args.place.tools.display().to_string()));
    }
    for file in &files {
        for tool in file.tools() {
            let Definition { name, description, input_schema, .. } = &tool.definition;
            output::line(&format!("{name:<20} {}", one_line(description, 100)));
            let (bytes, digest) = (size(file.size()), file.digest().short());
            output::line(&format!("  file       {} ({bytes}, sha256 {digest})", file.file()));
            output::line(&format!("  asks for   {}", asks_for(file.imports())));
            if args.schema {
                output::line(&format!("  arguments  {}", printable(&serde_json::to_string_pretty(input_schema)?)));
            } else {
                output::line(&format!("  arguments  {}", arguments(tool)));
            }
        }
    }
    Ok(Exit::Done)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Listing {
    tools: Vec<ListedTool>,
    rejected: Vec<ListedRejection>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedTool {
    #[serde(flatten)]
    definition: Definition,
    file: String,
    digest: Digest,
    size: u64,
    imports: Vec<String>,
}

#[derive(Serialize)]
struct ListedRejection {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    code: &'static str,
    reason: String,
}

fn listing(host: &Host) -> Listing {
    let files = host.toolbox().components();
    let tools = files.iter().flat_map(|file| {
        file.tools().iter().map(|tool| ListedTool {
            definition: tool.definition.clone(),
            file: file.file(),
            digest: file.digest(),
            size: file.size(),
            imports: file.imports().to_vec(),
        })
    });
    let rejected = host.toolbox().rejected().into_iter().map(|rejected| ListedRejection {
        file: rejected.file,
        tool: rejected.tool,
        code: rejected.code,
        reason: rejected.reason,
    });
    Listing { tools: tools.collect(), rejected: rejected.collect() }
}

/// The powers that a component's imports stand for. Clocks, random numbers and captured output are no powers: every
/// tool has them.
fn asks_for(imports: &[String]) -> String {
    const POWERS: [(&str, &str); 5] = [
        ("wasi:filesystem/", "files"),
        ("wasi:sockets/", "sockets (never granted)"),
        ("wasi:http/", "http"),
        ("toolcell:tool/http", "http"),
        ("toolcell:tool/key-value", "key-value"),
    ];
    let mut powers: Vec<&str> = Vec::new();
    for (prefix, power) in POWERS {
        if imports.iter().any(|import| import.starts_with(prefix)) && !powers.contains(&power) {
            powers.push(power);
        }
    }
    if powers.is_empty() { "nothing".to_owned() } else { powers.join(", ") }
}

/// `expression: string, digits?: integer`
fn arguments(tool: &Tool) -> String {
    let schema = &tool.definition.input_schema;
    let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|p| !p.is_empty()) else {
        return "none".to_owned();
    };
    let required = |name: &str| {
        schema.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|known| known == name))
    };
    let described = properties.iter().map(|(name, property)| {
        let mark = if required(name) { "" } else { "?" };
        format!("{}{mark}: {}", one_line(name, 40), kind(property))
    });
    described.collect::<Vec<_>>().join(", ")
}

/// The type that a property's schema names first; an optional one may also be null.
fn kind(property: &Value) -> String {
    match property.get("type") {
        Some(Value::String(kind)) => one_line(kind, 20),
        Some(Value::Array(kinds)) => {
            let kind = kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null");
            one_line(kind.unwrap_or_default(), 20)
        }
        _ if property.get("enum").is_some() || property.get("$ref").is_some() => "choice".to_owned(),
        _ => "value".to_owned(),
    }
}

/// Bytes as a person reads them (SI units).
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_powers_are_asked_for() {
        let imports = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(asks_for(&imports(&["wasi:cli/stdout@0.2.6", "wasi:clocks/wall-clock@0.2.6"])), "nothing");
        let wide = ["wasi:filesystem/types@0.2.6", "toolcell:tool/http@0.1.0", "wasi:http/types@0.2.6"];
        assert_eq!(asks_for(&imports(&wide)), "files, http");
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!([size(12), size(118_400), size(18_540_117)], ["12 B", "118 kB", "18.5 MB"]);
    }
}
