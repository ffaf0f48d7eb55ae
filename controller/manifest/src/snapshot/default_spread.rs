//! Default topology spread constraints of the cluster, for pods without their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_scheduling::model::{LabelSelector, SelectorTerm, SpreadConstraint};

use super::resolve::PodIdentity;
use crate::{DefaultSpread, Manifests, PodTemplate};

/// Data from which kube-scheduler selects the pods to spread: the selectors of Services and of owners.
pub(super) struct DefaultSpreads<'m> {
    constraints: &'m [SpreadConstraint],
    manifests: &'m Manifests,
    /// Selectors of workloads, by kind and `namespace/name`.
    selectors: BTreeMap<(&'m str, Arc<str>), &'m LabelSelector>,
}

impl<'m> DefaultSpreads<'m> {
    pub(super) fn new(manifests: &'m Manifests, spread: &'m DefaultSpread) -> Self {
        let mut selectors = BTreeMap::new();
        if !spread.constraints.is_empty() {
            for workload in &manifests.workloads {
                // kube-scheduler does not spread the pods of a Job by default.
                let counts =
                    matches!(workload.kind, "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet");
                if let Some(selector) = workload.selector.as_ref().filter(|_| counts) {
                    selectors.insert((workload.kind, workload.meta.path()), selector);
                }
            }
            for owner in &manifests.owners {
                selectors.insert((owner.kind, Arc::clone(&owner.path)), &owner.selector);
            }
        }
        Self { constraints: &spread.constraints, manifests, selectors }
    }

    /// Returns true if the default constraints may apply to pods of this template.
    pub(super) fn apply_to(&self, template: &PodTemplate) -> bool {
        template.spread.is_empty() && !self.constraints.is_empty()
    }

    /// Returns the spread constraints of a pod: its own, else the default ones if a Service or owner selects it.
    pub(super) fn spread_of(&self, pod: &PodIdentity<'_>) -> Vec<SpreadConstraint> {
        if !self.apply_to(pod.template) {
            return pod.template.spread.clone();
        }
        let Some(selector) = self.selector_of(pod) else { return Vec::new() };
        let with_selector =
            |constraint: &SpreadConstraint| SpreadConstraint { selector: selector.clone(), ..constraint.clone() };
        self.constraints.iter().map(with_selector).collect()
    }

    fn selector_of(&self, pod: &PodIdentity<'_>) -> Option<LabelSelector> {
        let mut terms: Vec<SelectorTerm> = Vec::new();
        let matching = |service: &&crate::Service| {
            service.meta.namespace == *pod.namespace && service.selector.matches(&pod.template.labels)
        };
        for service in self.manifests.services.iter().filter(matching) {
            terms.extend_from_slice(terms_of(&service.selector));
        }
        if let Some(owner) = pod.owner {
            let path: Arc<str> = format!("{}/{}", pod.namespace, owner.name).into();
            if let Some(selector) = self.selectors.get(&(&*owner.kind, path)) {
                terms.extend_from_slice(terms_of(selector));
            }
        }
        terms.sort();
        terms.dedup();
        (!terms.is_empty()).then_some(LabelSelector::Terms(terms))
    }
}

fn terms_of(selector: &LabelSelector) -> &[SelectorTerm] {
    match selector {
        LabelSelector::Nothing => &[],
        LabelSelector::Terms(terms) => terms,
    }
}
