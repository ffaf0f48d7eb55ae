//! Resolution of a pod's template to its constraints: looks up all objects that it references.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_scheduling::model::{
    AffinityTerm, LabelSelector, Labels, NamespaceScope, PodSpec, Problem, Refusal, Requirements, Resources, SpecId,
    WeightedAffinityTerm,
};
use rustc_hash::FxHashMap;

use super::Settings;
use super::default_spread::DefaultSpreads;
use super::devices::PodClaims;
use super::volumes::{Volumes, Wanted};
use crate::{Affinity, Manifests, Owner, PodTemplate, PodTerm, effective_requests};

/// A pod of the input, of a workload or of a buffer.
pub(super) struct PodIdentity<'i> {
    pub(super) namespace: &'i Arc<str>,
    pub(super) name: &'i str,
    pub(super) template: &'i Arc<PodTemplate>,
    pub(super) owner: Option<&'i Owner>,
    /// Claims that a StatefulSet creates for it: names of their templates and their storage classes.
    pub(super) claim_templates: &'i [(Arc<str>, Option<Arc<str>>)],
    /// Resources allocated by the kubelet, if they may exceed the requests.
    pub(super) granted: Option<&'i Resources>,
    /// ResourceClaims that were made for it, by name in the pod.
    pub(super) made_claims: &'i [(Arc<str>, Arc<str>)],
}

/// Key of constraints that pods share. The address identifies the template, which is shared and outlives its use by the
/// resolver.
type CacheKey = (usize, Arc<str>, Option<Owner>);

/// Resolves templates, each once per namespace.
pub(super) struct Resolver<'m> {
    manifests: &'m Manifests,
    problem: &'m mut Problem,
    volumes: Volumes<'m>,
    default_spreads: DefaultSpreads<'m>,
    /// Labels of all known namespaces.
    namespaces: BTreeMap<Arc<str>, Labels>,
    default_priority: i32,
    /// Constraints of pods that depend on their template only.
    shared: FxHashMap<CacheKey, SpecId>,
    /// Common constraints of pods that have individual ones.
    bases: FxHashMap<CacheKey, PodSpec>,
    /// Templates used as cache keys, kept alive so that no address is reused.
    kept: Vec<Arc<PodTemplate>>,
    missing: BTreeSet<String>,
    /// Claims of the pods that have some, by `namespace/name` of the pod; none if pods with claims are refused.
    claims: Option<PodClaims>,
}

impl<'m> Resolver<'m> {
    pub(super) fn new(manifests: &'m Manifests, settings: &'m Settings, problem: &'m mut Problem) -> Self {
        let mut namespaces: BTreeMap<Arc<str>, Labels> = BTreeMap::new();
        for namespace in &manifests.namespaces {
            namespaces.insert(Arc::clone(&namespace.name), namespace.labels.clone());
        }
        let of_pods = manifests.pods.iter().map(|pod| &pod.namespace);
        for name in of_pods.chain(manifests.workloads.iter().map(|workload| &workload.meta.namespace)) {
            if !namespaces.contains_key(name) {
                let own = Labels::from_iter([("kubernetes.io/metadata.name", Arc::clone(name))]);
                namespaces.insert(Arc::clone(name), own);
            }
        }
        let default_priority =
            manifests.priority_classes.values().filter(|class| class.default).map(|class| class.value);
        Self {
            manifests,
            problem,
            volumes: Volumes::new(manifests),
            default_spreads: DefaultSpreads::new(manifests, &settings.default_spread),
            namespaces,
            default_priority: default_priority.min().unwrap_or(0),
            shared: FxHashMap::default(),
            bases: FxHashMap::default(),
            kept: Vec::new(),
            missing: BTreeSet::new(),
            claims: settings.devices.allocates.then(PodClaims::default),
        }
    }

