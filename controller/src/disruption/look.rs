//! What is looked at: the claims of one command, and what was launched for them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, NodePool, annotations};

use super::deliberation::Tempo;
use super::mark::{Mark, is_marked, mark_of};
use crate::lifecycle::pause::Pause;
use crate::lifecycle::{Resident, condition, is_true};
use crate::node::Node;
use crate::step::Subject;

/// One command under way.
#[derive(Debug, Clone, Default)]
pub struct Look<'a> {
    /// The claims that carry its mark, by name.
    pub candidates: Vec<Candidate<'a>>,
    /// The claims that were launched for it, by name.
    pub replacements: Vec<Replacement<'a>>,
    /// What an operator has paused in the whole cluster.
    pub pause: Pause,
    /// How fast everything goes.
    pub tempo: Tempo,
}

/// A claim whose node is to go.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The claim.
    pub claim: &'a NodeClaim,
    /// Its NodePool, if it has one that exists.
    pub pool: Option<&'a NodePool>,
    /// Its Node, if it has one.
    pub node: Option<&'a Node>,
    /// Pods that are bound to the Node.
    pub residents: &'a [Resident],
    /// `namespace/name` of a pod that is to come to the Node: its `status.nominatedNodeName`, or a plan of ours.
    pub promised_to: Option<&'a str>,
}

/// A claim that was launched for a command.
#[derive(Debug, Clone, Copy)]
pub struct Replacement<'a> {
    /// The claim.
    pub claim: &'a NodeClaim,
    /// Its NodePool, if it has one that exists.
    pub pool: Option<&'a NodePool>,
    /// Pods that are bound to its Node.
    pub residents: &'a [Resident],
    /// `namespace/name` of a pod that is to come to its Node and is none of the candidates'.
    pub promised_to: Option<&'a str>,
}

/// The commands that are under way: for each, who carries its mark and what was launched for it. A mark that nobody can read
/// is a command of its own, to be taken back.
#[must_use]
pub fn running<'a>(
    claims: impl IntoIterator<Item = &'a NodeClaim>,
) -> BTreeMap<String, (Vec<&'a NodeClaim>, Vec<&'a NodeClaim>)> {
    let mut running: BTreeMap<String, (Vec<&NodeClaim>, Vec<&NodeClaim>)> = BTreeMap::new();
    let mut launched: Vec<(&str, &NodeClaim)> = Vec::new();
    for claim in claims {
        if is_marked(claim) {
            let command = mark_of(claim).map_or_else(|| name(claim).to_owned(), |mark| mark.command);
            running.entry(command).or_default().0.push(claim);
        }
        launched.extend(replaces(claim).map(|command| (command, claim)));
    }
    for (command, claim) in launched {
        // Of a command that is over, nobody carries the mark: what it launched is a claim like any other.
        if let Some((_, replacements)) = running.get_mut(command) {
            replacements.push(claim);
        }
    }
    for (candidates, replacements) in running.values_mut() {
        candidates.sort_by_key(|claim| name(claim));
        replacements.sort_by_key(|claim| name(claim));
    }
    running
}

pub(super) fn name(claim: &NodeClaim) -> &str {
    claim.metadata.name.as_deref().unwrap_or_default()
}

pub(super) fn is_leaving(claim: &NodeClaim) -> bool {
    claim.metadata.deletion_timestamp.is_some()
}

/// The command that the claim was launched for.
fn replaces(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.annotations.as_ref()?.get(annotations::REPLACES).map(String::as_str)
}

/// Pods that will want another node: neither daemons nor mirror pods, and not on their way out.
pub(super) fn leavers(residents: &[Resident]) -> usize {
    let moves = |pod: &&Resident| !pod.is_daemon && !pod.is_mirror && !pod.is_terminal && pod.deleted_at.is_none();
    residents.iter().filter(moves).count()
}

// === impl Candidate ===

impl Candidate<'_> {
    pub(super) fn name(&self) -> String {
        name(self.claim).to_owned()
    }

    pub(super) fn uid(&self) -> String {
        self.claim.metadata.uid.clone().unwrap_or_default()
    }

    pub(super) fn mark(&self) -> Option<Mark> {
        mark_of(self.claim)
    }

    pub(super) fn is_leaving(&self) -> bool {
        is_leaving(self.claim)
    }

    pub(super) fn subject(&self) -> Subject {
        Subject { kind: "NodeClaim".to_owned(), namespace: None, name: self.name(), uid: self.uid() }
    }

    /// Since when the cloud is known to take the node back.
    pub(super) fn interrupted_since(&self) -> Option<Timestamp> {
        let told = condition(self.claim, nodeclaim::INTERRUPTED).filter(|told| told.status == "True")?;
        Some(told.last_transition_time.0)
    }
}

// === impl Replacement ===

impl Replacement<'_> {
    pub(super) fn is_initialized(&self) -> bool {
        is_true(self.claim, nodeclaim::INITIALIZED)
    }

    /// Whether somebody lives on it, or is about to.
    pub(super) fn is_used(&self) -> bool {
        leavers(self.residents) > 0 || self.promised_to.is_some()
    }
}
