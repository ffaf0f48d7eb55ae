//! Conversion of CreateFleet requests and responses to and from the SDK.

use aws_sdk_ec2::operation::create_fleet::CreateFleetOutput;
use aws_sdk_ec2::operation::create_fleet::builders::CreateFleetFluentBuilder;
use aws_sdk_ec2::types::{
    CreateFleetError, CreateFleetInstance, DefaultTargetCapacityType, FleetLaunchTemplateConfigRequest,
    FleetLaunchTemplateOverridesRequest, FleetLaunchTemplateSpecificationRequest, FleetOnDemandAllocationStrategy,
    FleetReservationType, FleetType, InstanceType, LaunchTemplateAndOverridesResponse, OnDemandOptionsRequest,
    ReservedCapacityOptionsRequest, ResourceType, SpotAllocationStrategy, SpotOptionsRequest,
    TargetCapacitySpecificationRequest,
};

use super::template_data::tag_specification;
use crate::launch::{FleetAnswer, FleetError, Had, Plan, PlannedTemplate};

/// Version of our launch templates, which have only one. Its content cannot be changed.
pub(super) const VERSION: &str = "1";

/// Builds the request. `ids` are the IDs of the plan's templates: a name may become that of another template.
pub(super) fn request(client: &aws_sdk_ec2::Client, plan: &Plan, ids: &[String]) -> CreateFleetFluentBuilder {
    let target = DefaultTargetCapacityType::from(plan.target);
    let is_ranked = plan.templates.iter().flat_map(|one| &one.overrides).any(|one| one.priority.is_some());
    let (of_spot, of_on_demand) = if is_ranked {
        (SpotAllocationStrategy::CapacityOptimizedPrioritized, FleetOnDemandAllocationStrategy::Prioritized)
    } else {
        (SpotAllocationStrategy::PriceCapacityOptimized, FleetOnDemandAllocationStrategy::LowestPrice)
    };
    let spot = (target == DefaultTargetCapacityType::Spot)
        .then(|| SpotOptionsRequest::builder().allocation_strategy(of_spot).build());
    let on_demand = (target == DefaultTargetCapacityType::OnDemand)
        .then(|| OnDemandOptionsRequest::builder().allocation_strategy(of_on_demand).build());
    let reserved = (target == DefaultTargetCapacityType::ReservedCapacity).then(|| {
        ReservedCapacityOptionsRequest::builder()
            .reservation_types(FleetReservationType::from("interruptible-capacity-reservation"))
            .build()
    });
    let capacity =
        TargetCapacitySpecificationRequest::builder().total_target_capacity(1).default_target_capacity_type(target);
    client
        .create_fleet()
        .client_token(&plan.token)
        .r#type(FleetType::Instant)
        .set_launch_template_configs(Some(plan.templates.iter().zip(ids).map(config).collect()))
        .target_capacity_specification(capacity.build())
        .set_spot_options(spot)
        .set_on_demand_options(on_demand)
        .set_reserved_capacity_options(reserved)
        .tag_specifications(tag_specification(ResourceType::Instance, &plan.instance_tags))
        .tag_specifications(tag_specification(ResourceType::Volume, &plan.tags))
        .tag_specifications(tag_specification(ResourceType::Fleet, &plan.tags))
        .set_context(plan.context.clone())
}

fn config((planned, id): (&PlannedTemplate, &String)) -> FleetLaunchTemplateConfigRequest {
    let specification =
        FleetLaunchTemplateSpecificationRequest::builder().launch_template_id(id).version(VERSION).build();
    // Priorities only where overlays set prices: they derive from prices, and a changed price changes the request for
    // the same token.
    let overrides = planned.overrides.iter().map(|one| {
        FleetLaunchTemplateOverridesRequest::builder()
            .instance_type(InstanceType::from(one.offering.instance_type.as_str()))
            .subnet_id(&one.subnet)
            .set_priority(one.priority.map(f64::from))
            .build()
    });
    FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(specification)
        .set_overrides(Some(overrides.collect()))
        .build()
}

pub(super) fn answer(output: &CreateFleetOutput, plan: &Plan, ids: &[String]) -> FleetAnswer {
    FleetAnswer {
        had: output.instances().iter().find_map(|set| had(set, plan, ids)),
        errors: output.errors().iter().map(error).collect(),
    }
}

fn had(set: &CreateFleetInstance, plan: &Plan, ids: &[String]) -> Option<Had> {
    let source = set.launch_template_and_overrides();
    let overrides = source.and_then(LaunchTemplateAndOverridesResponse::overrides);
    let text = |text: Option<&str>| text.map(str::to_owned);
    let id = source.and_then(|source| source.launch_template_specification()?.launch_template_id());
    let template = plan.templates.iter().zip(ids).find(|(_, of)| Some(of.as_str()) == id);
    Some(Had {
        instance_id: set.instance_ids().first()?.clone(),
        instance_type: set.instance_type()?.as_str().to_owned(),
        subnet: text(set.subnet_id()).or_else(|| text(overrides?.subnet_id())),
        zone: text(set.availability_zone()).or_else(|| text(overrides?.availability_zone())),
        template: template.map(|(planned, _)| planned.name.clone()),
    })
}

fn error(error: &CreateFleetError) -> FleetError {
    let overrides = error.launch_template_and_overrides().and_then(LaunchTemplateAndOverridesResponse::overrides);
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    FleetError {
        code: text(error.error_code()),
        message: text(error.error_message()),
        instance_type: overrides.and_then(|one| Some(one.instance_type()?.as_str().to_owned())),
        subnet: overrides.and_then(|one| Some(one.subnet_id()?.to_owned())),
        zone: overrides.and_then(|one| Some(one.availability_zone()?.to_owned())),
    }
}
