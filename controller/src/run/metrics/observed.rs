//! Counters of changes that the watch shows: pods that are bound and ready, conditions that change, objects that go.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_stages::lifecycle::{SUCCEEDED, reboot_result};
use muster_stages::state::{ConditionChange, Kind, Milestone, Removal};

use super::catalogue::{self as names, OfKind};
use super::series::Series;
use crate::run::traces::Traces;
use crate::watch::MilestoneObserver;

/// Counts transitions while this replica leads; clones share everything.
#[derive(Debug, Clone)]
pub(super) struct Observed {
    series: Series,
    traces: Traces,
    leads: Arc<AtomicBool>,
    /// By `namespace/name`. As many as there are pods without a node, and pods that have one and are not ready yet.
    times: Arc<Mutex<BTreeMap<Arc<str>, PodTimes>>>,
    /// Times at which the cloud accepted the reboots in progress, by NodeClaim.
    rebooted: Arc<Mutex<BTreeMap<String, Timestamp>>>,
    clock: fn() -> Timestamp,
}

/// Times of a pod that was seen without a node and has not been ready yet.
#[derive(Debug, Clone)]
pub(in crate::run) struct PodTimes {
    #[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "traces are named after it"))]
    pub(in crate::run) uid: Box<str>,
    pub(in crate::run) created: Timestamp,
    /// Time at which it was seen without a node.
    pub(in crate::run) seen: Timestamp,
    /// Time of the first decision about it.
    pub(in crate::run) decided: Option<Timestamp>,
    /// Time of the first decision that gave it a node.
    pub(in crate::run) placed: Option<Timestamp>,
    pub(in crate::run) is_bound: bool,
    pub(in crate::run) has_resource_claims: bool,
}

impl PodTimes {
    pub(super) const fn dynamic_resources(&self) -> &'static str {
        if self.has_resource_claims { "true" } else { "false" }
    }
}

// === impl Observed ===

impl Observed {
    pub(super) fn new(series: Series, traces: Traces, clock: fn() -> Timestamp) -> Self {
        Self { series, traces, leads: Arc::default(), times: Arc::default(), rebooted: Arc::default(), clock }
    }

    /// Records whether this replica leads.
    pub(super) fn lead(&self, leads: bool) {
        self.leads.store(leads, Ordering::Relaxed);
    }

    pub(super) fn leads(&self) -> bool {
        self.leads.load(Ordering::Relaxed)
    }

    /// Records that the cloud has accepted the reboot of a NodeClaim's instance.
    pub(super) fn rebooted(&self, claim: String, now: Timestamp) {
        self.rebooted.lock().unwrap_or_else(PoisonError::into_inner).insert(claim, now);
    }

    /// Returns the times of pods that have not been ready yet.
    pub(super) fn times(&self) -> BTreeMap<Arc<str>, PodTimes> {
        self.lock().clone()
    }

