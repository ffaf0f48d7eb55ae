//! Nodes that exist or are being launched.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Labels, PodSpec, Resources, SpecId, Taint};

/// A node that takes pods and is not launched by this solve.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name; for a node in flight, that of its NodeClaim.
    pub name: Arc<str>,
    /// Its labels, with the hostname. For a node in flight: the labels that it will have.
    pub labels: Labels,
    /// Taints that pods must tolerate: startup and ephemeral taints are left out while the node is not initialized.
    pub taints: Vec<Taint>,
    /// Total amounts that pods and daemons can use.
    pub allocatable: Resources,
    /// Requests of the daemons that do not run on it yet.
    pub daemon_requests: Resources,
    /// True if it is registered and initialized.
    pub initialized: bool,
    /// True if it is being deleted: it takes no pods, and its pods do not count for spreads and affinities.
    pub deleting: bool,
    /// The pods on it, daemons and nominated pods included.
    pub bound: Vec<BoundPod>,
    /// Volumes that it can still attach, by CSI driver; a driver that is absent has no limit.
    pub attach_limits: Vec<(Arc<str>, u32)>,
}

/// A pod that has a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundPod {
    /// `namespace/name`.
    pub name: Arc<str>,
    /// Id of its constraints and labels.
    pub spec: SpecId,
    /// True if it counts for topology: false for terminal and terminating pods.
    pub counts: bool,
    /// True if the current plan puts it there: its own spreads must hold once all planned pods are placed.
    pub planned: bool,
    /// True if it never waits for a node: the pod of a DaemonSet, or a static pod of the kubelet.
    pub daemon: bool,
}

// === impl Node ===

impl Node {
    /// Binds a pod whose constraints are one of `specs`. Its volumes are attached, so that the node can attach fewer
    /// others; one that a bound pod has attached counts once.
    pub(crate) fn bind(&mut self, pod: BoundPod, specs: &[PodSpec]) {
        let attachments = |pod: &BoundPod| specs.get(pod.spec).map_or(&[][..], |spec| &spec.attachments);
        for (driver, left) in &mut self.attach_limits {
            let of_driver = |pod| attachments(pod).iter().filter(|one| one.driver == *driver).map(|one| &one.claim);
            let mut new: BTreeSet<&Arc<str>> = of_driver(&pod).collect();
            if !new.is_empty() {
                self.bound.iter().flat_map(of_driver).for_each(|claim| {
                    new.remove(claim);
                });
            }
            *left = left.saturating_sub(u32::try_from(new.len()).unwrap_or(u32::MAX));
        }
        self.bound.push(pod);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Attachment;

    #[test]
    fn a_claim_is_attached_once_and_only_by_its_driver() {
        let spec = |claims: &[(&str, &str)]| {
            let attachment =
                |(driver, claim): &(&str, &str)| Attachment { driver: (*driver).into(), claim: (*claim).into() };
            let mut spec = PodSpec::unconstrained("default", Resources::new());
            spec.attachments = claims.iter().map(attachment).collect();
            spec
        };
        let specs = [spec(&[("ebs", "a"), ("ebs", "b"), ("efs", "c")]), spec(&[("ebs", "b"), ("ebs", "d")]), spec(&[])];
        let mut node = Node {
            name: "node".into(),
            labels: Labels::default(),
            taints: Vec::new(),
            allocatable: Resources::new(),
            daemon_requests: Resources::new(),
            initialized: true,
            deleting: false,
            bound: Vec::new(),
            attach_limits: vec![("ebs".into(), 4)],
        };
        let mut left_after = |spec| {
            let pod = BoundPod { name: "default/pod".into(), spec, counts: true, planned: true, daemon: false };
            node.bind(pod, &specs);
            node.attach_limits[0].1
        };
        assert_eq!([0, 1, 1, 2].map(&mut left_after), [2, 1, 1, 1]);
        assert_eq!(node.bound.len(), 4);
    }
}
