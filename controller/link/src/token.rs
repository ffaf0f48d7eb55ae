//! The secrets of launch templates: made from what the template says, by a key that only the controller has.
//!
//! A template's name follows from its content, so that it is found again after a crash. A secret that were drawn would make it
//! another template each time; one that is made from the rest of the content is the same for the same template, another for every
//! other, and says nothing of the key.

use std::fmt;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};

use crate::key::{Hex, from_hex};

/// What a token begins with, so that it is known for what it is wherever it turns up.
const PREFIX: &str = "mlt-";
/// Length of the key.
pub const LAUNCH_KEY_BYTES: usize = 32;

/// The key that secrets of launch templates are made by.
#[derive(Clone, PartialEq, Eq)]
pub struct LaunchKey([u8; LAUNCH_KEY_BYTES]);

impl LaunchKey {
    /// A key of these random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; LAUNCH_KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// From 64 hexadecimal digits, as [`Self::expose`] writes them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text).map(Self)
    }

    /// The text of it, for the one who keeps it.
    #[must_use]
    pub fn expose(&self) -> String {
        Hex(&self.0).to_string()
    }

    /// The secret of a template with this content.
    #[must_use]
    pub fn token(&self, content: &[u8]) -> String {
        let tag = sign(&Key::new(HMAC_SHA256, &self.0), content);
        format!("{PREFIX}{}", Hex(tag.as_ref()))
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
        assert_eq!(LaunchKey::parse(&one.expose()), Some(one.clone()));
        assert_eq!(LaunchKey::parse("01"), None);
        assert_eq!(format!("{one:?}"), "[hidden]");
    }
}
