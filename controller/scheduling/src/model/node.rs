//! Nodes that exist or are being launched.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::{Attachment, Labels, PodSpec, Resources, SpecId, Taint};

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
    /// Numbers of volumes that it can attach, by CSI driver; a driver that is absent has no limit.
    pub attach_limits: Vec<(Arc<str>, u32)>,
    /// Volumes that are attached to it, whether its pods use them or not.
    pub attached: Vec<Attachment>,
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
    /// Returns the volumes that are attached to it, and those that will be for its pods; `specs` are those of the
    /// problem.
    pub(crate) fn volumes<'n>(&'n self, specs: &'n [PodSpec]) -> FxHashSet<&'n Attachment> {
        let of_pods = self.bound.iter().filter_map(|pod| specs.get(pod.spec)).flat_map(|spec| &spec.attachments);
        self.attached.iter().chain(of_pods).collect()
    }

    /// Returns the first CSI driver that cannot attach the volumes that pods of these specs need in addition.
    pub fn over_attached<'n>(
        &'n self,
        specs: &[PodSpec],
        more: impl IntoIterator<Item = SpecId>,
    ) -> Option<&'n Arc<str>> {
        if self.attach_limits.is_empty() {
            return None;
        }
        let there = self.volumes(specs);
        let wanted = more.into_iter().filter_map(|spec| specs.get(spec)).flat_map(|spec| &spec.attachments);
        let new: FxHashSet<&Attachment> = wanted.filter(|volume| !there.contains(volume)).collect();
        let is_over = |(driver, limit): &&(Arc<str>, u32)| {
            let new = of_driver(&new, driver);
            new > 0 && of_driver(&there, driver) + new > *limit as usize
        };
        self.attach_limits.iter().find(is_over).map(|(driver, _)| driver)
    }
}

/// Returns the number of volumes of a CSI driver.
pub(crate) fn of_driver(volumes: &FxHashSet<&Attachment>, driver: &str) -> usize {
    volumes.iter().filter(|volume| *volume.driver == *driver).count()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            attached: Vec::new(),
        };
        let mut there_after = |spec| {
            let pod = BoundPod { name: "default/pod".into(), spec, counts: true, planned: true, daemon: false };
            node.bound.push(pod);
            of_driver(&node.volumes(&specs), "ebs")
        };
        assert_eq!([0, 1, 1, 2].map(&mut there_after), [2, 3, 3, 3]);
        // `b` and `d` are there.
        node.bound = vec![BoundPod { spec: 1, ..node.bound[0].clone() }];
        let mut over = |limit, attached: &[&str], more: &[SpecId]| {
            node.attach_limits = vec![("efs".into(), 1), ("ebs".into(), limit)];
            node.attached =
                attached.iter().map(|claim| Attachment { driver: "ebs".into(), claim: (*claim).into() }).collect();
            node.over_attached(&specs, more.iter().copied()).map(ToString::to_string)
        };
        assert_eq!(over(3, &[], &[0, 2, 1]), None);
        assert_eq!(over(2, &[], &[0]).as_deref(), Some("ebs"));
        assert_eq!(over(1, &[], &[1, 2]), None, "nothing new");
        assert_eq!(over(3, &["old"], &[0]).as_deref(), Some("ebs"));
        assert_eq!(over(3, &["a"], &[0]), None, "it is attached already");
    }
}
