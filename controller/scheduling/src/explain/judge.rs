//! Checks of one pod against one pool, in Karpenter's order, up to the instance types.

use std::sync::Arc;

use super::census::{Census, untolerated};
use super::finding::{Finding, Stage, further};
use super::likeness::{self, Misspelling};
use super::topology::{self, Place, Rules};
use super::{placement, types, wording};
use crate::labels;
use crate::model::{
    Conflict, InstanceType, NodePool, Offering, Operator, PodSpec, PoolState, Requirement, Requirements, Taint,
};
use crate::solution::Reason;

/// Returns the types that a new node of `pool` with a pod of `spec` can be, or the constraint that fails. Of several
/// node affinity terms and volume alternatives, the one that reached the latest stage is reported.
pub(super) fn judge(census: &Census<'_>, pool: usize, rules: &Rules<'_>) -> Result<Vec<usize>, Finding> {
    let spec = rules.spec;
    let open = [Requirements::new()];
    let terms = if spec.node_terms.is_empty() { &open[..] } else { &spec.node_terms };
    let place = &census.problem.pools[pool];
    let barred = launches(census, pool).err();
    let barred = barred.or_else(|| untolerated(&place.taints, spec).map(|taint| repelled(taint, spec)));
    if let Some(mut finding) = barred {
        if terms.iter().any(|term| selected(census, pool, spec, term).is_ok()) {
            finding.stage = Stage::Barred;
        }
        return Err(finding);
    }
    let volumes = if spec.volume_terms.is_empty() { &open[..] } else { &spec.volume_terms };
    let mut furthest = None;
    for term in terms {
        let required = match selected(census, pool, spec, term) {
            Ok(required) => required,
            Err(finding) => {
                furthest = further(furthest, finding);
                continue;
            }
        };
        for volume in volumes {
            match attached(census, pool, rules, &required, volume) {
                Ok(types) => return Ok(types),
                Err(finding) => furthest = further(furthest, finding),
            }
        }
    }
    furthest.map_or_else(|| Ok(Vec::new()), Err)
}

fn launches(census: &Census<'_>, index: usize) -> Result<(), Finding> {
    let pool = &census.problem.pools[index];
    let closed = |message, hint: String| Err(Finding::new(Stage::Pool, Reason::NoNodePool, message).hint(hint));
    if let PoolState::NotReady(why) = &pool.state {
        let hint = format!("see the conditions of nodepool {:?} and of its node class", pool.name);
        return closed(format!("nodepool {:?} is not ready: {why}", pool.name), hint);
    }
    if pool.missing_replicas.is_some() {
        let hint = "use a nodepool without spec.replicas for this pod".to_owned();
        return closed(format!("nodepool {:?} is static, pods never open its nodes", pool.name), hint);
    }
    if census.view(index).types.is_empty() {
        return Err(sells_nothing(census, pool));
    }
    Ok(())
}

/// Returns the finding for a pool whose own requirements exclude all types: it names a requirement that no type meets,
/// if there is one.
fn sells_nothing(census: &Census<'_>, pool: &NodePool) -> Finding {
    let message = "nodepool requirements filtered out all available instance types".to_owned();
    let types = census.problem.catalogues.get(pool.catalogue).into_iter().flat_map(|types| types.iter());
    // Types without offerings have neither zones nor capacity types, but these requirements are not the cause.
    let is_sold = |it: &InstanceType| it.offerings.iter().any(Offering::launchable);
    if types.clone().next().is_some() && !types.clone().any(is_sold) {
        let message = format!("{message}, none of them is offered in the zones of its node class");
        let hint = "let the node class have subnets in zones of the region in use, or plan for another region";
        return Finding::new(Stage::Pool, Reason::NoNodePool, message).hint(hint.to_owned());
    }
    let met = |key: &Arc<str>, wanted: &Requirement| {
        types.clone().any(|it| it.requirements.get(key).is_none_or(|there| there.meets(wanted)))
    };
    let place = format!("spec.template.spec.requirements of nodepool {:?}", pool.name);
    let unmet = pool.requirements.iter().find(|(key, wanted)| !met(key, wanted));
    let Some((key, wanted)) = unmet else {
        let finding = Finding::new(Stage::Pool, Reason::NoNodePool, message);
        return finding.hint(format!("loosen {place}"));
    };
    let sold = census.sold_values(key);
    let message = format!("{message}, no type has {key} {}", wording::requirement(wanted));
    let finding = Finding::new(Stage::Pool, Reason::NoNodePool, message);
    match likeness::misspelling(wanted, &Requirement::any(), &sold) {
        Some(Misspelling { wrong, right }) => finding
            .near(format!("{right:?} is the nearest value to {wrong:?}, which does not exist"))
            .hint(format!("write {right:?} instead of {wrong:?} for {key} in {place}")),
        None => finding
            .near(likeness::nearest_number(wanted, &sold).map(|nearest| format!("the nearest value is {nearest}")))
            .hint(format!("change {key} in {place}")),
    }
}

