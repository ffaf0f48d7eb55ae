//! Capacity reported by Nodes updates the instance types if it is plausible; implausible values are logged once.
//!
//! [`muster_aws::learned`] decides what is plausible and applies it; this module determines the origin of the values.

use muster_api::{NodeClaim, Quantities, annotations, labels};
use muster_aws::discovery::HASH_VERSION;
use muster_aws::learned::{Build, RESOURCES, Said};
use muster_aws::quantity;
use muster_scheduling::model::{Resource, Resources};
use muster_stages::driver::Grown;
use muster_stages::node::Node;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::provider::Ec2;

/// Labels: resource and reason.
type Labels = [(&'static str, String); 2];

/// Metrics of learned values; clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Learning {
    types: Gauge,
    doubted: Family<Labels, Counter>,
}

// === impl Learning ===

impl Learning {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "muster_instance_types_learned",
            "Instance types with values learned from their Nodes, for each image and class hash",
            self.types.clone(),
        );
        registry.register(
            "muster_instance_type_doubts",
            "Values reported by Nodes and rejected as implausible, once for each type, image and class hash",
            self.doubted.clone(),
        );
    }
}

// === impl Ec2 ===

impl Ec2 {
    /// Applies the values of a Node if its instance type and build are certain.
    pub(super) fn learn_figures(&self, grown: &Grown<'_>) {
        let Some((instance_type, instance, build)) = made_of(grown) else { return };
        let (said, edition) = (said(grown.node), self.cloud().learned_edition());
        for (resource, doubt) in self.cloud().learn_node(instance_type, instance, &build, &grown.class.settings, &said)
        {
            let amount = |of: &Resources| quantity::format(&resource, of.get(&resource));
            tracing::warn!(
                node = grown.node.metadata.name,
                instance_type,
                image = build.image,
                resource = resource.name(),
                capacity = amount(&said.capacity),
                allocatable = amount(&said.allocatable),
                doubt = doubt.name(),
                "a Node reports implausible values of its machine: the known values of the type are kept"
            );
            let labels = [("resource", resource.name().to_owned()), ("reason", doubt.name().to_owned())];
            self.learning().doubted.get_or_create(&labels).inc();
        }
        if self.cloud().learned_edition() != edition {
            self.learning().types.set(i64::try_from(self.cloud().count_learned()).unwrap_or(i64::MAX));
        }
    }
}

/// Returns instance type, provider ID and build of a node that was launched with the current version of its class, by
/// any controller. They are read from the claim, which the node cannot write.
///
/// Prefix delegation is not part of any hash: a node launched before it was changed counts as a current one. Its number
/// of pods is then accepted if it is between half of the current value and that value.
fn made_of<'a>(grown: &Grown<'a>) -> Option<(&'a str, &'a str, Build)> {
    let Grown { claim, class, class_hash, node: _ } = grown;
    let NodeClaim { metadata, status, .. } = claim;
    let annotation = |key| metadata.annotations.as_ref()?.get(key).map(String::as_str);
    let is_current = annotation(annotations::EC2NODECLASS_HASH) == Some(class_hash)
        && annotation(annotations::EC2NODECLASS_HASH_VERSION) == Some(HASH_VERSION);
    let instance = status.as_ref()?.provider_id.as_deref()?;
    let image = status.as_ref()?.image_id.clone().filter(|image| !image.is_empty())?;
    let instance_type = metadata.labels.as_ref()?.get(labels::INSTANCE_TYPE)?;
    let prefix_delegation = class.settings.prefix_delegation;
    let build = Build { image, class: (*class_hash).to_owned(), prefix_delegation };
    is_current.then_some((instance_type.as_str(), instance, build))
}

/// Reads the resources of a Node. Amounts that cannot be parsed are omitted.
fn said(node: &Node) -> Said {
    let status = node.status.as_ref();
    let read = |of: Option<&Quantities>| {
        let amount = |resource: &Resource| {
            let amount = quantity::parse(resource, &of?.get(resource.name())?.0).ok()?;
            Some((resource.clone(), amount))
        };
        RESOURCES.iter().filter_map(amount).collect()
    };
    Said {
        capacity: read(status.and_then(|status| status.capacity.as_ref())),
        allocatable: read(status.and_then(|status| status.allocatable.as_ref())),
    }
}
