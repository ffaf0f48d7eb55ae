//! Metrics of disruption.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use muster_api::{NodeClaim, NodePool, annotations, events, labels};
use muster_scheduling::disrupt::{Block, Cause, DisruptionInput, allowed_disruptions};
use muster_stages::disruption::{CommandNode, Delivered, Mark, Turn, mark_of};
use muster_stages::step::{DeletionCause, MetaChange, Step, Write};

use super::catalogue as names;
use super::series::Series;
use super::{label, mode_of, policy_of};

/// Metrics of disruption; clones share them.
#[derive(Debug, Clone)]
pub(super) struct Disruption {
    series: Series,
    /// Names and causes of the last commands begun, the newest last: their replacements are created right after their
    /// marks, which are written again when a claim is released.
    last: Arc<Mutex<VecDeque<(String, Cause)>>>,
}

/// Commands that are remembered: more than begin within the seconds in which one creates its claims.
const REMEMBERED: usize = 64;

/// Causes to which budgets apply.
const VOLUNTARY: [Cause; 3] = [Cause::Empty, Cause::Underutilized, Cause::Drifted];

// === impl Disruption ===

impl Disruption {
    pub(super) fn new(series: Series) -> Self {
        Self { series, last: Arc::default() }
    }

    /// Records a decision about disruption, and the disruptions that budgets allow.
    pub(super) fn planned(&self, input: &DisruptionInput, turn: &Turn, now: Timestamp, took: Duration) {
        self.series.observe(&names::DISRUPTION_EVALUATION_DURATION, &["", ""], took);
        for metric in [&names::NODEPOOLS_ALLOWED_DISRUPTIONS, &names::NODEPOOLS_NODES_CONSUMING_BUDGETS] {
            self.series.clear(metric);
        }
        let away = away(input);
        for (pool, cause, nodes) in allowed_disruptions(input, now) {
            let labels = [&*input.problem.pools[pool].name, &reason(cause)];
            self.series.set(&names::NODEPOOLS_ALLOWED_DISRUPTIONS, &labels, nodes as f64);
            let away = away.get(&pool).copied().unwrap_or(0);
            self.series.set(&names::NODEPOOLS_NODES_CONSUMING_BUDGETS, &labels, f64::from(away));
        }
        for (cause, nodes) in eligible(input, turn) {
            self.series.set(&names::DISRUPTION_ELIGIBLE_NODES, &[&reason(cause)], f64::from(nodes));
        }
    }

    /// Records that an earlier choice was decided again.
    pub(super) fn validated(&self, turn: &Turn) {
        if turn.decision.commands.iter().all(|command| command.cause.forceful()) {
            self.series.count(&names::DISRUPTION_FAILED_VALIDATIONS, &[""]);
        }
    }

    /// Records promised and delivered savings of consolidation.
    pub(super) fn delivered(&self, all: impl Iterator<Item = Delivered>) {
        for Delivered { pool, promised, delivered, rest: _ } in all {
            self.series.set(&names::PROMISED, &[&pool], promised);
            self.series.set(&names::DELIVERED, &[&pool], delivered);
        }
    }

    /// Records the command if the change marks a claim with one.
    pub(super) fn marked(&self, change: &MetaChange) {
        let mark = change.annotations.get(annotations::DISRUPTION).and_then(Option::as_deref).and_then(Mark::read);
        if let Some(mark) = mark {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.iter().all(|(command, _)| *command != mark.command) {
                last.push_back((mark.command, mark.cause));
                let old = last.len().saturating_sub(REMEMBERED);
                last.drain(..old);
            }
        }
    }

    /// Returns the reason for creating a claim, in Karpenter's terms.
    pub(super) fn reason_of(&self, claim: &NodeClaim) -> String {
        let said = |key: &str| claim.metadata.annotations.as_ref().and_then(|all| all.get(key));
        if said(annotations::REQUEST).is_some() {
            return DeletionCause::Ordered.name().to_owned();
        }
        let command = said(annotations::REPLACES);
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let found = command.and_then(|command| last.iter().find(|(name, _)| name == command));
        found.map_or_else(|| "provisioned".to_owned(), |(_, cause)| reason(*cause))
    }

