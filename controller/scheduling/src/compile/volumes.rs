//! Columns of volumes: one for each CSI driver with an attach limit, and one for each of some claims of several pods.
//!
//! A volume that several pods use takes one attachment of a node, not one for each pod. So each node keeps one
//! attachment for each such claim, and then its pods take none; the claim's column, which is open or closed, says
//! whether the node could keep it.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{Attachment, Node, PodSpec, Problem, Resource, UNLIMITED, of_driver};

/// Maximum number of claims of several pods that have a column. Volumes of others are counted for each pod.
const MOST_SHARED: usize = 8;

/// Maximum number of pods of a plan in which each placement is searched for, with volumes counted exactly.
const FEW_PODS: usize = 8;

/// The columns of volumes.
#[derive(Debug, Clone, Default)]
pub(crate) struct VolumeColumns {
    /// CSI drivers with an attach limit on some node or instance type, sorted.
    drivers: Vec<Arc<str>>,
    /// Claims of several pods, for which nodes keep an attachment.
    shared: Vec<Attachment>,
    /// True for lower bounds: claims of several pods count nowhere.
    relaxed: bool,
}

impl VolumeColumns {
    /// Creates the columns of `problem`; `used` are the specs of pending pods with their number of pods.
    pub(super) fn new<'a>(
        problem: &Problem,
        used: impl Iterator<Item = (&'a PodSpec, usize)> + Clone,
        relaxed: bool,
    ) -> Self {
        let attached = used.clone().flat_map(|(spec, _)| &spec.attachments).map(|attachment| &attachment.driver);
        let mut drivers: Vec<Arc<str>> = attached.cloned().collect();
        drivers.sort();
        drivers.dedup();
        drivers.retain(|driver| is_limited(problem, driver));
        let mut columns = Self { drivers, shared: Vec::new(), relaxed };
        if !columns.drivers.is_empty() {
            columns.shared = columns.shared_claims(problem, used);
        }
        columns
    }

    fn shared_claims<'a>(
        &self,
        problem: &Problem,
        used: impl Iterator<Item = (&'a PodSpec, usize)>,
    ) -> Vec<Attachment> {
        let mut pods: FxHashMap<&Attachment, usize> = FxHashMap::default();
        let mut all = 0;
        for (spec, count) in used {
            all += count;
            for attachment in distinct(&spec.attachments).filter(|one| self.drivers.contains(&one.driver)) {
                *pods.entry(attachment).or_default() += count;
            }
        }
        if all <= FEW_PODS && !self.relaxed {
            return Vec::new();
        }
        let staying = || problem.nodes.iter().filter(|node| !node.deleting);
        let of_pods = staying().flat_map(|node| &node.bound).flat_map(|pod| &problem.specs[pod.spec].attachments);
        // A node keeps an attachment for each of them. So one that is only attached somewhere, from where its pod may
        // be about to move, counts for the pod; but a lower bound must not count what may be there already.
        let others = staying().filter(|_| self.relaxed).flat_map(|node| &node.attached);
        let attached: FxHashSet<&Attachment> = of_pods.chain(others).collect();
        let mut shared: Vec<(usize, &Attachment)> = pods
            .into_iter()
            .map(|(claim, count)| (count + usize::from(attached.contains(claim)), claim))
            .filter(|&(count, _)| count > 1)
            .collect();
        shared.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (&a.1.driver, &a.1.claim).cmp(&(&b.1.driver, &b.1.claim))));
        if !self.relaxed {
            shared.truncate(MOST_SHARED);
        }
        shared.into_iter().map(|(_, claim)| claim.clone()).collect()
    }

    /// Returns the number of columns.
    pub(super) fn len(&self) -> usize {
        self.drivers.len() + if self.relaxed { 0 } else { self.shared.len() }
    }

    /// Returns the CSI drivers, in the order of their columns.
    pub(super) fn drivers(&self) -> &[Arc<str>] {
        &self.drivers
    }

    /// Returns the sizes of a pod.
    pub(super) fn sizes(&self, spec: &PodSpec) -> impl Iterator<Item = i32> {
        let own: Vec<&Attachment> = distinct(&spec.attachments).collect();
        let count =
            |driver: &Arc<str>| own.iter().filter(|one| one.driver == *driver && !self.shared.contains(one)).count();
        let counts: Vec<i32> = self.drivers.iter().map(|driver| count(driver) as i32).collect();
        let claims: Vec<i32> = self.keeping().iter().map(|claim| i32::from(own.contains(&claim))).collect();
        counts.into_iter().chain(claims)
    }

    /// Returns the claims that have a column.
    fn keeping(&self) -> &[Attachment] {
        if self.relaxed { &[] } else { &self.shared }
    }

    /// Returns the room on a node where `limit` is the number of volumes of a driver that it can attach, and `attached`
    /// are those that it has.
    pub(super) fn room(&self, limit: impl Fn(&Arc<str>) -> Option<i64>, attached: &FxHashSet<&Attachment>) -> Vec<i64> {
        let kept = |driver: &Arc<str>| {
            let keeping = self.keeping().iter().filter(|claim| claim.driver == *driver && !attached.contains(claim));
            keeping.count() as i64
        };
        let there = |driver: &Arc<str>| of_driver(attached, driver) as i64;
        let left =
            |driver: &Arc<str>| limit(driver).map_or(UNLIMITED, |limit| (limit - there(driver)).max(0) - kept(driver));
        let counts = self.drivers.iter().map(left);
        let is_open = |claim: &Attachment| attached.contains(claim) || left(&claim.driver) >= 0;
        let claims = self.keeping().iter().map(|claim| if is_open(claim) { UNLIMITED } else { 0 });
        counts.map(|count| count.max(0)).chain(claims).collect()
    }
}

/// Returns the attachments without those that the pod names twice.
fn distinct(attachments: &[Attachment]) -> impl Iterator<Item = &Attachment> {
    attachments.iter().enumerate().filter(|(at, one)| !attachments[..*at].contains(one)).map(|(_, one)| one)
}

fn is_limited(problem: &Problem, driver: &Arc<str>) -> bool {
    let on_node = |node: &Node| node.attach_limits.iter().any(|(known, _)| known == driver);
    let resource = Resource::attachable(driver);
    problem.nodes.iter().any(on_node)
        || problem.catalogues.iter().any(|types| types.resources().binary_search(&resource).is_ok())
}
