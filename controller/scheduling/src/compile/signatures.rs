//! Signatures: node constraints from selector, affinity, volumes and tolerations, shared by all pods that have them.

use index_vec::IndexVec;
use rustc_hash::FxHashMap;

use crate::index::index_type;
use crate::labels;
use crate::model::{HostPort, Operator, PodSpec, Requirement, Requirements, Taint, Toleration};

index_type! {
    /// Position in [`Compiled::signatures`], or beyond them of a signature that [`Grouped`] adds.
    ///
    /// [`Compiled::signatures`]: super::Compiled::signatures
    /// [`Grouped`]: crate::pack::groups::Grouped
    pub(crate) struct SignatureId;
}

/// A set of constraints on nodes. A pod may run where one of `alternatives` holds and its taints are tolerated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Signature {
    /// Selector ∧ one node affinity term ∧ one volume term, for every pair of terms that can hold together.
    pub(crate) alternatives: Vec<Requirements>,
    pub(crate) tolerations: Vec<Toleration>,
    /// Host ports, since a daemon may use one of them.
    pub(crate) host_ports: Vec<HostPort>,
    /// True if some alternative constrains the hostname, which only existing nodes can satisfy.
    pub(crate) names_host: bool,
}

impl Signature {
    fn of(spec: &PodSpec) -> Self {
        let anything = [Requirements::new()];
        let node_terms = if spec.node_terms.is_empty() { &anything[..] } else { &spec.node_terms[..] };
        let volume_terms = if spec.volume_terms.is_empty() { &anything[..] } else { &spec.volume_terms[..] };
        let mut alternatives = Vec::with_capacity(node_terms.len() * volume_terms.len());
        for node_term in node_terms {
            for volume_term in volume_terms {
                // Contradictory terms hold nowhere; their intersection would mean "the label is absent".
                if spec.node_selector.first_disjoint(node_term).is_some() {
                    continue;
                }
                let mut alternative = spec.node_selector.clone();
                alternative.add_all(node_term);
                if alternative.first_disjoint(volume_term).is_some() {
                    continue;
                }
                alternative.add_all(volume_term);
                alternatives.push(alternative);
            }
        }
        let names_host = alternatives.iter().any(|alternative| alternative.get(labels::HOSTNAME).is_some());
        Self { alternatives, tolerations: spec.tolerations.clone(), host_ports: spec.host_ports.clone(), names_host }
    }

    /// Returns true if no taint of `taints` keeps the pod off.
    pub(crate) fn tolerates(&self, taints: &[Taint]) -> bool {
        taints
            .iter()
            .all(|taint| !taint.repels() || self.tolerations.iter().any(|toleration| toleration.tolerates(taint)))
    }

    /// Returns true if some alternative holds on an existing node with exactly these labels.
    pub(crate) fn admits_labels(&self, labels: &crate::model::Labels) -> bool {
        self.alternatives.iter().any(|alternative| {
            alternative.iter().all(|(key, wanted)| match labels.get(key) {
                Some(value) => wanted.has(value),
                None => wanted.allows_absence(),
            })
        })
    }
}

/// Parts of a pod spec that determine its signature.
type Words<'a> = (&'a Requirements, &'a [Requirements], &'a [Requirements], &'a [Toleration], &'a [HostPort]);

/// Distinct signatures.
#[derive(Debug, Default)]
pub(crate) struct Signatures<'a> {
    pub(crate) all: IndexVec<SignatureId, Signature>,
    ids: FxHashMap<Signature, SignatureId>,
    /// Ids by these parts: most pods share them with an earlier pod.
    heard: FxHashMap<Words<'a>, SignatureId>,
}

impl<'a> Signatures<'a> {
    pub(crate) fn intern(&mut self, spec: &'a PodSpec) -> SignatureId {
        let words: Words<'a> =
            (&spec.node_selector, &spec.node_terms, &spec.volume_terms, &spec.tolerations, &spec.host_ports);
        if let Some(&id) = self.heard.get(&words) {
            return id;
        }
        let id = self.understand(spec);
        self.heard.insert(words, id);
        id
    }

    fn understand(&mut self, spec: &PodSpec) -> SignatureId {
        let signature = Signature::of(spec);
        if let Some(&id) = self.ids.get(&signature) {
            return id;
        }
        let id = self.all.push(signature.clone());
        self.ids.insert(signature, id);
        id
    }
}

/// Returns true if `requirement` allows a label with this value (`None`: absent).
pub(crate) fn allows(requirement: &Requirement, value: Option<&str>) -> bool {
    match value {
        Some(value) => requirement.has(value),
        None => requirement.allows_absence(),
    }
}

/// Labels that every node has once it is initialized; daemons may select on them.
pub(crate) fn lifecycle_labels() -> Requirements {
    ["karpenter.sh/registered", "karpenter.sh/initialized"]
        .into_iter()
        .map(|key| (key, Requirement::new(Operator::In, ["true"])))
        .collect()
}
