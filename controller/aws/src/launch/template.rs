//! Content of a launch template, and its names, which are derived from the content.

use std::collections::BTreeMap;

use muster_api::nodeclass::ConnectionTracking;
use muster_link::LaunchKey;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::devices::{Disk, MetadataOptions};

/// Prefix of the names of our launch templates.
pub const NAME_PREFIX: &str = "muster.dev/";

/// Number of names of a template.
const NAMES: u8 = 4;

/// Returns the key of names without agents, when the controller keeps no Secret: the UID of the class, which is random
/// and known only to those who may read the class in the API server.
pub(super) fn key_of_class(uid: &str) -> LaunchKey {
    LaunchKey::new(Sha256::digest(format!("muster.dev/names of templates\0{uid}")).into())
}

/// All settings of an instance that CreateFleet takes from a launch template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Template {
    /// Machine image.
    pub image_id: String,
    /// User data, before base64 encoding.
    pub user_data: String,
    /// Name of the instance profile.
    pub instance_profile: String,
    /// True if metrics are sent every minute; absent means the default of EC2.
    pub detailed_monitoring: Option<bool>,
    /// Disks; if empty, those of the image.
    pub disks: Vec<Disk>,
    /// Settings of the instance metadata service.
    pub metadata: MetadataOptions,
    /// True if virtual machines may run on the instance.
    pub nested_virtualization: Option<bool>,
    /// True if the instance may run enclaves. Left out of the text if absent, so that names of templates stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enclaves: Option<bool>,
    /// Placement.
    pub placement: Placement,
    /// Network interfaces, the primary one first.
    pub interfaces: Vec<Interface>,
    /// Use of capacity reservations.
    pub reservation: Reservation,
    /// Tags of the network interfaces, of a spot request and of the template itself.
    pub tags: BTreeMap<String, String>,
    /// True if the launch makes a spot request, which then has the tags too.
    pub is_spot: bool,
}

/// Placement of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Placement {
    /// Tenancy: `default` or `dedicated`.
    pub tenancy: String,
    /// ID of the placement group.
    pub group_id: Option<String>,
    /// Partition of the placement group, from 1.
    pub partition: Option<i32>,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Index of the network card.
    pub card: i32,
    /// Device index on the card.
    pub device: i32,
    /// Type: `interface`, `efa` or `efa-only`.
    pub kind: &'static str,
    /// Security groups, sorted.
    pub groups: Vec<String>,
    /// True if it gets a public address; absent means the setting of the subnet.
    pub public_address: Option<bool>,
    /// Number of prefixes.
    pub prefixes: Option<i32>,
    /// True if its prefixes and its first address are IPv6.
    pub is_ipv6: bool,
    /// Idle timeouts of connection tracking.
    pub connection_tracking: Option<ConnectionTracking>,
}

/// Use of capacity reservations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Reservation {
    /// No reservation, not even an open one: reservations are counted and used explicitly.
    None,
    /// Only this reservation.
    Only {
        /// ID (`cr-…`).
        id: String,
        /// `capacity-block` or `interruptible-capacity-reservation`, which are separate markets.
        market: Option<&'static str>,
    },
}

// === impl Template ===

impl Template {
    /// Serializes the template. Maps are sorted and every field is written, so equal templates have equal text.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the name and the spare names, derived from the content with a key of the installation. A restarted
    /// controller finds its template by them. Without the key they cannot be computed, so that others cannot take them
    /// in advance; who takes one that they have seen makes the controller use the next.
    pub(super) fn names(&self, key: &LaunchKey) -> (String, Vec<String>) {
        let text = self.text();
        let name = |number| format!("{NAME_PREFIX}{}", key.name(text.as_bytes(), number));
        (name(0), (1..NAMES).map(name).collect())
    }
}
