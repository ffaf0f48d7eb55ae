//! Launches instances: what rules, reservations and placement groups say is kept, moto does the rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use xmltree::Element;

use super::answer::{Answer, ApiError};
use super::clock::later;
use super::digest::hex;
use super::faults::{self, CapacityType, Fate, Place};
use super::instances::{Instance, StateReason};
use super::parameters::Parameters;
use super::request::Request;
use super::services::SPREAD_LIMIT;
use super::shared::{Shared, State};
use super::template::{Template, metadata};
use super::{services, xml};

/// Instances to launch from one pool.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) instance_type: String,
    pub(super) zone: String,
    pub(super) subnet: String,
    pub(super) capacity_type: CapacityType,
    pub(super) count: u32,
    pub(super) image: String,
    pub(super) architecture: String,
    pub(super) template: Option<Template>,
    pub(super) instance_tags: BTreeMap<String, String>,
    pub(super) volume_tags: BTreeMap<String, String>,
    pub(super) fleet: Option<String>,
    pub(super) reservation: Option<String>,
    pub(super) placement_group: Option<String>,
    /// What a caller of `RunInstances` sent beside.
    pub(super) sent: Parameters,
}

/// What moto said, and what came of it.
pub(super) struct Launched {
    pub(super) instances: Vec<Arc<Instance>>,
    pub(super) root: Element,
}

impl Order {
    pub(super) fn place(&self) -> Place<'_> {
        Place {
            instance_type: &self.instance_type,
            zone: &self.zone,
            subnet: &self.subnet,
            capacity_type: if self.reservation.is_some() { CapacityType::Reserved } else { self.capacity_type },
        }
    }
}

/// Carries the order out, all of it or nothing.
pub(super) async fn launch(shared: &Shared, request: &Request, order: Order) -> Result<Launched, ApiError> {
    let profile = match profile_of(&order) {
        Some(profile) => Some(find_profile(shared, request, &profile).await?),
        None => None,
    };
    // One at a time: what is checked here is used up when moto has answered.
    let _turn = shared.launching.lock().await;
    let (fates, partitions) = {
        let mut state = shared.state();
        let partitions = check(shared, &state, request, &order)?;
        let place = order.place();
        let fates = (0..order.count).map(|_| state.rules.on_launch(&place)).collect::<Vec<_>>();
        (fates, partitions)
    };
    let root = shared.ask(request, "RunInstances", moto_parameters(&order)).await?;
    let mut instances = Vec::new();
    let mut end = Vec::new();
    let mut partitions = partitions.into_iter();
    for (item, fate) in xml::items(&root, "instancesSet").zip(fates) {
        let partition = partitions.next();
        let instance = instance(shared, request, &order, item, profile.as_deref(), partition);
        let now = shared.clock.now();
        let Fate { ends, unseen_for } = fate;
        let delay = unseen_for.and_then(|delay| SignedDuration::try_from(delay).ok());
        let launched = shared.state().instances.launched(instance, delay.map(|delay| later(now, delay)));
        end.extend(ends.map(|(code, message)| (launched.id.clone(), StateReason { code, message })));
        instances.push(launched);
    }
    for (id, reason) in end {
        shared.end(request, &id, reason).await?;
    }
    Ok(Launched { instances, root })
}

