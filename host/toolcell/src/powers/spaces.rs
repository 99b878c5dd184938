//! Who keeps the key-value spaces of components.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use toolcell_agent::Tenant;
use toolcell_sandbox::{
    KEYS_PAGE, KeyValueEntry, KeyValueError, KeyValueFuture, KeyValueQuota, KeyValueSpace, MemorySpace,
};
use toolcell_store::{KeySpace, KeySpaceLimits, KeyWritten, SqlStore};

/// Keeps the key-value spaces of components, one for each tenant.
pub trait KeyValueSpaces: Send + Sync {
    /// The space of a component for a tenant.
    fn space(&self, tenant: &Tenant, component: &str, quota: KeyValueQuota) -> Arc<dyn KeyValueSpace>;
}

/// Spaces in memory, which are gone with their process.
#[derive(Debug, Default)]
pub struct MemorySpaces(Mutex<HashMap<(Tenant, String), Arc<MemorySpace>>>);

impl KeyValueSpaces for MemorySpaces {
    fn space(&self, tenant: &Tenant, component: &str, quota: KeyValueQuota) -> Arc<dyn KeyValueSpace> {
        let mut spaces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let space = spaces.entry((tenant.clone(), component.to_owned()));
        Arc::clone(space.or_insert_with(|| Arc::new(MemorySpace::new(quota)))) as Arc<dyn KeyValueSpace>
    }
}

/// Who keeps the spaces of a host now. A policy that is in use asks for each call, so none is made anew when this changes.
pub(crate) struct SpacesInUse(RwLock<Arc<dyn KeyValueSpaces>>);

impl SpacesInUse {
    pub(crate) fn get(&self) -> Arc<dyn KeyValueSpaces> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&self, spaces: Arc<dyn KeyValueSpaces>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = spaces;
    }
}

impl Default for SpacesInUse {
    fn default() -> Self {
        Self(RwLock::new(Arc::new(MemorySpaces::default())))
    }
}

/// Spaces beside the runs on record: they outlive their process, and all hosts of a store see the same.
#[derive(Debug, Clone)]
pub struct StoredSpaces(Arc<SqlStore>);

impl StoredSpaces {
    /// Spaces in a store.
    #[must_use]
    pub fn new(store: Arc<SqlStore>) -> Self {
        Self(store)
    }
}

impl KeyValueSpaces for StoredSpaces {
    fn space(&self, tenant: &Tenant, component: &str, quota: KeyValueQuota) -> Arc<dyn KeyValueSpace> {
        let space = KeySpace { tenant: tenant.clone(), component: component.to_owned() };
        Arc::new(StoredSpace { store: Arc::clone(&self.0), space, quota })
    }
}

struct StoredSpace {
    store: Arc<SqlStore>,
    space: KeySpace,
    quota: KeyValueQuota,
}

impl StoredSpace {
    /// What went wrong is told to the operator; it is nothing that the guest could mend.
    async fn ask<T>(
        &self,
        asked: impl Future<Output = Result<T, toolcell_store::StoreError>>,
    ) -> Result<T, KeyValueError> {
        asked.await.map_err(|error| {
            tracing::warn!(component = self.space.component, "its key-value space cannot be used: {error}");
            KeyValueError::Unavailable
        })
    }
}

impl KeyValueSpace for StoredSpace {
    fn get(&self, key: String) -> KeyValueFuture<'_, Option<KeyValueEntry>> {
        Box::pin(async move {
            let entry = self.ask(self.store.read_key(&self.space, &key)).await?;
            Ok(entry.map(|(value, version)| KeyValueEntry { value, version }))
        })
    }

    fn set(&self, key: String, value: Vec<u8>, expected: Option<u64>) -> KeyValueFuture<'_, u64> {
        Box::pin(async move {
            self.quota.check(value.len(), 0, 0)?;
            let limits =
                KeySpaceLimits { keys_max: self.quota.keys_max as u64, bytes_max: self.quota.total_bytes_max as u64 };
            match self.ask(self.store.write_key(&self.space, &key, &value, expected, limits)).await? {
                KeyWritten::At(version) => Ok(version),
                KeyWritten::Conflict => Err(KeyValueError::Conflict),
                KeyWritten::Full { keys, bytes } => {
                    let size = |count| usize::try_from(count).unwrap_or(usize::MAX);
                    self.quota.check(value.len(), size(bytes), size(keys))?;
                    // The quota says the same as the store; if it did not, nothing was written all the same.
                    Err(KeyValueError::Unavailable)
                }
            }
        })
    }

    fn delete(&self, key: String) -> KeyValueFuture<'_, ()> {
        Box::pin(async move { self.ask(self.store.remove_key(&self.space, &key)).await })
    }

    fn keys(&self, prefix: String, after: Option<String>) -> KeyValueFuture<'_, Vec<String>> {
        Box::pin(async move {
            self.ask(self.store.list_keys(&self.space, &prefix, after.as_deref(), KEYS_PAGE as u32)).await
        })
    }
}
