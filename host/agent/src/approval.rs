//! Which tools a person must approve before they run at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolcell_contract::{Definition, Request};

/// When a person must approve a call before its tool runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approve {
    /// Each call.
    Always,
    /// Calls of tools that may destroy something. A tool that says nothing of its effects counts as one.
    Destructive,
    /// No call.
    #[default]
    Never,
}

/// Which tools a person must approve. What a tool says of itself is only its own word: the operator's word for a tool
/// counts more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct ApprovalPolicy {
    /// For tools that are not named.
    pub default: Approve,
    /// By the name of the tool.
    pub tools: BTreeMap<String, Approve>,
}

impl From<Approve> for ApprovalPolicy {
    fn from(default: Approve) -> Self {
        Self { default, tools: BTreeMap::new() }
    }
}

/// Says which calls a person must approve. It is asked for each call, so its answer may change while a program runs.
pub trait Approvals: Send + Sync {
    /// When a person must approve a call of this tool.
    fn approve(&self, tool: &Definition) -> Approve;
}

impl Approvals for ApprovalPolicy {
    fn approve(&self, tool: &Definition) -> Approve {
        self.tools.get(&tool.name).copied().unwrap_or(self.default)
    }
}

impl Approvals for Approve {
    fn approve(&self, _: &Definition) -> Approve {
        *self
    }
}

impl Approvals for Arc<dyn Approvals> {
    fn approve(&self, tool: &Definition) -> Approve {
        self.as_ref().approve(tool)
    }
}

/// What is asked before the tool runs, if anything.
pub(crate) fn question(approvals: &dyn Approvals, tool: &Definition) -> Option<Request> {
    let is_asked = match approvals.approve(tool) {
        Approve::Always => true,
        Approve::Destructive => tool.annotations.is_none_or(|said| !said.read_only && said.destructive),
        Approve::Never => false,
    };
    is_asked.then(|| Request::approval(format!("Run {}?", tool.name)).with_id(Request::fresh_id()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use toolcell_contract::Annotations;

    fn tool(annotations: Option<Annotations>) -> Definition {
        Definition {
            name: "rm".into(),
            title: None,
            description: String::new(),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            annotations,
        }
    }

    #[test]
    fn a_tool_that_says_nothing_counts_as_destructive() {
        let policy = ApprovalPolicy::from(Approve::Destructive);
        let said = |read_only, destructive| {
            let annotations = Annotations { read_only, destructive, idempotent: false, open_world: false };
            question(&policy, &tool(Some(annotations))).is_some()
        };
        assert!(question(&policy, &tool(None)).is_some());
        assert!(said(false, true));
        assert!(!said(false, false));
        assert!(!said(true, true), "what changes nothing destroys nothing");
    }

    #[test]
    fn the_operators_word_for_a_tool_counts_more_than_the_default_and_the_tools_own() {
        let mut policy = ApprovalPolicy::from(Approve::Never);
        assert!(question(&policy, &tool(None)).is_none());
        policy.tools.insert("rm".into(), Approve::Always);
        let asked = question(&policy, &tool(None)).unwrap();
        assert_eq!(asked.prompt, "Run rm?");
        assert!(asked.id.starts_with("pnd-"));
        policy = ApprovalPolicy { default: Approve::Always, tools: [("rm".into(), Approve::Never)].into() };
        assert!(question(&policy, &tool(None)).is_none());
    }
}