/// What rules, reservation and placement group say, once more and for the whole order. Returns the partition of each
/// instance, nothing if there are none.
fn check(shared: &Shared, state: &State, request: &Request, order: &Order) -> Result<Vec<u32>, ApiError> {
    let supply = state.rules.supply(&order.place());
    if supply.left.is_some_and(|left| left < order.count) {
        return Err(supply.short_of.unwrap_or_else(|| faults::insufficient_capacity(&order.place())));
    }
    if let Some(id) = &order.reservation {
        let reservation = state.reservations.get(id).ok_or_else(|| services::no_reservation(id))?;
        let fits = reservation.instance_type == order.instance_type && reservation.zone == order.zone;
        let now = shared.clock.now();
        let left = state.reservations.available(reservation, &state.instances, now);
        if !fits || !reservation.is_active(now) || left < order.count {
            return Err(faults::reservation_exceeded());
        }
    }
    let Some(name) = &order.placement_group else { return Ok(Vec::new()) };
    let group = state.groups.get(&request.region, name).ok_or_else(|| services::no_group(name))?;
    let inside =
        || state.instances.running().filter(|instance| instance.placement_group.as_deref() == Some(&group.name));
    if group.strategy == "spread" {
        let here = inside().filter(|instance| instance.zone == order.zone).count();
        if here + usize::try_from(order.count).unwrap_or(usize::MAX) > SPREAD_LIMIT {
            return Err(faults::spread_limit());
        }
    }
    let named = order.template.as_ref().and_then(|template| template.text("placement/partitionNumber"));
    let named = named.or_else(|| order.sent.text("Placement.PartitionNumber").map(str::to_owned));
    let Some(count) = group.partitions else { return Ok(Vec::new()) };
    if let Some(named) = named {
        let wrong =
            || faults::invalid_value(format!("Invalid partition number '{named}' for placement group '{name}'."));
        let number = named.parse().ok().filter(|number| (1..=count).contains(number)).ok_or_else(wrong)?;
        return Ok((0..order.count).map(|_| number).collect());
    }
    // EC2 spreads evenly.
    let mut used = vec![0_usize; usize::try_from(count).unwrap_or_default()];
    for partition in inside().filter_map(|instance| instance.partition) {
        let slot = usize::try_from(partition).ok().and_then(|partition| used.get_mut(partition.checked_sub(1)?));
        slot.into_iter().for_each(|used| *used += 1);
    }
    let emptiest = |_| {
        let (index, _) = used.iter().enumerate().min_by_key(|(_, used)| **used).unwrap_or((0, &0));
        used.get_mut(index).into_iter().for_each(|used| *used += 1);
        u32::try_from(index + 1).unwrap_or(1)
    };
    Ok((0..order.count).map(emptiest).collect())
}

/// moto reads tags, user data and volumes out of the template itself; the rest is spelt out for it.
fn moto_parameters(order: &Order) -> BTreeMap<String, String> {
    let mut parameters = order.sent.query.clone();
    // Kept here, not there.
    let ours = [
        "ClientToken",
        "MinCount",
        "MaxCount",
        "IamInstanceProfile.",
        "CapacityReservationSpecification.",
        "TagSpecification.",
    ];
    parameters.retain(|name, _| !ours.iter().any(|start| name.starts_with(start)) && !name.starts_with("Placement."));
    let count = order.count.to_string();
    let mut set = |name: &str, value: &str| parameters.insert(name.to_owned(), value.to_owned());
    set("MinCount", &count);
    set("MaxCount", &count);
    set("InstanceType", &order.instance_type);
    set("ImageId", &order.image);
    if order.capacity_type == CapacityType::Spot {
        set("InstanceMarketOptions.MarketType", "spot");
    }
    if let Some(template) = &order.template {
        parameters.retain(|name, _| !name.starts_with("LaunchTemplate."));
        parameters.insert("LaunchTemplate.LaunchTemplateId".to_owned(), template.named.id.clone());
        parameters.insert("LaunchTemplate.Version".to_owned(), template.named.version.clone());
        if !parameters.keys().any(|name| name.starts_with("NetworkInterface.")) {
            parameters.extend(template.interface_parameters());
        }
    }
    if parameters.keys().any(|name| name.starts_with("NetworkInterface.")) {
        parameters.remove("SubnetId");
        parameters.insert("NetworkInterface.1.SubnetId".to_owned(), order.subnet.clone());
    } else {
        parameters.insert("SubnetId".to_owned(), order.subnet.clone());
    }
    for (number, (resource, tags)) in
        [("instance", &order.instance_tags), ("volume", &volume_tags(order))].into_iter().enumerate()
    {
        let of = |field: &str| format!("TagSpecification.{}.{field}", number + 1);
        if tags.is_empty() {
            continue;
        }
        parameters.insert(of("ResourceType"), resource.to_owned());
        for (index, (key, value)) in tags.iter().enumerate() {
            parameters.insert(of(&format!("Tag.{}.Key", index + 1)), key.clone());
            parameters.insert(of(&format!("Tag.{}.Value", index + 1)), value.clone());
        }
    }
    parameters
}

