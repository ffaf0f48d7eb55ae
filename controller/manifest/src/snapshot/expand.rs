//! Expansion of workloads to pods.
//!
//! A workload results in as many pods as it has replicas, minus those in the input, which are found by their owner
//! references. A ReplicaSet or Job whose controller is in the input as well is left to that controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{LimitRange, Manifests, Owner, Pod, PodTemplate, Workload, fill};

/// Workload by kind, namespace and name.
type Key<'m> = (&'m str, &'m str, &'m str);

/// Workloads and their pods.
pub(super) struct Roots<'m> {
    workloads: BTreeMap<Key<'m>, &'m Workload>,
    /// Number of pods of the input that count as replicas, by top-level owner.
    present: BTreeMap<Key<'m>, u32>,
    names: BTreeSet<&'m str>,
    limit_ranges: &'m [LimitRange],
}

/// Pod that a workload will create.
pub(super) struct NewPod {
    /// Name of the pod.
    pub(super) name: String,
    /// `namespace/name`.
    pub(super) path: Arc<str>,
}

impl<'m> Roots<'m> {
    pub(super) fn new(manifests: &'m Manifests) -> Self {
        let key = |workload: &'m Workload| (workload.kind, &*workload.meta.namespace, &*workload.meta.name);
        let mut roots = Self {
            workloads: manifests.workloads.iter().map(|workload| (key(workload), workload)).collect(),
            present: BTreeMap::new(),
            names: BTreeSet::new(),
            limit_ranges: &manifests.limit_ranges,
        };
        if roots.workloads.is_empty() {
            return roots;
        }
        roots.names = manifests.pods.iter().map(|pod| &*pod.path).collect();
        for pod in manifests.pods.iter().filter(|pod| is_replica(pod)) {
            let root = pod.owner.as_ref().and_then(|owner| roots.root(&pod.namespace, owner));
            if let Some(root) = root {
                *roots.present.entry(root).or_default() += 1;
            }
        }
        roots
    }

    /// Returns the top-level owner in the input, following owner references from `owner`.
    fn root(&self, namespace: &'m str, owner: &'m Owner) -> Option<Key<'m>> {
        // The longest chain is Pod, Job or ReplicaSet, CronJob or Deployment. The limit also ends loops.
        const LONGEST_CHAIN: usize = 4;
        let mut key = (&*owner.kind, namespace, &*owner.name);
        let mut workload: &'m Workload = self.workloads.get(&key).copied()?;
        for _ in 0..LONGEST_CHAIN {
            let Some(owner) = &workload.meta.owner else { break };
            let above = (&*owner.kind, namespace, &*owner.name);
            let Some(next) = self.workloads.get(&above).copied() else { break };
            (key, workload) = (above, next);
        }
        Some(key)
    }

    /// Returns the pods that `workload` has not created yet.
    pub(super) fn new_pods(&self, workload: &'m Workload) -> Vec<NewPod> {
        let meta = &workload.meta;
        let owned = meta.owner.as_ref().is_some_and(|owner| self.root(&meta.namespace, owner).is_some());
        if owned || meta.deleting {
            return Vec::new();
        }
        let present = self.present.get(&(workload.kind, &*meta.namespace, &*meta.name)).copied().unwrap_or(0);
        let missing = workload.replicas.saturating_sub(present);
        let paths = (workload.first_ordinal..=u32::MAX).map(|ordinal| {
            let name = format!("{}-{ordinal}", meta.name);
            let path: Arc<str> = format!("{}/{name}", meta.namespace).into();
            NewPod { name, path }
        });
        let free = paths.filter(|pod| !self.names.contains(&*pod.path));
        free.take(usize::try_from(missing).unwrap_or(usize::MAX)).collect()
    }

    /// Returns the template of the pods of `workload`, with the defaults of its namespace's LimitRanges.
    pub(super) fn admitted_template(&self, workload: &Workload) -> Arc<PodTemplate> {
        admitted(&workload.template, &workload.meta.namespace, self.limit_ranges)
    }
}

/// Returns `template` with the defaults that admission sets on pods in `namespace`.
pub(super) fn admitted(template: &Arc<PodTemplate>, namespace: &str, ranges: &[LimitRange]) -> Arc<PodTemplate> {
    let mut template = Arc::clone(template);
    for range in ranges.iter().filter(|range| *range.meta.namespace == *namespace) {
        for container in &mut Arc::make_mut(&mut template).containers {
            fill(&mut container.limits, &range.default_limits);
            fill(&mut container.requests, &range.default_requests);
        }
    }
    template
}

/// Returns true if the pod counts as a replica of the workload that owns it.
fn is_replica(pod: &Pod) -> bool {
    !pod.terminal && !pod.deleting
}
