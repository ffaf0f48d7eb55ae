//! The answer to `CreateFleet`: what was launched and what was refused, pool by pool.

use std::sync::Arc;

use xmltree::Element;

use super::super::answer::{Answer, ApiError};
use super::super::faults::CapacityType;
use super::super::instances::Instance;
use super::super::request::Request;
use super::super::xml;
use super::offers::Offered;

/// What came of a fleet.
#[derive(Debug, Default)]
pub(super) struct Made {
    instances: Vec<Vec<Element>>,
    errors: Vec<Vec<Element>>,
}

impl Made {
    pub(super) fn launched(&mut self, offered: &Offered, capacity_type: CapacityType, instances: &[Arc<Instance>]) {
        let ids = instances.iter().map(|instance| xml::leaf("item", &instance.id));
        self.instances.push(vec![
            source(offered),
            xml::leaf("lifecycle", lifecycle(capacity_type)),
            xml::branch("instanceIds", ids),
            xml::leaf("instanceType", &offered.offer.instance_type),
            xml::leaf("availabilityZone", &offered.offer.zone),
            xml::leaf("subnetId", &offered.offer.subnet),
        ]);
    }

    pub(super) fn refused(&mut self, offered: &Offered, capacity_type: CapacityType, error: ApiError) {
        self.errors.push(vec![
            source(offered),
            xml::leaf("lifecycle", lifecycle(capacity_type)),
            xml::leaf("errorCode", error.code),
            xml::leaf("errorMessage", error.message),
        ]);
    }
}

pub(super) fn of(request: &Request, request_id: &str, id: &str, made: Made) -> Answer {
    let children = vec![
        xml::leaf("fleetId", id),
        xml::list("errorSet", made.errors),
        xml::list("fleetInstanceSet", made.instances),
    ];
    Answer::ec2(&request.action, request_id, children)
}

fn lifecycle(capacity_type: CapacityType) -> &'static str {
    match capacity_type {
        CapacityType::Spot => "spot",
        CapacityType::OnDemand | CapacityType::Reserved => "on-demand",
    }
}

/// `launchTemplateAndOverrides`: which part of the request this was.
fn source(offered: &Offered) -> Element {
    let named = &offered.template.named;
    let specification = [
        xml::leaf("launchTemplateId", &named.id),
        xml::leaf("launchTemplateName", &named.name),
        xml::leaf("version", &named.version),
    ];
    let asked = &offered.asked;
    let mut overrides = vec![
        xml::leaf("instanceType", &offered.offer.instance_type),
        xml::leaf("subnetId", &offered.offer.subnet),
        xml::leaf("availabilityZone", &offered.offer.zone),
        xml::leaf("imageId", &offered.image),
    ];
    let numbers = [("priority", asked.priority), ("weightedCapacity", asked.weight), ("maxPrice", asked.max_price)];
    overrides.extend(numbers.into_iter().filter_map(|(name, value)| Some(xml::leaf(name, value?.to_string()))));
    let specification = xml::branch("launchTemplateSpecification", specification);
    xml::branch("launchTemplateAndOverrides", [specification, xml::branch("overrides", overrides)])
}
