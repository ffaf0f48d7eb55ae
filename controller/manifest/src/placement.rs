//! Placement constraints of a pod: node affinity, pod affinity and topology spread.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_scheduling::model::{
    LabelSelector, Labels, Requirements, SelectorOperator, SelectorTerm, SpreadConstraint, WeightedNodeTerm,
};

use super::field::{Decoded, Field};
use super::selector::{label_selector, node_selector_term, unknown_word};

/// A `podAffinityTerm` whose namespace selector is not yet resolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// Label whose values are the domains.
    pub topology_key: Arc<str>,
    /// Selector of the other pods, with `matchLabelKeys` and `mismatchLabelKeys` merged.
    pub selector: LabelSelector,
    /// Namespaces by name.
    pub namespaces: BTreeSet<Arc<str>>,
    /// Namespaces by label.
    pub namespace_selector: Option<LabelSelector>,
}

/// A preferred [`PodTerm`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WeightedPodTerm {
    /// Weight, from 1 to 100.
    pub weight: i32,
    /// Preferred term.
    pub term: PodTerm,
}

/// `spec.affinity`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Affinity {
    /// Required node affinity: one of the terms must match.
    pub node_terms: Vec<Requirements>,
    /// `matchFields` of the required terms as text, if the pod depends on them.
    pub match_fields: Option<Arc<str>>,
    /// True if a required term is empty, and no other term could match.
    pub empty_term: bool,
    /// Label about which the expressions of a required term exclude each other, if no other term could match.
    pub contradiction: Option<Arc<str>>,
    /// Preferred node affinity.
    pub preferred_node_terms: Vec<WeightedNodeTerm>,
    /// Required pod affinity.
    pub pods: Vec<PodTerm>,
    /// Required pod anti-affinity.
    pub anti_pods: Vec<PodTerm>,
    /// Preferred pod affinity.
    pub preferred_pods: Vec<WeightedPodTerm>,
    /// Preferred pod anti-affinity.
    pub preferred_anti_pods: Vec<WeightedPodTerm>,
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Reads `spec.affinity` of a pod with `labels`.
pub(crate) fn affinity(field: Field<'_>, labels: &Labels) -> Decoded<Affinity> {
    field.only(&["nodeAffinity", "podAffinity", "podAntiAffinity"]);
    let mut affinity = Affinity::default();
    field.read("nodeAffinity", |node| node_affinity(node, &mut affinity))?;
    field.read("podAffinity", |pods| {
        (affinity.pods, affinity.preferred_pods) = pod_affinity(pods, labels)?;
        Ok(())
    })?;
    field.read("podAntiAffinity", |pods| {
        (affinity.anti_pods, affinity.preferred_anti_pods) = pod_affinity(pods, labels)?;
        Ok(())
    })?;
    Ok(affinity)
}

fn node_affinity(field: Field<'_>, affinity: &mut Affinity) -> Decoded<()> {
    field.only(&[REQUIRED, PREFERRED]);
    field.read(REQUIRED, |required| {
        required.only(&["nodeSelectorTerms"]);
        let field = required.require("nodeSelectorTerms")?;
        let terms = field.items(node_selector_term)?;
        if terms.is_empty() {
            return Err(field.fault("is empty", "add a term, or remove the required node affinity"));
        }
        for term in terms {
            // An empty term matches no nodes; the others may.
            if term.empty {
                affinity.empty_term = true;
                continue;
            }
            if term.contradiction.is_some() {
                affinity.contradiction = term.contradiction;
                continue;
            }
            if term.match_fields.is_some() {
                affinity.match_fields = term.match_fields;
            } else {
                affinity.node_terms.push(term.requirements);
            }
        }
        // If another term can match, the pod does not depend on `matchFields`.
        if !affinity.node_terms.is_empty() {
            affinity.match_fields = None;
            affinity.empty_term = false;
            affinity.contradiction = None;
        }
        Ok(())
    })?;
    affinity.preferred_node_terms = field.list(PREFERRED, |preferred| {
        preferred.only(&["weight", "preference"]);
        let weight = weight(&preferred)?;
        let term = node_selector_term(preferred.require("preference")?)?;
        let can_be_met = term.contradiction.is_none();
        Ok(WeightedNodeTerm { weight, term: if can_be_met { term.requirements } else { Requirements::new() } })
    })?;
    // An empty preference has no effect, and neither has one that no node can meet.
    affinity.preferred_node_terms.retain(|preferred| !preferred.term.is_empty());
    Ok(())
}

