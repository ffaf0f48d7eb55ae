//! A problem in which chosen preferences are required.

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::super::groups::is_own;
use super::{Kind, Preference, soft_taints};
use crate::model::{Effect, PodSpec, Problem, SpecId, SpreadConstraint, Taint, Toleration};

/// Preferences that are required, and the pods that they are not required of.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    /// By number of the preference.
    pub(super) preferences: FixedBitSet,
    /// By index of the pod.
    pub(super) dropped: FixedBitSet,
}

impl Selection {
    /// Returns a selection of none of `preferences` preferences.
    pub(super) fn none(problem: &Problem, preferences: usize) -> Self {
        let dropped = FixedBitSet::with_capacity(problem.pods.len());
        Self { preferences: FixedBitSet::with_capacity(preferences), dropped }
    }
}

/// Prefix of the key of a taint that stands for one of effect `PreferNoSchedule`. No key of a taint has a colon.
const SOFT: &str = "soft:";

/// Returns `problem` with the preferences of `selection` required. Pods, nodes, pools and types keep their numbers;
/// specs are added, so that bound pods keep theirs.
pub(super) fn with(problem: &Problem, preferences: &[Preference], selection: &Selection) -> Problem {
    let mut changed = problem.clone();
    let chosen: Vec<&Preference> = selection.preferences.ones().map(|number| &preferences[number]).collect();
    let hardened = match chosen.iter().find(|one| one.kind == Kind::CleanNodes) {
        Some(_) => harden(&mut changed),
        None => Vec::new(),
    };
    // Specs with and without their preferences, by the original spec.
    let mut specs: Vec<[Option<SpecId>; 2]> = vec![[None; 2]; problem.specs.len()];
    for (number, pod) in problem.pods.iter().enumerate() {
        let asks = !selection.dropped.contains(number);
        let known = &mut specs[pod.spec][usize::from(asks)];
        let id = *known.get_or_insert_with(|| {
            let spec = &problem.specs[pod.spec];
            let own: &[&Preference] = if asks { &chosen } else { &[] };
            let own: Vec<&Preference> =
                own.iter().copied().filter(|one| one.specs.binary_search(&pod.spec).is_ok()).collect();
            changed.specs.push(spec_with(spec, &own, &hardened));
            changed.specs.len() - 1
        });
        changed.pods[number].spec = id;
    }
    for daemon in changed.daemons.iter_mut().filter(|_| !hardened.is_empty()) {
        let spec = spec_with(&changed.specs[daemon.spec], &[], &hardened);
        daemon.spec = changed.specs.len();
        changed.specs.push(spec);
    }
    changed
}

/// Replaces soft taints by others that repel; returns both, in pairs.
fn harden(problem: &mut Problem) -> Vec<(Taint, Taint)> {
    let hard = |soft: &Taint| Taint {
        key: format!("{SOFT}{}", soft.key).into(),
        value: Arc::clone(&soft.value),
        effect: Effect::NoSchedule,
    };
    let pairs: Vec<(Taint, Taint)> = soft_taints(problem).into_iter().map(|soft| (soft.clone(), hard(soft))).collect();
    let pools = problem.pools.iter_mut().flat_map(|pool| &mut pool.taints);
    for taint in pools.chain(problem.nodes.iter_mut().flat_map(|node| &mut node.taints)) {
        if let Some((_, hard)) = pairs.iter().find(|(soft, _)| soft == taint) {
            taint.clone_from(hard);
        }
    }
    pairs
}

/// Returns `spec` with the preferences `own` required. Without [`Kind::CleanNodes`] among them it tolerates all
/// `hardened` taints.
fn spec_with(spec: &PodSpec, own: &[&Preference], hardened: &[(Taint, Taint)]) -> PodSpec {
    let mut changed = spec.clone();
    let clean = own.iter().any(|one| one.kind == Kind::CleanNodes);
    for (soft, hard) in hardened {
        if !clean || spec.tolerations.iter().any(|it| it.tolerates(soft)) {
            let (key, value) = (Some(Arc::clone(&hard.key)), Some(Arc::clone(&hard.value)));
            changed.tolerations.push(Toleration { key, value, effect: None });
        }
    }
    for one in own {
        match &one.kind {
            // Terms that contradict a heavier one, or what is required, cannot hold.
            Kind::Nodes(term) if changed.node_selector.first_disjoint(term).is_none() => {
                changed.node_selector.add_all(term);
            }
            Kind::CleanNodes | Kind::Nodes(_) => {}
            Kind::Together(term) => changed.affinity.push(term.clone()),
            // Replicas that avoid each other's zone are spread over the zones: there may be more of them than zones.
            Kind::Apart(term) if is_own(spec, term) => changed.spread.push(SpreadConstraint {
                topology_key: Arc::clone(&term.topology_key),
                max_skew: 1,
                min_domains: None,
                selector: term.selector.clone(),
                required: true,
                honor_affinity: true,
                honor_taints: false,
            }),
            Kind::Apart(term) => changed.anti_affinity.push(term.clone()),
        }
    }
    changed
}
