//! EC2 instances: describe, terminate, tag.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_ec2::types::{
    CapacityReservationPreference, Filter, Instance as Described, InstanceLifecycleType, InstanceStateName,
};
use muster_cloud::{CapacityType, CloudError, Instance, InstanceState, LaunchToken, Offering};

use super::batch::Work;
use super::caller::Caller;
use super::connection::Connection;
use super::template_data::tags;
use super::templates::moment;
use crate::ending;
use crate::error_codes::Meaning;
use crate::launch::{CLUSTER_NAME, LAUNCH_TOKEN};
use crate::rate_limits::Family;

/// Maximum number of values in one filter of EC2.
const MOST_VALUES: usize = 200;
/// Maximum number of instances per page.
const PAGE: i32 = 1000;

/// Describes many instances in one call. The result is `None` for an unknown instance.
#[derive(Debug)]
pub(super) struct Describe {
    pub(super) aws: Connection,
    pub(super) caller: Arc<Caller>,
}

/// Terminates many instances in one call. The result is true for an instance that was already terminated.
#[derive(Debug)]
pub(super) struct Terminate {
    pub(super) aws: Connection,
    pub(super) caller: Arc<Caller>,
}

impl Work for Describe {
    type Answer = Option<Box<Described>>;

    const MOST: usize = MOST_VALUES;

    fn batched(&self, objects: usize, waited: Duration) {
        if let Some(observer) = self.caller.observer() {
            observer.batched("describe_instances", objects, waited);
        }
    }

    async fn ask(&self, about: Vec<String>) -> BTreeMap<String, Result<Self::Answer, CloudError>> {
        // By filter, not by ID: a call with one unknown ID fails as a whole.
        let filter = Filter::builder().name("instance-id").set_values(Some(about.clone())).build();
        match find(&self.aws, &self.caller, vec![filter], Box::new).await {
            Ok(found) => {
                let mut by_id: BTreeMap<String, Box<Described>> =
                    found.into_iter().filter_map(|one| Some((one.instance_id()?.to_owned(), one))).collect();
                about.into_iter().map(|id| (id.clone(), Ok(by_id.remove(&id)))).collect()
            }
            Err(error) => about.into_iter().map(|id| (id, Err(error.clone()))).collect(),
        }
    }
}

impl Work for Terminate {
    type Answer = bool;

    const MOST: usize = 500;

    fn batched(&self, objects: usize, waited: Duration) {
        if let Some(observer) = self.caller.observer() {
            observer.batched("terminate_instances", objects, waited);
        }
    }

    async fn ask(&self, about: Vec<String>) -> BTreeMap<String, Result<bool, CloudError>> {
        let mut answers = BTreeMap::new();
        match self.all(&about).await {
            Ok(ended) => answers.extend(ended),
            // An instance that cannot be terminated, or does not exist, fails the whole call: each one is retried
            // separately.
            Err((Meaning::Throttled | Meaning::Transient | Meaning::Unauthorized, error)) => {
                answers.extend(about.iter().map(|id| (id.clone(), Err(error.clone()))));
            }
            Err((_, error)) if about.len() == 1 => {
                answers.extend(about.iter().map(|id| (id.clone(), Err(error.clone()))))
            }
            Err(_) => {
                for id in &about {
                    match self.all(std::slice::from_ref(id)).await {
                        Ok(ended) => answers.extend(ended),
                        Err((_, error)) => drop(answers.insert(id.clone(), Err(error))),
                    }
                }
            }
        }
        answers
    }
}

impl Terminate {
    async fn all(&self, about: &[String]) -> Result<BTreeMap<String, Result<bool, CloudError>>, (Meaning, CloudError)> {
        let answer = self
            .caller
            .call(Family::TerminateInstances, "ec2:TerminateInstances", || {
                self.aws.ec2.terminate_instances().set_instance_ids(Some(about.to_vec())).send()
            })
            .await
            .map_err(|failure| (failure.meaning(), failure.into_error(&about.join(", "))))?;
        let changes = answer.terminating_instances().iter().filter_map(|change| {
            let had_ended =
                change.previous_state().and_then(|state| state.name()) == Some(&InstanceStateName::Terminated);
            Some((change.instance_id()?.to_owned(), Ok(had_ended)))
        });
        Ok(changes.collect())
    }
}

/// Applies `of` to every instance that matches the filters. A description takes kilobytes and a cluster has thousands,
/// so only one page of them is in memory at a time.
pub(super) async fn find<T>(
    aws: &Connection,
    caller: &Caller,
    filters: Vec<Filter>,
    of: impl Fn(Described) -> T,
) -> Result<Vec<T>, CloudError> {
    let mut found = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let page = caller
            .call(Family::DescribeEc2, "ec2:DescribeInstances", || {
                aws.ec2
                    .describe_instances()
                    .set_filters(Some(filters.clone()))
                    .max_results(PAGE)
                    .set_next_token(token.clone())
                    .send()
            })
            .await
            .map_err(|failure| failure.into_error("instances"))?;
        token = page.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
        let reservations = page.reservations.into_iter().flatten();
        found.extend(reservations.flat_map(|reservation| reservation.instances.into_iter().flatten()).map(&of));
        if token.is_none() {
            return Ok(found);
        }
    }
}

