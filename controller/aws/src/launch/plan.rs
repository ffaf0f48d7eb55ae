//! Plan of a launch: the parameters of its CreateFleet request.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::nodeclass::{Ami, Ec2NodeClass, Ec2NodeClassStatus, Subnet, Toggle};
use muster_api::{labels, resources};
use muster_bootstrap::node_class::MergeFault;
use muster_bootstrap::userdata::LARGEST_USER_DATA;
use muster_cloud::{Alternative, CapacityType, CloudError, LaunchRequest, Offering, Refusal, Refused};
use muster_scheduling::model::{InstanceType, Resource};

use super::agent::{AgentSettings, Controller};
use super::choice::{self, Market};
use super::subnets::Addresses;
use super::template::{Placement, Reservation, Template, key_of_class};
use super::user_data::{Cluster, family_of, user_data};
use super::{devices, tags};
use crate::capacity::kubelet::KubeletOfType;
use crate::class::ClassSettings;
use crate::family::AmiFamily;
use crate::images::suits;
use crate::inventory::Inventory;
use crate::resolve::Resolver;

/// Inputs of a launch besides the request.
#[derive(Debug, Clone, Copy)]
pub struct Grounds<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// NodeClass with its status.
    pub class: &'a Ec2NodeClass,
    /// Parsed settings of the NodeClass and the controller's options.
    pub settings: &'a ClassSettings,
    /// Instance types of the region.
    pub inventory: &'a Inventory,
    /// Free addresses of the subnets.
    pub addresses: &'a Addresses,
    /// IDs of the zones that traffic is shifted away from: no subnet there is used.
    pub shifted: &'a BTreeSet<Arc<str>>,
    /// Connection settings of the controller for nodes, if it serves agents.
    pub controller: Option<&'a Controller>,
}

/// Parameters of a fleet with one instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Client token, which makes the request idempotent.
    pub token: String,
    /// Capacity type.
    pub capacity_type: CapacityType,
    /// `DefaultTargetCapacityType` of the fleet.
    pub target: &'static str,
    /// Launch templates with their overrides.
    pub templates: Vec<PlannedTemplate>,
    /// Tags of the instance.
    pub instance_tags: BTreeMap<String, String>,
    /// Tags of the volumes and of the fleet.
    pub tags: BTreeMap<String, String>,
    /// `spec.context`.
    pub context: Option<String>,
    /// Minimum pod limit of the types: the number of addresses that the launch takes in each subnet.
    pub addresses: i64,
}

/// A launch template and its overrides.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedTemplate {
    /// Name of the template.
    pub name: String,
    /// Names to use if a foreign template has that name.
    pub spare_names: Vec<String>,
    /// Content of the template.
    pub template: Template,
    /// Agent settings of its instances, if they have any.
    pub told: Option<AgentSettings>,
    /// Types and subnets, cheapest first.
    pub overrides: Vec<Override>,
}

/// A pool that EC2 may launch from.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    /// Offering of the pool.
    pub offering: Offering,
    /// Subnet of the pool.
    pub subnet: String,
    /// Rank of its price, from 1, if a NodeOverlay has changed prices: EC2 knows only its own.
    pub priority: Option<u32>,
}

/// Reason why a launch cannot be planned.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// The status of the class lacks a prerequisite of a launch.
    #[error("EC2NodeClass `{class}` has no {what} yet")]
    Unresolved {
        /// Name of the class.
        class: String,
        /// Missing prerequisite.
        what: &'static str,
    },
    /// Merging the class's user data failed.
    #[error(transparent)]
    UserData(#[from] MergeFault),
    /// The user data exceeds the size limit of EC2.
    #[error("the user data has {0} bytes, and EC2 takes {LARGEST_USER_DATA}")]
    UserDataTooLong(usize),
    /// No alternative has a subnet in its zone and an image for its type.
    #[error("none of the alternatives has a subnet in its zone and an image for its type")]
    Nothing(Vec<Offering>),
    /// Traffic is shifted away from the zones of all alternatives.
    #[error("traffic is shifted away from the zones of all alternatives")]
    Shifted(Vec<Offering>),
}

impl From<PlanError> for CloudError {
    fn from(error: PlanError) -> Self {
        let message = error.to_string();
        match error {
            PlanError::Unresolved { .. } => Self::Transient { message },
            PlanError::UserData(_) => Self::BadClass { reason: "InvalidUserData".to_owned(), message },
            PlanError::UserDataTooLong(_) => Self::BadClass { reason: "UserDataSizeLimitExceeded".to_owned(), message },
            PlanError::Nothing(offerings) => none_left(offerings, &Refusal::Unsupported),
            PlanError::Shifted(offerings) => none_left(offerings, &Refusal::ZonalShift),
        }
    }
}

fn none_left(offerings: Vec<Offering>, refusal: &Refusal) -> CloudError {
    let refused = offerings.into_iter().map(|offering| Refused { offering, refusal: refusal.clone() });
    CloudError::NoCapacity { refused: refused.collect() }
}

