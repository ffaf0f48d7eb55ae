//! Dry run of a launch: EC2 reports whether it would be allowed, and launches nothing.

use std::collections::BTreeMap;

use aws_sdk_ec2::types::{InstanceType, LaunchTemplateSpecification, ResourceType};
use muster_api::{Ec2NodeClass, NodeClassReference, labels};
use muster_cloud::{Alternative, CapacityType, LaunchRequest, LaunchToken, Offering, Overlaid};

use super::caller::{Caller, Failure};
use super::connection::Connection;
use super::fleet;
use super::template_data::tag_specification;
use super::templates::Templates;
use crate::class::ClassSettings;
use crate::discovery::{Trial, TrialCall};
use crate::error_codes::Meaning;
use crate::inventory::Inventory;
use crate::launch::{Grounds, Plan, plan};
use crate::rate_limits::Family;

/// Types that an account can usually launch; else the first type by name with an image is used.
const USUAL: [&str; 4] = ["m5.large", "m6g.large", "m6i.large", "m7g.large"];

/// Returns the error that a launch with the class would get: the template is created, and CreateFleet and RunInstances
/// are dry runs.
pub(super) async fn try_out(
    aws: &Connection,
    caller: &Caller,
    templates: &Templates,
    grounds: &Grounds<'_>,
) -> Result<(), Trial> {
    let failed = |call| move |error| Trial { call, error };
    let request = request(grounds.class, grounds.inventory, grounds.settings);
    let plan = plan(&request, grounds).map_err(|error| failed(TrialCall::CreateLaunchTemplate)(error.into()))?;
    let mut ids = Vec::new();
    for planned in &plan.templates {
        ids.push(templates.ensure(aws, caller, planned).await.map_err(failed(TrialCall::CreateLaunchTemplate))?);
    }
    let ask = || fleet::request(&aws.ec2, &plan, &ids).dry_run(true).send();
    let fleet = caller.call(Family::CreateFleet, "ec2:CreateFleet", ask);
    would_go(fleet.await.map(drop)).map_err(|failure| failed(TrialCall::CreateFleet)(failure.into_error("a fleet")))?;
    let run = run(aws, caller, &plan, &ids).await;
    would_go(run).map_err(|failure| failed(TrialCall::RunInstances)(failure.into_error("an instance")))
}

fn would_go(asked: Result<(), Failure>) -> Result<(), Failure> {
    match asked {
        // A temporary shortage in a subnet or of a type is not attributed to the class.
        Err(failure) if matches!(failure.meaning(), Meaning::DryRun | Meaning::Refused(_)) => Ok(()),
        other => other,
    }
}

async fn run(aws: &Connection, caller: &Caller, plan: &Plan, ids: &[String]) -> Result<(), Failure> {
    let mut templates = plan.templates.iter().zip(ids);
    let Some((id, one)) = templates.find_map(|(planned, id)| Some((id, planned.overrides.first()?))) else {
        return Ok(());
    };
    let template = LaunchTemplateSpecification::builder().launch_template_id(id).version(fleet::VERSION).build();
    let asked = caller.call(Family::ChangeEc2, "ec2:RunInstances", || {
        aws.ec2
            .run_instances()
            .dry_run(true)
            .min_count(1)
            .max_count(1)
            .instance_type(InstanceType::from(one.offering.instance_type.as_str()))
            .launch_template(template.clone())
            .tag_specifications(tag_specification(ResourceType::Instance, &plan.instance_tags))
            .tag_specifications(tag_specification(ResourceType::Volume, &plan.tags))
            .send()
    });
    asked.await.map(drop)
}

fn request(class: &Ec2NodeClass, inventory: &Inventory, settings: &ClassSettings) -> LaunchRequest {
    let subnets = class.status.as_ref().map(|status| status.subnets.as_slice()).unwrap_or_default();
    let offered = |name: &str| -> Vec<Alternative> {
        let zones = inventory.facts(name).map(|facts| facts.zones.as_slice()).unwrap_or_default();
        let offering = |zone: &str| Offering {
            instance_type: name.to_owned(),
            zone: zone.to_owned(),
            capacity_type: CapacityType::OnDemand,
            reservation: None,
        };
        let in_subnets = subnets.iter().filter(|subnet| zones.iter().any(|zone| **zone == *subnet.zone));
        in_subnets.map(|subnet| Alternative { offering: offering(&subnet.zone), price: 1.0 }).collect()
    };
    let amis = class.status.as_ref().map(|status| status.amis.as_slice()).unwrap_or_default();
    let has_image = |name: &str| {
        inventory.instance_type(name, settings).is_some_and(|one| crate::launch::image_for(&one, amis).is_some())
    };
    let mut candidates = USUAL.into_iter().chain(inventory.names().map(|name| &**name));
    let alternatives = candidates.find_map(|name| Some(offered(name)).filter(|all| !all.is_empty() && has_image(name)));
    LaunchRequest {
        token: LaunchToken { claim_uid: "trial".to_owned(), attempt: 1 },
        claim: "trial".to_owned(),
        pool: None,
        class: NodeClassReference {
            group: labels::AWS_GROUP.to_owned(),
            kind: "EC2NodeClass".to_owned(),
            name: class.metadata.name.clone().unwrap_or_default(),
        },
        alternatives: alternatives.unwrap_or_default(),
        keeps_choice: true,
        labels: BTreeMap::new(),
        taints: Vec::new(),
        requests: BTreeMap::new(),
        has_network_devices: false,
        tags: BTreeMap::new(),
        overlaid: Overlaid::default(),
    }
}
