//! Changes of what nodes are launched from: the template of the NodePool, its requirements, and the spec of the class.

use std::sync::Arc;

use muster_api::annotations::{EC2NODECLASS_HASH, EC2NODECLASS_HASH_VERSION, NODEPOOL_HASH, NODEPOOL_HASH_VERSION};
use muster_api::{decode, hash, nodepool};
use muster_scheduling::model::Requirements;

use super::selection::Class;
use super::{Check, Drifts, Subject};
use crate::{NodeClaim, NodePool};

/// Hash of a pool's template, and the version of the hash.
pub(super) struct PoolHash {
    hash: String,
    version: String,
}

// === impl PoolHash ===

impl PoolHash {
    /// Reads the pool's annotations; without them, as in a manifest that was never applied, computes the hash.
    pub(super) fn of(pool: &NodePool) -> Option<Self> {
        let said = |key: &str| pool.meta.annotations.get(key).map(ToString::to_string);
        if let (Some(hash), Some(version)) = (said(NODEPOOL_HASH), said(NODEPOOL_HASH_VERSION)) {
            return Some(Self { hash, version });
        }
        let typed = decode::<nodepool::NodePool>(&pool.object).ok()?;
        Some(Self { hash: hash::node_pool(&typed), version: hash::NODEPOOL_HASH_VERSION.to_owned() })
    }
}

/// Checks if the template of the pool has changed. Hashes of different versions are not compared: a claim that had
/// drifted before the version changed stays drifted.
pub(super) fn pool_hash(drifts: &Drifts<'_>, subject: &Subject<'_>) -> Check {
    let name = &subject.manifest.meta.name;
    let now = drifts.hashes.get(&**name);
    let Some(now) = now.filter(|now| annotation(subject.claim, NODEPOOL_HASH_VERSION) == Some(&now.version)) else {
        return Check::Unknown;
    };
    match annotation(subject.claim, NODEPOOL_HASH) {
        Some(then) if then != now.hash => Check::Drifted(format!("the template of NodePool `{name}` has changed")),
        _ => Check::Same,
    }
}

/// Checks if the labels of the node no longer meet the requirements of the pool.
pub(super) fn requirements(drifts: &Drifts<'_>, subject: &Subject<'_>) -> Check {
    let manifest = subject.manifest;
    let labels = subject.labels();
    let mut have = Requirements::from_labels(&labels);
    // Hand-written manifests lack labels that follow from the instance type.
    let is_missing = manifest.requirements.iter().any(|(key, _)| have.get(key).is_none());
    if let Some(one) = drifts.type_of(subject).filter(|_| is_missing) {
        for (key, requirement) in one.requirements.iter().filter(|(key, _)| labels.get(key).is_none()) {
            have.add(Arc::clone(key), requirement.clone());
        }
    }
    let wanted: Requirements = manifest.requirements.iter().cloned().collect();
    if have.first_conflict(&wanted, |_| false).is_none() {
        return Check::Same;
    }
    let at_fault = manifest.requirements.iter().find(|(key, requirement)| {
        let alone: Requirements = [(Arc::clone(key), requirement.clone())].into_iter().collect();
        have.first_conflict(&alone, |_| false).is_some()
    });
    let name = &manifest.meta.name;
    Check::Drifted(at_fault.map_or_else(String::new, |(key, _)| match labels.get(key) {
        Some(value) => format!("label `{key}` is `{value}`, which NodePool `{name}` no longer admits"),
        None => format!("label `{key}` is missing, which NodePool `{name}` requires"),
    }))
}

/// Checks if the spec of the class has changed. Hashes of different versions are not compared.
pub(super) fn class_hash(drifts: &Drifts<'_>, subject: &Subject<'_>) -> Check {
    let claim = subject.claim;
    let annotations = match drifts.class(claim) {
        None | Some(Class::NotReady) => return Check::Unknown,
        Some(Class::Deleting) => return Check::Same,
        Some(Class::Unjudged(object)) => *object,
        Some(Class::Ready(ready)) => ready.object,
    };
    let of_class = |key: &str| annotations.pointer("/metadata/annotations")?.get(key)?.as_str();
    let version = of_class(EC2NODECLASS_HASH_VERSION);
    if version.is_none() || version != annotation(claim, EC2NODECLASS_HASH_VERSION) {
        return Check::Unknown;
    }
    match (of_class(EC2NODECLASS_HASH), annotation(claim, EC2NODECLASS_HASH)) {
        (Some(now), Some(then)) if now != then => {
            Check::Drifted(format!("{} `{}` has changed", claim.class.kind, claim.class.name))
        }
        _ => Check::Same,
    }
}

fn annotation<'c>(claim: &'c NodeClaim, key: &str) -> Option<&'c str> {
    claim.meta.annotations.get(key).map(|value| &**value)
}
