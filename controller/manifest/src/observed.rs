//! Knowledge of a running controller that no object of the cluster holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use muster_scheduling::model::ClosedZone;

/// Observations of a controller in its cloud; nothing is known for input from files or from a cluster alone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ObservedCloud {
    /// Time of the snapshot.
    pub at: Option<Timestamp>,
    /// Instances of the last list, by `status.providerID` of their NodeClaims.
    pub instances: Arc<BTreeMap<Arc<str>, ObservedInstance>>,
    /// True if the cloud has listed its instance types, so that one that is missing in a catalogue does not exist.
    pub has_all_types: bool,
    /// Zones in which nothing is launched for now.
    pub closed_zones: Vec<ClosedZone>,
}

/// An instance as its cloud describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedInstance {
    /// Machine image.
    pub image: Option<Arc<str>>,
    /// Subnet of its first network interface.
    pub subnet: Option<Arc<str>>,
    /// Security groups, sorted; empty if they are not known.
    pub security_groups: Vec<Arc<str>>,
    /// Capacity reservation that it was launched into.
    pub reservation: Option<Arc<str>>,
    /// ID of its placement group.
    pub placement_group: Option<Arc<str>>,
}
