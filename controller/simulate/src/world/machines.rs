//! Machines and their kubelets: instances become nodes, and nodes become ready and are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Pod, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_api::{NodeClaim, labels, taints};
use muster_cloud::{Instance, InstanceState, after};

use super::super::api::{Kind, Path, node_of, seconds};
use super::admission::PATIENCE;
use super::node_faults::boot_id;
use super::{Happening, World};
use crate::trace::Event;

/// Time after which a silent kubelet's node becomes Unknown: `--node-monitor-grace-period`.
const GIVEN_UP: Duration = Duration::from_secs(50);
/// Time for which pods of a removed node are kept: the quarantine of the pod garbage collector.
const QUARANTINE: Duration = Duration::from_secs(40);

/// Launch parameters of an instance.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    /// Claim that it was launched for.
    pub(crate) claim: String,
    /// Price in USD per hour.
    pub(crate) price: f64,
    /// True if it will join as a Node.
    joins: bool,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
}

// === impl World ===

impl World {
    /// Registers an instance that was launched for `claim`, and schedules its joining.
    pub(crate) fn launched(&mut self, instance: &Instance, claim: &NodeClaim, price: f64, joins: bool) {
        let id = instance.provider_id.clone();
        if self.machines.contains_key(&id) {
            return;
        }
        let mut own = claim.metadata.labels.clone().unwrap_or_default();
        own.retain(|key, _| !labels::is_kubelet_forbidden(key));
        let spec = &claim.spec;
        let name = claim.metadata.name.clone().unwrap_or_default();
        let machine = Machine {
            claim: name.clone(),
            price,
            joins,
            labels: own,
            taints: spec.taints.iter().chain(&spec.startup_taints).cloned().collect(),
        };
        if joins {
            let wait = self.dice.about(&format!("join {name}"), self.habits.join);
            let moment = after(instance.launched_at, self.cloud.latencies.boot + wait);
            self.clock.at(moment, Happening::Joins(id.clone()));
        }
        self.machines.insert(id, machine);
    }

    /// Returns true if a machine is running that never becomes a Node.
    pub(crate) fn has_misfits(&self) -> bool {
        let mut has_some = false;
        self.cloud.each(self.clock.now(), |instance, state| {
            let joins = self.machines.get(&instance.provider_id).is_none_or(|machine| machine.joins);
            has_some |= !state.is_ending() && !joins;
        });
        has_some
    }

    /// Creates the Node of an instance, as its kubelet does.
    pub(super) fn join(&mut self, id: &str) {
        let now = self.clock.now();
        let (Ok(instance), Some(machine)) = (self.look_at(id), self.machines.get(id).cloned()) else { return };
        if instance.state.is_ending() {
            return;
        }
        let name = instance.host_name.clone().unwrap_or_default();
        let mut all = instance.labels.clone();
        all.extend(machine.labels.clone());
        all.insert(labels::HOSTNAME.to_owned(), name.clone());
        let mut first = vec![taints::unregistered()];
        first.extend(machine.taints);
        first.push(taint(taints::NOT_READY, taints::NO_SCHEDULE));
        let node = Node {
            metadata: ObjectMeta { name: Some(name.clone()), labels: Some(all), ..ObjectMeta::default() },
            spec: Some(NodeSpec { provider_id: Some(id.to_owned()), taints: Some(first), ..NodeSpec::default() }),
            status: Some(NodeStatus {
                capacity: Some(quantities(&instance.capacity, false)),
                allocatable: Some(quantities(&instance.allocatable, false)),
                conditions: Some(vec![readiness(
                    "False",
                    "KubeletNotReady",
                    "container runtime network not ready",
                    now,
                )]),
                node_info: Some(NodeSystemInfo { boot_id: boot_id(0), ..NodeSystemInfo::default() }),
                ..NodeStatus::default()
            }),
        };
        if self.api.create(node, now).is_ok() {
            self.trace.add(now, Event::Joined { claim: machine.claim.clone(), node: name.clone() });
            let wait = self.dice.about(&format!("ready {}", machine.claim), self.habits.ready);
            self.clock.at(after(now, wait), Happening::Ready(name));
        }
    }

    /// Makes a node ready, as its kubelet does, and schedules the removal of startup taints.
    pub(super) fn become_ready(&mut self, name: &str) {
        let now = self.clock.now();
        let Some(id) = self.provider_id(name) else { return };
        let Ok(instance) = self.look_at(&id) else { return };
        let claim = self.machines.get(&id).map(|machine| machine.claim.clone()).unwrap_or_default();
        let path = Path::bare(name);
        let _gone_already = self.api.update(&Kind::Node, &path, None, |node: &mut Node| {
            let status = node.status.get_or_insert_default();
            status.conditions = Some(vec![readiness("True", "KubeletReady", "kubelet is posting ready status", now)]);
            status.capacity = Some(quantities(&instance.capacity, true));
            status.allocatable = Some(quantities(&instance.allocatable, true));
            without(node, |taint| taint.key == taints::NOT_READY);
        });
        let startup = self.api.claims.get(&Path::bare(claim.clone())).map(|claim| claim.spec.startup_taints.clone());
        for taint in startup.unwrap_or_default() {
            let wait = self.dice.about(&format!("startup {claim} {}", taint.key), self.habits.startup_taint);
            self.clock.at(after(now, wait), Happening::StartupTaintGoes(name.to_owned(), taint.key));
        }
    }

