//! A directory of tools and a cache for one test, and short ways to ask and to call.

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use toolcell_agent::{Call, Catalog, Observer, Progress, Tenant, Tool};
use toolcell_contract::{CallContext, Outcome};
use toolcell_sandbox::{Config, Sandbox};
use toolcell_toolbox::{CachePlace, Error, Options, Rejected, Toolbox};

/// A directory of tools, and beside it a cache.
pub struct Place {
    root: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let root = TempDir::new().unwrap();
        std::fs::create_dir(root.path().join("tools")).unwrap();
        Self { root }
    }

    /// A file of the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.tools().join(name)
    }

    pub fn tools(&self) -> PathBuf {
        self.root.path().join("tools")
    }

    pub fn cache(&self) -> PathBuf {
        self.root.path().join("cache")
    }

    /// Puts a file into the directory, in one step as a careful user would.
    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let aside = self.root.path().join("aside");
        std::fs::write(&aside, bytes).unwrap();
        std::fs::rename(aside, self.file(name)).unwrap();
    }

    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.file(name)).unwrap();
    }

    /// The entries of the cache, in order.
    pub fn entries(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.cache()).unwrap().map(|file| file.unwrap().path());
        let mut entries: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "toolcell")).collect();
        entries.sort();
        entries
    }

    /// A toolbox without a cache.
    pub async fn open(&self) -> Toolbox {
        self.open_with(Options { cache: CachePlace::Off, ..Options::default() }).await.unwrap()
    }

    /// A toolbox with the cache, over a new engine: what the next start of the program does.
    pub async fn start(&self) -> Toolbox {
        self.open_with(Options { cache: CachePlace::At(self.cache()), ..Options::default() }).await.unwrap()
    }

    pub async fn open_with(&self, options: Options) -> Result<Toolbox, Error> {
        Toolbox::open(self.tools(), sandbox(), options).await
    }
}

/// A small sandbox: many tests run at once.
pub fn sandbox() -> Sandbox {
    Sandbox::new(Config { worker_threads: 1, ..Config::default() }).unwrap()
}

/// The names of the tools, in order.
pub fn names(toolbox: &Toolbox) -> Vec<String> {
    toolbox.tools().iter().map(|tool| tool.definition.name.clone()).collect()
}

/// Each rejected file and the code.
pub fn codes(toolbox: &Toolbox) -> Vec<(String, &'static str)> {
    toolbox.rejected().into_iter().map(|rejected| (rejected.file, rejected.code)).collect()
}

/// A rejection of a whole file.
pub fn rejected(file: &str, code: &'static str, reason: &str) -> Rejected {
    Rejected { file: file.to_owned(), tool: None, code, reason: reason.to_owned(), kept: None }
}

/// The tool of this name.
pub fn find(toolbox: &Toolbox, name: &str) -> Arc<Tool> {
    toolbox.tools().into_iter().find(|tool| tool.definition.name == name).unwrap()
}

/// What a call of a tool gives: its output, or the code of the failure.
pub async fn call(toolbox: &Toolbox, tool: Arc<Tool>) -> String {
    call_observed(toolbox, tool, Arc::new(Deaf)).await
}

/// As [`call`], with an ear for progress.
pub async fn call_observed(toolbox: &Toolbox, tool: Arc<Tool>, observer: Arc<dyn Observer>) -> String {
    let (tenant, context) = (Tenant::local(), CallContext::first("call-1"));
    let call = Call { tool, arguments: "{}".to_owned(), tenant, context };
    match toolbox.call(call, observer).await.outcome {
        Outcome::Done(result) => result.output,
        Outcome::Failed(failure) => failure.code.to_string(),
        Outcome::Suspended(suspension) => panic!("it asked: {suspension:?}"),
    }
}

struct Deaf;

impl Observer for Deaf {
    fn progress(&self, _: Progress) {}
}
