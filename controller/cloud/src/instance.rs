//! Instances and offerings.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use muster_api::labels;

use crate::token::LaunchToken;

/// Purchase option of capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapacityType {
    /// Reserved in advance, and paid for whether used or not.
    Reserved,
    /// Spare capacity that the cloud may reclaim.
    Spot,
    /// Billed by the second.
    OnDemand,
}

/// A string that is not the name of a [`CapacityType`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a capacity type: use on-demand, reserved or spot")]
pub struct UnknownCapacityType(String);

/// A combination of instance type, zone and capacity type that can be bought.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offering {
    /// Name of the instance type, such as `m7g.large`.
    pub instance_type: String,
    /// Zone, such as `eu-west-1a`.
    pub zone: String,
    /// Capacity type.
    pub capacity_type: CapacityType,
    /// Capacity reservation that is used, for [`CapacityType::Reserved`].
    pub reservation: Option<String>,
}

/// Lifecycle state of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstanceState {
    /// It is starting.
    Pending,
    /// It is running.
    Running,
    /// It is being stopped and can be started again.
    Stopping,
    /// It is stopped and can be started again.
    Stopped,
    /// It is being terminated.
    ShuttingDown,
    /// It is terminated.
    Terminated,
}

/// An instance of this cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// The Node's `spec.providerID`, such as `aws:///eu-west-1a/i-0123456789abcdef0`.
    pub provider_id: String,
    /// Offering that the instance was launched as.
    pub offering: Offering,
    /// Lifecycle state.
    pub state: InstanceState,
    /// Reason for the state as reported by the cloud; for EC2 the code and message of `StateReason`.
    pub state_reason: Option<String>,
    /// Launch time.
    pub launched_at: Timestamp,
    /// Token of the launch that created it; absent if another program launched it.
    pub token: Option<LaunchToken>,
    /// Machine image.
    pub image_id: Option<String>,
    /// Subnet of its first network interface, if the cloud has said.
    pub subnet: Option<String>,
    /// Security groups; empty if the cloud has not said.
    pub security_groups: Vec<String>,
    /// Placement group that it runs in, by ID.
    pub placement_group: Option<String>,
    /// Labels that its Node gets from its instance type and offering.
    pub labels: BTreeMap<String, String>,
    /// Annotations for its NodeClaim that describe the launch, such as the hash of its NodeClass.
    pub annotations: BTreeMap<String, String>,
    /// Capacity that the Node will report, by resource.
    pub capacity: BTreeMap<String, String>,
    /// Allocatable quantities for pods, by resource.
    pub allocatable: BTreeMap<String, String>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// Default name of its Node, if the cloud knows one.
    pub host_name: Option<String>,
}

// === impl CapacityType ===

impl CapacityType {
    /// Value of the label `karpenter.sh/capacity-type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reserved => labels::RESERVED,
            Self::Spot => labels::SPOT,
            Self::OnDemand => labels::ON_DEMAND,
        }
    }
}

impl fmt::Display for CapacityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CapacityType {
    type Err = UnknownCapacityType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Self::Reserved, Self::Spot, Self::OnDemand];
        all.into_iter().find(|one| one.name() == text).ok_or_else(|| UnknownCapacityType(text.to_owned()))
    }
}

// === impl Offering ===

impl fmt::Display for Offering {
    /// Formats as `m7g.large/eu-west-1a/spot`, followed by the reservation if there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.instance_type, self.zone, self.capacity_type)?;
        self.reservation.as_ref().map_or(Ok(()), |reservation| write!(f, "/{reservation}"))
    }
}

// === impl InstanceState ===

impl InstanceState {
    /// Returns the name that EC2 uses for the state.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
        }
    }

    /// Returns true if the instance is being terminated or is terminated.
    #[must_use]
    pub const fn is_ending(self) -> bool {
        matches!(self, Self::ShuttingDown | Self::Terminated)
    }
}

impl fmt::Display for InstanceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
