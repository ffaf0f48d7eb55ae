//! Disruption constraints of nodes, pods, pools and budgets, parsed from their objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use muster_api::annotations::{DISRUPTION_COST, DO_NOT_DISRUPT, DO_NOT_REPAIR, REBOOTS, REPLACES};
use muster_api::conditions::nodeclaim;
use muster_api::nodepool::{self, BudgetNodes, ConsolidationPolicy, DisruptionReason};
use muster_api::{Lifetime, Span, events, go_duration};
use muster_scheduling::disrupt::{
    BudgetLimit, Cause, Consolidation, DisruptionBlocker, DisruptionInput, Interruption, ManagedNode, NodeBudget,
    NodePod, PodBudget, Policy, Schedule, Window,
};
use muster_scheduling::labels::NODE_POOL;
use muster_scheduling::model::{Problem, Resource};
use rustc_hash::FxHashMap;
use serde::Deserialize;

use super::Settings;
use super::drift::Drifts;
use super::eviction_cost::eviction_cost;
use super::nodes::{Pairs, has_condition, is_rebooting};
use super::selectors::Selectors;
use super::sort::{Bound, belongs_to_node, is_reschedulable};
use super::{Notice, repair, zonal_shift};
use crate::{Condition, Manifests, Node, NodeClaim, NodePool, Pod};

/// Default maximum age of a node, as in the CRD.
const DEFAULT_EXPIRY: SignedDuration = SignedDuration::from_hours(720);

/// Taints with which other programs announce an interruption by the cloud.
const NOTICES: [&str; 2] =
    ["aws-node-termination-handler/spot-itn", "aws-node-termination-handler/scheduled-maintenance"];

/// Disruption constraints of the nodes of a snapshot.
#[derive(Debug, Clone, Default)]
pub struct ManagedNodes {
    /// Members of pools, by node index of the problem.
    pub nodes: Vec<Option<ManagedNode>>,
    /// Disruption policies, by pool index of the problem.
    pub policies: Vec<Policy>,
    /// PodDisruptionBudgets.
    pub pod_budgets: Vec<PodBudget>,
}

impl ManagedNodes {
    /// Combines it with its problem to the input of disruption decisions.
    pub fn disruption_input(&self, problem: &Problem) -> DisruptionInput {
        self.clone().into_disruption_input(problem.clone())
    }

    /// Combines it with its problem without copying them.
    pub fn into_disruption_input(self, problem: Problem) -> DisruptionInput {
        let Self { nodes, policies, pod_budgets } = self;
        DisruptionInput { problem, managed_nodes: nodes, policies, pod_budgets }
    }
}

// === pods ===

/// PodDisruptionBudgets, and constraints of the pods themselves.
pub(super) struct Guards<'m> {
    by_namespace: FxHashMap<&'m str, Selectors<'m>>,
    budgets: Vec<PodBudget>,
    /// Unreadable annotations, by pod and name: the errors.
    unreadable: BTreeMap<(Arc<str>, &'static str), String>,
    settings: &'m Settings,
}

impl<'m> Guards<'m> {
    pub(super) fn new(manifests: &'m Manifests, settings: &'m Settings) -> Self {
        let mut by_namespace: FxHashMap<&str, Selectors<'_>> = FxHashMap::default();
        for (number, budget) in manifests.disruption_budgets.iter().enumerate() {
            by_namespace.entry(&budget.meta.namespace).or_default().add(number, budget);
        }
        let budgets = manifests.disruption_budgets.iter().map(|budget| PodBudget {
            name: budget.meta.path(),
            allowed: u32::try_from(budget.disruptions_allowed).unwrap_or(0),
        });
        Self { by_namespace, budgets: budgets.collect(), unreadable: BTreeMap::new(), settings }
    }

    /// Returns the notices about annotations that cannot be read.
    pub(super) fn notices(&self) -> impl Iterator<Item = Notice> {
        self.unreadable.iter().map(|((path, annotation), error)| Notice {
            kind: "Pod",
            path: Arc::clone(path),
            reason: match *annotation {
                DO_NOT_DISRUPT => events::INVALID_DO_NOT_DISRUPT_ANNOTATION,
                _ => events::INVALID_DISRUPTION_COST_ANNOTATION,
            },
            message: format!("annotation `{annotation}` is ignored: {error}"),
        })
    }

