//! Launch requests and their results.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Taint;
use muster_api::NodeClassReference;

use crate::instance::{Instance, Offering};
use crate::token::LaunchToken;

/// An offering that a NodeClaim may be launched as.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// Offering to buy.
    pub offering: Offering,
    /// Price in USD per hour.
    pub price: f64,
}

/// A request to launch one instance.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchRequest {
    /// Idempotency token.
    pub token: LaunchToken,
    /// Name of the NodeClaim.
    pub claim: String,
    /// NodePool of the claim, if it has one.
    pub pool: Option<String>,
    /// NodeClass with the cloud-specific settings.
    pub class: NodeClassReference,
    /// Offerings that may be launched, cheapest first, all of one capacity type; never empty.
    pub alternatives: Vec<Alternative>,
    /// True if the claim sets `minValues`, so that the cloud may not leave out alternatives.
    pub keeps_choice: bool,
    /// Labels that the Node registers with.
    pub labels: BTreeMap<String, String>,
    /// Taints that the Node registers with: the claim's taints, then its startup taints.
    pub taints: Vec<Taint>,
    /// Total requests of the pods that the node is launched for, by resource.
    pub requests: BTreeMap<String, String>,
    /// True if the pods claim network devices, so that all that the instance can have are attached.
    pub has_network_devices: bool,
    /// Tags of the instance, in addition to those of the NodeClass.
    pub tags: BTreeMap<String, String>,
    /// Changes of NodeOverlays to the alternatives.
    pub overlaid: Overlaid,
}

/// Changes of NodeOverlays to the offerings that a NodeClaim may be launched as.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overlaid {
    /// True if an alternative has another price than the cloud's, so that the order of the alternatives decides, and
    /// not the prices that the cloud knows.
    pub has_prices: bool,
    /// Resources that the nodes have besides those that the cloud knows, by instance type.
    pub capacity: BTreeMap<String, BTreeMap<String, String>>,
}

/// Reason why an offering was not available.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The zone has no capacity for the instance type.
    Capacity,
    /// The subnet has no free addresses.
    Addresses {
        /// Identifier of the subnet.
        subnet: String,
    },
    /// An account quota is reached, for vCPUs or for spot requests.
    Quota {
        /// Error code of the cloud, such as `VcpuLimitExceeded`.
        code: String,
    },
    /// The instance type is not supported in the zone, or not in this configuration.
    Unsupported,
    /// The capacity reservation is used up.
    Reservation,
    /// The placement group has no capacity in this zone.
    PlacementGroup,
    /// The account lacks the service-linked role that spot instances require.
    SpotRole,
    /// Traffic is shifted away from the zone, so that it was not asked for.
    ZonalShift,
}

/// An offering that was tried and refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refused {
    /// Offering that was tried.
    pub offering: Offering,
    /// Reason for the refusal.
    pub refusal: Refusal,
}

/// Result of a successful launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Launched {
    /// The launched instance.
    pub instance: Instance,
    /// Offerings that were tried before and refused.
    pub refused: Vec<Refused>,
}

// === impl Refusal ===

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capacity => f.write_str("no capacity"),
            Self::Addresses { subnet } => write!(f, "no free addresses in {subnet}"),
            Self::Quota { code } => write!(f, "quota reached ({code})"),
            Self::Unsupported => f.write_str("not supported there"),
            Self::Reservation => f.write_str("reservation used up"),
            Self::PlacementGroup => f.write_str("placement group full"),
            Self::SpotRole => f.write_str("the service-linked role of spot is missing"),
            Self::ZonalShift => f.write_str("the zone is shifted away"),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.offering, self.refusal)
    }
}
