//! Nonces, each given to one key for one attempt and a short time.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::key::{KeyHash, from_hex, hex};

/// Length of a nonce in bytes.
pub const NONCE_BYTES: usize = 32;
/// Lifetime of a nonce, from the agent's challenge to its evidence: reading metadata and signing take milliseconds, and
/// retries of them seconds.
pub const NONCE_LIFE: SignedDuration = SignedDuration::from_secs(60);

/// Nonce of 32 random bytes chosen by the controller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nonce([u8; NONCE_BYTES]);

/// Nonce with its key and expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    /// The nonce.
    pub nonce: Nonce,
    /// Key of the connection that it was given to.
    pub key: KeyHash,
    /// Time of expiry.
    pub expires_at: Timestamp,
}

/// Error: the replica's limit of outstanding nonces is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many nodes are enrolling at once")]
pub struct TooMany;

/// Outstanding nonces, at most one per key and a limited number per replica. A client that floods it with keys does not
/// displace the nonces of others.
#[derive(Debug)]
pub struct Nonces {
    by_key: BTreeMap<KeyHash, Given>,
    most: usize,
}

// === impl Nonce ===

impl Nonce {
    /// Makes a nonce of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; NONCE_BYTES]) -> Self {
        Self(bytes)
    }

    /// Reads the nonce of an agent; `None` if it has another length.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Parses 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text).map(Self)
    }

    /// Returns the 32 bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

// === impl Nonces ===

impl Nonces {
    /// Keeps at most `most` nonces.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { by_key: BTreeMap::new(), most }
    }

    /// Gives a nonce to a key; its previous nonce becomes invalid.
    ///
    /// # Errors
    /// The limit is reached, and none of the nonces has expired.
    pub fn give(&mut self, nonce: Nonce, key: KeyHash, now: Timestamp) -> Result<Given, TooMany> {
        if self.by_key.len() >= self.most && !self.by_key.contains_key(&key) {
            self.by_key.retain(|_, given| now < given.expires_at);
            if self.by_key.len() >= self.most {
                return Err(TooMany);
            }
        }
        let expires_at = now.saturating_add(NONCE_LIFE).unwrap_or(Timestamp::MAX);
        let given = Given { nonce, key, expires_at };
        self.by_key.insert(key, given);
        Ok(given)
    }

    /// Takes the key's nonce: whatever the result of the attempt, the next one needs another nonce.
    pub fn take(&mut self, key: &KeyHash) -> Option<Given> {
        self.by_key.remove(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: u8) -> KeyHash {
        KeyHash::of(&[name])
    }

    #[test]
    fn a_nonce_is_taken_once() {
        let mut nonces = Nonces::new(8);
        let given = nonces.give(Nonce::new([1; 32]), key(1), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(given.expires_at, Timestamp::from_second(60).unwrap());
        assert_eq!(nonces.take(&key(2)), None, "another key");
        assert_eq!(nonces.take(&key(1)), Some(given));
        assert_eq!(nonces.take(&key(1)), None);
    }

    #[test]
    fn a_flood_of_keys_displaces_nobody() {
        let mut nonces = Nonces::new(2);
        let now = Timestamp::UNIX_EPOCH;
        for name in [1, 2] {
            nonces.give(Nonce::new([name; 32]), key(name), now).unwrap();
        }
        assert_eq!(nonces.give(Nonce::new([3; 32]), key(3), now), Err(TooMany));
        let again = nonces.give(Nonce::new([4; 32]), key(2), now).unwrap();
        assert_eq!(nonces.take(&key(2)), Some(again), "who has one may ask anew");
        nonces.give(Nonce::new([5; 32]), key(5), now).unwrap();
        let later = now + NONCE_LIFE;
        assert!(nonces.give(Nonce::new([6; 32]), key(6), later).is_ok(), "those of before have expired");
        assert_eq!(nonces.take(&key(1)), None);
    }
}
