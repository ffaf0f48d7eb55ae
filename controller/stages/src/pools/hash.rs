//! Annotations that tell whether claims match their pool's current template.

use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, annotations, hash};

use super::PoolInput;
use crate::lifecycle::condition;
use crate::step::{MetaChange, Write};

/// Updates the claims and then the pool to the current hash and hash version. Claims with another hash version cannot
/// be compared: unless they have drifted already, they are assumed to match the current template.
pub(super) fn stamp(input: &PoolInput<'_>) -> Vec<Write> {
    let own = input.pool.metadata.annotations.as_ref();
    let version = own.and_then(|all| all.get(annotations::NODEPOOL_HASH_VERSION)).map(String::as_str);
    let current = hash::node_pool(input.pool);
    let mut writes = Vec::new();
    if version != Some(hash::NODEPOOL_HASH_VERSION) {
        let claims = input.claims.iter().map(|one| one.claim);
        writes.extend(claims.filter_map(|claim| restamp(claim, &current)));
    }
    let change = MetaChange::default()
        .annotation(annotations::NODEPOOL_HASH, &*current)
        .annotation(annotations::NODEPOOL_HASH_VERSION, hash::NODEPOOL_HASH_VERSION)
        .against(&input.pool.metadata);
    if !change.is_empty() {
        writes.push(Write::PoolMeta { name: input.name(), change });
    }
    writes
}

fn restamp(claim: &NodeClaim, current: &str) -> Option<Write> {
    let there = claim.metadata.annotations.as_ref();
    let version = there.and_then(|all| all.get(annotations::NODEPOOL_HASH_VERSION)).map(String::as_str);
    if version == Some(hash::NODEPOOL_HASH_VERSION) {
        return None;
    }
    let mut change = MetaChange::default().annotation(annotations::NODEPOOL_HASH_VERSION, hash::NODEPOOL_HASH_VERSION);
    if condition(claim, nodeclaim::DRIFTED).is_none() {
        change = change.annotation(annotations::NODEPOOL_HASH, current);
    }
    Some(Write::ClaimMeta { name: claim.metadata.name.clone().unwrap_or_default(), change })
}
