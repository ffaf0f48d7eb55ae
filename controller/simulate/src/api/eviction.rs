//! Evictions, and the status of the PodDisruptionBudgets that permit them.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use muster_api::annotations::DO_NOT_DISRUPT;
use muster_stages::lifecycle::Eviction;

use super::{Api, Kind, Path, Refused, grace_of, has_ended};

/// Current state of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetState {
    /// Number of pods that it selects and that should exist.
    pub(crate) expected: i32,
    /// Number of these that are ready.
    pub(crate) healthy: i32,
    /// Minimum number of ready pods.
    pub(crate) desired: i32,
}

// === impl BudgetState ===

impl BudgetState {
    /// Returns the number of pods that may be evicted now.
    pub(crate) fn allowed(self) -> i32 {
        (self.healthy - self.desired).max(0)
    }
}

// === impl Api ===

impl Api {
    /// Evicts a pod, and returns the API server's response.
    pub(crate) fn evict(&mut self, path: &Path, uid: &str, now: Timestamp) -> Eviction {
        let Some(pod) = self.pods.get(path) else { return Eviction::Done };
        if pod.metadata.uid.as_deref() != Some(uid) || pod.metadata.deletion_timestamp.is_some() {
            return Eviction::Done;
        }
        let is_to_stay = is_to_stay(pod);
        let grace = Duration::from_secs(grace_of(pod));
        let guards: Vec<(Path, BudgetState)> = self
            .budgets
            .iter()
            .filter(|(of, budget)| of.namespace == path.namespace && selects(budget, pod))
            .map(|(of, budget)| (of.clone(), self.standing(of, budget)))
            .collect();
        // Budgets do not protect terminated pods, nor pods that are not ready.
        if !has_ended(pod) && is_ready(pod) {
            match guards.as_slice() {
                [] => {}
                [(of, standing)] if standing.allowed() == 0 => {
                    return Eviction::Blocked(format!(
                        "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget {} needs \
                         {} healthy pods and has {} currently",
                        of.name, standing.desired, standing.healthy
                    ));
                }
                [_] => {}
                _ => {
                    return Eviction::Ambiguous(
                        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
                            .to_owned(),
                    );
                }
            }
        }
        match self.end_pod(path, Some(uid), grace, now) {
            Ok(()) => {
                self.evicted_in_spite.extend(is_to_stay.then(|| path.clone()));
                Eviction::Done
            }
            Err(Refused::NotFound | Refused::Conflict) => Eviction::Done,
            Err(refused) => Eviction::Failed(format!("{refused:?}")),
        }
    }

    /// Takes the pods that were evicted although their annotation forbids it.
    pub(crate) fn take_evicted_in_spite(&mut self) -> Vec<Path> {
        std::mem::take(&mut self.evicted_in_spite)
    }

    /// Returns the state of a budget from the current pods.
    pub(crate) fn standing(&self, of: &Path, budget: &PodDisruptionBudget) -> BudgetState {
        let chosen = self.pods.iter().filter(|(path, _)| path.namespace == of.namespace).map(|(_, pod)| pod);
        let chosen: Vec<&Pod> = chosen.filter(|pod| selects(budget, pod) && !has_ended(pod)).collect();
        let count = |pods: &dyn Fn(&Pod) -> bool| chosen.iter().filter(|pod| pods(pod)).count() as i64;
        let healthy = count(&|pod| pod.metadata.deletion_timestamp.is_none() && is_ready(pod));
        let expected = self.expected(&chosen);
        let spec = budget.spec.as_ref();
        let share = |amount: &IntOrString| match amount {
            IntOrString::Int(count) => i64::from(*count),
            IntOrString::String(text) => {
                let percent: i32 = text.trim_end_matches('%').parse().unwrap_or(0);
                // Percentages are rounded up, as in Kubernetes' disruption controller.
                (expected * i64::from(percent) + 99) / 100
            }
        };
        let least = spec.and_then(|spec| spec.min_available.as_ref()).map(share);
        let most_away = spec.and_then(|spec| spec.max_unavailable.as_ref()).map(share);
        let desired = least.or_else(|| most_away.map(|most| (expected - most).max(0))).unwrap_or(expected - 1).max(0);
        let figure = |count: i64| i32::try_from(count).unwrap_or(i32::MAX);
        BudgetState { expected: figure(expected), healthy: figure(healthy), desired: figure(desired) }
    }

    /// Updates the status of every budget.
    pub(crate) fn judge_budgets(&mut self) {
        let stands: Vec<(Path, BudgetState)> =
            self.budgets.iter().map(|(path, budget)| (path.clone(), self.standing(path, budget))).collect();
        for (path, standing) in stands {
            let _gone_already = self.update(&Kind::Budget, &path, None, |budget: &mut PodDisruptionBudget| {
                let status = budget.status.get_or_insert_default();
                status.current_healthy = Some(standing.healthy);
                status.desired_healthy = Some(standing.desired);
                status.expected_pods = Some(standing.expected);
                status.disruptions_allowed = Some(standing.allowed());
            });
        }
    }

    /// Returns the number of replicas that the owners of these pods want; each pod without an owner counts as one.
    fn expected(&self, pods: &[&Pod]) -> i64 {
        let mut owners = std::collections::BTreeSet::new();
        let mut expected: i64 = 0;
        for pod in pods {
            let owner = pod.metadata.owner_references.as_deref().and_then(|owners| owners.first());
            match owner {
                None => expected += 1,
                Some(owner) => {
                    let path = Path::new(pod.metadata.namespace.clone().unwrap_or_default(), owner.name.clone());
                    if owners.insert((owner.kind.clone(), path.clone())) {
                        let there = self.others.get(&owner.kind).and_then(|store| store.get(&path));
                        let field = if owner.kind == "Job" { "/spec/parallelism" } else { "/spec/replicas" };
                        let wanted =
                            there.and_then(|there| there.data.pointer(field)).and_then(serde_json::Value::as_i64);
                        expected += wanted.unwrap_or(1).clamp(0, i32::MAX.into());
                    }
                }
            }
        }
        expected
    }
}

/// Returns true if the pod's condition Ready is True.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| matches(selector, pod))
}

fn matches(selector: &LabelSelector, pod: &Pod) -> bool {
    let label = |key: &str| pod.metadata.labels.as_ref().and_then(|labels| labels.get(key));
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| label(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|term| {
            let values = term.values.as_deref().unwrap_or_default();
            let is_among = label(&term.key).is_some_and(|value| values.contains(value));
            match term.operator.as_str() {
                "In" => is_among,
                "NotIn" => !is_among,
                "Exists" => label(&term.key).is_some(),
                _ => label(&term.key).is_none(),
            }
        })
}

/// Returns true if the pod may be deleted when its node's grace period ends, and not be evicted before.
fn is_to_stay(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    !has_ended(pod) && annotations.and_then(|all| all.get(DO_NOT_DISRUPT)).is_some_and(|value| value == "true")
}
