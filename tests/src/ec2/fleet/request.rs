//! What a `CreateFleet` asks.

use std::collections::BTreeMap;

use super::super::answer::ApiError;
use super::super::faults::{CapacityType, invalid_value, unsupported};
use super::super::parameters::Parameters;
use super::super::template::TemplateReference;
use super::choose::Strategy;

/// A fleet of type `instant`.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::ec2) struct FleetRequest {
    pub(super) configs: Vec<Config>,
    on_demand: Options,
    spot: Options,
    total: u32,
    on_demand_target: Option<u32>,
    spot_target: Option<u32>,
    default_type: CapacityType,
    target: String,
    pub(super) instance_tags: BTreeMap<String, String>,
    pub(super) volume_tags: BTreeMap<String, String>,
}

/// A launch template and where it may run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Config {
    pub(super) template: TemplateReference,
    /// Never empty: a config without overrides has one that overrides nothing.
    pub(super) overrides: Vec<Override>,
}

/// One override; what is absent comes from the template.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::ec2) struct Override {
    pub(in crate::ec2) instance_type: Option<String>,
    pub(in crate::ec2) subnet: Option<String>,
    pub(in crate::ec2) zone: Option<String>,
    pub(in crate::ec2) image: Option<String>,
    pub(in crate::ec2) max_price: Option<f64>,
    pub(in crate::ec2) priority: Option<f64>,
    pub(in crate::ec2) weight: Option<f64>,
    pub(in crate::ec2) placement_group: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Options {
    strategy: Strategy,
    least: Option<u32>,
}

impl FleetRequest {
    pub(in crate::ec2) fn read(parameters: &Parameters) -> Result<Self, ApiError> {
        match parameters.text("Type") {
            Some("instant") => {}
            other => {
                return Err(unsupported(&format!("fleets of type `{}`, only `instant`", other.unwrap_or("maintain"))));
            }
        }
        refuse_what_is_not_modelled(parameters)?;
        let configs = parameters.groups("LaunchTemplateConfigs").iter().map(config).collect::<Result<Vec<_>, _>>()?;
        if configs.is_empty() {
            let message = "The request must contain the parameter LaunchTemplateConfigs";
            return Err(ApiError::new(400, "MissingParameter", message));
        }
        let target = parameters.below("TargetCapacitySpecification");
        let total = target.number("TotalTargetCapacity");
        let total = total.ok_or_else(|| invalid_value("TotalTargetCapacity must be a positive number."))?;
        let default_type = match target.text("DefaultTargetCapacityType") {
            Some("spot") => CapacityType::Spot,
            Some("on-demand") | None => CapacityType::OnDemand,
            Some("capacity-block" | "reserved-capacity") => CapacityType::Reserved,
            Some(other) => return Err(unsupported(&format!("DefaultTargetCapacityType `{other}`"))),
        };
        Ok(Self {
            configs,
            on_demand: options(&parameters.below("OnDemandOptions"))?,
            spot: options(&parameters.below("SpotOptions"))?,
            total,
            on_demand_target: target.number("OnDemandTargetCapacity"),
            spot_target: target.number("SpotTargetCapacity"),
            default_type,
            target: target.text("DefaultTargetCapacityType").unwrap_or("on-demand").to_owned(),
            instance_tags: parameters.tags_for("instance"),
            volume_tags: parameters.tags_for("volume"),
        })
    }

    /// `DefaultTargetCapacityType`.
    pub(super) fn target(&self) -> &str {
        &self.target
    }

    /// How many units of which capacity type.
    pub(super) fn parts(&self) -> Vec<(CapacityType, u32)> {
        let mut on_demand = self.on_demand_target.unwrap_or(0);
        let mut spot = self.spot_target.unwrap_or(0);
        let rest = self.total.saturating_sub(on_demand.saturating_add(spot));
        match self.default_type {
            CapacityType::Spot => spot += rest,
            CapacityType::OnDemand | CapacityType::Reserved => on_demand += rest,
        }
        let parts = [(CapacityType::OnDemand, on_demand), (CapacityType::Spot, spot)];
        parts.into_iter().filter(|(_, units)| *units > 0).collect()
    }

    pub(super) fn strategy(&self, capacity_type: CapacityType) -> Strategy {
        self.options(capacity_type).strategy
    }

    pub(super) fn least(&self, capacity_type: CapacityType) -> u32 {
        self.options(capacity_type).least.unwrap_or(0)
    }

    fn options(&self, capacity_type: CapacityType) -> &Options {
        if capacity_type == CapacityType::Spot { &self.spot } else { &self.on_demand }
    }
}

/// A parameter that would change the choice and is not modelled is refused, not ignored.
fn refuse_what_is_not_modelled(parameters: &Parameters) -> Result<(), ApiError> {
    let parts = [
        "InstanceRequirements",
        "SingleInstanceType",
        "SingleAvailabilityZone",
        "MaxTotalPrice",
        "InstancePoolsToUseCount",
    ];
    let found = parameters
        .query
        .iter()
        .find(|(name, value)| *value != "false" && name.split('.').any(|part| parts.contains(&part)));
    found.map_or(Ok(()), |(name, _)| Err(unsupported(&format!("`{name}` of CreateFleet"))))
}

fn config(parameters: &Parameters) -> Result<Config, ApiError> {
    let specification = parameters.below("LaunchTemplateSpecification");
    let template = TemplateReference {
        id: specification.text("LaunchTemplateId").map(str::to_owned),
        name: specification.text("LaunchTemplateName").map(str::to_owned),
        version: specification.text("Version").unwrap_or("$Default").to_owned(),
    };
    if template.id.is_some() == template.name.is_some() {
        return Err(invalid_value("A launch template is named by its id or by its name, one of them."));
    }
    let mut overrides = parameters.groups("Overrides").iter().map(one_override).collect::<Vec<_>>();
    if overrides.is_empty() {
        overrides.push(Override::default());
    }
    Ok(Config { template, overrides })
}

fn one_override(parameters: &Parameters) -> Override {
    let text = |name: &str| parameters.text(name).map(str::to_owned);
    Override {
        instance_type: text("InstanceType"),
        subnet: text("SubnetId"),
        zone: text("AvailabilityZone"),
        image: text("ImageId"),
        max_price: parameters.number("MaxPrice"),
        priority: parameters.number("Priority"),
        weight: parameters.number("WeightedCapacity"),
        placement_group: text("Placement.GroupName").or_else(|| text("Placement.GroupId")),
    }
}

fn options(parameters: &Parameters) -> Result<Options, ApiError> {
    let strategy = match parameters.text("AllocationStrategy") {
        None | Some("lowest-price") => Strategy::LowestPrice,
        Some("prioritized") => Strategy::Prioritized,
        Some("diversified") => Strategy::Diversified,
        Some("capacity-optimized") => Strategy::CapacityOptimized,
        Some("capacity-optimized-prioritized") => Strategy::CapacityOptimizedPrioritized,
        Some("price-capacity-optimized") => Strategy::PriceCapacityOptimized,
        Some(other) => {
            return Err(invalid_value(format!("Value ({other}) for parameter allocationStrategy is invalid.")));
        }
    };
    Ok(Options { strategy, least: parameters.number("MinTargetCapacity") })
}
