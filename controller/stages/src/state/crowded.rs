//! Cheap estimate of whether a Node has room for its pods, to decide whether to plan again.

use muster_api::NodeClaim;
use muster_manifest::{Pod, effective_requests};
use muster_scheduling::model::Resources;

use super::cluster::Cluster;
use crate::node::amounts;

impl Cluster {
    /// Returns true if the requests of the pods on the Node of a claim, and of the waiting pods in `meant`
    /// (`namespace/name`), exceed its allocatable resources. The overhead of RuntimeClasses and daemons that are not
    /// running yet are not included.
    #[must_use]
    pub fn is_crowded<'m>(&self, claim: &NodeClaim, meant: impl Iterator<Item = &'m str>) -> bool {
        let Some(node) = self.claimed(claim).node else { return false };
        let (Some(name), Some(there)) =
            (&node.metadata.name, node.status.as_ref().and_then(|status| status.allocatable.as_ref()))
        else {
            return false;
        };
        let waiting = meant.filter_map(|path| self.pod(path)).filter(|pod| pod.pod.node.is_none());
        let mut requests = Resources::new();
        for Pod { template, .. } in self.pods_on(name).chain(waiting).map(|pod| &pod.pod).filter(|pod| !pod.terminal) {
            requests.add(&effective_requests(&template.containers, template.resources.as_ref(), None));
        }
        requests.first_shortage(&amounts(there)).is_some()
    }
}
