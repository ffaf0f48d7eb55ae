//! Secrets and names of launch templates, derived from a template's content with a key that only the controller has.
//!
//! A template's name follows from its content, so that it is found again after a crash. A random secret would make
//! another template each time. A derived secret is the same for the same template, differs for every other, and does
//! not reveal the key.

use std::fmt;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};

use crate::hex::{Hex, from_hex};

/// Prefix of a token, so that it is recognized wherever it appears.
const PREFIX: &str = "mlt-";
/// Prefix of what a name is derived from. The content of a template never begins with it, so a name says nothing about
/// the secret of the same template.
const NAME: &[u8] = b"name\0";
/// Number of bytes of a name: 128 bits.
const NAME_BYTES: usize = 16;
/// Length of the key in bytes.
pub const LAUNCH_KEY_BYTES: usize = 32;

/// Key from which secrets of launch templates are derived.
#[derive(Clone, PartialEq, Eq)]
pub struct LaunchKey([u8; LAUNCH_KEY_BYTES]);

impl LaunchKey {
    /// Makes a key of these random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; LAUNCH_KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Parses 64 hexadecimal digits as [`Self::expose`] writes them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text).map(Self)
    }

    /// Returns the key as text, to be stored.
    #[must_use]
    pub fn expose(&self) -> String {
        Hex(&self.0).to_string()
    }

    /// Returns the secret of a template with this content.
    #[must_use]
    pub fn token(&self, content: &[u8]) -> String {
        let tag = sign(&Key::new(HMAC_SHA256, &self.0), content);
        format!("{PREFIX}{}", Hex(tag.as_ref()))
    }

    /// Returns a name for a template with this content, in hexadecimal digits. Without the key it cannot be computed in
    /// advance. `number` tells the names of one content apart.
    #[must_use]
    pub fn name(&self, content: &[u8], number: u8) -> String {
        let tag = sign(&Key::new(HMAC_SHA256, &self.0), &[NAME, &[number], content].concat());
        Hex(tag.as_ref().get(..NAME_BYTES).unwrap_or_default()).to_string()
    }
}

impl fmt::Debug for LaunchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_same_for_the_same_content_and_key_only() {
        let (one, other) = (LaunchKey::new([1; 32]), LaunchKey::new([2; 32]));
        let token = one.token(b"a");
        assert_eq!(token, one.token(b"a"));
        assert!(token != one.token(b"b") && token != other.token(b"a"));
        assert_eq!(token.len(), PREFIX.len() + 64);
        let name = one.name(b"a", 0);
        assert_eq!((name.clone(), name.len()), (one.name(b"a", 0), 32));
        assert!([one.name(b"b", 0), one.name(b"a", 1), other.name(b"a", 0)].iter().all(|it| *it != name));
        assert!(!token.contains(&name));
        assert_eq!(LaunchKey::parse(&one.expose()), Some(one.clone()));
        assert_eq!(LaunchKey::parse("01"), None);
        assert_eq!(format!("{one:?}"), "[hidden]");
    }
}
