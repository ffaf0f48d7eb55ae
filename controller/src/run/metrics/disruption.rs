//! Metrics of disruption.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use muster_api::{NodeClaim, annotations, events};
use muster_scheduling::disrupt::{Cause, DisruptionInput, allowed_disruptions};
use muster_stages::disruption::{CommandNode, Delivered, Mark, mark_of};
use muster_stages::fleet;
use muster_stages::step::{MetaChange, Step, Write};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::Labels;

/// A gauge of USD per hour.
type Amount = Gauge<f64, AtomicU64>;

/// Metrics of disruption; clones share them.
#[derive(Clone)]
pub(super) struct Disruption {
    evaluations: Histogram,
    decisions: Family<Labels<3>, Counter>,
    failures: Family<Labels<3>, Counter>,
    allowed: Family<Labels<2>, Gauge>,
    pods: Family<Labels<2>, Counter>,
    promised: Family<Labels<1>, Amount>,
    delivered: Family<Labels<1>, Amount>,
    /// Name and cause of the last command begun: its replacements are created right after its marks.
    last: Arc<Mutex<Option<(String, Cause)>>>,
}

// === impl Disruption ===

impl Disruption {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let evaluations = Histogram::new(exponential_buckets(0.001, 2.0, 18));
        let (decisions, failures) = (Family::default(), Family::default());
        let (allowed, pods) = (Family::default(), Family::default());
        let voluntary = "karpenter_voluntary_disruption";
        registry.register(
            format!("{voluntary}_decision_evaluation_duration_seconds"),
            "Duration from the snapshot of the cluster to the disruption decision",
            evaluations.clone(),
        );
        registry.register(
            format!("{voluntary}_decisions"),
            "Started disruption commands, by decision, reason and method",
            decisions.clone(),
        );
        registry.register(
            format!("{voluntary}_queue_failures"),
            "Disruption commands that were rolled back, also partly",
            failures.clone(),
        );
        registry.register(
            "karpenter_nodepools_allowed_disruptions",
            "Nodes that the budgets of a NodePool allow to disrupt now, by reason",
            allowed.clone(),
        );
        registry.register("karpenter_pods_disruption_initiated", "Pods on nodes of started commands", pods.clone());
        let (promised, delivered) = (Family::default(), Family::default());
        registry.register(
            "muster_consolidation_promised_usd_per_hour",
            "Savings that judged consolidation commands of a NodePool promised, since this replica leads",
            promised.clone(),
        );
        registry.register(
            "muster_consolidation_delivered_usd_per_hour",
            "Savings that came of them, less what was launched again for their pods",
            delivered.clone(),
        );
        Self { evaluations, decisions, failures, allowed, pods, promised, delivered, last: Arc::default() }
    }

    /// Records a decision about disruption, and the disruptions that budgets allow.
    pub(super) fn planned(&self, input: &DisruptionInput, now: Timestamp, took: Duration) {
        self.evaluations.observe(took.as_secs_f64());
        self.allowed.clear();
        for (pool, cause, nodes) in allowed_disruptions(input, now) {
            let labels = [("nodepool", input.problem.pools[pool].name.to_string()), ("reason", reason(cause))];
            self.allowed.get_or_create(&labels).set(i64::try_from(nodes).unwrap_or(i64::MAX));
        }
    }

    /// Records promised and delivered savings of consolidation.
    pub(super) fn delivered(&self, all: impl Iterator<Item = Delivered>) {
        for Delivered { pool, promised, delivered, rest: _ } in all {
            let labels = [("nodepool", pool.to_string())];
            self.promised.get_or_create(&labels).set(promised);
            self.delivered.get_or_create(&labels).set(delivered);
        }
    }

    /// Records the command if the change marks a claim with one.
    pub(super) fn marked(&self, change: &MetaChange) {
        let mark = change.annotations.get(annotations::DISRUPTION).and_then(Option::as_deref).and_then(Mark::read);
        if let Some(mark) = mark {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((mark.command, mark.cause));
        }
    }

    /// Returns the reason for creating a claim, in Karpenter's terms.
    pub(super) fn reason_of(&self, claim: &NodeClaim) -> String {
        let said = |key: &str| claim.metadata.annotations.as_ref().and_then(|all| all.get(key));
        if said(annotations::REQUEST).is_some() {
            return fleet::CAUSE.to_owned();
        }
        let command = said(annotations::REPLACES);
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match (command, &*last) {
            (Some(command), Some((last, cause))) if command == last => reason(*cause),
            _ => "provisioned".to_owned(),
        }
    }

    /// Records that the first step of a command was executed, which marks some of `claims`.
    pub(super) fn opened<'c>(&self, step: &Step, claims: impl Iterator<Item = &'c NodeClaim>) {
        let marks: Vec<Mark> = step.writes.iter().filter_map(mark_in).collect();
        let Some(mark) = marks.first() else { return };
        self.decisions.get_or_create(&labels(mark)).inc();
        let pods: usize = marks.iter().map(|mark| mark.pods).sum();
        let labels = [("nodepool", pool_of(step, claims)), ("reason", reason(mark.cause))];
        self.pods.get_or_create(&labels).inc_by(u64::try_from(pods).unwrap_or(u64::MAX));
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
            self.failures.get_or_create(&labels(&mark)).inc();
        }
    }
}

fn labels(mark: &Mark) -> Labels<3> {
    let decision = match mark.method.as_str() {
        "terminate-first" => "terminate-first",
        _ if mark.replacements.is_empty() => "delete",
        _ => "replace",
    };
    [("decision", decision.to_owned()), ("reason", reason(mark.cause)), ("consolidation_type", kind(mark).to_owned())]
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

fn mark_in(write: &Write) -> Option<Mark> {
    let Write::ClaimMeta { change, .. } = write else { return None };
    Mark::read(change.annotations.get(annotations::DISRUPTION)?.as_deref()?)
}

/// Returns the NodePool of the first marked claim.
fn pool_of<'c>(step: &Step, mut claims: impl Iterator<Item = &'c NodeClaim>) -> String {
    let name = step.writes.iter().find_map(|write| match write {
        Write::ClaimMeta { name, .. } => Some(name),
        _ => None,
    });
    let Some(name) = name else { return String::new() };
    super::pool_of(name, claims.find(|claim| claim.metadata.name.as_ref() == Some(name)))
}

fn reason(cause: Cause) -> String {
    cause.name().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use muster_api::labels;

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
        let mut registry = Registry::default();
        let metrics = Disruption::new(&mut registry);
        let mut marked = NodeClaim::default();
        marked.metadata.name = Some("general-a1".to_owned());
        marked.metadata.labels = Some([(labels::NODEPOOL.to_owned(), "general-purpose".to_owned())].into());
        metrics.opened(&Step::act([marking("general-a1"), marking("general-a2")]), [&marked].into_iter());
        metrics.marked(&change);
        let mut claim = NodeClaim::default();
        assert_eq!(metrics.reason_of(&claim), "provisioned");
        claim.metadata.annotations = Some([(annotations::REPLACES.to_owned(), "c1".to_owned())].into());
        assert_eq!(metrics.reason_of(&claim), "underutilized");
        let text = super::super::expose::text(&registry);
        let samples: Vec<&str> =
            text.lines().filter(|line| !line.starts_with('#') && line.contains("_total")).collect();
        insta::assert_snapshot!(samples.join("\n"), @r#"
        karpenter_voluntary_disruption_decisions_total{decision="replace",reason="underutilized",consolidation_type="multi"} 1
        karpenter_pods_disruption_initiated_total{nodepool="general-purpose",reason="underutilized"} 6
        "#);
    }
}
