//! A directory of tools kept ready: opened once, reloaded on request, called by digest.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

use futures::future::BoxFuture;
use toolcell_agent::{Call, Catalog, Execution, Observer, Tool};
use toolcell_contract::{Digest, Failure, FailureCode, Outcome};
use toolcell_sandbox::{Invocation, Sandbox};

use crate::background::blocking;
use crate::brought::Brought;
use crate::cache::{Cache, CacheError};
use crate::directory::Directory;
use crate::error::Error;
use crate::execution::{Forward, execution};
use crate::loader::{Loaded, Loader};
use crate::options::Options;
use crate::powers::{NoPowers, Power, Powers};
use crate::report::{LoadReport, Rejected, Warning};
use crate::retired::Retired;
use crate::scan::{Pass, pass};
use crate::snapshot::{Snapshot, ToolFile};

/// The tools of a directory, ready to be called. Cheap to clone; all clones are one toolbox.
///
/// Every regular file `*.wasm` of the directory itself is a component with one or more tools; hidden files and other
/// names are ignored, links are refused. Whatever is wrong with one file leaves the others as they are and is found in
/// [`Toolbox::rejected`].
///
/// ```
/// use toolcell_sandbox::{Config, Sandbox};
/// use toolcell_toolbox::{CachePlace, Options, Toolbox};
///
/// # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let dir = tempfile::tempdir()?;
/// std::fs::write(dir.path().join("notes.wasm"), "not a component")?;
///
/// let options = Options { cache: CachePlace::Off, ..Options::default() };
/// let toolbox = Toolbox::open(dir.path(), Sandbox::new(Config::default())?, options).await?;
/// for file in toolbox.components() {
///     println!("{} ({} bytes) offers {} tools", file.file(), file.size(), file.tools().len());
/// }
/// let rejected = toolbox.rejected();
/// assert_eq!((rejected[0].file.as_str(), rejected[0].code), ("notes.wasm", "not-a-component"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Toolbox(Arc<Shared>);

struct Shared {
    path: PathBuf,
    sandbox: Sandbox,
    options: Options,
    cache: Option<Arc<Cache>>,
    cache_error: Option<Arc<CacheError>>,
    current: RwLock<Arc<Snapshot>>,
    powers: RwLock<Arc<dyn Powers>>,
    retired: Mutex<Retired>,
    brought: Mutex<Brought>,
    /// Held while a snapshot is built: one reload after the other.
    reloading: tokio::sync::Mutex<()>,
    report: Mutex<LoadReport>,
}

impl Toolbox {
    /// Reads the directory and makes its tools ready. An empty directory is a toolbox without tools.
    ///
    /// Needs a Tokio runtime. Components that the cache does not know are compiled, as many at once as there are cores;
    /// that takes from milliseconds to tens of seconds for each.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::NotADirectory`], [`Error::Unreadable`] for the directory itself, and
    /// [`Error::ZeroLimit`] for the options. What is wrong with a single file is no error.
    pub async fn open(path: impl AsRef<Path>, sandbox: Sandbox, options: Options) -> Result<Self, Error> {
        options.validate()?;
        // A later change of the working directory changes nothing.
        let path = std::path::absolute(&path).unwrap_or_else(|_| path.as_ref().to_owned());
        // Asked before the cache is made, so that a mistyped path leaves nothing behind.
        Directory::open(&path)?;
        let (cache, cache_error) = open_cache(&sandbox, &options).await?;
        let toolbox = Self(Arc::new(Shared {
            path,
            sandbox,
            options,
            cache,
            cache_error,
            current: RwLock::default(),
            powers: RwLock::new(Arc::new(NoPowers)),
            retired: Mutex::default(),
            brought: Mutex::default(),
            reloading: tokio::sync::Mutex::default(),
            report: Mutex::default(),
        }));
        toolbox.reload().await?;
        Ok(toolbox)
    }

    /// Calls that begin from now on may do what `powers` says. Before it is told so, no component may do anything but compute.
    pub fn set_powers(&self, powers: Arc<dyn Powers>) {
        *self.0.powers.write().unwrap_or_else(PoisonError::into_inner) = powers;
    }

    /// Where compiled code is kept, if it is.
    #[must_use]
    pub fn cache_path(&self) -> Option<&Path> {
        self.0.cache.as_ref().map(|cache| cache.path())
    }