    /// Returns the constraints on evicting a pod of this priority.
    pub(super) fn node_pod(&mut self, pod: &Pod, priority: i32) -> NodePod {
        let mirror = pod.annotations.get("kubernetes.io/config.mirror").is_some()
            || pod.owner.as_ref().is_some_and(|owner| &*owner.kind == "Node");
        let evictable = !mirror && !pod.deleting;
        let budgets = self.by_namespace.get(&*pod.namespace).filter(|_| evictable);
        let budgets = budgets.map(|budgets| budgets.of(pod)).unwrap_or_default();
        if let Some(cost) = pod.annotations.get(DISRUPTION_COST).filter(|cost| cost.parse::<i32>().is_err()) {
            let error = format!("`{cost}` is not a 32-bit integer");
            self.unreadable.insert((Arc::clone(&pod.path), DISRUPTION_COST), error);
        }
        let started = moment(pod.started.as_deref());
        let hold = self.hold(pod, started);
        NodePod {
            reschedulable: is_reschedulable(pod),
            evictable,
            eviction_cost: eviction_cost(&pod.annotations, priority, self.settings.gates),
            hold,
            budgets,
            started,
            controlled: pod.owner.is_some() || belongs_to_node(pod),
        }
    }

    fn hold(&mut self, pod: &Pod, started: Option<Timestamp>) -> Option<DisruptionBlocker> {
        // One of a daemon goes with its node, as if it could be read.
        if pod.is_unreadable && !belongs_to_node(pod) {
            return Some(DisruptionBlocker::Unreadable);
        }
        let text = pod.annotations.get(DO_NOT_DISRUPT)?;
        match &**text {
            "true" => Some(DisruptionBlocker::Always),
            "false" => None,
            text => match go_duration(text) {
                Ok(span) => {
                    let end = started.zip(SignedDuration::try_from(span).ok());
                    // Before the pod has started, its period has not begun.
                    Some(
                        end.and_then(|(start, span)| start.checked_add(span).ok())
                            .map_or(DisruptionBlocker::Always, DisruptionBlocker::Until),
                    )
                }
                Err(error) => {
                    self.unreadable.insert((Arc::clone(&pod.path), DO_NOT_DISRUPT), error.to_string());
                    None
                }
            },
        }
    }
}

// === nodes and pools ===

