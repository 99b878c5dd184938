//! `toolcell check`: what each component asks for, is granted, and lacks.

use serde::Serialize;
use toolcell::policy::{Finding, Policy, explain};

use crate::args::CheckArgs;
use crate::exit::Exit;
use crate::host;
use crate::output::{self, note};
use crate::printable::printable;

/// What `--json` prints for each component.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked<'a> {
    component: &'a str,
    powers: Vec<CheckedPower>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckedPower {
    power: String,
    imports: Vec<String>,
    granted: Vec<String>,
    remedy: Option<String>,
}

pub(crate) async fn run(args: CheckArgs) -> anyhow::Result<Exit> {
    if args.schema {
        output::pretty_json(&Policy::json_schema())?;
        return Ok(Exit::Done);
    }
    let host = host::open(&args.place).await?;
    let files = host.toolbox().components();
    for file in &files {
        let findings = explain(file.component(), file.imports(), host.policy().grants(file.component()));
        if args.json {
            let powers = findings.into_iter().map(CheckedPower::from).collect();
            output::json(&Checked { component: file.component(), powers })?;
        } else {
            show(file.component(), &findings);
        }
    }
    for (name, _) in host.policy().components() {
        if !files.iter().any(|file| file.component() == name) {
            note!("warning: the policy grants something to {}, which is not there", printable(name));
        }
    }
    Ok(Exit::Done)
}

fn show(component: &str, findings: &[Finding]) {
    output::line(&printable(component));
    if findings.is_empty() {
        output::line("  asks for nothing but to compute");
    }
    for Finding { kind, imports, granted, remedy } in findings {
        let name = kind.to_string();
        for grant in granted {
            output::line(&format!("  {name:<12} {}", printable(grant)));
        }
        if granted.is_empty() {
            output::line(&format!("  {name:<12} not granted, asked for by {}", printable(&imports.join(", "))));
            if let Some(remedy) = remedy {
                output::line(&format!("  {:<12} to grant it: {}", "", printable(remedy)));
            }
        } else if imports.is_empty() {
            output::line(&format!("  {:<12} granted, but the component does not ask for it", ""));
        }
    }
}

impl From<Finding> for CheckedPower {
    fn from(finding: Finding) -> Self {
        let Finding { kind, imports, granted, remedy } = finding;
        Self { power: kind.to_string(), imports, granted, remedy }
    }
}
