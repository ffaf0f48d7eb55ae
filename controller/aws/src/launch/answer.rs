//! What CreateFleet answered, and what that means.

use muster_cloud::{CapacityType, CloudError, LaunchError, Offering, Refusal, Refused};

use super::plan::{Plan, PlannedTemplate};
use crate::refusal::{self, Meaning};

/// The answer, as far as it counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FleetAnswer {
    /// What was launched: at most one.
    pub had: Option<Had>,
    /// Pools that were tried and could not be had.
    pub errors: Vec<FleetError>,
}

/// An instance of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Had {
    /// `i-…`
    pub instance_id: String,
    /// Its type.
    pub instance_type: String,
    /// Its subnet, if the answer says it.
    pub subnet: Option<String>,
    /// Its zone, if the answer says it.
    pub zone: Option<String>,
    /// Name of the template that it was launched from, if the answer says it.
    pub template: Option<String>,
}

/// An error of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FleetError {
    /// AWS's code.
    pub code: String,
    /// AWS's words.
    pub message: String,
    /// Type that it is about.
    pub instance_type: Option<String>,
    /// Subnet that it is about.
    pub subnet: Option<String>,
    /// Zone that it is about.
    pub zone: Option<String>,
}

/// What came of a fleet: the instance with what was bought and from which template, or why there is none; and what was
/// refused.
///
/// # Errors
/// If there is no instance. That is what came of the token.
#[expect(clippy::type_complexity, reason = "three things that belong to nothing but this answer")]
pub fn outcome<'a>(
    plan: &'a Plan,
    answer: &'a FleetAnswer,
) -> Result<(&'a Had, Offering, Option<&'a PlannedTemplate>, Vec<Refused>), LaunchError> {
    let mut refused: Vec<Refused> = Vec::new();
    let mut other: Option<CloudError> = None;
    for error in &answer.errors {
        match refusal::meaning(&error.code, &error.message, error.subnet.as_deref()) {
            Meaning::Refused(refusal) => {
                for offering in about(plan, error, &refusal) {
                    let one = Refused { offering, refusal: refusal.clone() };
                    if !refused.contains(&one) {
                        refused.push(one);
                    }
                }
            }
            _ => {
                let about = error.instance_type.as_deref().unwrap_or("the fleet");
                other
                    .get_or_insert_with(|| refusal::cloud_error("ec2:CreateFleet", &error.code, &error.message, about));
            }
        }
    }
    // Cheapest first, as they were asked for, whatever the order of the answer.
    let asked: Vec<&Offering> = plan.templates.iter().flat_map(|one| &one.overrides).map(|one| &one.offering).collect();
    refused.sort_by_key(|one| asked.iter().position(|offering| **offering == one.offering));
    if let Some(had) = &answer.had {
        let (offering, template) = bought(plan, had);
        return Ok((had, offering, template, refused));
    }
    // One error that another offering would not mend is told before those that it would: as with Karpenter.
    let error = match other {
        Some(error) => error,
        None if refused.is_empty() => {
            CloudError::Transient { message: "CreateFleet launched nothing and does not say why".to_owned() }
        }
        None => CloudError::NoCapacity { refused },
    };
    Err(LaunchError::outcome(error))
}

/// The offerings of the request that an error is about. One that names no pool is about all of them.
fn about(plan: &Plan, error: &FleetError, refusal: &Refusal) -> Vec<Offering> {
    let overrides = plan.templates.iter().flat_map(|one| &one.overrides);
    let is_meant = |one: &&super::plan::Override| {
        let same = |said: Option<&str>, is: &str| said.is_none_or(|said| said == is);
        let everywhere = matches!(refusal, Refusal::SpotRole);
        let in_subnet = matches!(refusal, Refusal::Addresses { .. });
        everywhere
            || (in_subnet || same(error.instance_type.as_deref(), &one.offering.instance_type))
                && same(error.subnet.as_deref(), &one.subnet)
                && same(error.zone.as_deref(), &one.offering.zone)
    };
    overrides.filter(is_meant).map(|one| one.offering.clone()).collect()
}

/// What the instance was bought as: the override that has its type and subnet.
fn bought<'a>(plan: &'a Plan, had: &Had) -> (Offering, Option<&'a PlannedTemplate>) {
    let mut all = plan.templates.iter().flat_map(|planned| planned.overrides.iter().map(move |one| (planned, one)));
    let fits = |(_, one): &(&PlannedTemplate, &super::plan::Override)| {
        one.offering.instance_type == had.instance_type
            && had.subnet.as_ref().is_none_or(|subnet| *subnet == one.subnet)
            && had.zone.as_ref().is_none_or(|zone| *zone == one.offering.zone)
    };
    match all.find(fits) {
        Some((planned, one)) => (one.offering.clone(), Some(planned)),
        // What came of an earlier request with the token, which was another one.
        None => {
            let offering = Offering {
                instance_type: had.instance_type.clone(),
                zone: had.zone.clone().unwrap_or_default(),
                capacity_type: if plan.capacity_type == CapacityType::Reserved {
                    CapacityType::OnDemand
                } else {
                    plan.capacity_type
                },
                reservation: None,
            };
            (offering, plan.templates.iter().find(|one| Some(&one.name) == had.template.as_ref()))
        }
    }
}
