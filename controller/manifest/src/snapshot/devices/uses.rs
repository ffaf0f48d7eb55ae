//! Claims of the pods of a snapshot, with what was allocated for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::PodClaims;
use crate::{Allocation, DeviceClaimSpec, Manifests};

/// A claim as one pod uses it.
#[derive(Clone)]
pub(super) struct Use<'m> {
    /// Name in the pod, and the object that it refers to.
    pub(super) title: String,
    /// Requested devices.
    pub(super) spec: &'m Arc<DeviceClaimSpec>,
    /// Allocated devices.
    pub(super) allocation: Option<&'m Allocation>,
    /// `namespace/name` of the claim, if it exists.
    pub(super) path: Option<Arc<str>>,
}

/// Claims by pod, and pods by claim.
pub(super) struct Uses<'m> {
    pub(super) manifests: &'m Manifests,
    /// Claims of each pod, or why they are not known.
    by_pod: BTreeMap<Arc<str>, Result<Vec<Use<'m>>, String>>,
    /// Pods that use a claim; the first one stands for its devices.
    by_claim: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    running: BTreeSet<Arc<str>>,
}

impl<'m> Uses<'m> {
    pub(super) fn new(manifests: &'m Manifests, claims: &PodClaims, running: &BTreeSet<&str>) -> Self {
        let mut uses = Self {
            manifests,
            by_pod: BTreeMap::new(),
            by_claim: BTreeMap::new(),
            running: claims.0.keys().filter(|path| running.contains(&***path)).cloned().collect(),
        };
        for (path, pod) in &claims.0 {
            let of_pod = pod.claims.iter().map(|claim| {
                let made = pod.made.iter().find(|(name, _)| *name == claim.name).map(|(_, made)| made);
                of_claim(manifests, &pod.namespace, claim, made)
            });
            let of_pod: Result<Vec<Use<'m>>, String> = of_pod.collect();
            for claim in of_pod.iter().flatten().filter_map(|one| one.path.as_ref()) {
                uses.by_claim.entry(Arc::clone(claim)).or_default().push(Arc::clone(path));
            }
            uses.by_pod.insert(Arc::clone(path), of_pod);
        }
        let Self { by_claim, running, .. } = &mut uses;
        for pods in by_claim.values_mut() {
            pods.sort_by_key(|pod| !running.contains(pod));
            pods.dedup();
        }
        uses
    }

    /// Returns the claims of a pod.
    pub(super) fn of(&self, pod: &str) -> Result<&[Use<'m>], &str> {
        match self.by_pod.get(pod) {
            Some(Ok(uses)) => Ok(uses),
            Some(Err(why)) => Err(why),
            None => Ok(&[]),
        }
    }

    /// Returns all specs that are requested, each with its namespace.
    pub(super) fn specs(&self) -> impl Iterator<Item = (&str, &'m DeviceClaimSpec)> {
        let allocated = self.manifests.resource_claims.iter().filter(|(_, claim)| claim.allocation.is_some());
        let used = self.by_pod.iter().flat_map(|(pod, uses)| uses.iter().flatten().map(move |one| (pod, &**one.spec)));
        let all = used.chain(allocated.map(|(claim, found)| (claim, &*found.spec)));
        all.map(|(path, spec)| (path.split_once('/').map_or("", |(namespace, _)| namespace), spec))
    }

    /// Returns true if the pod has a node.
    pub(super) fn is_running(&self, pod: &str) -> bool {
        self.running.contains(pod)
    }

    /// Returns true if the pod stands for the devices of a claim.
    pub(super) fn carries(&self, pod: &str, one: &Use<'_>) -> bool {
        let pods = one.path.as_ref().and_then(|path| self.by_claim.get(path));
        pods.is_none_or(|pods| pods.first().is_none_or(|first| **first == *pod))
    }

    /// Returns the claims of a pod that other pods use, too.
    pub(super) fn shared(&self, pod: &str) -> Vec<&Arc<str>> {
        let paths = self.of(pod).unwrap_or_default().iter().filter_map(|one| one.path.as_ref());
        paths.filter(|path| self.by_claim.get(*path).is_some_and(|pods| pods.len() > 1)).collect()
    }

    /// Returns allocations that no pod of the snapshot stands for.
    pub(super) fn orphans(&self) -> impl Iterator<Item = &'m Allocation> {
        let claims = self.manifests.resource_claims.iter();
        let orphans = claims.filter(|(path, _)| !self.by_claim.contains_key(*path));
        orphans.filter_map(|(_, claim)| claim.allocation.as_ref())
    }
}

fn of_claim<'m>(
    manifests: &'m Manifests,
    namespace: &str,
    claim: &crate::PodClaim,
    made: Option<&Arc<str>>,
) -> Result<Use<'m>, String> {
    let name = &claim.name;
    let at = |name: &str| -> Arc<str> { format!("{namespace}/{name}").into() };
    let existing = claim.claim.as_ref().or(made).map(|claim| at(claim));
    if let Some((path, found)) = existing.as_ref().and_then(|path| manifests.resource_claims.get_key_value(path)) {
        return Ok(Use {
            title: format!("resource claim `{name}` (ResourceClaim `{path}`)"),
            spec: &found.spec,
            allocation: found.allocation.as_ref(),
            path: Some(Arc::clone(path)),
        });
    }
    let Some(template) = &claim.template else {
        let path = existing.unwrap_or_default();
        return Err(format!("resource claim `{name}`: ResourceClaim `{path}` does not exist"));
    };
    let path = at(template);
    match manifests.resource_claim_templates.get(&path) {
        Some(template) => Ok(Use {
            title: format!("resource claim `{name}` (ResourceClaimTemplate `{path}`)"),
            spec: &template.spec,
            allocation: None,
            path: None,
        }),
        None => Err(format!("resource claim `{name}`: ResourceClaimTemplate `{path}` does not exist")),
    }
}
