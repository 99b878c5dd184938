//! What a toolbox can be told: where its cache is, and its limits.

use std::path::PathBuf;

use crate::error::Error;

/// Where compiled code is kept between starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CachePlace {
    /// `$XDG_CACHE_HOME/toolcell/compiled`, or `~/.cache/toolcell/compiled`.
    #[default]
    User,
    /// This directory. It is created with mode 0700; one that exists must belong to the user and be closed to others.
    At(PathBuf),
    /// Nowhere: every start compiles everything.
    Off,
}

/// How a toolbox is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where compiled code is kept between starts.
    pub cache: CachePlace,
    /// `.wasm` files that are read, the first by name.
    pub files_max: usize,
    /// Bytes of one file.
    pub file_bytes_max: u64,
    /// Tools that are offered.
    pub tools_max: usize,
    /// Bytes of the whole cache; what was used longest ago goes first.
    pub cache_bytes_max: u64,
    /// Days after which unused code leaves the cache.
    pub cache_unused_days_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache: CachePlace::default(),
            // A model chooses well among dozens; every file is read at every start.
            files_max: 256,
            // The largest real tools, Python with an HTTP client, have 22 MiB.
            file_bytes_max: 32 << 20,
            // More definitions than this fill the context of a model by themselves.
            tools_max: 512,
            // A Python tool compiles to about 100 MB, a Rust tool to one or two.
            cache_bytes_max: 2 << 30,
            cache_unused_days_max: 30,
        }
    }
}

impl Options {
    /// Checks the limits.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let limits = [
            ("files_max", self.files_max as u64),
            ("file_bytes_max", self.file_bytes_max),
            ("tools_max", self.tools_max as u64),
            ("cache_bytes_max", self.cache_bytes_max),
            ("cache_unused_days_max", self.cache_unused_days_max),
        ];
        match limits.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(Error::ZeroLimit(name)),
            None => Ok(()),
        }
    }
}
