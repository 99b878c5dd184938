//! Turns one file into a component with its tools: from the cache, or by compiling and asking it.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use toolcell_agent::Tool;
use toolcell_contract::{Definition, Digest};
use toolcell_sandbox::{Component, LoadError, Sandbox};

use crate::background::blocking;
use crate::cache::{Cache, CacheError, Entry};
use crate::directory::Directory;
use crate::manifest::Manifest;
use crate::names::is_reserved;
use crate::refusal::Refusal;

/// A component that is ready to be called, and its tools.
pub(crate) struct Loaded {
    pub(crate) component: Component,
    pub(crate) tools: Vec<Arc<Tool>>,
}

impl Loaded {
    /// Whether anybody outside still holds one of its tools, and may call it.
    pub(crate) fn is_held(&self) -> bool {
        self.tools.iter().any(|tool| Arc::strong_count(tool) > 1)
    }
}

/// Where a component's code came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Compiled,
    Cache,
}

/// A loaded component, and what happened on the way.
pub(crate) struct Load {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) origin: Origin,
    /// Its code could not be kept.
    pub(crate) not_kept: Option<CacheError>,
}

/// One file as the scan found it.
pub(crate) struct Found {
    pub(crate) directory: Arc<Directory>,
    pub(crate) name: String,
    pub(crate) digest: Digest,
    pub(crate) bytes_max: u64,
}

/// Loads components. What takes CPU or reads files runs on threads for blocking work.
#[derive(Clone)]
pub(crate) struct Loader {
    sandbox: Sandbox,
    cache: Option<Arc<Cache>>,
}

impl Loader {
    pub(crate) fn new(sandbox: Sandbox, cache: Option<Arc<Cache>>) -> Self {
        Self { sandbox, cache }
    }

    /// The component of a file. Neither compiled nor instantiated when the cache knows its digest.
    pub(crate) async fn load(&self, found: Found) -> Result<Load, Refusal> {
        let loader = self.clone();
        let digest = found.digest;
        let cached = background(move || loader.restore(digest)).await?;
        if let Some((component, definitions)) = cached {
            let loaded = background(move || offer(component, definitions)).await??;
            return Ok(Load { loaded, origin: Origin::Cache, not_kept: None });
        }
        self.compile(move || found.directory.read(OsStr::new(&found.name), found.digest, found.bytes_max)).await
    }

    /// A component that the cache knows.
    pub(crate) async fn cached(&self, digest: Digest) -> Option<Arc<Loaded>> {
        let loader = self.clone();
        let (component, definitions) = background(move || loader.restore(digest)).await.ok()??;
        background(move || offer(component, definitions)).await.ok()?.ok()
    }

    /// A component from bytes that were kept elsewhere. They must have this digest.
    pub(crate) async fn load_bytes(&self, digest: Digest, bytes: Vec<u8>) -> Result<Load, Refusal> {
        let read = move || match Sha256::digest(&bytes).as_slice() == digest.as_bytes() {
            true => Ok(bytes),
            false => Err(Refusal::Changing),
        };
        self.compile(read).await
    }

    async fn compile(&self, read: impl FnOnce() -> Result<Vec<u8>, Refusal> + Send + 'static) -> Result<Load, Refusal> {
        let started = Instant::now();
        let sandbox = self.sandbox.clone();
        let component = background(move || Ok::<_, Refusal>(sandbox.compile(&read()?)?));
        let component = component.await??;
        let definitions = self.sandbox.list(&component).await?;
        let loader = self.clone();
        let (loaded, not_kept) = background(move || {
            let loaded = offer(component, definitions.clone())?;
            let not_kept = loader.keep(&loaded.component, definitions).err();
            Ok::<_, Refusal>((loaded, not_kept))
        })
        .await??;
        log_compiled(&loaded.component, started.elapsed());
        Ok(Load { loaded, origin: Origin::Compiled, not_kept })
    }

    /// The component and its definitions from the cache.
    fn restore(&self, digest: Digest) -> Option<(Component, Vec<Definition>)> {
        let entry: Entry = self.cache.as_ref()?.load(digest)?;
        let manifest = entry.manifest();
        // SAFETY: an `Entry` exists only if its MAC fits under the key of this host, which no other user can read, and
        // if its digest and engine are the ones asked for; entries with such a MAC are made in `keep` alone, from
        // `Sandbox::artifact` of a component with that very digest and size.
        let restored = unsafe { self.sandbox.restore(digest, manifest.size, entry.artifact()) };
        match restored {
            Ok(component) => Some((component, manifest.definitions.clone())),
            Err(error) => {
                tracing::warn!(%digest, %error, "compiled code from the cache is not usable and is built anew");
                None
            }
        }
    }

    fn keep(&self, component: &Component, definitions: Vec<Definition>) -> Result<(), CacheError> {
        let Some(cache) = &self.cache else { return Ok(()) };
        let (digest, size) = (component.digest(), component.size());
        let artifact = match self.sandbox.artifact(component) {
            Ok(artifact) => artifact,
            Err(error) => {
                tracing::warn!(%digest, %error, "a component is not kept in the cache");
                return Ok(());
            }
        };
        let manifest = Manifest { digest, size, artifact_key: cache.artifact_key().to_owned(), definitions };
        cache.store(digest, manifest, &artifact)
    }
}

fn log_compiled(component: &Component, took: Duration) {
    let (digest, size, ms) = (component.digest(), component.size(), took.as_millis());
    tracing::debug!(%digest, size, %ms, "compiled a component");
}

/// Makes the definitions callable. They may come from the cache, so what this host reserves is asked every time.
fn offer(component: Component, definitions: Vec<Definition>) -> Result<Arc<Loaded>, Refusal> {
    let digest = component.digest();
    let tools = definitions.into_iter().map(|definition| callable(definition, digest)).collect::<Result<_, _>>()?;
    Ok(Arc::new(Loaded { component, tools }))
}

fn callable(definition: Definition, digest: Digest) -> Result<Arc<Tool>, Refusal> {
    let tool = definition.name.clone();
    if is_reserved(&tool) {
        return Err(Refusal::ReservedName(tool));
    }
    if let Some(schema) = &definition.output_schema {
        // Same rules as for the input: nothing is fetched, patterns take linear time.
        let options = jsonschema::options().with_pattern_options(jsonschema::PatternOptions::regex());
        if let Err(error) = options.build(schema) {
            return Err(Refusal::OutputSchema { tool, problem: error.to_string().chars().take(300).collect() });
        }
    }
    Tool::new(definition, Some(digest)).map(Arc::new).map_err(|source| Refusal::InputSchema { tool, source })
}

async fn background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    blocking(work).await.map_err(|error| {
        tracing::error!(%error, "loading a component was cut off");
        Refusal::Component(LoadError::HostFault("it was cut off".to_owned()))
    })
}