fn weight(field: &Field<'_>) -> Decoded<i32> {
    let weight = field.require("weight")?.integer(1, 100)?;
    Ok(i32::try_from(weight).unwrap_or(1))
}

fn pod_affinity(field: Field<'_>, labels: &Labels) -> Decoded<(Vec<PodTerm>, Vec<WeightedPodTerm>)> {
    field.only(&[REQUIRED, PREFERRED]);
    let required = field.list(REQUIRED, |term| pod_term(term, labels))?;
    let preferred = field.list(PREFERRED, |preferred| {
        preferred.only(&["weight", "podAffinityTerm"]);
        let weight = weight(&preferred)?;
        Ok(WeightedPodTerm { weight, term: pod_term(preferred.require("podAffinityTerm")?, labels)? })
    })?;
    Ok((required, preferred))
}

fn pod_term(field: Field<'_>, labels: &Labels) -> Decoded<PodTerm> {
    field.only(&[
        "labelSelector",
        "matchLabelKeys",
        "mismatchLabelKeys",
        "namespaceSelector",
        "namespaces",
        "topologyKey",
    ]);
    let mut selector = field.read("labelSelector", label_selector)?.unwrap_or(LabelSelector::Nothing);
    merge_label_keys(&field, "matchLabelKeys", SelectorOperator::In, labels, &mut selector)?;
    merge_label_keys(&field, "mismatchLabelKeys", SelectorOperator::NotIn, labels, &mut selector)?;
    Ok(PodTerm {
        topology_key: topology_key(&field)?,
        selector,
        namespaces: field.list("namespaces", |name| name.shared())?.into_iter().collect(),
        namespace_selector: field.read("namespaceSelector", label_selector)?,
    })
}

fn topology_key(field: &Field<'_>) -> Decoded<Arc<str>> {
    let key = field.require("topologyKey")?.shared()?;
    if key.is_empty() {
        return Err(field.fault_at(
            "topologyKey",
            "is empty",
            "name a node label, such as `topology.kubernetes.io/zone`",
        ));
    }
    Ok(muster_scheduling::labels::stable_name(&key).into())
}

/// Adds `key operator [the pod's own value]` for each of the keys that the pod has.
fn merge_label_keys(
    field: &Field<'_>,
    name: &str,
    operator: SelectorOperator,
    labels: &Labels,
    selector: &mut LabelSelector,
) -> Decoded<()> {
    let keys = field.list(name, |key| key.shared())?;
    let LabelSelector::Terms(terms) = selector else { return Ok(()) };
    for key in keys {
        if let Some(value) = labels.get(&key) {
            terms.push(SelectorTerm { key, operator, values: vec![Arc::clone(value)] });
        }
    }
    terms.sort();
    terms.dedup();
    Ok(())
}

/// Reads an entry of `topologySpreadConstraints` of a pod with `labels`.
pub(crate) fn spread(field: Field<'_>, labels: &Labels) -> Decoded<SpreadConstraint> {
    field.only(&[
        "labelSelector",
        "matchLabelKeys",
        "maxSkew",
        "minDomains",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "topologyKey",
        "whenUnsatisfiable",
    ]);
    let mut selector = field.read("labelSelector", label_selector)?.unwrap_or(LabelSelector::Nothing);
    merge_label_keys(&field, "matchLabelKeys", SelectorOperator::In, labels, &mut selector)?;
    let positive = |value: Field<'_>| Ok(i32::try_from(value.integer(1, i32::MAX.into())?).unwrap_or(1));
    let max_skew = field.require("maxSkew").and_then(positive)?;
    let unsatisfiable = field.require("whenUnsatisfiable")?;
    let required = match unsatisfiable.text()? {
        "DoNotSchedule" => true,
        "ScheduleAnyway" => false,
        other => return Err(unknown_word(&unsatisfiable, other, &["DoNotSchedule", "ScheduleAnyway"])),
    };
    Ok(SpreadConstraint {
        topology_key: topology_key(&field)?,
        max_skew,
        min_domains: field.read("minDomains", positive)?,
        selector,
        required,
        honor_affinity: field.read("nodeAffinityPolicy", honors)?.unwrap_or(true),
        honor_taints: field.read("nodeTaintsPolicy", honors)?.unwrap_or(false),
    })
}

fn honors(field: Field<'_>) -> Decoded<bool> {
    match field.text()? {
        "Honor" => Ok(true),
        "Ignore" => Ok(false),
        other => Err(unknown_word(&field, other, &["Honor", "Ignore"])),
    }
}
