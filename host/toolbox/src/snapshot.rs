//! What is offered at one moment. A snapshot is built whole, aside, and never changed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use toolcell_agent::Tool;
use toolcell_contract::Digest;

use crate::loader::Loaded;
use crate::names::escaped;
use crate::refusal::Refusal;
use crate::report::Rejected;

/// A component file whose tools are offered.
#[derive(Clone)]
pub struct ToolFile {
    name: String,
    loaded: Arc<Loaded>,
    tools: Vec<Arc<Tool>>,
    outdated: bool,
}

impl ToolFile {
    /// The name of the file, escaped for showing.
    #[must_use]
    pub fn file(&self) -> String {
        escaped(&self.name)
    }

    /// What the component is called in a policy: the name of the file without `.wasm`.
    #[must_use]
    pub fn component(&self) -> &str {
        self.name.strip_suffix(".wasm").unwrap_or(&self.name)
    }

    /// The SHA-256 of the component.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.loaded.component.digest()
    }

    /// The bytes of the component.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.loaded.component.size()
    }

    /// The interfaces that it imports: what it asks for. The host knows each of them.
    #[must_use]
    pub fn imports(&self) -> &[String] {
        self.loaded.component.imports()
    }

    /// Those of its tools that are offered.
    #[must_use]
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// Whether the file on disk is broken by now, and this is its last good version.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        self.outdated
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn loaded(&self) -> &Arc<Loaded> {
        &self.loaded
    }
}

impl std::fmt::Debug for ToolFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.tools.iter().map(|tool| &tool.definition.name).collect();
        let mut out = f.debug_struct("ToolFile");
        out.field("file", &self.name).field("digest", &self.digest()).field("tools", &names);
        out.field("outdated", &self.outdated).finish()
    }
}

/// Why a file was refused, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    code: &'static str,
    reason: String,
}

impl From<&Refusal> for Refused {
    fn from(refusal: &Refusal) -> Self {
        Self { code: refusal.code(), reason: refusal.to_string() }
    }
}

/// What became of a file of the directory.
pub(crate) enum Fate {
    Ready(Arc<Loaded>),
    Refused(Refused),
}

/// A file of the directory, and what became of it.
pub(crate) struct Scanned {
    /// Its name; none when it is no text.
    pub(crate) name: Option<String>,
    /// Its name, escaped for showing.
    pub(crate) shown: String,
    pub(crate) fate: Fate,
}

/// What is offered at one moment.
#[derive(Default)]
pub(crate) struct Snapshot {
    /// In the order of their names.
    pub(crate) files: Vec<ToolFile>,
    /// In the order of the files. Their names differ, also without regard to case.
    pub(crate) tools: Vec<Arc<Tool>>,
    pub(crate) by_digest: HashMap<Digest, Arc<Loaded>>,
    /// By the name of each tool, the component that offers it.
    by_tool: HashMap<String, Arc<str>>,
    pub(crate) rejected: Vec<Rejected>,
    /// Contents that were refused for good: they are not compiled again.
    pub(crate) refused: HashMap<Digest, Refused>,
    /// The names of all files that were there, also of refused ones.
    present: HashSet<String>,
}

impl Snapshot {
    /// Builds the next snapshot. A file that was refused keeps the version that it had in the one before.
    pub(crate) fn build(scanned: Vec<Scanned>, before: &Self, tools_max: usize) -> Self {
        let digests = scanned.iter().filter_map(|file| match &file.fate {
            Fate::Ready(loaded) => Some(loaded.component.digest()),
            Fate::Refused(_) => None,
        });
        let mut draft = Draft { digests: digests.collect(), tools_max, ..Draft::default() };
        for file in scanned {
            draft.next.present.extend(file.name.clone());
            match file.fate {
                Fate::Ready(loaded) => {
                    let name = file.name.unwrap_or_default();
                    draft.add(ToolFile { name, loaded, tools: Vec::new(), outdated: false });
                }
                Fate::Refused(refused) => draft.refuse(file.name.as_deref(), file.shown, refused, before),
            }
        }
        draft.next
    }

    /// The component that offers a tool: the name of its file without `.wasm`.
    pub(crate) fn component_of(&self, tool: &str) -> Option<Arc<str>> {
        self.by_tool.get(tool).cloned()
    }

    /// The file of this name.
    pub(crate) fn file(&self, name: &str) -> Option<&ToolFile> {
        self.files.iter().find(|file| file.name == name)
    }

    /// Whether a file of this name was there.
    pub(crate) fn is_present(&self, name: &str) -> bool {
        self.present.contains(name)
    }

    /// Whether both offer the same tools with the same code.
    pub(crate) fn offers_the_same(&self, other: &Self) -> bool {
        let same = |(a, b): (&Arc<Tool>, &Arc<Tool>)| a.digest == b.digest && a.definition.name == b.definition.name;
        self.tools.len() == other.tools.len() && self.tools.iter().zip(&other.tools).all(same)
    }
}

/// A snapshot that is being built.
#[derive(Default)]
struct Draft {
    next: Snapshot,
    /// Components that a file of the directory holds now, or that are kept already.
    digests: HashSet<Digest>,
    /// Which file has which tool name, in lower case.
    names: HashMap<String, String>,
    tools_max: usize,
}

impl Draft {
    fn add(&mut self, mut file: ToolFile) {
        let all = &file.loaded.tools;
        let (more, max) = (all.len(), self.tools_max);
        if self.next.tools.len() + more > max {
            let refused = Refused::from(&Refusal::TooManyTools { more, max });
            return self.reject(file.file(), None, refused, None);
        }
        for tool in all.clone() {
            let name = tool.definition.name.clone();
            match self.names.get(&name.to_ascii_lowercase()) {
                Some(by) => {
                    let refusal = Refusal::DuplicateTool { tool: name.clone(), by: by.clone() };
                    self.reject(file.file(), Some(name), Refused::from(&refusal), None);
                }
                None => {
                    self.names.insert(name.to_ascii_lowercase(), file.name.clone());
                    file.tools.push(tool);
                }
            }
        }
        let component: Arc<str> = file.component().into();
        let names = file.tools.iter().map(|tool| tool.definition.name.clone());
        self.next.by_tool.extend(names.map(|name| (name, Arc::clone(&component))));
        self.next.tools.extend(file.tools.iter().cloned());
        self.next.by_digest.insert(file.digest(), file.loaded.clone());
        self.next.files.push(file);
    }

    fn refuse(&mut self, name: Option<&str>, shown: String, refused: Refused, before: &Snapshot) {
        let last_good = name.and_then(|name| before.file(name)).filter(|file| self.digests.insert(file.digest()));
        self.reject(shown, None, refused, last_good.map(ToolFile::digest));
        if let Some(file) = last_good {
            self.add(ToolFile { tools: Vec::new(), outdated: true, ..file.clone() });
        }
    }

    fn reject(&mut self, file: String, tool: Option<String>, refused: Refused, kept: Option<Digest>) {
        let Refused { code, reason } = refused;
        self.next.rejected.push(Rejected { file, tool, code, reason, kept });
    }
}