/// Returns the finding for a taint that is not tolerated.
pub(super) fn repelled(taint: &Taint, spec: &PodSpec) -> Finding {
    let effect = wording::effect(taint.effect);
    let message = format!("did not tolerate taint (taint={})", wording::taint(taint));
    let close = spec.tolerations.iter().find(|toleration| toleration.key.as_ref() == Some(&taint.key));
    let edit = if taint.value.is_empty() {
        format!("{{key: {}, operator: Exists, effect: {effect}}}", taint.key)
    } else {
        let value = wording::yaml(&taint.value);
        format!("{{key: {}, operator: Equal, value: {value}, effect: {effect}}}", taint.key)
    };
    if close.is_none() {
        let keys = spec.tolerations.iter().filter_map(|toleration| toleration.key.as_ref());
        if let Some(near) = likeness::nearest(&taint.key, keys) {
            return Finding::new(Stage::Taints, Reason::Taints, message)
                .near(format!("the pod tolerates {near:?}, which may have been meant to be {:?}", taint.key))
                .hint(format!("add to the pod's tolerations, or correct the one that is there: {edit}"));
        }
    }
    Finding::new(Stage::Taints, Reason::Taints, message)
        .near(
            close.map(|close| format!("the toleration {} covers another value or effect", wording::toleration(close))),
        )
        .hint(format!("add to the pod's tolerations: {edit}"))
}

/// Returns the pool's requirements narrowed by the pod's selector and `term`.
fn selected(census: &Census<'_>, index: usize, spec: &PodSpec, term: &Requirements) -> Result<Requirements, Finding> {
    let pool = &census.problem.pools[index];
    if let Some(Conflict::Disjoint { key, incoming, existing }) = spec.node_selector.first_disjoint(term) {
        let finding = disjoint(Stage::Requirements, &key, &incoming, &existing);
        return Err(finding.hint("the pod's node selector and node affinity contradict each other".to_owned()));
    }
    let mut wanted = spec.node_selector.clone();
    wanted.add_all(term);
    if let Some(host) = wanted.get(labels::HOSTNAME) {
        if host.is_finite() {
            return Err(hostname(host));
        }
        wanted.remove(labels::HOSTNAME);
    }
    let view = census.view(index);
    match pool.requirements.first_conflict(&wanted, |key| view.defined.contains(key)) {
        Some(Conflict::Unknown { key }) => return Err(unknown(census, index, &key)),
        Some(Conflict::Disjoint { key, incoming, existing }) => {
            let finding = disjoint(Stage::Requirements, &key, &incoming, &existing);
            let finding = finding.hint(allow(pool, &key, &incoming));
            return Err(corrected(census, spec, finding, (&key, &incoming, &existing)));
        }
        None => {}
    }
    let mut both = pool.requirements.clone();
    both.add_all(&wanted);
    Ok(both)
}

fn hostname(wanted: &Requirement) -> Finding {
    let message = format!(
        "key {}, {} not in the names that new nodes get: only an existing node has this hostname",
        labels::HOSTNAME,
        wording::requirement(wanted)
    );
    Finding::new(Stage::Requirements, Reason::IncompatibleRequirements, message)
        .hint("select by a label of the nodepool instead of by hostname".to_owned())
}

fn unknown(census: &Census<'_>, index: usize, key: &str) -> Finding {
    let pools = &census.problem.pools;
    let name = &pools[index].name;
    let message = format!("label {key:?} does not have known values");
    let finding = |typo: String| Finding::new(Stage::Requirements, Reason::UnknownLabel, message + &typo);
    let add = format!("add {key:?} to spec.template.metadata.labels of nodepool {name:?}");
    let owners = pools.iter().filter(|pool| pool.requirements.get(key).is_some()).map(|pool| &*pool.name);
    let owners: Vec<String> = owners.map(|owner| format!("{owner:?}")).collect();
    if !owners.is_empty() {
        let noun = if owners.len() == 1 { "nodepool" } else { "nodepools" };
        let near = format!("{noun} {} gives its nodes this label", wording::list(&owners, ", "));
        return finding(String::new()).near(near).hint(format!("{add}, if its nodes are to take such pods too"));
    }
    let known = census.known_keys();
    if let Some(nearest) = likeness::nearest_key(key, &known) {
        return finding(format!(" (typo of {nearest:?}?)"))
            .near(format!("the nearest known label is {nearest:?}"))
            .hint(format!("select by {nearest:?} instead of {key:?}"));
    }
    let carriers: Vec<_> = census.problem.nodes.iter().filter(|node| node.labels.get(key).is_some()).collect();
    let near = carriers.first().map(|node| match carriers.len() {
        1 => format!("only existing node {:?} has this label", node.name),
        more => format!("only existing nodes have this label, {:?} and {}", node.name, wording::others(more - 1, "")),
    });
    let domain = key.split_once('/').map(|(domain, _)| domain);
    let restricted = domain.is_some_and(|it| it == "karpenter.sh" || it.ends_with(".karpenter.sh"));
    let hint =
        if restricted { format!("remove {key:?}: labels of karpenter.sh cannot be added to a nodepool") } else { add };
    finding(String::new()).near(near).hint(hint)
}

