//! Keys of the node, and the authorities that it trusts. Each boot has a new key. Keys of earlier boots are kept as
//! long as one of them may be the one that the controller knows. Authorities received from the controller replace those
//! of the user data.
//!
//! The file is written before the key is used. If the agent is interrupted in between, it continues with a key that the
//! controller may already know. After a reboot, the old key vouches for the new one.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use muster_link::{Fingerprint, KeyHash, Nonce, Pins, again_message};
use muster_proto::muster::PreviousKey;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData, SigningKey};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};

use super::Fault;
use super::dial::Identity;
use crate::publish::status;

/// Name of the file.
const FILE: &str = "link.json";
/// Number of keys of earlier boots to keep: one that the controller may not know because of an interruption, and the
/// one before.
const BEFORE: usize = 2;
/// Maximum size of the authorities, in bytes.
const AUTHORITIES: usize = 16 * 1024;

/// Content of the file, with keys in PEM.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    boot_id: String,
    key: String,
    /// Latest first.
    before: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told: Option<ReceivedAuthorities>,
}

/// Authorities received from the controller.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReceivedAuthorities {
    /// SHA-256 (hexadecimal) of the authorities in the user data at that time. With other user data this entry is
    /// ignored: the disk was imaged from another instance.
    instead_of: String,
    /// PEM certificates.
    authorities: String,
}

/// Key of this boot.
pub struct Keys {
    path: PathBuf,
    kept: Kept,
    key: KeyPair,
}

impl Keys {
    /// Loads the key of this boot, or generates and writes it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn of_boot(folder: &Path, boot_id: &str) -> io::Result<Self> {
        let path = folder.join(FILE);
        // An unreadable file counts as absent; an operator then has to admit the node again.
        let read = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Kept>(&bytes).ok());
        let (before, told) = match read {
            Some(kept) if kept.boot_id == boot_id && !boot_id.is_empty() => {
                if let Ok(key) = KeyPair::from_pem(&kept.key) {
                    return Ok(Self { path, kept, key });
                }
                (kept.before, kept.told)
            }
            Some(Kept { key, before, told, .. }) => (std::iter::once(key).chain(before).take(BEFORE).collect(), told),
            None => (Vec::new(), None),
        };
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(io::Error::other)?;
        let kept = Kept { boot_id: boot_id.to_owned(), key: key.serialize_pem(), before, told };
        let keys = Self { path, kept, key };
        keys.write()?;
        Ok(keys)
    }

    fn write(&self) -> io::Result<()> {
        status::replace(&self.path, &serde_json::to_vec(&self.kept).map_err(io::Error::from)?, 0o600)
    }

    /// Removes the keys of earlier boots once the controller knows this one.
    pub(super) fn settle(&mut self) {
        if self.kept.before.is_empty() {
            return;
        }
        self.kept.before.clear();
        if let Err(error) = self.write() {
            tracing::warn!("the keys of earlier boots cannot be removed: {error}");
        }
    }

    /// Returns the trusted authorities (PEM) if the user data has `written`.
    pub(super) fn believed<'a>(&'a self, written: &'a str) -> &'a str {
        let told = self.kept.told.as_ref().filter(|told| told.instead_of == digest(written));
        told.map_or(written, |told| told.authorities.as_str())
    }

    /// Stores the authorities received from the controller. Returns true if they differ from the trusted ones.
    /// Unreadable ones are ignored.
    pub(super) fn believe(&mut self, written: &str, authorities: &str) -> bool {
        if authorities == self.believed(written) {
            return false;
        }
        if authorities.len() > AUTHORITIES || Pins::of_pem(authorities).is_none() {
            tracing::warn!("what the controller says of its authorities cannot be read, and is passed over");
            return false;
        }
        self.kept.told = Some(ReceivedAuthorities { instead_of: digest(written), authorities: authorities.to_owned() });
        if let Err(error) = self.write() {
            tracing::warn!("whom to believe is known until the agent ends, and cannot be written down: {error}");
        }
        true
    }

    pub(super) fn hash(&self) -> KeyHash {
        KeyHash::of(&self.key.subject_public_key_info())
    }

    /// Returns a number that differs between nodes.
    pub(super) fn spread(&self) -> u8 {
        self.hash().bytes().first().copied().unwrap_or_default()
    }

    /// Returns a self-signed certificate, which only proves possession of the key.
    pub(super) fn stranger(&self) -> Result<Identity, Fault> {
        let certificate = CertificateParams::default().self_signed(&self.key)?;
        Ok((vec![certificate.der().clone()], self.private()))
    }

    /// Returns the certificate chain issued by the controller.
    pub(super) fn known(&self, chain: &str) -> Result<Identity, Fault> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
        Ok((read.map_err(Fault::Certificate)?, self.private()))
    }

    fn private(&self) -> rustls::pki_types::PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.serialize_der()).into()
    }

    /// Signs this key with a key of an earlier boot; each try uses another one. `None` if none is kept.
    pub(super) fn vouched_for(&self, nonce: &Nonce, tries: usize) -> Option<PreviousKey> {
        let before: Vec<KeyPair> = self.kept.before.iter().filter_map(|pem| KeyPair::from_pem(pem).ok()).collect();
        let previous = before.get(tries.checked_rem(before.len())?)?;
        let signature = previous.sign(&again_message(nonce, &self.hash())).ok()?;
        Some(PreviousKey { public_key: previous.subject_public_key_info(), signature })
    }
}

