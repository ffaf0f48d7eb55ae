//! Instance types of each NodeClass, and the properties of their machines.

use std::collections::BTreeMap;

use muster_aws::quantity::format;
use muster_cloud::Memory;
use muster_manifest::NodeClass;
use muster_scheduling::model::{Catalogue, InstanceType, Resources};
use muster_stages::driver::{CloudView, readiness};
use muster_stages::lifecycle::Class;
use muster_stages::state::LiveClass;
use serde_json::Value;

/// Instance types by name of NodeClass.
#[derive(Debug, Clone, Default)]
pub(crate) struct Supply {
    of_class: BTreeMap<String, Catalogue>,
    /// Types of classes that did not exist at the start.
    default: Option<Catalogue>,
}

// === impl Supply ===

impl Supply {
    /// Sets the types of a class.
    pub(crate) fn set(&mut self, class: &str, types: Catalogue) {
        self.of_class.insert(class.to_owned(), types);
    }

    /// Sets the types of all other classes.
    pub(crate) fn set_default(&mut self, types: Catalogue) {
        self.default = Some(types);
    }

    /// Returns the types of a class.
    pub(crate) fn of(&self, class: &str) -> Option<&Catalogue> {
        self.of_class.get(class).or(self.default.as_ref())
    }

    /// Registers the properties of a type's machines with the cloud.
    pub(crate) fn describe(&self, cloud: &mut Memory, class: &str, name: &str) {
        let Some(one) = self.of(class).and_then(|types| types.types().iter().find(|one| &*one.name == name)) else {
            return;
        };
        cloud.resources.entry(name.to_owned()).or_insert_with(|| written(&one.capacity));
        cloud.allocatable.entry(name.to_owned()).or_insert_with(|| written(&one.allocatable()));
        cloud.labels.entry(name.to_owned()).or_insert_with(|| labels_of(one));
    }
}

impl CloudView for Supply {
    fn types(&self, class: Option<&NodeClass>) -> Catalogue {
        self.of(class.map_or("", |class| &*class.name)).cloned().unwrap_or_default()
    }

    fn judge(&self, class: &LiveClass) -> Class {
        Class {
            reference: class.reference.clone(),
            meta: class.meta.clone(),
            conditions: class.conditions.clone(),
            readiness: readiness(class),
            hash: hash_of(&class.object),
            bootstrap_fault: None,
            hands_over_taints: true,
            tags_instances: true,
            reboots_instances: true,
            block_ends: BTreeMap::new(),
        }
    }
}

/// Version of [`hash_of`].
pub(crate) const HASH_VERSION: &str = "simulated";

/// Selector fields of a NodeClass, of which only the selected objects cause drift.
const SELECTORS: [&str; 4] =
    ["amiSelectorTerms", "subnetSelectorTerms", "securityGroupSelectorTerms", "capacityReservationSelectorTerms"];

/// Returns a hash of the launch settings, for the simulated cloud.
pub(crate) fn hash_of(class: &Value) -> String {
    let mut spec = class.get("spec").cloned().unwrap_or_default();
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|key, _| !SELECTORS.contains(&key.as_str()));
    }
    let bytes = spec.to_string().into_bytes();
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

fn written(amounts: &Resources) -> BTreeMap<String, String> {
    amounts.iter().map(|(resource, amount)| (resource.name().to_owned(), format(resource, amount))).collect()
}

/// Returns the labels that all machines of the type have.
fn labels_of(one: &InstanceType) -> BTreeMap<String, String> {
    let label = |(key, requirement): (&std::sync::Arc<str>, &muster_scheduling::model::Requirement)| {
        Some((key.to_string(), requirement.single()?.to_string()))
    };
    one.requirements.iter().filter_map(label).collect()
}