    /// Records that the first step of a command was executed, which marks some of these claims of NodePools.
    pub(super) fn opened(&self, step: &Step, claims: &[(&NodeClaim, Option<&NodePool>)]) {
        let nodes: Vec<(String, Mark)> = step.writes.iter().filter_map(mark_in).collect();
        let Some((_, mark)) = nodes.first() else { return };
        let [decision, cause, kind] = &told(mark);
        self.series.count(&names::DISRUPTION_DECISIONS, &[decision, cause, kind]);
        let mut pools = BTreeSet::new();
        for (name, mark) in &nodes {
            let found = claims.iter().find(|(claim, _)| claim.metadata.name.as_ref() == Some(name));
            let claim = found.map(|(claim, _)| *claim);
            let pool = super::pool_of(name, claim);
            let policy = found.and_then(|(_, pool)| *pool).map_or("", |pool| policy_of(pool, cause));
            let capacity_type = claim.map(|claim| label(claim, labels::CAPACITY_TYPE)).unwrap_or_default();
            let all = [cause.as_str(), &pool, &capacity_type, policy, claim.map_or("", mode_of)];
            self.series.add(&names::PODS_DISRUPTION_INITIATED, &all, mark.pods as f64);
            pools.insert(pool);
        }
        for pool in pools {
            self.series.count(&names::DISRUPTION_DECISIONS_BY_NODEPOOL, &[&pool, decision, cause, kind]);
        }
    }

    /// Records that a later step of a command was executed, which may have rolled it back.
    pub(super) fn advanced(&self, step: &Step, command_nodes: &[CommandNode]) {
        let is_told =
            |write: &Write| matches!(write, Write::Event(event) if event.reason == events::DISRUPTION_TAKEN_BACK);
        if let Some(mark) = command_nodes
            .iter()
            .find_map(|command_node| mark_of(&command_node.claim))
            .filter(|_| step.writes.iter().any(is_told))
        {
            let [decision, cause, kind] = &told(&mark);
            self.series.count(&names::DISRUPTION_QUEUE_FAILURES, &[decision, cause, kind]);
        }
    }
}

/// Returns the number of nodes that count against budgets, by pool: those that are not ready or on their way out.
fn away(input: &DisruptionInput) -> BTreeMap<usize, u32> {
    let mut away = BTreeMap::new();
    for (node, managed_node) in input.problem.nodes.iter().zip(&input.managed_nodes) {
        let Some((managed_node, pool)) = managed_node.as_ref().and_then(|one| Some((one, one.pool?))) else { continue };
        if node.initialized && (node.deleting || !managed_node.ready) {
            *away.entry(pool).or_default() += 1;
        }
    }
    away
}

/// Returns the number of nodes that could be disrupted for each cause if budgets and prices allowed it.
fn eligible(input: &DisruptionInput, turn: &Turn) -> BTreeMap<Cause, u32> {
    let mut counts: BTreeMap<Cause, u32> = VOLUNTARY.into_iter().map(|cause| (cause, 0)).collect();
    let chosen = turn.decision.commands.iter().flat_map(|command| &command.candidates).copied();
    let free = turn.decision.blocked.iter().filter(|blocked| is_free(blocked.block)).map(|blocked| blocked.node);
    for node in chosen.chain(free).collect::<BTreeSet<usize>>() {
        let Some(managed_node) = input.managed_nodes.get(node).and_then(Option::as_ref) else { continue };
        if managed_node.drifted.is_some() {
            *counts.entry(Cause::Drifted).or_default() += 1;
        }
        let is_empty = managed_node.leavers().next().is_none();
        *counts.entry(if is_empty { Cause::Empty } else { Cause::Underutilized }).or_default() += 1;
    }
    counts
}