fn volume_tags(order: &Order) -> BTreeMap<String, String> {
    let mut tags = order.template.as_ref().map(|template| template.tags("volume")).unwrap_or_default();
    tags.extend(order.volume_tags.clone());
    tags
}

/// Name or ARN.
fn profile_of(order: &Order) -> Option<String> {
    let sent = |name: &str| order.sent.text(name).map(str::to_owned);
    let of_template = || order.template.as_ref()?.instance_profile();
    sent("IamInstanceProfile.Arn").or_else(|| sent("IamInstanceProfile.Name")).or_else(of_template)
}

/// The ARN of the profile.
async fn find_profile(shared: &Shared, like: &Request, profile: &str) -> Result<String, ApiError> {
    let name = profile.rsplit('/').next().unwrap_or(profile).to_owned();
    let asked = BTreeMap::from([("InstanceProfileName".to_owned(), name.clone())]);
    let found = shared.ask_service(like, "iam", "GetInstanceProfile", asked).await;
    let arn = found.ok().and_then(|root| xml::text(&root, "GetInstanceProfileResult/InstanceProfile/Arn"));
    arn.ok_or_else(|| {
        faults::invalid_value(format!(
            "Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
        ))
    })
}

fn instance(
    shared: &Shared,
    request: &Request,
    order: &Order,
    item: &Element,
    profile: Option<&str>,
    partition: Option<u32>,
) -> Instance {
    let text = |path: &str| xml::text(item, path).unwrap_or_default();
    let id = text("instanceId");
    let group = xml::items(item, "networkInterfaceSet").next().into_iter().flat_map(|nic| xml::items(nic, "groupSet"));
    let sent = |name: &str| {
        let mut name = name.to_owned();
        name[..1].make_ascii_uppercase();
        order.sent.text(&format!("MetadataOptions.{name}")).map(str::to_owned)
    };
    let of_template = order.template.as_ref();
    let says_metadata = order.sent.query.keys().any(|name| name.starts_with("MetadataOptions."));
    let state = shared.state();
    Instance {
        region: request.region.clone(),
        zone: order.zone.clone(),
        instance_type: order.instance_type.clone(),
        capacity_type: order.place().capacity_type,
        architecture: order.architecture.clone(),
        private_address: text("privateIpAddress").parse().unwrap_or(std::net::Ipv4Addr::UNSPECIFIED),
        private_dns_name: text("privateDnsName"),
        subnet: order.subnet.clone(),
        security_groups: group.filter_map(|group| xml::text(group, "groupId")).collect(),
        image: order.image.clone(),
        user_data: order.sent.text("UserData").map(str::to_owned).or_else(|| of_template?.text("userData")),
        tags: xml::tags(item),
        launch_template: of_template.map(|template| template.named.clone()),
        fleet: order.fleet.clone(),
        instance_profile: profile.map(str::to_owned),
        metadata: match of_template {
            Some(template) if !says_metadata => template.metadata(),
            _ => metadata(sent),
        },
        spot_request: (order.capacity_type == CapacityType::Spot).then(|| format!("sir-{}", hex(&id, 8))),
        reservation: order.reservation.clone(),
        placement_group: order.placement_group.as_ref().map(|name| {
            let group = state.groups.get(&request.region, name);
            group.map_or_else(|| name.clone(), |group| group.name.clone())
        }),
        partition,
        launched_at: shared.clock.now(),
        launched_by: state.identities.name(&request.access_key),
        id,
    }
}

/// `RunInstances` as a caller sent it.
pub(super) async fn run_instances(shared: &Shared, request: &Request) -> Result<Answer, ApiError> {
    let mut order = super::direct::order(shared, request).await?;
    if request.parameters.flag("DryRun") {
        return Err(faults::dry_run());
    }
    let least = request.parameters.number::<u32>("MinCount").unwrap_or(1);
    let supply = shared.state().rules.supply(&order.place());
    if supply.left.is_some_and(|left| left < least) {
        return Err(supply.short_of.unwrap_or_else(|| faults::insufficient_capacity(&order.place())));
    }
    order.count = supply.left.map_or(order.count, |left| left.min(order.count));
    let Launched { root, .. } = launch(shared, request, order).await?;
    Ok(Answer::xml(200, &root))
}
