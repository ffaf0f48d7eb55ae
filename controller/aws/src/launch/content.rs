//! What a launch template says, and its name, which follows from that.

use std::collections::BTreeMap;

use muster_api::nodeclass::ConnectionTracking;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::devices::{Disk, MetadataOptions};

/// What all names of our templates begin with.
pub const NAME_PREFIX: &str = "muster.dev/";

/// Everything of an instance that CreateFleet takes from a launch template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Template {
    /// Machine image.
    pub image_id: String,
    /// User data, not yet encoded as base64.
    pub user_data: String,
    /// Name of the instance profile.
    pub instance_profile: String,
    /// Whether metrics are sent every minute; absent is what EC2 does by itself.
    pub detailed_monitoring: Option<bool>,
    /// Disks; none leaves those of the image.
    pub disks: Vec<Disk>,
    /// The metadata service.
    pub metadata: MetadataOptions,
    /// Whether virtual machines may run on the instance.
    pub nested_virtualization: Option<bool>,
    /// Where it is placed.
    pub placement: Placement,
    /// Network interfaces, the primary one first.
    pub interfaces: Vec<Interface>,
    /// How it uses capacity reservations.
    pub reservation: Reservation,
    /// Tags of the interfaces, of a spot request and of the template itself.
    pub tags: BTreeMap<String, String>,
    /// Whether a spot request is made, which then has the tags too.
    pub is_spot: bool,
}

/// Where an instance is placed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Placement {
    /// `default` or `dedicated`.
    pub tenancy: String,
    /// Placement group.
    pub group_id: Option<String>,
    /// Partition of it, from 1.
    pub partition: Option<i32>,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Network card that it sits on.
    pub card: i32,
    /// Its number on the card.
    pub device: i32,
    /// `interface`, `efa` or `efa-only`.
    pub kind: &'static str,
    /// Security groups, sorted.
    pub groups: Vec<String>,
    /// Whether it gets a public address; absent is what the subnet says.
    pub public_address: Option<bool>,
    /// Prefixes that it gets.
    pub prefixes: Option<i32>,
    /// Whether its prefixes and its first address are of IPv6.
    pub is_ipv6: bool,
    /// How long idle connections are remembered.
    pub connection_tracking: Option<ConnectionTracking>,
}

/// How an instance uses capacity reservations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Reservation {
    /// None, open ones neither: they are counted, and filled on purpose.
    None,
    /// This one and no other.
    Only {
        /// `cr-…`
        id: String,
        /// `capacity-block` or `interruptible-capacity-reservation`, which are markets of their own.
        market: Option<&'static str>,
    },
}

// === impl Template ===

impl Template {
    /// Maps are sorted and every field is written, so the same content has the same text.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Name by content: templates of the same name are the same, whoever made them, and one that is there need not be read.
    #[must_use]
    pub fn name(&self) -> String {
        let digest = Sha256::digest(self.text().as_bytes());
        let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        format!("{NAME_PREFIX}{hex}")
    }
}
