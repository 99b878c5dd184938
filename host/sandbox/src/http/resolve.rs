//! Names to addresses, each judged before anybody connects to it.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolving};
use tokio::time::timeout;
use toolcell_policy::HttpRule;

use super::{ADDRESSES_MAX, RESOLVE_TIMEOUT};

/// Looks names up.
pub trait Resolve: Send + Sync {
    /// The addresses of a name.
    fn resolve(&self, name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;
}

/// The resolver of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((name, 0)).await?;
            Ok(addresses.map(|address| address.ip()).collect())
        })
    }
}

/// A name leads into a network that the grant does not name.
#[derive(Debug)]
pub(super) struct Prohibited;

impl fmt::Display for Prohibited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it leads into a network of the operator's own")
    }
}

impl std::error::Error for Prohibited {}

/// Looks names up for one grant. Only addresses that were judged are connected to, and a name that has one bad address is
/// refused as a whole: whoever owns it could choose which of them is taken.
pub(super) struct Guarded {
    pub(super) rule: HttpRule,
    pub(super) resolver: Arc<dyn Resolve>,
}

impl reqwest::dns::Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let (rule, looked_up) = (self.rule.clone(), self.resolver.resolve(name.as_str().to_owned()));
        Box::pin(async move {
            let late = |_| io::Error::from(io::ErrorKind::TimedOut);
            let addresses = timeout(RESOLVE_TIMEOUT, looked_up).await.map_err(late)??;
            if addresses.is_empty() {
                return Err(io::Error::from(io::ErrorKind::NotFound).into());
            }
            if !addresses.iter().all(|address| rule.allows_address(*address)) {
                return Err(Prohibited.into());
            }
            // The port is the request's.
            let addresses = addresses.into_iter().take(ADDRESSES_MAX).map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses.collect::<Vec<_>>().into_iter()) as Addrs)
        })
    }
}