/// Returns the finding for a key on which two sides share no value.
pub(super) fn disjoint(stage: Stage, key: &str, incoming: &Requirement, existing: &Requirement) -> Finding {
    let message = format!("key {key}, {} not in {}", wording::requirement(incoming), wording::requirement(existing));
    Finding::new(stage, Reason::IncompatibleRequirements, message)
}

/// Adds to `finding`, about a key on which pod and pool share no value, the value that the author probably meant: a
/// value that does not exist is a typo, and adding it to the pool would repeat the mistake.
pub(super) fn corrected(
    census: &Census<'_>,
    spec: &PodSpec,
    finding: Finding,
    (key, wanted, there): (&str, &Requirement, &Requirement),
) -> Finding {
    let known = census.known_values(key);
    let source = placement::source_of(spec, key).unwrap_or("constraints");
    if wanted.operator() == Operator::DoesNotExist {
        return finding
            .hint(format!("the pod's {source} requires nodes without {key}, or contradicts itself about it"));
    }
    if let Some(Misspelling { wrong, right }) = likeness::misspelling(wanted, there, &known) {
        let near = format!("{right:?} is the nearest value to {wrong:?}, which does not exist");
        return finding
            .near(near)
            .hint(format!("write {right:?} instead of {wrong:?} for {key} in the pod's {source}"));
    }
    let nowhere = !known.is_empty() && !known.iter().any(|value| wanted.has(value));
    if !nowhere || wanted.allows_absence() {
        return finding;
    }
    let numbers = likeness::nearest_number(wanted, known.iter());
    let near = match numbers {
        Some(nearest) => format!("the nearest value is {nearest}"),
        None => format!("known values are {}", wording::list(known.iter(), " ")),
    };
    finding.near(near).hint(format!("ask for a value of {key} that exists in the pod's {source}"))
}

/// Returns the edit that lets a pool meet the pod's requirement on `key`.
pub(super) fn allow(pool: &NodePool, key: &str, wanted: &Requirement) -> String {
    if key == labels::NODE_POOL {
        return format!("drop {key} from the pod's selector, if nodepool {:?} may take the pod too", pool.name);
    }
    let side = if pool.labels.get(key).is_some() { "label" } else { "requirement" };
    let wanted = wording::requirement(wanted);
    format!("let the {side} {key} of nodepool {:?} allow {wanted}, or change the pod's selector", pool.name)
}

fn attached(
    census: &Census<'_>,
    index: usize,
    rules: &Rules<'_>,
    required: &Requirements,
    volume: &Requirements,
) -> Result<Vec<usize>, Finding> {
    let view = census.view(index);
    let (key, wanted, there) = match required.first_conflict(volume, |key| view.defined.contains(key)) {
        Some(Conflict::Unknown { key }) => (key, volume, None),
        Some(Conflict::Disjoint { key, existing, .. }) => (key, volume, Some(existing)),
        None => {
            let mut all = required.clone();
            all.add_all(volume);
            topology::narrow(census, Place::Pool(index), rules, &mut all)?;
            return types::fitting(census, index, rules.spec, &all);
        }
    };
    let wanted = wanted.get(&key).map_or_else(String::new, wording::requirement);
    let there = there.map_or_else(|| "any label of the pool".to_owned(), |there| wording::requirement(&there));
    let claims = wording::list(rules.spec.attachments.iter().map(|attachment| &attachment.claim), ", ");
    let claims = if claims.is_empty() { String::new() } else { format!(" of {claims}") };
    let message = format!("incompatible volume requirements{claims}, key {key}, {wanted} not in {there}");
    let pool = &census.problem.pools[index];
    Err(Finding::new(Stage::Volumes, Reason::Volume, message)
        .near(format!("the volume can be attached where {key} is {wanted}"))
        .hint(format!(
            "let nodepool {:?} and the pod allow {key} {wanted}, or restore the volume elsewhere",
            pool.name
        )))
}

/// Returns the requirement `key In [value]`.
pub(super) fn only(value: &str) -> Requirement {
    Requirement::new(Operator::In, [value])
}