/// Properties in which the templates of one launch differ.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Variant {
    image: String,
    kubelet: KubeletOfType,
    efa: Option<u32>,
    reservation: Option<String>,
}

/// Plans a launch. The plan depends only on the request and the grounds, but not on prices, except those of
/// NodeOverlays.
///
/// # Errors
/// If the class is not resolved, its user data is invalid, or no alternative is left.
pub fn plan(request: &LaunchRequest, grounds: &Grounds<'_>) -> Result<Plan, PlanError> {
    let class = grounds.class;
    let name = class.metadata.name.clone().unwrap_or_default();
    let unresolved = |what| PlanError::Unresolved { class: name.clone(), what };
    let status = class.status.as_ref().ok_or_else(|| unresolved("status"))?;
    let profile = status.instance_profile.clone().ok_or_else(|| unresolved("instance profile"))?;
    for (is_missing, what) in [
        (status.subnets.is_empty(), "subnets"),
        (status.amis.is_empty(), "images"),
        (status.security_groups.is_empty(), "security groups"),
    ] {
        if is_missing {
            return Err(unresolved(what));
        }
    }
    if grounds.settings.ami_family == AmiFamily::Al2023 && grounds.cluster.service_cidr.is_none() {
        return Err(unresolved("network of Services, which AL2023 needs,"));
    }
    let asked: Vec<Offering> = request.alternatives.iter().map(|one| one.offering.clone()).collect();
    let request = &*without_shifted(request, status, grounds.shifted);
    if request.alternatives.is_empty() {
        return Err(PlanError::Shifted(asked));
    }
    let chosen = choice::choose(request, grounds.inventory, &status.capacity_reservations);
    let own = tags::of_class(&grounds.cluster.name, &name, request.pool.as_deref(), &class.spec.tags);
    let (variants, least_pods) = variants(&chosen, request, grounds, status);
    if variants.is_empty() {
        return Err(PlanError::Nothing(asked));
    }
    let capacity_type = chosen.first().map_or(CapacityType::OnDemand, |one| one.offering.capacity_type);
    let maker = Maker { request, grounds, status, profile, own: &own, capacity_type };
    let key = grounds.controller.map(|it| it.key.clone());
    let key = key.unwrap_or_else(|| key_of_class(class.metadata.uid.as_deref().unwrap_or_default()));
    let templates = variants.into_iter().map(|(variant, overrides)| {
        let (template, told) = maker.template(&variant)?;
        let (name, spare_names) = template.names(&key);
        Ok(PlannedTemplate { name, spare_names, template, told, overrides })
    });
    let templates: Vec<PlannedTemplate> = templates.collect::<Result<_, PlanError>>()?;
    let market = chosen
        .first()
        .and_then(|one| choice::market_of(one.offering.reservation.as_deref()?, &status.capacity_reservations));
    Ok(Plan {
        token: request.token.to_string(),
        capacity_type,
        target: match (capacity_type, market) {
            (CapacityType::Spot, _) => "spot",
            (_, Some(Market::Block)) => "capacity-block",
            (_, Some(Market::Interruptible)) => "reserved-capacity",
            _ => "on-demand",
        },
        templates,
        instance_tags: tags::of_instance(&own, &request.tags, &request.token),
        tags: own,
        context: class.spec.context.clone(),
        addresses: least_pods,
    })
}

/// Returns the request without its alternatives in zones that traffic is shifted away from.
fn without_shifted<'r>(
    request: &'r LaunchRequest,
    status: &Ec2NodeClassStatus,
    shifted: &BTreeSet<Arc<str>>,
) -> Cow<'r, LaunchRequest> {
    let is_shifted = |subnet: &&Subnet| subnet.zone_id.as_deref().is_some_and(|id| shifted.contains(id));
    let zones: BTreeSet<&str> = status.subnets.iter().filter(is_shifted).map(|subnet| &*subnet.zone).collect();
    if zones.is_empty() {
        return Cow::Borrowed(request);
    }
    let mut left = request.clone();
    left.alternatives.retain(|one| !zones.contains(&*one.offering.zone));
    Cow::Owned(left)
}

