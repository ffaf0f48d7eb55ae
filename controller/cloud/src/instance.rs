//! Instances, and the ways to buy them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use muster_api::labels;

use crate::launch::LaunchToken;

/// How capacity is bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapacityType {
    /// Reserved ahead, and paid for whether it runs or not.
    Reserved,
    /// Spare capacity that may be taken back.
    Spot,
    /// Bought by the second.
    OnDemand,
}

/// A text that names no [`CapacityType`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a capacity type: use on-demand, reserved or spot")]
pub struct UnknownCapacityType(String);

/// One way to buy an instance type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offering {
    /// Name of the type, such as `m7g.large`.
    pub instance_type: String,
    /// Zone, such as `eu-west-1a`.
    pub zone: String,
    /// How it is bought.
    pub capacity_type: CapacityType,
    /// Reservation that it is taken from, for [`CapacityType::Reserved`].
    pub reservation: Option<String>,
}

/// What an instance is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstanceState {
    /// It is being made.
    Pending,
    /// It runs.
    Running,
    /// It is being stopped, and can be started again.
    Stopping,
    /// It does not run, and can be started again.
    Stopped,
    /// It is being ended.
    ShuttingDown,
    /// It has ended.
    Terminated,
}

/// An instance of this cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// What the Node has as `spec.providerID`, such as `aws:///eu-west-1a/i-0123456789abcdef0`.
    pub provider_id: String,
    /// What was bought.
    pub offering: Offering,
    /// What it is doing.
    pub state: InstanceState,
    /// Why it is doing that, as the cloud says; for EC2 the code and message of `StateReason`.
    pub state_reason: Option<String>,
    /// When it was launched.
    pub launched_at: Timestamp,
    /// Token of the launch that made it; absent where another program launched it.
    pub token: Option<LaunchToken>,
    /// Machine image.
    pub image_id: Option<String>,
    /// Labels that its node will have because of what it is.
    pub labels: BTreeMap<String, String>,
    /// Annotations of its NodeClaim that say how it was launched, such as the hash of its class.
    pub annotations: BTreeMap<String, String>,
    /// Quantities that the node will report as capacity, by resource.
    pub capacity: BTreeMap<String, String>,
    /// Quantities that pods may use, by resource.
    pub allocatable: BTreeMap<String, String>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// Name that its Node would have if nobody chose another, where the cloud knows one.
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
    /// `m7g.large/eu-west-1a/spot`; the reservation last, if there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.instance_type, self.zone, self.capacity_type)?;
        self.reservation.as_ref().map_or(Ok(()), |reservation| write!(f, "/{reservation}"))
    }
}

// === impl InstanceState ===

impl InstanceState {
    /// As EC2 spells it.
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

    /// Whether the instance is on its way out, or is out.
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