/// Collects the disruption constraints of the nodes of `problem`.
pub(super) fn managed_nodes(
    manifests: &Manifests,
    problem: &Problem,
    mut bound: BTreeMap<Arc<str>, Vec<Bound>>,
    guards: Guards<'_>,
    warnings: &mut Vec<String>,
) -> ManagedNodes {
    let unreadable = guards.unreadable.iter();
    warnings.extend(
        unreadable.map(|((path, annotation), error)| {
            format!("annotation `{annotation}` of pod `{path}` is ignored: {error}")
        }),
    );
    let policy_of_repair = guards.settings.repair_policy();
    let pools: FxHashMap<&str, usize> =
        problem.pools.iter().enumerate().map(|(number, pool)| (&*pool.name, number)).collect();
    let manifest_of: FxHashMap<&str, &NodePool> =
        manifests.node_pools.iter().map(|pool| (&*pool.meta.name, pool)).collect();
    let drifts = Drifts::new(manifests, problem);
    let pairs = Pairs::new(manifests);
    let mut managed_nodes: Vec<Option<ManagedNode>> = Vec::with_capacity(problem.nodes.len());
    for (node, claim) in manifests.nodes.iter().zip(&pairs.claim_of_node) {
        let pods = bound.remove(&node.meta.name).unwrap_or_default();
        let Some(claim) = claim else {
            managed_nodes.push(None);
            continue;
        };
        let name = claim.meta.labels.get(NODE_POOL).or_else(|| node.meta.labels.get(NODE_POOL));
        let pool_name = name.cloned().unwrap_or_default();
        let pool = pools.get(&*pool_name).copied();
        let about = pool.and_then(|pool| Some((pool, *manifest_of.get(&*problem.pools[pool].name)?)));
        let says = |key: &str| {
            let mut all = [&node.meta, &claim.meta].into_iter();
            all.any(|meta| meta.annotations.get(key).is_some_and(|value| &**value == "true"))
        };
        managed_nodes.push(Some(ManagedNode {
            pool_name,
            pool,
            ready: condition(&node.conditions, "Ready").is_none_or(|ready| &*ready.status == "True"),
            created: moment(claim.meta.created.as_deref()),
            initialized: true_since(&claim.conditions, "Initialized").filter(|_| !is_rebooting(claim)),
            consolidatable: is_consolidatable(claim),
            last_pod_event: moment(claim.last_pod_event.as_deref()),
            drifted: drifts.of(node, claim, about),
            expire_after: expiry(claim),
            drain_is_bounded: claim.termination_grace_period.is_some(),
            interrupted: interruption(node, claim),
            repair_conditions: if is_rebooting(claim) {
                Vec::new()
            } else {
                repair::repair_conditions(node, &claim.class.kind, policy_of_repair, rebooted(claim))
            },
            do_not_repair: says(DO_NOT_REPAIR),
            rebooting: is_rebooting(claim),
            reboots: reboots(claim),
            instance_ends: has_condition(&claim.conditions, nodeclaim::INSTANCE_TERMINATING),
            do_not_disrupt: says(DO_NOT_DISRUPT),
            closed_zone: zonal_shift::of(manifests, problem, node, claim)
                .filter(|_| !about.is_some_and(|(_, manifest)| zonal_shift::drains(manifest)))
                .map(Into::into),
            nominated_by: pods.iter().find(|pod| pod.nominated).map(|pod| Arc::clone(&pod.pod.name)),
            launched_for: launched_for(claim, node),
            keeps_until: None,
            is_replacement: claim.meta.annotations.get(REPLACES).is_some(),
            node_pods: pods.into_iter().map(|pod| pod.node_pod).collect(),
        }));
    }
    // Claims whose Nodes do not exist yet.
    managed_nodes.resize(problem.nodes.len(), None);
    let policy = |pool: &str| manifest_of.get(pool).map(|manifest| policy(manifest, warnings)).unwrap_or_default();
    let policies = problem.pools.iter().map(|pool| &*pool.name).map(policy).collect();
    ManagedNodes { nodes: managed_nodes, policies, pod_budgets: guards.budgets }
}

/// Returns the share of the node that the pods and daemons it was launched for request.
fn launched_for(claim: &NodeClaim, node: &Node) -> f64 {
    let share =
        |resource: &Resource| claim.requests.get(resource) as f64 / node.allocatable.get(resource).max(1) as f64;
    share(&Resource::Cpu).max(share(&Resource::Memory))
}

/// Returns true if the condition Consolidatable is true and newer than the last arrival or departure of a pod.
fn is_consolidatable(claim: &NodeClaim) -> bool {
    let since = true_since(&claim.conditions, "Consolidatable");
    let is_stale = since.zip(moment(claim.last_pod_event.as_deref())).is_some_and(|(since, event)| since < event);
    has_condition(&claim.conditions, "Consolidatable") && !is_stale
}

pub(super) fn condition<'c>(conditions: &'c [Condition], kind: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| &*condition.kind == kind)
}

pub(super) fn true_since(conditions: &[Condition], kind: &str) -> Option<Timestamp> {
    let condition = condition(conditions, kind).filter(|condition| &*condition.status == "True")?;
    moment(condition.since.as_deref())
}

pub(super) fn moment(text: Option<&str>) -> Option<Timestamp> {
    text?.parse().ok()
}

fn expiry(claim: &NodeClaim) -> Option<SignedDuration> {
    let Some(text) = &claim.expire_after else { return Some(DEFAULT_EXPIRY) };
    let lifetime: Lifetime = text.parse().ok()?;
    lifetime.duration().and_then(|duration| SignedDuration::try_from(duration).ok())
}

