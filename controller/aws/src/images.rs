//! Compatibility of machine images with nodes.

use muster_api::Operator;
use muster_api::nodeclass::Ami;
use muster_scheduling::model::{self, Requirement, Requirements};

/// Returns true if the image is compatible with nodes of these labels: those of an instance type, or of one node.
#[must_use]
pub fn suits(image: &Ami, labels: &Requirements) -> bool {
    image.requirements.iter().all(|wanted| {
        let requirement = Requirement::new(operator(wanted.operator), wanted.values.iter().map(String::as_str));
        labels.get(&wanted.key).map_or(requirement.allows_absence(), |there| {
            there.overlaps(&requirement) || there.allows_absence() && requirement.allows_absence()
        })
    })
}

fn operator(operator: Operator) -> model::Operator {
    match operator {
        Operator::In => model::Operator::In,
        Operator::NotIn => model::Operator::NotIn,
        Operator::Exists => model::Operator::Exists,
        Operator::DoesNotExist => model::Operator::DoesNotExist,
        Operator::Gt => model::Operator::Gt,
        Operator::Lt => model::Operator::Lt,
        Operator::Gte => model::Operator::Gte,
        Operator::Lte => model::Operator::Lte,
    }
}