/// Returns true if a node that stays for this reason is a candidate all the same.
const fn is_free(block: Block) -> bool {
    matches!(
        block,
        Block::Budget
            | Block::PoolRests
            | Block::PodsWouldNotFit
            | Block::NoCheaperReplacement
            | Block::SpotToSpot
            | Block::NothingToGain
    )
}

/// Returns decision, reason and method of a command, in Karpenter's terms.
fn told(mark: &Mark) -> [String; 3] {
    let decision = match mark.method.as_str() {
        "terminate-first" => "terminate-first",
        _ if mark.replacements.is_empty() => "delete",
        _ => "replace",
    };
    [decision.to_owned(), reason(mark.cause), kind(mark).to_owned()]
}

/// Returns Karpenter's name of the consolidation method; empty for other methods.
fn kind(mark: &Mark) -> &'static str {
    match mark.method.as_str() {
        "emptiness" => "empty",
        "multi-node" => "multi",
        "single-node" => "single",
        _ => "",
    }
}

fn mark_in(write: &Write) -> Option<(String, Mark)> {
    let Write::ClaimMeta { name, change } = write else { return None };
    Some((name.clone(), Mark::read(change.annotations.get(annotations::DISRUPTION)?.as_deref()?)?))
}

fn reason(cause: Cause) -> String {
    cause.name().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::super::page::Page;
    use super::*;

    #[test]
    fn what_is_begun_is_counted_by_what_its_mark_says() {
        let mark = Mark {
            command: "c1".to_owned(),
            cause: Cause::Underutilized,
            method: "multi-node".to_owned(),
            since: Timestamp::UNIX_EPOCH,
            candidates: 2,
            pods: 3,
            price: 0.1,
            cost: 0.05,
            replacements: vec!["general-b2".to_owned()],
            drain_seconds: None,
        };
        let change = MetaChange::default().annotation(annotations::DISRUPTION, mark.write());
        let marking = |name: &str| Write::ClaimMeta { name: name.to_owned(), change: change.clone() };
        let metrics = Disruption::new(Series::default());
        let mut marked = NodeClaim::default();
        marked.metadata.name = Some("general-a1".to_owned());
        marked.metadata.labels = Some([(labels::NODEPOOL.to_owned(), "general-purpose".to_owned())].into());
        metrics.opened(&Step::act([marking("general-a1"), marking("general-a2")]), &[(&marked, None)]);
        metrics.marked(&change);
        let mut claim = NodeClaim::default();
        assert_eq!(metrics.reason_of(&claim), "provisioned");
        claim.metadata.annotations = Some([(annotations::REPLACES.to_owned(), "c1".to_owned())].into());
        assert_eq!(metrics.reason_of(&claim), "underutilized");
        let other = Mark { command: "c2".to_owned(), cause: Cause::Drifted, ..mark.clone() };
        metrics.marked(&MetaChange::default().annotation(annotations::DISRUPTION, other.write()));
        assert_eq!(metrics.reason_of(&claim), "underutilized", "another command has begun since");
        let mut page = Page::default();
        metrics.series.write(&mut page);
        let text = page.text();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        insta::assert_snapshot!(samples.join("\n"), @r#"
        karpenter_pods_disruption_initiated_total{reason="underutilized",nodepool="general"} 3
        karpenter_pods_disruption_initiated_total{reason="underutilized",nodepool="general-purpose",termination_mode="graceful"} 3
        karpenter_voluntary_disruption_decisions_by_nodepool_total{nodepool="general",decision="replace",reason="underutilized",consolidation_type="multi"} 1
        karpenter_voluntary_disruption_decisions_by_nodepool_total{nodepool="general-purpose",decision="replace",reason="underutilized",consolidation_type="multi"} 1
        karpenter_voluntary_disruption_decisions_total{decision="replace",reason="underutilized",consolidation_type="multi"} 1
        "#);
    }
}
