//! What a call may do beyond computing. The default is nothing; whoever makes a call says what is granted.

use std::fmt;
use std::sync::Arc;

use crate::http::HttpGate;
use crate::key_value::KeyValueSpace;
use crate::mount::Mount;

/// What a call may do beyond computing.
#[derive(Clone, Default)]
pub struct Capabilities {
    /// Directories of the host that the guest sees.
    pub mounts: Vec<Mount>,
    /// The environment of the guest: these variables and no others.
    pub environment: Vec<(String, String)>,
    /// Where it may send requests.
    pub http: Option<Arc<HttpGate>>,
    /// Its key-value space.
    pub key_value: Option<Arc<dyn KeyValueSpace>>,
}

impl fmt::Debug for Capabilities {
    /// Values of the environment may be private.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.environment.iter().map(|(name, _)| name).collect();
        f.debug_struct("Capabilities")
            .field("mounts", &self.mounts)
            .field("environment", &names)
            .field("http", &self.http.is_some())
            .field("key_value", &self.key_value.is_some())
            .finish()
    }
}