/// Returns the filters for instances of a cluster that are not terminated, launched by Muster or Karpenter.
pub(super) fn of_cluster(cluster: &str) -> Vec<Filter> {
    let states = ["pending", "running", "stopping", "stopped", "shutting-down"].map(str::to_owned);
    vec![
        Filter::builder().name("tag-key").values(muster_api::labels::NODEPOOL).build(),
        Filter::builder().name("tag-key").values(muster_api::labels::EC2NODECLASS).build(),
        Filter::builder().name(format!("tag:{CLUSTER_NAME}")).values(cluster).build(),
        Filter::builder().name("instance-state-name").set_values(Some(states.to_vec())).build(),
    ]
}

/// Returns the filters for the instance of a launch.
pub(super) fn of_token(token: &LaunchToken) -> Vec<Filter> {
    vec![Filter::builder().name(format!("tag:{LAUNCH_TOKEN}")).values(token.to_string()).build()]
}

pub(super) async fn tag(
    aws: &Connection,
    caller: &Caller,
    id: &str,
    of: &BTreeMap<String, String>,
) -> Result<(), CloudError> {
    let tagged = caller
        .call_in_turn(Family::CreateTags, Some(id), "ec2:CreateTags", || {
            aws.ec2.create_tags().resources(id).set_tags(Some(tags(of))).send()
        })
        .await;
    tagged.map(drop).map_err(|failure| failure.into_error(id))
}

/// Reboots an instance. EC2 answers before it does, and knows no token that would tell a repeated call.
pub(super) async fn reboot(aws: &Connection, caller: &Caller, id: &str) -> Result<(), CloudError> {
    let rebooted = caller
        .call(Family::ChangeEc2, "ec2:RebootInstances", || aws.ec2.reboot_instances().instance_ids(id).send())
        .await;
    rebooted.map(drop).map_err(|failure| failure.into_error(id))
}

/// Converts an instance that EC2 described; properties that follow from its type are not set.
pub(super) fn instance(described: &Described) -> Instance {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let zone = text(described.placement().and_then(|placement| placement.availability_zone()));
    let group = described.placement().and_then(|placement| placement.group_id());
    let tags: BTreeMap<String, String> = described
        .tags()
        .iter()
        .filter_map(|tag| Some((tag.key()?.to_owned(), tag.value().unwrap_or_default().to_owned())))
        .collect();
    let (capacity_type, reservation) = bought(described);
    let reason = described.state_reason().map(|reason| ending::told(&text(reason.code()), &text(reason.message())));
    Instance {
        provider_id: format!("aws:///{zone}/{}", text(described.instance_id())),
        offering: Offering {
            instance_type: described.instance_type().map(|name| name.as_str().to_owned()).unwrap_or_default(),
            zone,
            capacity_type,
            reservation,
        },
        state: described.state().and_then(|state| state.name()).map_or(InstanceState::Pending, state),
        state_reason: reason,
        launched_at: described.launch_time().map(moment).unwrap_or_default(),
        token: tags.get(LAUNCH_TOKEN).and_then(|token| LaunchToken::parse(token)),
        image_id: described.image_id().map(str::to_owned),
        subnet: described.subnet_id().filter(|id| !id.is_empty()).map(str::to_owned),
        security_groups: security_groups(described),
        placement_group: group.filter(|id| !id.is_empty()).map(str::to_owned),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        capacity: BTreeMap::new(),
        allocatable: BTreeMap::new(),
        tags,
        host_name: described.private_dns_name().filter(|name| !name.is_empty()).map(str::to_owned),
    }
}

/// Returns the security groups of the instance, sorted.
fn security_groups(described: &Described) -> Vec<String> {
    let groups = described.security_groups().iter().filter_map(|group| group.group_id());
    let groups: BTreeSet<&str> = groups.collect();
    groups.into_iter().map(str::to_owned).collect()
}

fn bought(described: &Described) -> (CapacityType, Option<String>) {
    let is_spot = described.spot_instance_request_id().is_some_and(|id| !id.is_empty())
        || described.instance_lifecycle() == Some(&InstanceLifecycleType::Spot);
    if is_spot {
        return (CapacityType::Spot, None);
    }
    // An open reservation that matched the instance is not the offering that was bought.
    let preference = described.capacity_reservation_specification().and_then(|it| it.capacity_reservation_preference());
    let is_only = preference.is_none_or(|it| *it == CapacityReservationPreference::CapacityReservationsOnly);
    let block = described.instance_lifecycle() == Some(&InstanceLifecycleType::CapacityBlock);
    match described.capacity_reservation_id() {
        Some(id) if block || is_only => (CapacityType::Reserved, Some(id.to_owned())),
        _ => (CapacityType::OnDemand, None),
    }
}

fn state(name: &InstanceStateName) -> InstanceState {
    match name {
        InstanceStateName::Running => InstanceState::Running,
        InstanceStateName::ShuttingDown => InstanceState::ShuttingDown,
        InstanceStateName::Stopped => InstanceState::Stopped,
        InstanceStateName::Stopping => InstanceState::Stopping,
        InstanceStateName::Terminated => InstanceState::Terminated,
        _ => InstanceState::Pending,
    }
}

/// Returns `i-…` of `aws:///eu-west-1a/i-…`.
pub(super) fn instance_id(provider_id: &str) -> Option<&str> {
    let id = provider_id.strip_prefix("aws:///")?.rsplit('/').next()?;
    id.starts_with("i-").then_some(id)
}
