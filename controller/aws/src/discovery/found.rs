//! What the selectors of a class have found.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::nodeclass::{
    Ami, CapacityReservation, InstanceMatchCriteria, ReservationState, ReservationType, SecurityGroup, Subnet,
};
use muster_cloud::CloudError;

use super::images::AliasError;
use crate::class::PlacementGroup;

/// A capacity block expires so long before its end: EC2 begins to take its instances back 30 minutes before.
const EXPIRING: i64 = 40 * 60;

/// Everything that was looked up for a class. What could not be is an error, and what was known of it before stays.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Subnets.
    pub subnets: Result<Vec<FoundSubnet>, CloudError>,
    /// Security groups.
    pub security_groups: Result<Vec<SecurityGroup>, CloudError>,
    /// Images, chosen.
    pub images: Result<Vec<Ami>, ImageError>,
    /// Capacity reservations.
    pub reservations: Result<Vec<FoundReservation>, CloudError>,
    /// The placement group: none is selected, or it may not exist.
    pub placement_group: Result<Selected, CloudError>,
    /// Name of the instance profile.
    pub instance_profile: Result<String, CloudError>,
    /// What a launch that is only tried out would meet; none if it was not tried.
    pub trial: Option<Result<(), Trial>>,
}

/// A subnet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundSubnet {
    /// `subnet-…`
    pub id: String,
    /// `eu-west-1a`
    pub zone: String,
    /// `euw1-az1`
    pub zone_id: Option<String>,
    /// Addresses that are free.
    pub free: i64,
}

/// A capacity reservation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundReservation {
    /// `cr-…`
    pub id: String,
    /// Account that owns it.
    pub owner: String,
    /// Type of its instances.
    pub instance_type: String,
    /// Zone of its instances.
    pub zone: String,
    /// Whether launches have to name it.
    pub is_targeted: bool,
    /// Whether it is a capacity block.
    pub is_block: bool,
    /// Whether its owner may take instances back.
    pub is_interruptible: bool,
    /// When it ends, if it does.
    pub ends: Option<Timestamp>,
    /// Instances that it still takes.
    pub free: u32,
}

/// What became of the selector of a placement group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selected {
    /// There is no selector.
    Nothing,
    /// What it selects does not exist.
    Missing,
    /// This one.
    Group(PlacementGroup),
}

/// Why there are no images.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The alias names none.
    #[error(transparent)]
    Alias(#[from] AliasError),
    /// They could not be looked up.
    #[error(transparent)]
    Cloud(#[from] CloudError),
}

/// What a trial of a launch met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Which call.
    pub call: TrialCall,
    /// What it met.
    pub error: CloudError,
}

/// The calls that are tried out.
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
    /// Free addresses by subnet.
    #[must_use]
    pub fn addresses(&self) -> Vec<(String, i64)> {
        let subnets = self.subnets.iter().flatten();
        subnets.map(|subnet| (subnet.id.clone(), subnet.free)).collect()
    }

    /// How many instances each reservation still takes.
    #[must_use]
    pub fn free_reservations(&self) -> BTreeMap<String, u32> {
        self.reservations.iter().flatten().map(|one| (one.id.clone(), one.free)).collect()
    }

    /// The placement group, if one is selected and exists.
    #[must_use]
    pub fn group(&self) -> Option<PlacementGroup> {
        match &self.placement_group {
            Ok(Selected::Group(group)) => Some(group.clone()),
            _ => None,
        }
    }
}

/// As the status has them: those with the most free addresses first.
pub(super) fn subnets(found: &[FoundSubnet]) -> Vec<Subnet> {
    let mut found: Vec<&FoundSubnet> = found.iter().collect();
    found.sort_by(|a, b| b.free.cmp(&a.free).then_with(|| a.id.cmp(&b.id)));
    found.dedup_by(|a, b| a.id == b.id);
    let subnet =
        |one: &FoundSubnet| Subnet { id: one.id.clone(), zone: one.zone.clone(), zone_id: one.zone_id.clone() };
    found.into_iter().map(subnet).collect()
}

/// As the status has them, sorted by id.
pub(super) fn reservations(found: &[FoundReservation], now: Timestamp) -> Vec<CapacityReservation> {
    let mut all: Vec<CapacityReservation> = found.iter().map(|one| reservation(one, now)).collect();
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all.dedup_by(|a, b| a.id == b.id);
    all
}

fn reservation(found: &FoundReservation, now: Timestamp) -> CapacityReservation {
    let is_near = found.ends.is_some_and(|ends| ends.as_second().saturating_sub(now.as_second()) <= EXPIRING);
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
        state: if found.is_block && is_near { ReservationState::Expiring } else { ReservationState::Active },
    }
}
