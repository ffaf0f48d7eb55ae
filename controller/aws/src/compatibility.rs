//! Instance types that a NodeClass cannot launch in any zone.

use crate::class::{ClassSettings, InterfaceType, NetworkInterface};
use crate::facts::InstanceTypeFacts;
use crate::family::AmiFamily;

/// Returns true if an instance of this type with these settings would start. Otherwise its offerings are unavailable;
/// the type stays in the list so that `explain` can name it.
pub(crate) fn can_launch(facts: &InstanceTypeFacts, class: &ClassSettings) -> bool {
    // The arm64 kernel of AL2023 needs the crypto extensions of Graviton2.
    let runs_image = !(class.ami_family == AmiFamily::Al2023 && facts.name.starts_with("a1."));
    let tracks_connections = !class.connection_tracking || &*facts.hypervisor == "nitro";
    let encloses = !class.enclaves || facts.nitro_enclaves;
    let nests = !class.nested_virtualization || has_feature(facts, "nested-virtualization");
    let places = class.placement_group.as_ref().is_none_or(|group| facts.placement.contains(&group.strategy));
    runs_image && tracks_connections && nests && encloses && places && has_interfaces(facts, &class.network_interfaces)
}

fn has_feature(facts: &InstanceTypeFacts, feature: &str) -> bool {
    facts.processor.features.iter().any(|supported| &**supported == feature)
}

fn has_interfaces(facts: &InstanceTypeFacts, interfaces: &[NetworkInterface]) -> bool {
    if interfaces.is_empty() {
        return true;
    }
    let network = &facts.network;
    let fits = |interface: &NetworkInterface| {
        let card = usize::try_from(interface.network_card).ok().and_then(|card| network.interfaces_by_card.get(card));
        card.is_some_and(|&slots| interface.device < slots)
    };
    let efa_only = interfaces.iter().filter(|interface| interface.kind == InterfaceType::EfaOnly).count();
    let enough_efa = u32::try_from(efa_only).is_ok_and(|count| count <= network.efa_interfaces);
    network.ena && enough_efa && interfaces.iter().all(fits)
}
