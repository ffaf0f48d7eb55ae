//! Total resources of the nodes of a pool.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use muster_api::{NodeClaim, resources};
use muster_aws::quantity::format;
use muster_scheduling::model::{Resource, Resources};

use super::PoolInput;
use crate::node::{Node, amounts};

/// Resources that are reported even if their amount is zero.
const ALWAYS: [&str; 5] =
    [resources::CPU, resources::MEMORY, resources::PODS, resources::EPHEMERAL_STORAGE, resources::NODES];

/// Returns the capacity by resource, including the number of nodes, as in `status.resources`, and that number itself.
pub(super) fn count(input: &PoolInput<'_>) -> (BTreeMap<String, Quantity>, i64) {
    let mut all: Resources = ALWAYS.iter().map(|name| (Resource::new(name), 0)).collect();
    let claimed = input.claims.iter().map(|one| capacity(Some(one.claim), one.node));
    let unclaimed = input.unclaimed.iter().map(|node| capacity(None, Some(node)));
    let mut nodes = 0;
    for amounts in claimed.chain(unclaimed) {
        all.add(&amounts);
        nodes += 1;
    }
    all.set(Resource::new(resources::NODES), nodes);
    let written = all.iter().map(|(resource, amount)| (resource.name().to_owned(), Quantity(format(resource, amount))));
    (written.collect(), nodes)
}

/// Returns the Node's capacity; for resources that the Node does not report (yet), such as devices, the capacity in the
/// claim's status.
fn capacity(claim: Option<&NodeClaim>, node: Option<&Node>) -> Resources {
    let promised = claim.and_then(|claim| claim.status.as_ref()).map(|status| amounts(&status.capacity));
    let there = node.and_then(|node| node.status.as_ref()?.capacity.as_ref()).map(amounts);
    let (promised, mut there) = (promised.unwrap_or_default(), there.unwrap_or_default());
    let lacking: BTreeSet<Resource> =
        promised.iter().filter(|(one, _)| there.get(one) == 0).map(|(one, _)| one.clone()).collect();
    for resource in lacking {
        let amount = promised.get(&resource);
        there.set(resource, amount);
    }
    there
}
