//! Observed state of one command: its claims and their replacements.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, NodePool, annotations};
use muster_cloud::NoticeKind;

use super::Mark;
use super::mark::{is_marked, mark_of};
use super::planner::Timing;
use crate::lifecycle::pause::Pause;
use crate::lifecycle::{Resident, condition, interruption, is_true};
use crate::node::Node;
use crate::step::Subject;

/// Taint with which the node termination handler of AWS announces maintenance.
const SCHEDULED_MAINTENANCE: &str = "aws-node-termination-handler/scheduled-maintenance";

/// One command in progress.
#[derive(Debug, Clone, Default)]
pub struct ObservedCommand<'a> {
    /// Claims with its mark, by name.
    pub candidates: Vec<Candidate<'a>>,
    /// Claims launched for it, by name.
    pub replacements: Vec<Replacement<'a>>,
    /// Operations that an operator has paused in the whole cluster.
    pub pause: Pause,
    /// Timing of disruption.
    pub timing: Timing,
}

/// A claim whose node is to be removed.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The claim.
    pub claim: &'a NodeClaim,
    /// Its NodePool, if it exists.
    pub pool: Option<&'a NodePool>,
    /// Its Node, if it exists.
    pub node: Option<&'a Node>,
    /// Pods bound to the Node.
    pub residents: &'a [Resident],
    /// `namespace/name` of a pod that is about to be bound to the Node: by its `status.nominatedNodeName`, or by our
    /// plan.
    pub promised_to: Option<&'a str>,
}

/// A claim launched for a command.
#[derive(Debug, Clone, Copy)]
pub struct Replacement<'a> {
    /// The claim.
    pub claim: &'a NodeClaim,
    /// Its NodePool, if it exists.
    pub pool: Option<&'a NodePool>,
    /// Pods bound to its Node.
    pub residents: &'a [Resident],
    /// `namespace/name` of a pod of another node that is about to be bound to its Node.
    pub promised_to: Option<&'a str>,
}

/// Returns the commands in progress, each with the claims that carry its mark and those launched for it. An unreadable
/// mark is a command of its own, to be rolled back.
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
        // If no claim carries the mark, the command is over, and its replacements are ordinary claims.
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

/// Returns the command for which the claim was launched.
fn replaces(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.annotations.as_ref()?.get(annotations::REPLACES).map(String::as_str)
}

/// Returns the number of pods that need another node: not those of DaemonSets, mirror pods, finished pods, and pods
/// being deleted.
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

    /// Returns the kind and time of the interruption notice on the claim, if there is one.
    pub(super) fn interruption(&self) -> Option<(NoticeKind, Timestamp)> {
        let kind = interruption::recorded(self.claim)?;
        Some((kind, condition(self.claim, nodeclaim::INTERRUPTED)?.last_transition_time.0))
    }

    /// Returns the kind of its notice: the one on the claim, or the one that another program has announced by a taint.
    pub(super) fn notice(&self) -> NoticeKind {
        let taints = self.node.and_then(|node| node.spec.as_ref()?.taints.as_ref()).into_iter().flatten();
        let mut keys = taints.map(|taint| taint.key.as_str());
        match self.interruption() {
            Some((kind, _)) => kind,
            None if keys.any(|key| key == SCHEDULED_MAINTENANCE) => NoticeKind::ScheduledChange,
            None => NoticeKind::SpotInterrupted,
        }
    }
}

// === impl Replacement ===

impl Replacement<'_> {
    pub(super) fn is_initialized(&self) -> bool {
        is_true(self.claim, nodeclaim::INITIALIZED)
    }

    /// Returns true if pods run on it or are about to be bound to it.
    pub(super) fn is_used(&self) -> bool {
        leavers(self.residents) > 0 || self.promised_to.is_some()
    }
}