/// Groups the alternatives by the template that they need, each group in price order, and returns the minimum pod
/// limit.
fn variants(
    chosen: &[Alternative],
    request: &LaunchRequest,
    grounds: &Grounds<'_>,
    status: &Ec2NodeClassStatus,
) -> (BTreeMap<Variant, Vec<Override>>, i64) {
    // A requested zone without free addresses stays even if an unrequested zone has some.
    let is_asked = |zone: &str| chosen.iter().any(|one| one.offering.zone == zone);
    let subnets: Vec<Subnet> = status.subnets.iter().filter(|one| is_asked(&one.zone)).cloned().collect();
    let subnets = grounds.addresses.choose(&subnets);
    let wants_efa = request.has_network_devices || request.requests.contains_key(resources::EFA);
    let mut resolver = Resolver::new(grounds.inventory.place(), grounds.settings);
    let mut of_types: BTreeMap<&str, Option<Variant>> = BTreeMap::new();
    let mut variants: BTreeMap<Variant, Vec<Override>> = BTreeMap::new();
    let mut least = i64::MAX;
    let (mut rank, mut price) = (0_u32, f64::NEG_INFINITY);
    for one in chosen {
        let offering = &one.offering;
        if one.price > price {
            (rank, price) = (rank + 1, one.price);
        }
        let of_type = of_types.entry(&offering.instance_type).or_insert_with(|| {
            let facts = grounds.inventory.facts(&offering.instance_type)?;
            let resolved = resolver.resolve(facts, &crate::Prices::default());
            let image = image_for(&resolved, &status.amis)?;
            let kubelet = KubeletOfType::of(facts, grounds.settings);
            least = least.min(resolved.capacity.get(&Resource::Pods));
            let efa =
                (wants_efa && grounds.class.spec.network_interfaces.is_empty()).then_some(facts.network.efa_interfaces);
            Some(Variant { image: image.id.clone(), kubelet, efa, reservation: None })
        });
        let (Some(of_type), Some(subnet)) = (of_type, subnets.get(&offering.zone)) else { continue };
        let variant = Variant {
            image: of_type.image.clone(),
            kubelet: of_type.kubelet.clone(),
            efa: of_type.efa,
            reservation: offering.reservation.clone(),
        };
        let entry = variants.entry(variant).or_default();
        let priority = request.overlaid.has_prices.then_some(rank);
        entry.push(Override { offering: offering.clone(), subnet: subnet.clone(), priority });
    }
    (variants, least)
}

/// Returns the first image of the status, which lists the newest first, that is compatible with the type.
pub(crate) fn image_for<'a>(instance_type: &InstanceType, amis: &'a [Ami]) -> Option<&'a Ami> {
    amis.iter().find(|ami| suits(ami, &instance_type.requirements))
}

/// Common inputs of the templates of one launch.
struct Maker<'a> {
    request: &'a LaunchRequest,
    grounds: &'a Grounds<'a>,
    status: &'a Ec2NodeClassStatus,
    profile: String,
    own: &'a BTreeMap<String, String>,
    capacity_type: CapacityType,
}

impl Maker<'_> {
    fn template(&self, variant: &Variant) -> Result<(Template, Option<AgentSettings>), PlanError> {
        let Self { request, grounds, status, own, .. } = self;
        let spec = &grounds.class.spec;
        let family = family_of(spec);
        let mut node_labels = request.labels.clone();
        node_labels.insert(labels::CAPACITY_TYPE.to_owned(), self.capacity_type.name().to_owned());
        let user_data = user_data(grounds.cluster, grounds.class, &variant.kubelet, &node_labels, &request.taints)?;
        let label = |key: &str| request.labels.get(key).map(String::as_str);
        let reservation = match &variant.reservation {
            None => Reservation::None,
            Some(id) => Reservation::Only {
                id: id.clone(),
                market: match choice::market_of(id, &status.capacity_reservations) {
                    Some(Market::Block) => Some("capacity-block"),
                    Some(Market::Interruptible) => Some("interruptible-capacity-reservation"),
                    Some(Market::Reserved) | None => None,
                },
            },
        };
        let group = grounds.settings.placement_group.as_ref();
        let mut template = Template {
            image_id: variant.image.clone(),
            user_data,
            instance_profile: self.profile.clone(),
            detailed_monitoring: spec.detailed_monitoring,
            disks: devices::disks(spec, family),
            metadata: devices::metadata(spec, &grounds.cluster.region),
            nested_virtualization: spec
                .cpu_options
                .as_ref()
                .and_then(|options| options.nested_virtualization)
                .map(|toggle| toggle == Toggle::Enabled),
            enclaves: spec.enclave_options.as_ref().map(|options| options.enabled),
            placement: Placement {
                tenancy: label(labels::INSTANCE_TENANCY).unwrap_or("default").to_owned(),
                group_id: group.map(|group| group.id.to_string()),
                partition: label(labels::PLACEMENT_GROUP_PARTITION).and_then(|number| number.parse().ok()),
            },
            interfaces: devices::interfaces(spec, &status.security_groups, variant.efa, grounds.cluster.is_ipv6()),
            reservation,
            tags: (*own).clone(),
            is_spot: self.capacity_type == CapacityType::Spot,
        };
        let introduced = grounds.controller.map(|it| it.introduce(&mut template, family, request));
        let told = introduced.transpose()?.flatten();
        if template.user_data.len() > LARGEST_USER_DATA {
            return Err(PlanError::UserDataTooLong(template.user_data.len()));
        }
        Ok((template, told))
    }
}
