//! Results of the selectors of a class.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::nodeclass::{
    Ami, CapacityReservation, InstanceMatchCriteria, ReservationState, ReservationType, SecurityGroup, Subnet,
};
use muster_cloud::{CloudError, capacity_block};

use super::images::AliasError;
use crate::class::PlacementGroup;

/// Results of all lookups for a class. A failed lookup is an error, and the previous result is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Subnets.
    pub subnets: Result<Vec<FoundSubnet>, CloudError>,
    /// Security groups.
    pub security_groups: Result<Vec<SecurityGroup>, CloudError>,
    /// Selected images.
    pub images: Result<Vec<Ami>, ImageError>,
    /// Capacity reservations.
    pub reservations: Result<Vec<FoundReservation>, CloudError>,
    /// Placement group: not selected, missing, or found.
    pub placement_group: Result<Selected, CloudError>,
    /// Name of the instance profile.
    pub instance_profile: Result<String, CloudError>,
    /// Result of the dry run of a launch; `None` if it was not run.
    pub trial: Option<Result<(), Trial>>,
}

/// A subnet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundSubnet {
    /// ID (`subnet-…`).
    pub id: String,
    /// Zone (`eu-west-1a`).
    pub zone: String,
    /// Zone ID (`euw1-az1`).
    pub zone_id: Option<String>,
    /// Number of free addresses.
    pub free: i64,
}

/// A capacity reservation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundReservation {
    /// ID (`cr-…`).
    pub id: String,
    /// Account that owns it.
    pub owner: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: String,
    /// True if launches must name the reservation.
    pub is_targeted: bool,
    /// True if it is a capacity block.
    pub is_block: bool,
    /// True if its owner may reclaim instances.
    pub is_interruptible: bool,
    /// End of the reservation, if it has one.
    pub ends: Option<Timestamp>,
    /// Number of available instances.
    pub free: u32,
}

/// Result of the placement group selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selected {
    /// The class has no selector.
    Nothing,
    /// The selected group does not exist.
    Missing,
    /// The selected group.
    Group(PlacementGroup),
}

/// Reason why no images were selected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The alias is invalid or has no image.
    #[error(transparent)]
    Alias(#[from] AliasError),
    /// The lookup failed.
    #[error(transparent)]
    Cloud(#[from] CloudError),
}

/// Failure of a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Failed call.
    pub call: TrialCall,
    /// Error of the call.
    pub error: CloudError,
}

/// Calls of a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialCall {
    /// `ec2:CreateLaunchTemplate`
    CreateLaunchTemplate,
    /// `ec2:CreateFleet`
    CreateFleet,
    /// `ec2:RunInstances`
    RunInstances,
}

impl Found {
    /// Returns the number of free addresses by subnet.
    #[must_use]
    pub fn addresses(&self) -> Vec<(String, i64)> {
        let subnets = self.subnets.iter().flatten();
        subnets.map(|subnet| (subnet.id.clone(), subnet.free)).collect()
    }

    /// Returns the number of available instances by reservation.
    #[must_use]
    pub fn free_reservations(&self) -> BTreeMap<String, u32> {
        self.reservations.iter().flatten().map(|one| (one.id.clone(), one.free)).collect()
    }

    /// Returns the placement group, if one is selected and exists.
    #[must_use]
    pub fn group(&self) -> Option<PlacementGroup> {
        match &self.placement_group {
            Ok(Selected::Group(group)) => Some(group.clone()),
            _ => None,
        }
    }
}

/// Converts subnets for the status, those with the most free addresses first.
pub(super) fn subnets(found: &[FoundSubnet]) -> Vec<Subnet> {
    let mut found: Vec<&FoundSubnet> = found.iter().collect();
    found.sort_by(|a, b| b.free.cmp(&a.free).then_with(|| a.id.cmp(&b.id)));
    found.dedup_by(|a, b| a.id == b.id);
    let subnet =
        |one: &FoundSubnet| Subnet { id: one.id.clone(), zone: one.zone.clone(), zone_id: one.zone_id.clone() };
    found.into_iter().map(subnet).collect()
}

/// Converts reservations for the status, sorted by ID.
pub(super) fn reservations(found: &[FoundReservation], now: Timestamp) -> Vec<CapacityReservation> {
    let mut all: Vec<CapacityReservation> = found.iter().map(|one| reservation(one, now)).collect();
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all.dedup_by(|a, b| a.id == b.id);
    all
}

fn reservation(found: &FoundReservation, now: Timestamp) -> CapacityReservation {
    let is_closed = found.is_block && found.ends.is_some_and(|end| capacity_block::is_closed(end, now));
    CapacityReservation {
        id: found.id.clone(),
        availability_zone: found.zone.clone(),
        end_time: found.ends.map(Time),
        instance_match_criteria: if found.is_targeted {
            InstanceMatchCriteria::Targeted
        } else {
            InstanceMatchCriteria::Open
        },
        instance_type: found.instance_type.clone(),
        owner_id: found.owner.clone(),
        reservation_type: if found.is_block { ReservationType::CapacityBlock } else { ReservationType::Default },
        interruptible: found.is_interruptible,
        state: if is_closed { ReservationState::Expiring } else { ReservationState::Active },
    }
}
