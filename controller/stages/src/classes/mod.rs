//! Management of NodeClasses that is common to all clouds: the finalizer, the hash that claims are compared with, the
//! circuit breaker, and deletion, which waits for the claims.
//!
//! ```text
//!   in use:   finalizer ─► hash: claims of another hash version ─► the class ─► breaker::judge
//!   deleted:  claims left? ──yes──► event, look again    ──no──► cloud resources left? ──no──► finalizer removed
//! ```
//!
//! Anything that depends on the cloud (subnets, images, Ready) is left to the cloud's own module.

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::{READY, nodeclaim};
use muster_api::{NodeClaim, annotations, events};
use muster_cloud::after;

use crate::lifecycle::conditions::{Status, at};
use crate::lifecycle::{Class, breaker, condition};
use crate::step::{Event, EventType, MetaChange, Step, Subject, Write};

/// Interval between events about a class that cannot be deleted, as in Karpenter.
const REMIND: Duration = Duration::from_secs(600);
/// Maximum number of claims named in the event.
const NAMED: usize = 5;

/// Properties that all classes of one kind share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Finalizer, kept while anything created for the class exists.
    pub finalizer: &'static str,
    /// Annotation keys of the hash, and its version; none if classes of this kind cannot drift.
    pub hash: Option<HashKeys>,
    /// True if a class is ready as soon as it exists.
    pub is_ready_at_once: bool,
}

/// Annotations that hold the hash of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashKeys {
    /// Key of the annotation with the hash.
    pub hash: &'static str,
    /// Key of the annotation with its version.
    pub version: &'static str,
    /// Version of [`Class::hash`].
    pub current: &'static str,
}

/// Input of [`decide`] about one class.
#[derive(Debug, Clone, Copy)]
pub struct ClassInput<'a> {
    /// The class.
    pub class: &'a Class,
    /// Properties of its kind.
    pub kind: Kind,
    /// Claims that reference it.
    pub claims: &'a [&'a NodeClaim],
    /// True if the cloud still has resources that were created for it. Only evaluated after the last claim is gone.
    pub has_leftovers: bool,
}

// === impl Kind ===

impl Kind {
    /// Returns the kind EC2NodeClass, with hash version `current`.
    #[must_use]
    pub const fn ec2(current: &'static str) -> Self {
        let hash =
            HashKeys { hash: annotations::EC2NODECLASS_HASH, version: annotations::EC2NODECLASS_HASH_VERSION, current };
        Self { finalizer: annotations::EC2NODECLASS_FINALIZER, hash: Some(hash), is_ready_at_once: false }
    }

    /// KWOKNodeClass.
    pub const KWOK: Self = Self { finalizer: annotations::TERMINATION_FINALIZER, hash: None, is_ready_at_once: true };
}

/// Returns the writes about the class. Class writes always refer to the class in `input`.
#[must_use]
pub fn decide(input: &ClassInput<'_>, now: Timestamp) -> Step {
    if input.class.meta.deletion_timestamp.is_some() {
        return end(input, now);
    }
    let mut writes = Vec::new();
    let mut change = MetaChange::default();
    if !has_finalizer(input) {
        let there = input.class.meta.finalizers.iter().flatten().cloned();
        change.finalizers = Some(there.chain([input.kind.finalizer.to_owned()]).collect());
    }
    if let Some(keys) = input.kind.hash {
        let version = input.class.meta.annotations.as_ref().and_then(|all| all.get(keys.version));
        if version.map(String::as_str) != Some(keys.current) {
            writes.extend(input.claims.iter().filter_map(|claim| restamp(claim, keys, &input.class.hash)));
        }
        change = change.annotation(keys.hash, &*input.class.hash).annotation(keys.version, keys.current);
    }
    let change = change.against(&input.class.meta);
    if !change.is_empty() {
        writes.push(Write::ClassMeta(change));
    }
    if input.kind.is_ready_at_once && !input.class.conditions.iter().any(|one| one.type_ == READY) {
        writes.push(Write::ClassCondition(at(READY, Status::True, READY, "", input.class.meta.generation, now)));
    }
    if !writes.is_empty() {
        return Step::act(writes);
    }
    breaker::judge(input.class, now)
}

fn has_finalizer(input: &ClassInput<'_>) -> bool {
    input.class.meta.finalizers.iter().flatten().any(|one| one == input.kind.finalizer)
}

/// Updates a claim with another hash version. Its hash cannot be compared: unless the claim has drifted already, it is
/// assumed to match the current class.
fn restamp(claim: &NodeClaim, keys: HashKeys, hash: &str) -> Option<Write> {
    let there = claim.metadata.annotations.as_ref();
    if there.and_then(|all| all.get(keys.version)).map(String::as_str) == Some(keys.current) {
        return None;
    }
    let mut change = MetaChange::default().annotation(keys.version, keys.current);
    if condition(claim, nodeclaim::DRIFTED).is_none() {
        change = change.annotation(keys.hash, hash);
    }
    Some(Write::ClaimMeta { name: claim.metadata.name.clone().unwrap_or_default(), change })
}

/// Waits for the claims, then for the cloud's resources, then removes the finalizer.
fn end(input: &ClassInput<'_>, now: Timestamp) -> Step {
    if !has_finalizer(input) {
        return Step::rest();
    }
    if !input.claims.is_empty() {
        let mut names: Vec<&str> = input.claims.iter().filter_map(|claim| claim.metadata.name.as_deref()).collect();
        names.sort_unstable();
        let others = names.len().saturating_sub(NAMED);
        let more = if others > 0 { format!(" and {others} other(s)") } else { String::new() };
        names.truncate(NAMED);
        let message = format!("Waiting on NodeClaim termination for {}{more}", names.join(", "));
        let about = Subject {
            kind: input.class.reference.kind.clone(),
            namespace: None,
            name: input.class.reference.name.clone(),
            uid: input.class.meta.uid.clone().unwrap_or_default(),
        };
        let reason = events::WAITING_ON_NODE_CLAIM_TERMINATION;
        let event = Write::Event(Event { about, kind: EventType::Normal, reason, message });
        return Step { writes: vec![event], again: Some(after(now, REMIND)) };
    }
    if input.has_leftovers {
        return Step::rest();
    }
    let left = input.class.meta.finalizers.iter().flatten().filter(|one| *one != input.kind.finalizer).cloned();
    let change = MetaChange { finalizers: Some(left.collect()), ..MetaChange::default() };
    Step::act([Write::ClassMeta(change)])
}
