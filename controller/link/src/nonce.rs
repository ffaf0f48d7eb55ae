//! Nonces: each is given to one key, for one attempt, for a short time.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::key::{KeyHash, from_hex, hex};

/// Length of a nonce.
pub const NONCE_BYTES: usize = 32;
/// How long an agent may take from its challenge to its evidence: reading metadata and signing take milliseconds, and a retry of
/// each of them seconds.
pub const NONCE_LIFE: SignedDuration = SignedDuration::from_secs(60);

/// 32 random bytes that the controller chose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nonce([u8; NONCE_BYTES]);

/// Whom a nonce was given to, and until when it is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    /// The nonce.
    pub nonce: Nonce,
    /// The key of the connection that it was given to.
    pub key: KeyHash,
    /// When it is of no use any more.
    pub expires_at: Timestamp,
}

/// More nonces are out than this replica keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many nodes are enrolling at once")]
pub struct TooMany;

/// The nonces that are out. A key has one at most, and a replica only so many: whoever floods it with keys takes the place of
/// nobody who has one.
#[derive(Debug)]
pub struct Nonces {
    by_key: BTreeMap<KeyHash, Given>,
    most: usize,
}

// === impl Nonce ===

impl Nonce {
    /// A nonce of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; NONCE_BYTES]) -> Self {
        Self(bytes)
    }

    /// The nonce that an agent names; `None` if it has another length.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// From 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text).map(Self)
    }

    /// The 32 bytes.
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
    /// Keeps this many at most.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { by_key: BTreeMap::new(), most }
    }

    /// Gives a nonce to a key; the one that it had is of no use any more.
    ///
    /// # Errors
    /// As many are out as are kept, and none of them has expired.
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

    /// What the key was given. It is taken: whatever comes of the attempt, the next one needs another nonce.
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
