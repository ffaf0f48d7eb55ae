//! Nonces, each given to one connection for one attempt and a short time.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::hex::{from_hex, hex};
use crate::key::KeyHash;

/// Length of a nonce in bytes.
pub const NONCE_BYTES: usize = 32;
/// Lifetime of a nonce, from the agent's challenge to its evidence: reading metadata and signing take milliseconds, and
/// retries of them seconds.
pub const NONCE_LIFE: SignedDuration = SignedDuration::from_secs(60);

/// Purpose prefix of the message that a previous key signs, so that a signature for another purpose does not fit.
const AGAIN: &[u8] = b"muster-enrol-again";

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

/// Place for the outstanding nonce of one connection. A nonce is good only on the connection that asked for it, so it
/// lives there and ends with it: there is no table that strangers could fill.
#[derive(Debug, Default)]
pub struct NonceSlot(Option<Given>);

/// Returns the message that the previous key signs when an instance enrols again with a new one.
#[must_use]
pub fn again_message(nonce: &Nonce, key: &KeyHash) -> Vec<u8> {
    [AGAIN, nonce.bytes(), key.bytes()].concat()
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

// === impl NonceSlot ===

impl NonceSlot {
    /// Gives a nonce to the connection's key; the previous nonce becomes invalid.
    pub fn give(&mut self, nonce: Nonce, key: KeyHash, now: Timestamp) -> Given {
        let expires_at = now.saturating_add(NONCE_LIFE).unwrap_or(Timestamp::MAX);
        *self.0.insert(Given { nonce, key, expires_at })
    }

    /// Takes the nonce: whatever the result of the attempt, the next one needs another nonce.
    pub fn take(&mut self) -> Option<Given> {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_taken_once_and_the_next_one_replaces_it() {
        let (mut slot, key) = (NonceSlot::default(), KeyHash::of(&[1]));
        assert_eq!(slot.take(), None);
        let first = slot.give(Nonce::new([1; 32]), key, Timestamp::UNIX_EPOCH);
        assert_eq!(first.expires_at, Timestamp::from_second(60).unwrap());
        let second = slot.give(Nonce::new([2; 32]), key, Timestamp::UNIX_EPOCH);
        assert_eq!(slot.take(), Some(second));
        assert_eq!(slot.take(), None);
    }
}
