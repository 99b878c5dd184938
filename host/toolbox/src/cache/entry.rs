//! The form of one cached component: magic, MAC, manifest, machine code; nothing is looked at before the MAC fits.

use std::ops::Range;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use toolcell_contract::Digest;

use super::key::HostKey;
use crate::manifest::Manifest;

/// Names the form; another form has another last digit.
const MAGIC: &[u8; 16] = b"toolcell-cache-1";
const MAC_BYTES: usize = 32;
const LENGTH_BYTES: usize = 4;
const HEAD_BYTES: usize = MAGIC.len() + MAC_BYTES + LENGTH_BYTES;

/// Machine code and its manifest, proved to have been written by this host.
pub(crate) struct Entry {
    bytes: Vec<u8>,
    artifact: Range<usize>,
    manifest: Manifest,
}

impl Entry {
    /// Takes an entry apart if its MAC fits, and if it is for this component and this engine.
    pub(super) fn verify(key: &HostKey, bytes: Vec<u8>, digest: Digest, artifact_key: &str) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (mac, signed) = rest.split_at_checked(MAC_BYTES)?;
        mac_of(key, &[signed])?.verify_slice(mac).ok()?;

        let (length, rest) = signed.split_first_chunk::<LENGTH_BYTES>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let manifest: Manifest = serde_json::from_slice(rest.get(..length)?).ok()?;
        if manifest.digest != digest || manifest.artifact_key != artifact_key {
            return None;
        }
        let artifact = HEAD_BYTES + length..bytes.len();
        Some(Self { bytes, artifact, manifest })
    }

    /// What is known of the component.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Its machine code, as it was given to the cache.
    pub(crate) fn artifact(&self) -> &[u8] {
        &self.bytes[self.artifact.clone()]
    }
}

/// The bytes that stand before the machine code, with the MAC over all that follows it. None when the manifest has no
/// JSON form or more than 4 GiB of it.
pub(super) fn head(key: &HostKey, manifest: &Manifest, artifact: &[u8]) -> Option<Vec<u8>> {
    let manifest = serde_json::to_vec(manifest).ok()?;
    let length = u32::try_from(manifest.len()).ok()?.to_le_bytes();
    let mac = mac_of(key, &[&length, &manifest, artifact])?.finalize().into_bytes();
    Some([MAGIC.as_slice(), mac.as_slice(), &length, &manifest].concat())
}

fn mac_of(key: &HostKey, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).ok()?;
    mac.update(MAGIC);
    parts.iter().for_each(|part| mac.update(part));
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINE: &str = "engine 1";

    fn digest() -> Digest {
        Digest::from_bytes([7; 32])
    }

    fn manifest() -> Manifest {
        Manifest { digest: digest(), size: 3, artifact_key: ENGINE.to_owned(), definitions: Vec::new() }
    }

    fn entry(key: &HostKey) -> Vec<u8> {
        let mut bytes = head(key, &manifest(), b"machine code").unwrap();
        bytes.extend_from_slice(b"machine code");
        bytes
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let key = HostKey::generate().unwrap();
        let read = Entry::verify(&key, entry(&key), digest(), ENGINE).unwrap();
        assert_eq!((read.manifest(), read.artifact()), (&manifest(), b"machine code".as_slice()));
    }

    #[test]
    fn an_entry_with_any_byte_changed_is_none() {
        let key = HostKey::generate().unwrap();
        let good = entry(&key);
        for i in 0..good.len() {
            let mut bad = good.clone();
            bad[i] ^= 1;
            assert!(Entry::verify(&key, bad, digest(), ENGINE).is_none(), "byte {i}");
        }
    }

    #[test]
    fn an_entry_that_is_cut_anywhere_or_longer_is_none() {
        let key = HostKey::generate().unwrap();
        let good = entry(&key);
        for n in 0..good.len() {
            assert!(Entry::verify(&key, good[..n].to_vec(), digest(), ENGINE).is_none(), "{n} bytes");
        }
        let longer = [good.as_slice(), b"x"].concat();
        assert!(Entry::verify(&key, longer, digest(), ENGINE).is_none());
    }

    #[test]
    fn an_entry_of_another_key_component_or_engine_is_none() {
        let key = HostKey::generate().unwrap();
        let other = HostKey::generate().unwrap();
        assert!(Entry::verify(&other, entry(&key), digest(), ENGINE).is_none());
        assert!(Entry::verify(&key, entry(&key), Digest::from_bytes([8; 32]), ENGINE).is_none());
        assert!(Entry::verify(&key, entry(&key), digest(), "engine 2").is_none());
    }
}