    /// The component that offers a tool now: the name of its file without `.wasm`.
    #[must_use]
    pub fn component_of_tool(&self, tool: &str) -> Option<Arc<str>> {
        self.snapshot().component_of(tool)
    }

    fn powers(&self) -> Arc<dyn Powers> {
        Arc::clone(&self.0.powers.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the directory again and puts what it holds into use, at once and as a whole.
    ///
    /// A file whose content is known stays as it is. A replaced file takes effect for calls of the tools that
    /// [`Catalog::tools`] gives from now on; a call of a tool that was taken before runs on the code it was taken with.
    /// A file that is broken by now leaves its last good version in use and is reported. The tools of a removed file
    /// are gone, also for those who hold them; calls that run end undisturbed.
    ///
    /// # Errors
    /// As for [`Toolbox::open`]; what was in use stays in use.
    pub async fn reload(&self) -> Result<LoadReport, Error> {
        let _one_at_a_time = self.0.reloading.lock().await;
        let before = self.snapshot();
        let (path, files_max) = (self.0.path.clone(), self.0.options.files_max);
        let opened = blocking(move || {
            let directory = Directory::open(&path)?;
            let names = directory.names(files_max);
            let names = names.map_err(|source| Error::Unreadable { path, source })?;
            Ok::<_, Error>((directory, names))
        });
        let (directory, names) = opened.await.map_err(Error::CutOff)??;
        let open_to_others = directory.is_open_to_others();

        let loader = self.loader();
        let mut pass = pass(Arc::new(directory), names, &self.0.options, &loader, &before).await?;
        if pass.compiled > 0 {
            self.evict().await?;
        }
        let files = std::mem::take(&mut pass.files);
        let mut next = Snapshot::build(files, &before, self.0.options.tools_max);
        next.refused = std::mem::take(&mut pass.refused);
        let mut report = self.report(pass, &before, &next);
        if open_to_others {
            report.warnings.push(Warning::OpenToOthers(self.0.path.clone()));
        }
        self.put_into_use(before, next, report.clone());
        Ok(report)
    }

    /// The files whose tools are offered, in the order of their names.
    #[must_use]
    pub fn components(&self) -> Vec<ToolFile> {
        self.snapshot().files.clone()
    }

    /// What is not offered, and why, in the order of the file names.
    #[must_use]
    pub fn rejected(&self) -> Vec<Rejected> {
        self.snapshot().rejected.clone()
    }

    /// What the last load did.
    #[must_use]
    pub fn last_report(&self) -> LoadReport {
        self.0.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The directory, as an absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.0.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn report(&self, pass: Pass, before: &Snapshot, next: &Snapshot) -> LoadReport {
        let not_kept = pass.not_kept.into_iter().map(Arc::new);
        LoadReport {
            compiled: pass.compiled,
            from_cache: pass.from_cache,
            unchanged: pass.unchanged,
            changed: !next.offers_the_same(before),
            rejected: next.rejected.clone(),
            warnings: self.0.cache_error.iter().cloned().chain(not_kept).map(Warning::Cache).collect(),
        }
    }

    /// What is replaced is put aside first, so that a call finds its code at every moment.
    fn put_into_use(&self, before: Arc<Snapshot>, next: Snapshot, report: LoadReport) {
        let next = Arc::new(next);
        let mut retired = self.0.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.add(&before, &next);
        *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = next.clone();
        // It holds the tools that it offered, and they are held by others or not at all from here on.
        drop(before);
        retired.prune(&next);
        *self.0.report.lock().unwrap_or_else(PoisonError::into_inner) = report;
    }

    async fn evict(&self) -> Result<(), Error> {
        let Some(cache) = self.0.cache.clone() else { return Ok(()) };
        let Options { cache_bytes_max, cache_unused_days_max, .. } = self.0.options;
        let evicted = blocking(move || cache.evict(SystemTime::now(), cache_bytes_max, cache_unused_days_max));
        if let Err(error) = evicted.await.map_err(Error::CutOff)? {
            tracing::warn!(%error, "the cache of compiled code cannot be tidied");
        }
        Ok(())
    }

    fn brought(&self) -> MutexGuard<'_, Brought> {
        self.0.brought.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn loader(&self) -> Loader {
        Loader::new(self.0.sandbox.clone(), self.0.cache.clone())
    }

    /// The bytes of an offered component, if its file still holds them.
    async fn bytes(&self, digest: Digest) -> Option<Vec<u8>> {
        let file =
            self.snapshot().files.iter().find(|file| file.digest() == digest).map(|file| file.name().to_owned())?;
        let (path, max) = (self.0.path.clone(), self.0.options.file_bytes_max);
        let read = blocking(move || Directory::open(&path).ok()?.read(OsStr::new(&file), digest, max).ok());
        read.await.ok().flatten()
    }

    /// The very component of a tool: from now, from the time when the tool was taken, or brought for a call that waited.
    fn component_of(&self, tool: &Tool) -> Result<Arc<Loaded>, FailureCode> {
        let name = &tool.definition.name;
        let digest = tool.digest.ok_or(FailureCode::UnknownTool)?;
        let mut current = self.snapshot();
        let mut found = current.by_digest.get(&digest).cloned();
        if found.is_none() {
            // With the lock held nothing changes its place between the two.
            let retired = self.0.retired.lock().unwrap_or_else(PoisonError::into_inner);
            current = self.snapshot();
            found = current.by_digest.get(&digest).cloned().or_else(|| retired.get(digest));
        }
        // What was removed, file and all, is gone for them too: the operator took it away.
        let is_offered = current.tools.iter().any(|tool| tool.definition.name == *name);
        let found = found.or_else(|| self.brought().get(digest).filter(|_| is_offered));
        match found {
            Some(loaded) if loaded.tools.iter().any(|tool| tool.definition.name == *name) => Ok(loaded),
            Some(_) => Err(FailureCode::UnknownTool),
            None if is_offered => Err(FailureCode::ToolChanged),
            None => Err(FailureCode::ToolUnavailable),
        }
    }
}

impl Catalog for Toolbox {
    fn tools(&self) -> Vec<Arc<Tool>> {
        self.snapshot().tools.clone()
    }

    /// Runs the tool on the component with its digest. The failure is `tool-changed` when that component is gone and
    /// another offers a tool of this name, `tool-unavailable` when none does.
    fn call<'a>(&'a self, call: Call, observer: Arc<dyn Observer>) -> BoxFuture<'a, Execution> {
        Box::pin(async move {
            let loaded = match self.component_of(&call.tool) {
                Ok(loaded) => loaded,
                Err(code) => return refused(code),
            };
            let Call { tool, arguments, tenant, context } = call;
            let name = &tool.definition.name;
            // A component that waited is called under the grants of now, of the file that offers its tool now.
            let component = self.snapshot().component_of(name).unwrap_or_default();
            let powers = self.powers();
            let Power { capabilities, limits } = powers.of(&component, &tenant);
            let invocation = Invocation { limits, capabilities, ..Invocation::new(name, arguments, context) };
            let report = self.0.sandbox.call(&loaded.component, invocation, Arc::new(Forward(observer))).await;
            execution(report, |missing| powers.remedy(&component, missing))
        })
    }

    fn has_component(&self, digest: Digest) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let is_known = self.snapshot().by_digest.contains_key(&digest)
                || self.0.retired.lock().unwrap_or_else(PoisonError::into_inner).get(digest).is_some()
                || self.brought().get(digest).is_some();
            if is_known {
                return true;
            }
            match self.loader().cached(digest).await {
                Some(loaded) => {
                    self.brought().add(loaded);
                    true
                }
                None => false,
            }
        })
    }

    fn component(&self, digest: Digest) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(self.bytes(digest))
    }

    fn bring_component(&self, digest: Digest, bytes: Vec<u8>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            match self.loader().load_bytes(digest, bytes).await {
                Ok(load) => self.brought().add(load.loaded),
                Err(refusal) => tracing::warn!(%digest, "a component that a call waits with is of no use: {refusal}"),
            }
        })
    }
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Toolbox").field("path", &self.0.path).field("components", &self.components()).finish()
    }
}

fn refused(code: FailureCode) -> Execution {
    let outcome = Outcome::Failed(Failure::new(code));
    Execution { outcome, log: Vec::new(), duration: std::time::Duration::ZERO }
}

/// The cache, or why there is none although one was wanted.
async fn open_cache(
    sandbox: &Sandbox,
    options: &Options,
) -> Result<(Option<Arc<Cache>>, Option<Arc<CacheError>>), Error> {
    let (place, artifact_key) = (options.cache.clone(), sandbox.artifact_key());
    let opened = blocking(move || Cache::open(&place, artifact_key)).await.map_err(Error::CutOff)?;
    Ok(match opened {
        Ok(cache) => (cache.map(Arc::new), None),
        Err(error) => (None, Some(Arc::new(error))),
    })
}
