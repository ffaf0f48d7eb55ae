//! What the controller knows of an instance that wants to enrol: its NodeClaim, and what EC2 says of it now.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use jiff::Timestamp;

use crate::key::{KeyHash, from_hex, hex, sha256};

/// The NodeClaim that an instance was launched for, as far as its enrolment is concerned. Found by the instance that CreateFleet's
/// answer named, so an instance that nobody launched has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Name of the NodeClaim.
    pub claim: String,
    /// The instance that CreateFleet's answer named for it.
    pub instance: String,
    /// The token of the launch that it was, which is also the instance's tag.
    pub token: String,
    /// Secrets of the launch template that it was launched with: the present one, and the one before its rotation.
    pub secrets: Vec<SecretHash>,
    /// What it was launched as.
    pub instance_type: String,
    /// Its machine image.
    pub image: String,
    /// Its zone.
    pub zone: String,
    /// Names of the roles that its class gives to instances.
    pub roles: BTreeSet<String>,
    /// The key that it has enrolled with, if it has.
    pub enrolled: Option<Enrolled>,
    /// Whether an operator has said that the instance may enrol with another key, once.
    pub may_enrol_again: bool,
    /// Whether its Node takes pods already: it is Ready, and has registered.
    pub is_ready: bool,
    /// Whether the NodeClaim is being deleted.
    pub is_ending: bool,
}

/// That an instance has enrolled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enrolled {
    /// With this key.
    pub key: KeyHash,
    /// For the first time with this key.
    pub at: Timestamp,
}

/// What DescribeInstances says of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Its ID.
    pub instance: String,
    /// Whether it is pending or running.
    pub is_running: bool,
    /// The value of its tag with the launch's token.
    pub token: Option<String>,
    /// Its type.
    pub instance_type: String,
    /// Its image.
    pub image: String,
    /// Its zone.
    pub zone: String,
    /// The addresses of its first network interface.
    pub addresses: Vec<IpAddr>,
}

/// SHA-256 of a launch template's secret: what is kept of it, so that whoever reads the records cannot enrol.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// Of a secret. It has 256 random bits, so a plain hash cannot be searched.
    #[must_use]
    pub fn of(secret: &str) -> Self {
        Self(sha256(secret.as_bytes()))
    }

    /// From 64 hexadecimal digits, as [`fmt::Display`] writes them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text).map(Self)
    }

    /// Whether this is the hash of `secret`, in a time that says nothing about it.
    #[must_use]
    pub fn is_of(&self, secret: &str) -> bool {
        verify_slices_are_equal(&self.0, &sha256(secret.as_bytes())).is_ok()
    }
}

impl fmt::Display for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}