    /// Removes a startup taint, as the component that it waits for does.
    pub(super) fn take_off(&mut self, name: &str, key: &str) {
        let _gone_already = self.api.update(&Kind::Node, &Path::bare(name), None, |node: &mut Node| {
            without(node, |taint| taint.key == key);
        });
    }

    /// Schedules the effects of an instance's termination on the cluster.
    pub(crate) fn ending(&mut self, id: &str) {
        if let Some(node) = self.node_with(id) {
            let moment = after(self.clock.now(), self.cloud.latencies.end + GIVEN_UP);
            self.clock.at(moment, Happening::GivenUp(node));
        }
    }

    /// Marks a node with a silent kubelet as unreachable, as the node controller does.
    pub(super) fn give_up(&mut self, name: &str) {
        let now = self.clock.now();
        let Some(id) = self.provider_id(name) else { return };
        if self.look_at(&id).is_ok_and(|instance| instance.state != InstanceState::Terminated) {
            return;
        }
        let _gone_already = self.api.update(&Kind::Node, &Path::bare(name), None, |node: &mut Node| {
            let status = node.status.get_or_insert_default();
            status.conditions =
                Some(vec![readiness("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.", now)]);
            let all = node.spec.get_or_insert_default().taints.get_or_insert_default();
            if !all.iter().any(|one| one.key == taints::UNREACHABLE) {
                all.push(taint(taints::UNREACHABLE, taints::NO_SCHEDULE));
                all.push(taint(taints::UNREACHABLE, taints::NO_EXECUTE));
            }
        });
        let patience = Duration::from_secs(PATIENCE.unsigned_abs());
        self.clock.at(after(now, patience), Happening::PatienceEnds(name.to_owned()));
    }

    /// Evicts the pods of an unreachable node.
    pub(super) fn end_pods_of(&mut self, name: &str) {
        let now = self.clock.now();
        let is_unreachable = |node: &Node| {
            let all = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
            all.iter().any(|one| one.key == taints::UNREACHABLE && one.effect == taints::NO_EXECUTE)
        };
        if !self.api.nodes.get(&Path::bare(name)).is_some_and(is_unreachable) {
            return;
        }
        let leaves = |pod: &Pod| {
            let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
            node_of(pod) == Some(name)
                && !tolerations.iter().any(|one| {
                    one.toleration_seconds.is_none()
                        && one.key.as_deref().is_none_or(|key| key == taints::UNREACHABLE || key.is_empty())
                })
        };
        let paths: Vec<Path> =
            self.api.pods.iter().filter(|(_, pod)| leaves(pod)).map(|(path, _)| path.clone()).collect();
        for path in paths {
            let _gone_already = self.api.end_pod(&path, None, Duration::from_secs(30), now);
        }
    }

    /// Schedules the removal of the pods of a removed Node.
    pub(super) fn node_has_gone(&mut self, name: &str) {
        let moment = after(self.clock.now(), QUARANTINE);
        self.clock.at(moment, Happening::PodsOfLostNode(name.to_owned()));
    }

    /// Removes pods whose node does not exist.
    pub(super) fn remove_orphans(&mut self, name: &str) {
        if self.api.nodes.get(&Path::bare(name)).is_some() {
            return;
        }
        let lost = |pod: &Pod| node_of(pod) == Some(name);
        let keys: BTreeSet<_> = self
            .api
            .pods
            .iter()
            .filter(|(_, pod)| lost(pod))
            .map(|(path, _)| super::super::api::Key { kind: Kind::Pod, path: path.clone() })
            .collect();
        for key in keys {
            self.api.remove::<Pod>(&key);
        }
    }

    /// Returns the provider ID of a Node, if set.
    pub(crate) fn provider_id(&self, node: &str) -> Option<String> {
        self.api.nodes.get(&Path::bare(node))?.spec.as_ref()?.provider_id.clone()
    }

    /// Returns the name of the Node of an instance.
    pub(crate) fn node_with(&self, id: &str) -> Option<String> {
        let has_id = |node: &&Node| node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == Some(id);
        self.api.nodes.values().find(has_id).and_then(|node| node.metadata.name.clone())
    }

    /// Returns true if the kubelet of a node is running.
    pub(super) fn has_kubelet(&self, node: &str) -> bool {
        let id = self.provider_id(node);
        id.and_then(|id| self.look_at(&id).ok()).is_some_and(|one| one.state != InstanceState::Terminated)
    }

    /// Returns an instance without recording a call of the cloud.
    fn look_at(&self, id: &str) -> Result<Instance, ()> {
        self.cloud.peek(id, self.clock.now()).ok_or(())
    }
}

fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), effect: effect.to_owned(), value: None, time_added: None }
}

fn without(node: &mut Node, goes: impl Fn(&Taint) -> bool) {
    if let Some(all) = node.spec.as_mut().and_then(|spec| spec.taints.as_mut()) {
        all.retain(|taint| !goes(taint));
    }
}

pub(super) fn readiness(status: &str, reason: &str, message: &str, now: jiff::Timestamp) -> NodeCondition {
    NodeCondition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(seconds(now)),
        ..NodeCondition::default()
    }
}

/// Returns quantities as a kubelet reports them: devices only once their plugins run.
fn quantities(all: &BTreeMap<String, String>, with_devices: bool) -> BTreeMap<String, Quantity> {
    let is_device = |resource: &str| resource.contains('/');
    all.iter()
        .filter(|(resource, _)| with_devices || !is_device(resource))
        .map(|(resource, amount)| (resource.clone(), Quantity(amount.clone())))
        .collect()
}