/// Returns the end of the claim's last reboot.
fn rebooted(claim: &NodeClaim) -> Option<Timestamp> {
    let ended = condition(&claim.conditions, nodeclaim::REBOOTING).filter(|told| &*told.status == "False")?;
    moment(ended.since.as_deref())
}

/// Returns the times of the claim's reboots by Muster.
fn reboots(claim: &NodeClaim) -> Vec<Timestamp> {
    let told = claim.meta.annotations.get(REBOOTS).map(|told| &**told).unwrap_or_default();
    told.split(',').filter_map(|time| moment(Some(time.trim()))).collect()
}

fn interruption(node: &Node, claim: &NodeClaim) -> Option<Interruption> {
    if let Some(told) = condition(&claim.conditions, "Interrupted").filter(|told| &*told.status == "True") {
        let notice = if told.reason.is_empty() { "Interrupted".into() } else { Arc::clone(&told.reason) };
        return Some(Interruption { since: moment(told.since.as_deref()), notice });
    }
    let taint = node.taints.iter().find(|taint| NOTICES.contains(&&*taint.key))?;
    Some(Interruption { since: None, notice: Arc::clone(&taint.key) })
}

// === policies ===

fn policy(pool: &NodePool, warnings: &mut Vec<String>) -> Policy {
    let disruption = pool.object.pointer("/spec/disruption").map(nodepool::Disruption::deserialize);
    // The CRD has validated it; missing fields have their defaults.
    let nodepool::Disruption { consolidate_after, consolidation_policy, budgets } =
        disruption.and_then(Result::ok).unwrap_or_default();
    let consolidation = match consolidation_policy {
        ConsolidationPolicy::WhenEmpty => Consolidation::WhenEmpty,
        ConsolidationPolicy::WhenEmptyOrUnderutilized => Consolidation::WhenEmptyOrUnderutilized,
        ConsolidationPolicy::Balanced => Consolidation::Balanced,
    };
    let name = &pool.meta.name;
    Policy {
        consolidate_after: consolidate_after.duration().and_then(|after| SignedDuration::try_from(after).ok()),
        consolidation,
        budgets: budgets.iter().map(|budget| node_budget(name, budget, warnings)).collect(),
        rests_until: None,
    }
}

fn node_budget(pool: &str, budget: &nodepool::Budget, warnings: &mut Vec<String>) -> NodeBudget {
    let nodes = match budget.parsed_nodes() {
        Some(BudgetNodes::Count(count)) => BudgetLimit::Count(count),
        Some(BudgetNodes::Percent(percent)) => BudgetLimit::Percent(u64::from(percent)),
        None => BudgetLimit::Count(0),
    };
    let window = match (&budget.schedule, budget.duration) {
        _ if budget.parsed_nodes().is_none() => {
            let nodes = &budget.nodes;
            let why = format!("`nodes: {nodes}` is more than can be counted");
            warnings.push(format!("{why} in a budget of NodePool `{pool}`, so the budget allows no disruption"));
            Window::Unreadable(why.into())
        }
        (Some(schedule), Some(Span(duration))) => match Schedule::parse(schedule) {
            Ok(schedule) => Window::After(schedule, SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)),
            Err(error) => {
                warnings.push(format!(
                    "schedule `{schedule}` of a budget of NodePool `{pool}` cannot be read ({error}), so the budget allows no disruption"
                ));
                Window::Unreadable(format!("its schedule cannot be read: {error}").into())
            }
        },
        _ => Window::Always,
    };
    let cause = |reason: &DisruptionReason| match reason {
        DisruptionReason::Empty => Cause::Empty,
        DisruptionReason::Underutilized => Cause::Underutilized,
        DisruptionReason::Drifted => Cause::Drifted,
        DisruptionReason::Unhealthy => Cause::Unhealthy,
    };
    NodeBudget { nodes, causes: budget.reasons.iter().map(cause).collect(), window }
}
