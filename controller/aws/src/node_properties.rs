//! Properties of an instance that follow from its type and class: labels and resources of its node.

use std::collections::BTreeMap;

use muster_api::{annotations, labels, resources};
use muster_cloud::{CapacityType, Instance};
use muster_scheduling::model::{InstanceType, Resource, Resources};

use crate::class::ClassSettings;
use crate::discovery::{HASH_VERSION, class_hash};
use crate::inventory::Inventory;
use crate::learned::{Build, Learned};
use crate::quantity;
use muster_api::Ec2NodeClass;

/// Fills in the properties that follow from type, class and reservation: labels, annotations, capacity, allocatable.
/// Learned values of the build replace computed ones, as in the plan of the launch. `requested` are the resources that
/// the claim requests: an EFA that is not requested is not configured.
pub(crate) fn complete(
    instance: &mut Instance,
    class: &Ec2NodeClass,
    settings: &ClassSettings,
    (inventory, learned): (&Inventory, &Learned),
    requested: &BTreeMap<String, String>,
) {
    let status = class.status.as_ref();
    let hash = class_hash(class);
    if let Some(mut instance_type) = inventory.instance_type(&instance.offering.instance_type, settings) {
        if let Some(image) = &instance.image_id {
            let prefix_delegation = settings.prefix_delegation;
            let build = Build { image: image.clone(), class: hash.clone(), prefix_delegation };
            learned.apply(&build, &mut instance_type);
        }
        instance.labels = labels_of(&instance_type);
        let is_configured = |name: &str| {
            name != resources::EFA || !settings.network_interfaces.is_empty() || requested.contains_key(name)
        };
        instance.capacity = quantities(&instance_type.capacity, is_configured);
        instance.allocatable = quantities(&instance_type.allocatable(), is_configured);
    }
    let offering = &instance.offering;
    let mut set = |key: &str, value: &str| drop(instance.labels.insert(key.to_owned(), value.to_owned()));
    set(labels::INSTANCE_TYPE, &offering.instance_type);
    set(labels::ZONE, &offering.zone);
    set(labels::CAPACITY_TYPE, offering.capacity_type.name());
    let subnet = status.and_then(|status| status.subnets.iter().find(|subnet| subnet.zone == offering.zone));
    if let Some(id) = subnet.and_then(|subnet| subnet.zone_id.as_deref()) {
        set(labels::ZONE_ID, id);
    }
    if let (CapacityType::Reserved, Some(id)) = (offering.capacity_type, &offering.reservation) {
        set(labels::CAPACITY_RESERVATION_ID, id);
        if let Some(reservation) = settings.reservations.iter().find(|one| *one.id == **id) {
            let kind = if reservation.capacity_block { "capacity-block" } else { "default" };
            set(labels::CAPACITY_RESERVATION_TYPE, kind);
            set(labels::CAPACITY_RESERVATION_INTERRUPTIBLE, if reservation.interruptible { "true" } else { "false" });
        }
    }
    let mut note = |key: &str, value: String| drop(instance.annotations.insert(key.to_owned(), value));
    note(annotations::EC2NODECLASS_HASH, hash);
    note(annotations::EC2NODECLASS_HASH_VERSION, HASH_VERSION.to_owned());
    if let Some(profile) = status.and_then(|status| status.instance_profile.clone()) {
        note(annotations::INSTANCE_PROFILE_NAME, profile);
    }
}

/// Returns a label for each requirement with a single value. Reservation, tenancy and partition are not properties of
/// the type.
fn labels_of(instance_type: &InstanceType) -> BTreeMap<String, String> {
    let open = [
        labels::CAPACITY_RESERVATION_ID,
        labels::CAPACITY_RESERVATION_TYPE,
        labels::CAPACITY_RESERVATION_INTERRUPTIBLE,
        labels::INSTANCE_TENANCY,
        labels::PLACEMENT_GROUP_PARTITION,
    ];
    let single = instance_type.requirements.iter().filter_map(|(key, wanted)| Some((key, wanted.single()?)));
    let named = single.filter(|(key, _)| !open.contains(&&***key));
    named.map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn quantities(of: &Resources, is_configured: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    let has = |(resource, amount): &(&Resource, i64)| *amount > 0 && is_configured(&resource.to_string());
    of.iter().filter(has).map(|(resource, amount)| (resource.to_string(), quantity::format(resource, amount))).collect()
}
