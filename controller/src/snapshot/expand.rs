//! Workloads to pods.
//!
//! A workload stands for as many pods as it has replicas less those that are in the input already, which their owner
//! references tell. A ReplicaSet or Job whose controller is in the input too is left to that controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::manifest::{LimitRange, Manifests, Owner, Pod, PodTemplate, Workload, fill};

/// A workload by kind, namespace and name.
type Key<'m> = (&'m str, &'m str, &'m str);

/// Who makes which pods.
pub(super) struct Roots<'m> {
    workloads: BTreeMap<Key<'m>, &'m Workload>,
    /// Pods of the input that count as replicas, by the workload at the top of their owners.
    present: BTreeMap<Key<'m>, u32>,
    names: BTreeSet<&'m str>,
    limit_ranges: &'m [LimitRange],
}

/// A pod that a workload is about to make.
pub(super) struct NewPod {
    /// Its name.
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

    /// The workload in the input that is at the top of the owners from `owner` on.
    fn root(&self, namespace: &'m str, owner: &'m Owner) -> Option<Key<'m>> {
        // A pod, a Job or ReplicaSet, a CronJob or Deployment: there is no longer chain, and no loop is followed for long.
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

    /// The pods that `workload` has still to make.
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

    /// The template of the pods that `workload` makes, with the defaults of the LimitRanges of its namespace.
    pub(super) fn admitted_template(&self, workload: &Workload) -> Arc<PodTemplate> {
        admitted(&workload.template, &workload.meta.namespace, self.limit_ranges)
    }
}

/// `template` with the defaults that admission gives pods in `namespace`.
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

/// Whether the workload that owns the pod counts it as one of its replicas.
fn is_replica(pod: &Pod) -> bool {
    !pod.terminal && !pod.deleting
}