    /// Returns a warning for each object that pods reference and the input lacks.
    pub(super) fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.missing).into_iter().collect()
    }

    /// Returns the claims of the pods that were resolved.
    pub(super) fn take_claims(&mut self) -> PodClaims {
        self.claims.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the ID of the constraints of a pod.
    pub(super) fn spec_id(&mut self, pod: &PodIdentity<'_>) -> SpecId {
        if let Some(claims) = self.claims.as_mut().filter(|_| !pod.template.resource_claims.is_empty()) {
            claims.add(pod);
        }
        let plain = pod.template.volumes.is_empty() && pod.claim_templates.is_empty() && pod.granted.is_none();
        let owner = pod.owner.filter(|_| self.default_spreads.apply_to(pod.template)).cloned();
        let key = (Arc::as_ptr(pod.template).addr(), Arc::clone(pod.namespace), owner);
        if plain {
            if let Some(&id) = self.shared.get(&key) {
                return id;
            }
            let base = self.base(pod);
            let id = self.problem.intern(base);
            self.kept.push(Arc::clone(pod.template));
            self.shared.insert(key, id);
            return id;
        }
        let base = match self.bases.get(&key) {
            Some(base) => base.clone(),
            None => {
                let base = self.base(pod);
                self.kept.push(Arc::clone(pod.template));
                self.bases.insert(key, base.clone());
                base
            }
        };
        self.individual(base, pod)
    }

    /// Returns the constraints with this ID.
    pub(super) fn spec(&self, id: SpecId) -> &PodSpec {
        &self.problem.specs[id]
    }

    /// Stores constraints that were changed after they were resolved.
    pub(super) fn intern(&mut self, spec: PodSpec) -> SpecId {
        self.problem.intern(spec)
    }

    /// Adds the constraints of an individual pod: its volumes and allocated resources.
    fn individual(&mut self, mut spec: PodSpec, pod: &PodIdentity<'_>) -> SpecId {
        if let Some(granted) = pod.granted {
            granted.iter().for_each(|(resource, amount)| spec.requests.set(resource.clone(), amount));
        }
        match self.volumes.wanted(pod) {
            Ok(Wanted { terms, attachments }) => {
                spec.volume_terms = terms;
                spec.attachments = attachments;
            }
            Err(unusable) => {
                spec.refusal.get_or_insert(unusable.into());
            }
        }
        self.problem.intern(spec)
    }

    /// Returns the constraints that all pods of this template in this namespace share.
    fn base(&mut self, pod: &PodIdentity<'_>) -> PodSpec {
        let template = &**pod.template;
        let mut node_selector = template.node_selector.clone();
        let mut tolerations = template.tolerations.clone();
        let mut overhead = template.overhead.as_ref();
        if let Some(name) = &template.runtime_class {
            match self.manifests.runtime_classes.get(name) {
                Some(class) => {
                    // Admission has merged all three into the pod already; merging them again has no effect.
                    overhead = overhead.or(Some(&class.overhead));
                    node_selector.add_all(&Requirements::from_labels(&class.node_selector));
                    tolerations.extend(class.tolerations.iter().cloned());
                }
                None if overhead.is_none() => {
                    let warning = format!("RuntimeClass `{name}` is not in the input, so its overhead is not counted");
                    self.missing.insert(warning);
                }
                None => {}
            }
        }
        tolerations.sort();
        tolerations.dedup();
        let affinity = &template.affinity;
        let terms = |terms: &[PodTerm]| terms.iter().map(|term| self.affinity_term(term, pod.namespace)).collect();
        let weighted = |terms: &[crate::WeightedPodTerm]| {
            let resolve = |it: &crate::WeightedPodTerm| WeightedAffinityTerm {
                weight: it.weight,
                term: self.affinity_term(&it.term, pod.namespace),
            };
            terms.iter().map(resolve).collect()
        };
        PodSpec {
            namespace: Arc::clone(pod.namespace),
            labels: template.labels.clone(),
            requests: effective_requests(&template.containers, template.resources.as_ref(), overhead),
            node_selector,
            node_terms: affinity.node_terms.clone(),
            preferred_node_terms: affinity.preferred_node_terms.clone(),
            tolerations,
            spread: self.default_spreads.spread_of(pod),
            affinity: terms(&affinity.pods),
            anti_affinity: terms(&affinity.anti_pods),
            preferred_affinity: weighted(&affinity.preferred_pods),
            preferred_anti_affinity: weighted(&affinity.preferred_anti_pods),
            host_ports: template.host_ports.clone(),
            volume_terms: Vec::new(),
            attachments: Vec::new(),
            priority: self.priority(template),
            is_virtual: false,
            refusal: refusal(template, self.claims.is_some()),
        }
    }

    fn priority(&self, template: &PodTemplate) -> i32 {
        template.priority.unwrap_or_else(|| match template.priority_class.as_deref() {
            // Built-in classes.
            Some("system-node-critical") => 2_000_001_000,
            Some("system-cluster-critical") => 2_000_000_000,
            Some(name) => self.manifests.priority_classes.get(name).map_or(0, |class| class.value),
            None => self.default_priority,
        })
    }

    fn affinity_term(&self, term: &PodTerm, own: &Arc<str>) -> AffinityTerm {
        AffinityTerm {
            topology_key: Arc::clone(&term.topology_key),
            selector: term.selector.clone(),
            namespaces: self.scope(term, own),
        }
    }

    /// Returns the term's listed and selected namespaces; the pod's own one if the term has neither.
    fn scope(&self, term: &PodTerm, own: &Arc<str>) -> NamespaceScope {
        let mut names = term.namespaces.clone();
        match &term.namespace_selector {
            None if names.is_empty() => {
                names.insert(Arc::clone(own));
            }
            None => {}
            Some(LabelSelector::Terms(terms)) if terms.is_empty() => return NamespaceScope::All,
            Some(selector) => {
                let selected = self.namespaces.iter().filter(|(_, labels)| selector.matches(labels));
                names.extend(selected.map(|(name, _)| Arc::clone(name)));
            }
        }
        NamespaceScope::Only(names)
    }
}

fn refusal(template: &PodTemplate, allocates: bool) -> Option<Refusal> {
    if let Some(claim) = template.resource_claims.first().filter(|_| !allocates) {
        let why = format!("resource claim `{}`", claim.name);
        let fix = "dynamic resources are not allocated: turn that on as `docs/tasks/devices.md` says, or request an \
                   extended resource of a device plugin instead";
        return Some(Refusal::DynamicResources { why, fix: fix.to_owned() });
    }
    let Affinity { match_fields, empty_term, contradiction, .. } = &template.affinity;
    let fields = match_fields.as_ref().map(|fields| Refusal::MatchFields(fields.to_string()));
    let contradiction = || contradiction.as_ref().map(|key| Refusal::Contradiction(key.to_string()));
    fields.or_else(contradiction).or_else(|| empty_term.then_some(Refusal::EmptyTerm))
}
