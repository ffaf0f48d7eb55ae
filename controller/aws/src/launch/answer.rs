//! CreateFleet response and its interpretation.

use muster_cloud::{CapacityType, CloudError, LaunchError, Offering, Refusal, Refused};

use super::plan::{Override, Plan, PlannedTemplate};
use crate::error_codes::{self, Meaning};

/// Relevant part of the response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FleetAnswer {
    /// Launched instance: at most one.
    pub had: Option<Had>,
    /// Errors of the pools that were tried.
    pub errors: Vec<FleetError>,
}

/// An instance in the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Had {
    /// ID (`i-…`).
    pub instance_id: String,
    /// Instance type.
    pub instance_type: String,
    /// Subnet, if the response has it.
    pub subnet: Option<String>,
    /// Zone, if the response has it.
    pub zone: Option<String>,
    /// Name of its launch template, if the response has it.
    pub template: Option<String>,
}

/// An error in the response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FleetError {
    /// Error code of AWS.
    pub code: String,
    /// Error message of AWS.
    pub message: String,
    /// Instance type that the error refers to.
    pub instance_type: Option<String>,
    /// Subnet that the error refers to.
    pub subnet: Option<String>,
    /// Zone that the error refers to.
    pub zone: Option<String>,
}

impl FleetAnswer {
    /// Returns the subnet of the launched instance: that of the response, or that of its override.
    #[must_use]
    pub fn subnet<'a>(&'a self, plan: &'a Plan) -> Option<&'a str> {
        let had = self.had.as_ref()?;
        had.subnet.as_deref().or_else(|| matching(plan, had).map(|(_, one)| one.subnet.as_str()))
    }
}

/// Returns the launched instance with its offering and template, and the refused offerings.
///
/// # Errors
/// If the response has no instance. The error is the outcome of the token.
#[expect(clippy::type_complexity, reason = "three things that belong to nothing but this answer")]
pub fn outcome<'a>(
    plan: &'a Plan,
    answer: &'a FleetAnswer,
) -> Result<(&'a Had, Offering, Option<&'a PlannedTemplate>, Vec<Refused>), LaunchError> {
    let mut refused: Vec<Refused> = Vec::new();
    let mut other: Option<CloudError> = None;
    for error in &answer.errors {
        match error_codes::meaning(&error.code, &error.message, error.subnet.as_deref()) {
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
                other.get_or_insert_with(|| {
                    error_codes::cloud_error("ec2:CreateFleet", &error.code, &error.message, about)
                });
            }
        }
    }
    // In the order of the request, cheapest first, whatever the order of the response.
    let asked: Vec<&Offering> = plan.templates.iter().flat_map(|one| &one.overrides).map(|one| &one.offering).collect();
    refused.sort_by_key(|one| asked.iter().position(|offering| **offering == one.offering));
    if let Some(had) = &answer.had {
        let (offering, template) = bought(plan, had);
        return Ok((had, offering, template, refused));
    }
    // An error that other offerings would not fix takes precedence over refusals, as in Karpenter.
    let error = match other {
        Some(error) => error,
        None if refused.is_empty() => {
            CloudError::Transient { message: "CreateFleet launched no instance and gave no reason".to_owned() }
        }
        None => CloudError::NoCapacity { refused },
    };
    Err(LaunchError::outcome(error))
}

/// Returns the offerings that an error refers to. An error without a pool refers to all of them.
fn about(plan: &Plan, error: &FleetError, refusal: &Refusal) -> Vec<Offering> {
    let overrides = plan.templates.iter().flat_map(|one| &one.overrides);
    let is_meant = |one: &&Override| {
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

/// Returns the override of the instance, which has its type, subnet and zone, and the template of the override.
fn matching<'a>(plan: &'a Plan, had: &Had) -> Option<(&'a PlannedTemplate, &'a Override)> {
    let mut all = plan.templates.iter().flat_map(|planned| planned.overrides.iter().map(move |one| (planned, one)));
    all.find(|(_, one)| {
        one.offering.instance_type == had.instance_type
            && had.subnet.as_ref().is_none_or(|subnet| *subnet == one.subnet)
            && had.zone.as_ref().is_none_or(|zone| *zone == one.offering.zone)
    })
}

/// Returns the offering of the instance: that of its override.
fn bought<'a>(plan: &'a Plan, had: &Had) -> (Offering, Option<&'a PlannedTemplate>) {
    match matching(plan, had) {
        Some((planned, one)) => (one.offering.clone(), Some(planned)),
        // The instance comes from an earlier request with the same token but other parameters.
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
