//! The controller's record of an instance that enrols, and EC2's description of it.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use jiff::Timestamp;

use crate::hex::{from_hex, hex};
use crate::key::{KeyHash, sha256};

/// Enrolment data of the NodeClaim that an instance was launched for. It is found by the instance ID in CreateFleet's
/// answer, so other instances have none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Name of the NodeClaim.
    pub claim: String,
    /// Instance that CreateFleet's answer named for it.
    pub instance: String,
    /// Token of the launch, which is also a tag of the instance.
    pub token: String,
    /// Hashes of the launch template's secrets: the current one, and the one before its rotation.
    pub secrets: Vec<SecretHash>,
    /// Instance type of the launch.
    pub instance_type: String,
    /// AMI of the launch.
    pub image: String,
    /// Availability zone of the launch.
    pub zone: String,
    /// Names of the roles that the NodeClass gives to instances.
    pub roles: BTreeSet<String>,
    /// Enrolment, if it has enrolled.
    pub enrolled: Option<Enrolled>,
    /// True if an operator has permitted the instance to enrol with another key, once.
    pub may_enrol_again: bool,
    /// True if its Node accepts pods already: it is Ready and registered.
    pub is_ready: bool,
    /// True if the NodeClaim is being deleted.
    pub is_ending: bool,
}

/// Record of an enrolment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enrolled {
    /// Key of the instance.
    pub key: KeyHash,
    /// Time of the first enrolment with this key.
    pub at: Timestamp,
}

/// Description of an instance by DescribeInstances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Instance ID.
    pub instance: String,
    /// True if it is pending or running.
    pub is_running: bool,
    /// Value of its tag with the launch token.
    pub token: Option<String>,
    /// Instance type.
    pub instance_type: String,
    /// AMI.
    pub image: String,
    /// Availability zone.
    pub zone: String,
    /// Addresses of its first network interface.
    pub addresses: Vec<IpAddr>,
}

/// SHA-256 of a launch template's secret. Only the hash is stored, so that readers of the records cannot enrol.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// Hashes a secret. It has 256 random bits, so a plain hash cannot be reversed by search.
    #[must_use]
    pub fn of(secret: &str) -> Self {
        Self(sha256(secret.as_bytes()))
    }

    /// Parses 64 hexadecimal digits as [`fmt::Display`] writes them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text).map(Self)
    }

    /// Returns true if this is the hash of `secret`, in constant time.
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