    /// Records a decision about these pods, and whether it gave them a node.
    pub(super) fn decided<'p>(&self, pods: impl Iterator<Item = (&'p str, bool)>, now: Timestamp) {
        let mut times = self.lock();
        for (path, is_placed) in pods {
            let Some(pod) = times.get_mut(path) else { continue };
            if pod.decided.is_none() {
                pod.decided = Some(now);
                self.series.observe(&names::PODS_DECISION_DURATION, &[], between(pod.seen, now));
            }
            if is_placed && pod.placed.is_none() {
                pod.placed = Some(now);
            }
        }
    }

    fn pod(&self, milestone: &Milestone, now: Timestamp) {
        let mut times = self.lock();
        match milestone {
            Milestone::PodWaits { path, uid, created, has_resource_claims } => {
                let pod = PodTimes {
                    uid: uid.clone(),
                    created: created.unwrap_or(now),
                    seen: now,
                    decided: None,
                    placed: None,
                    is_bound: false,
                    has_resource_claims: *has_resource_claims,
                };
                times.insert(Arc::clone(path), pod);
            }
            Milestone::PodBound { path, node } => {
                let Some(pod) = times.get_mut(path) else { return };
                pod.is_bound = true;
                let labels = [pod.dynamic_resources()];
                if self.leads() {
                    self.traces.pod_bound(path, node, pod, now);
                    self.series.observe(&names::PODS_BOUND_DURATION, &labels, between(pod.created, now));
                    if let Some(placed) = pod.placed {
                        let duration = between(placed, now);
                        self.series.observe(&names::PODS_PROVISIONING_BOUND_DURATION, &labels, duration);
                    }
                }
            }
            Milestone::PodReady(path) => {
                let Some(pod) = times.remove(path) else { return };
                if self.leads() {
                    self.series.observe(&names::PODS_STARTUP_DURATION, &[], between(pod.created, now));
                    if let Some(placed) = pod.placed {
                        let duration = between(placed, now);
                        self.series.observe(&names::PODS_PROVISIONING_STARTUP_DURATION, &[], duration);
                    }
                }
            }
            Milestone::PodGone(path) => {
                times.remove(path);
            }
            Milestone::Condition(_) | Milestone::NodeInitialized(_) | Milestone::Removed(_) => {}
        }
    }

    /// Counts the change of a Node's condition, whose texts the node writes itself: long ones, and more than there is
    /// room for, count as `other`.
    fn node_condition(&self, change: &ConditionChange) {
        let ConditionChange { condition, before, status, reason, at, .. } = change;
        let (condition, status, reason) = (label(condition), label(status), label(reason));
        let (transitions, transition) = (&names::OF_NODES.transitions, &names::OF_NODES.transition);
        let (counted, other) = ([condition, status, reason], [OTHER; 3]);
        self.series.count(transitions, self.series.either(transitions, &counted, &other));
        if let Some((before, since)) = before {
            let timed = [condition, label(before), status];
            self.series.observe(transition, self.series.either(transition, &timed, &other), between(*since, *at));
        }
    }

    fn condition(&self, change: &ConditionChange) {
        let ConditionChange { kind, name, of, condition, before, status, reason, message, at } = change;
        if *kind == Kind::Node {
            return self.node_condition(change);
        }
        if let Some(of_kind) = of_kind(*kind) {
            self.series.count(&of_kind.transitions, &[condition, status, reason]);
            if let Some((before, since)) = before {
                self.series.observe(&of_kind.transition, &[condition, before, status], between(*since, *at));
            }
        }
        if *kind != Kind::NodeClaim {
            return;
        }
        if condition == nodeclaim::REBOOTING
            && let Some((_, requested)) = before.as_ref().filter(|(was, _)| was == "True")
        {
            let result = reboot_result(reason, message);
            self.series.count(&names::NODES_REBOOTS, &[result]);
            self.series.observe(&names::NODES_REBOOT_DURATION, &[result], between(*requested, *at));
            let accepted = self.rebooted.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
            if let Some(accepted) = accepted.filter(|_| result == SUCCEEDED) {
                self.series.observe(&names::NODES_REBOOT_RECOVERY, &[], between(accepted, *at));
            }
        }
        if status != "True" {
            return;
        }
        match condition.as_str() {
            nodeclaim::REGISTERED => self.series.count(&names::NODES_CREATED, &[&of.pool, &of.zone]),
            nodeclaim::DRAINED => self.series.count(&names::NODES_DRAINED, &[&of.pool]),
            nodeclaim::INTERRUPTED => self.series.count(&names::INTERRUPTED, &[reason]),
            _ => {}
        }
    }

    fn removed(&self, removal: &Removal, now: Timestamp) {
        let Removal { kind, of, created, deleted, terminating } = removal;
        if let (Some(of_kind), Some(deleted)) = (of_kind(*kind), deleted) {
            self.series.observe(&of_kind.termination, &[], between(*deleted, now));
        }
        let pool = of.pool.as_str();
        match kind {
            Kind::Node if !pool.is_empty() => {
                self.series.count(&names::NODES_TERMINATED, &[pool, &of.zone]);
                if let Some(created) = created {
                    self.series.observe(&names::NODES_LIFETIME_DURATION, &[pool], between(*created, now));
                }
                if let Some(deleted) = deleted {
                    self.series.observe(&names::NODES_TERMINATION_DURATION, &[pool], between(*deleted, now));
                }
            }
            Kind::NodeClaim => {
                self.series.count(&names::NODECLAIMS_TERMINATED, &[pool, &of.capacity_type, &of.zone]);
                if let Some(deleted) = deleted {
                    self.series.observe(&names::NODECLAIMS_TERMINATION_DURATION, &[pool], between(*deleted, now));
                }
                if let Some(since) = terminating {
                    let duration = between(*since, now);
                    self.series.observe(&names::NODECLAIMS_INSTANCE_TERMINATION_DURATION, &[pool], duration);
                }
            }
            _ => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, PodTimes>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MilestoneObserver for Observed {
    fn observe(&self, milestones: &[Milestone]) {
        let now = (self.clock)();
        for milestone in milestones {
            match milestone {
                // The times of pods are kept by each replica, since it may lead before they are ready.
                Milestone::Condition(change) if self.leads() => self.condition(change),
                Milestone::Removed(removal) if self.leads() => self.removed(removal, now),
                Milestone::NodeInitialized(start) if self.leads() => self.traces.node_initialized(start),
                Milestone::Condition(_) | Milestone::NodeInitialized(_) | Milestone::Removed(_) => {}
                pod => self.pod(pod, now),
            }
        }
    }
}

/// Returns the metrics of objects of a kind, if it has status conditions.
pub(super) fn of_kind(kind: Kind) -> Option<&'static OfKind> {
    match kind {
        Kind::NodeClaim => Some(&names::OF_NODECLAIMS),
        Kind::NodePool => Some(&names::OF_NODEPOOLS),
        Kind::Node => Some(&names::OF_NODES),
        Kind::Ec2NodeClass => Some(&names::OF_EC2_CLASSES),
        Kind::KwokNodeClass => Some(&names::OF_KWOK_CLASSES),
        _ => None,
    }
}

/// Value of a label in place of those that are too long or too many.
const OTHER: &str = "other";
/// Longest value of a label that a node has written, in bytes.
const LONGEST: usize = 64;

/// Returns a text of a Node as the value of a label.
pub(super) fn label(text: &str) -> &str {
    if text.len() <= LONGEST { text } else { OTHER }
}

/// Returns the time between two, none if a clock was set back.
pub(super) fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::page::Page;
    use super::*;

    fn samples(observed: &Observed) -> Vec<String> {
        let mut page = Page::default();
        observed.series.write(&mut page);
        let text = page.text();
        text.lines().filter(|line| line.contains("_sum") || line.contains("_total")).map(str::to_owned).collect()
    }

    fn observed() -> Observed {
        Observed::new(Series::default(), Traces::default(), || Timestamp::from_second(100).unwrap())
    }

    #[test]
    fn a_pod_is_timed_from_its_creation_and_from_the_decision() {
        let observed = observed();
        let path: Arc<str> = "x/a".into();
        let created = Timestamp::from_second(90).ok();
        let waits =
            Milestone::PodWaits { path: Arc::clone(&path), uid: "1".into(), created, has_resource_claims: false };
        observed.observe(&[waits]);
        observed.lead(true);
        observed.decided([("x/a", true), ("x/other", true)].into_iter(), Timestamp::from_second(98).unwrap());
        observed.observe(&[Milestone::PodBound { path: Arc::clone(&path), node: "n".into() }]);
        assert!(observed.times()[&path].is_bound);
        observed.observe(&[Milestone::PodReady(Arc::clone(&path)), Milestone::PodReady(path)]);
        assert!(observed.times().is_empty());
        insta::assert_snapshot!(samples(&observed).join("\n"), @r#"
        karpenter_pods_bound_duration_seconds_sum{dynamic_resources="false"} 10
        karpenter_pods_provisioning_bound_duration_seconds_sum{dynamic_resources="false"} 2
        karpenter_pods_provisioning_startup_duration_seconds_sum 2
        karpenter_pods_scheduling_decision_duration_seconds_sum 0
        karpenter_pods_startup_duration_seconds_sum 10
        "#);
    }

    #[test]
    fn what_happens_is_counted_by_the_replica_that_leads() {
        let observed = observed();
        let of = muster_stages::state::NodeLabels {
            pool: "general".to_owned(),
            capacity_type: "spot".to_owned(),
            zone: "a".to_owned(),
        };
        let at = Timestamp::from_second(60).unwrap();
        let change = |condition: &str| {
            Milestone::Condition(Box::new(ConditionChange {
                kind: Kind::NodeClaim,
                name: "general-a".to_owned(),
                of: of.clone(),
                condition: condition.to_owned(),
                before: Some(("Unknown".to_owned(), Timestamp::from_second(40).unwrap())),
                status: "True".to_owned(),
                reason: condition.to_owned(),
                message: String::new(),
                at,
            }))
        };
        let removed = |kind| {
            let (created, deleted) = (Timestamp::from_second(10).ok(), Some(at));
            let terminating = Timestamp::from_second(90).ok();
            Milestone::Removed(Box::new(Removal { kind, of: of.clone(), created, deleted, terminating }))
        };
        let all = [
            change("Registered"),
            change("Drained"),
            change("Interrupted"),
            removed(Kind::Node),
            removed(Kind::NodeClaim),
        ];
        observed.observe(&all);
        assert!(samples(&observed).is_empty(), "another replica leads");
        observed.lead(true);
        observed.observe(&all);
        insta::assert_snapshot!(samples(&observed).join("\n"));
    }
}
