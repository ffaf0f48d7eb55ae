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
    /// Volumes that it can attach for its pods, by CSI driver: its limit less those attached for none of them. A driver
    /// that is absent has no limit.
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
    /// Returns the number of volumes that it can still attach, by CSI driver; `specs` are those of the problem.
    pub(crate) fn attachable(&self, specs: &[PodSpec]) -> Vec<(Arc<str>, u32)> {
        let left = |(driver, limit): &(Arc<str>, u32)| {
            let attached = self.attached(driver, specs, []).len();
            (Arc::clone(driver), limit.saturating_sub(u32::try_from(attached).unwrap_or(u32::MAX)))
        };
        self.attach_limits.iter().map(left).collect()
    }

    /// Returns the first CSI driver that cannot attach the volumes of its pods and of `more` together.
    pub fn over_attached<'n>(
        &'n self,
        specs: &[PodSpec],
        more: impl IntoIterator<Item = SpecId> + Clone,
    ) -> Option<&'n Arc<str>> {
        let is_over = |(driver, limit): &&(Arc<str>, u32)| {
            self.attached(driver, specs, more.clone()).len() > usize::try_from(*limit).unwrap_or(usize::MAX)
        };
        self.attach_limits.iter().find(is_over).map(|(driver, _)| driver)
    }

    /// Returns the claims of a CSI driver that its pods and `more` use.
    fn attached<'s>(
        &self,
        driver: &str,
        specs: &'s [PodSpec],
        more: impl IntoIterator<Item = SpecId>,
    ) -> BTreeSet<&'s Arc<str>> {
        let pods = self.bound.iter().map(|pod| pod.spec).chain(more);
        let volumes = pods.filter_map(|spec| specs.get(spec)).flat_map(|spec| &spec.attachments);
        volumes.filter(|volume| *volume.driver == *driver).map(|volume| &volume.claim).collect()
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
            node.bound.push(pod);
            node.attachable(&specs)[0].1
        };
        assert_eq!([0, 1, 1, 2].map(&mut left_after), [2, 1, 1, 1]);
        node.bound.truncate(1);
        node.attach_limits = vec![("efs".into(), 1), ("ebs".into(), 2)];
        let over = |more: &[SpecId]| node.over_attached(&specs, more.iter().copied()).map(|driver| &**driver);
        assert_eq!((over(&[0, 2]), over(&[2, 1])), (None, Some("ebs")));
    }
}
