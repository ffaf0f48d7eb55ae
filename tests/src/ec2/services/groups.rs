//! Placement groups, which moto does not have.

use std::collections::BTreeMap;

use super::super::answer::{Answer, ApiError};
use super::super::faults::invalid_value;
use super::super::parameters::Parameters;
use super::super::request::Request;
use super::super::shared::Shared;
use super::super::xml;

/// Instances of one spread group in one zone.
pub(in crate::ec2) const SPREAD_LIMIT: usize = 7;

/// By region and name.
#[derive(Debug, Default)]
pub(in crate::ec2) struct Groups(BTreeMap<(String, String), Group>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ec2) struct Group {
    pub(in crate::ec2) id: String,
    pub(in crate::ec2) name: String,
    /// `cluster`, `spread`, `partition`.
    pub(in crate::ec2) strategy: String,
    pub(in crate::ec2) partitions: Option<u32>,
    tags: BTreeMap<String, String>,
}

impl Groups {
    /// By name or id.
    pub(in crate::ec2) fn get(&self, region: &str, name_or_id: &str) -> Option<&Group> {
        let of_region = self.0.iter().filter(|((of, _), _)| of == region).map(|(_, group)| group);
        of_region.into_iter().find(|group| group.name == name_or_id || group.id == name_or_id)
    }
}

pub(super) fn answer(shared: &Shared, request: &Request, request_id: &str) -> Option<Result<Answer, ApiError>> {
    let Request { action, region, parameters, .. } = request;
    Some(match action.as_str() {
        "CreatePlacementGroup" => create(shared, region, parameters).map(|group| {
            Answer::ec2(action, request_id, vec![xml::branch("placementGroup", element(shared, region, &group))])
        }),
        "DescribePlacementGroups" => describe(shared, region, parameters).map(|groups| {
            let items = groups.iter().map(|group| element(shared, region, group));
            Answer::ec2(action, request_id, vec![xml::list("placementGroupSet", items)])
        }),
        "DeletePlacementGroup" => delete(shared, region, parameters)
            .map(|()| Answer::ec2(action, request_id, vec![xml::leaf("return", "true")])),
        _ => return None,
    })
}

fn create(shared: &Shared, region: &str, parameters: &Parameters) -> Result<Group, ApiError> {
    let name = parameters.text("GroupName").ok_or_else(|| missing("GroupName"))?;
    let strategy = parameters.text("Strategy").unwrap_or("cluster");
    let partitions = match strategy {
        "partition" => Some(parameters.number("PartitionCount").unwrap_or(2)),
        "cluster" | "spread" => None,
        other => return Err(invalid_value(format!("Value ({other}) for parameter strategy is invalid."))),
    };
    if partitions.is_some_and(|count| !(1..=7).contains(&count)) {
        return Err(invalid_value("The partition count must be between 1 and 7."));
    }
    let mut state = shared.state();
    if state.groups.get(region, name).is_some() {
        let message = format!("Placement Group '{name}' already exists.");
        return Err(ApiError::new(400, "InvalidPlacementGroup.Duplicate", message));
    }
    let tags = parameters.tags_for("placement-group");
    let group = Group { id: state.id("pg-"), name: name.to_owned(), strategy: strategy.to_owned(), partitions, tags };
    state.groups.0.insert((region.to_owned(), name.to_owned()), group.clone());
    Ok(group)
}

fn describe(shared: &Shared, region: &str, parameters: &Parameters) -> Result<Vec<Group>, ApiError> {
    let state = shared.state();
    let asked = parameters.list("GroupName").into_iter().chain(parameters.list("GroupId")).collect::<Vec<_>>();
    if let Some(name) = asked.iter().find(|name| state.groups.get(region, name).is_none()) {
        return Err(unknown(name));
    }
    let wants =
        |filter: &str, is: &str| parameters.filter(filter).is_none_or(|names| names.iter().any(|name| name == is));
    let of_region = state.groups.0.iter().filter(|((of, _), _)| of == region).map(|(_, group)| group);
    let chosen = of_region
        .filter(|group| asked.is_empty() || asked.contains(&group.name) || asked.contains(&group.id))
        .filter(|group| wants("group-name", &group.name) && wants("strategy", &group.strategy));
    Ok(chosen.cloned().collect())
}

fn delete(shared: &Shared, region: &str, parameters: &Parameters) -> Result<(), ApiError> {
    let name = parameters.text("GroupName").ok_or_else(|| missing("GroupName"))?;
    let mut state = shared.state();
    if state.instances.running().any(|instance| instance.placement_group.as_deref() == Some(name)) {
        let message = format!("The placement group '{name}' is in use and may not be deleted.");
        return Err(ApiError::new(400, "InvalidPlacementGroup.InUse", message));
    }
    let gone = state.groups.0.remove(&(region.to_owned(), name.to_owned()));
    gone.map(|_| ()).ok_or_else(|| unknown(name))
}

fn element(shared: &Shared, region: &str, group: &Group) -> Vec<xmltree::Element> {
    let arn = format!("arn:aws:ec2:{region}:{}:placement-group/{}", shared.account, group.name);
    let mut element = vec![
        xml::leaf("groupId", &group.id),
        xml::leaf("groupName", &group.name),
        xml::leaf("groupArn", arn),
        xml::leaf("strategy", &group.strategy),
        xml::leaf("state", "available"),
        xml::tag_set(&group.tags),
    ];
    element.extend(group.partitions.map(|count| xml::leaf("partitionCount", count.to_string())));
    element
}

pub(in crate::ec2) fn unknown(name: &str) -> ApiError {
    ApiError::new(400, "InvalidPlacementGroup.Unknown", format!("The Placement Group '{name}' is unknown."))
}

fn missing(name: &str) -> ApiError {
    ApiError::new(400, "MissingParameter", format!("The request must contain the parameter {name}"))
}