fn digest(text: &str) -> String {
    Fingerprint::of(text.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_has_one_key_and_the_next_one_is_vouched_for() {
        let folder = tempfile::tempdir().unwrap();
        let hash = |boot: &str| Keys::of_boot(folder.path(), boot).unwrap().hash();
        let first = hash("1");
        assert_eq!(hash("1"), first, "an agent that is started again");
        let mut second = Keys::of_boot(folder.path(), "2").unwrap();
        assert_ne!(second.hash(), first);
        let nonce = Nonce::new([1; 32]);
        let of = |keys: &Keys, tries| keys.vouched_for(&nonce, tries).map(|it| KeyHash::of(&it.public_key));
        assert_eq!(of(&second, 0), Some(first));
        // Interrupted before the controller knew the second key, so it may know either.
        let third = Keys::of_boot(folder.path(), "3").unwrap();
        assert_eq!((of(&third, 0), of(&third, 1)), (Some(second.hash()), Some(first)));
        second = Keys::of_boot(folder.path(), "3").unwrap();
        second.settle();
        assert_eq!(of(&Keys::of_boot(folder.path(), "3").unwrap(), 0), None);
    }

    #[test]
    fn whom_it_believes_outlives_the_boot_but_not_the_instance() {
        let pem = |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
        let (written, both, next) = (pem("AAAA"), pem("AAAA") + &pem("AAAB"), pem("AAAB"));
        let folder = tempfile::tempdir().unwrap();
        let of_boot = |boot: &str| Keys::of_boot(folder.path(), boot).unwrap();
        let mut keys = of_boot("1");
        assert_eq!(keys.believed(&written), written);
        assert!(!keys.believe(&written, &written), "nothing new");
        assert!(keys.believe(&written, &both) && !keys.believe(&written, &both));
        assert!(keys.believe(&written, &next));
        for (boot, what) in [("1", "an agent that is started again"), ("2", "a reboot")] {
            assert_eq!(of_boot(boot).believed(&written), next, "{what}");
        }
        let of_another = pem("AAAC");
        assert_eq!(of_boot("3").believed(&of_another), of_another, "an image was made of the disk");
        let mut keys = of_boot("3");
        for nonsense in ["", "x", &pem("?"), &next.repeat(AUTHORITIES)] {
            assert!(!keys.believe(&written, nonsense));
        }
        assert_eq!(keys.believed(&written), next);
    }

    #[cfg(unix)]
    #[test]
    fn it_is_for_root_and_an_unreadable_one_is_none() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let first = Keys::of_boot(folder.path(), "1").unwrap();
        let mode = std::fs::metadata(&first.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&first.path, "{").unwrap();
        let second = Keys::of_boot(folder.path(), "1").unwrap();
        assert!(second.hash() != first.hash() && second.vouched_for(&Nonce::new([1; 32]), 0).is_none());
    }
}
