//! kube-scheduler, and the DaemonSet controller.
//!
//! The rules are those of the engine ([`muster_scheduling::schedule`]: filters and scores of the default profile), but
//! applied to the actual cluster, not to the autoscaler's planned one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodTemplateSpec};
use muster_api::{decode, taints};
use muster_manifest::InputError;
use muster_manifest::snapshot::{self, Settings, runs_on};
use muster_scheduling::model::{Catalogue, Problem};
use muster_scheduling::{Waiting, schedule};
use muster_stages::state::{self, Cluster};
use serde_json::Value;

use super::super::api::{Api, Key, Kind, Path, has_ended, node_of, seconds};
use super::volumes;
use super::workloads::{owner, pod_of, tolerates};

/// Name of the default scheduler.
const NAME: &str = "default-scheduler";

/// State of the scheduler.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scheduler {
    cluster: Cluster,
    /// True if something has changed since its last run.
    is_due: bool,
    /// True if a node may need daemons.
    has_new_ground: bool,
}

// === impl Scheduler ===

impl Scheduler {
    /// Applies a change.
    pub(crate) fn see(&mut self, api: &Api, key: &Key) {
        let Some(kind) = kind_of(&key.kind) else { return };
        let path = key.path.to_string();
        let changed = match api.json(key) {
            None => self.cluster.remove(kind, &path),
            Some(mut object) => {
                strip(&key.kind, &mut object);
                self.cluster.apply_object(kind, &object)
            }
        };
        self.is_due |= !changed.is_empty();
        self.has_new_ground |= !changed.is_empty() && matches!(kind, state::Kind::Node | state::Kind::DaemonSet);
    }

    /// Creates the daemons of nodes, binds pods, and marks those that cannot be bound. Returns the number of pods
    /// bound.
    pub(crate) fn tick(&mut self, api: &mut Api, settings: &Settings, now: Timestamp) -> Result<usize, InputError> {
        if !std::mem::take(&mut self.is_due) {
            return Ok(0);
        }
        let mut queue: Vec<(Reverse<i32>, String, Path)> = api
            .pods
            .iter()
            .filter(|(_, pod)| is_waiting(pod))
            .map(|(path, pod)| {
                let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
                (Reverse(priority), pod.metadata.uid.clone().unwrap_or_default(), path.clone())
            })
            .collect();
        let has_new_ground = std::mem::take(&mut self.has_new_ground);
        if queue.is_empty() && !has_new_ground {
            return Ok(0);
        }
        let manifests = self.cluster.manifests();
        let problem = snapshot::assemble(&manifests, settings, &|_| Catalogue::default())?.problem;
        if has_new_ground {
            give_daemons(api, &problem, now);
        }
        queue.sort();
        let numbers: BTreeMap<&str, usize> =
            problem.pods.iter().enumerate().map(|(number, pod)| (&*pod.name, number)).collect();
        let nodes: BTreeMap<&str, usize> =
            problem.nodes.iter().enumerate().map(|(number, node)| (&*node.name, number)).collect();
        let hint = |path: &Path| {
            let name = api.pods.get(path)?.status.as_ref()?.nominated_node_name.as_deref()?;
            nodes.get(name).copied()
        };
        let mut order: Vec<(Path, Waiting)> = Vec::new();
        for (_, _, path) in queue {
            if let Some(&pod) = numbers.get(path.to_string().as_str()) {
                let hint = hint(&path);
                order.push((path, Waiting { pod, hint }));
            }
        }
        // Nominated pods come first among those of equal priority, so that they get the room reserved for them.
        order.sort_by_key(|(path, waiting)| {
            let priority = api.pods.get(path).and_then(|pod| pod.spec.as_ref()?.priority).unwrap_or(0);
            (Reverse(priority), waiting.hint.is_none())
        });
        let waiting: Vec<Waiting> = order.iter().map(|(_, waiting)| *waiting).collect();
        let mut bound = 0;
        for ((path, _), place) in order.iter().zip(schedule(&problem, &waiting)) {
            match place {
                Some(node) => {
                    bind(api, path, &problem.nodes[node].name, now);
                    bound += 1;
                }
                None => mark_unschedulable(api, path, problem.nodes.len(), now),
            }
        }
        Ok(bound)
    }
}

/// Returns true if the scheduler has to find a node for the pod.
pub(crate) fn is_waiting(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    node_of(pod).is_none()
        && !has_ended(pod)
        && pod.metadata.deletion_timestamp.is_none()
        && spec.scheduling_gates.as_deref().unwrap_or_default().is_empty()
        && spec.scheduler_name.as_deref().is_none_or(|name| name.is_empty() || name == NAME)
}

/// Returns the kind in the scheduler's state; none for kinds that it does not watch.
fn kind_of(kind: &Kind) -> Option<state::Kind> {
    Some(match kind {
        Kind::Pod => state::Kind::Pod,
        Kind::Node => state::Kind::Node,
        Kind::VolumeClaim => state::Kind::PersistentVolumeClaim,
        Kind::Volume => state::Kind::PersistentVolume,
        Kind::NodeClaim | Kind::NodePool | Kind::Budget | Kind::Attachment => return None,
        Kind::Other(name) => return state::Kind::named(name).filter(|_| !name.ends_with("NodeClass")),
    })
}

/// Removes fields that the engine interprets for autoscaling.
fn strip(kind: &Kind, object: &mut Value) {
    match kind {
        Kind::Node => {
            if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                meta.remove("deletionTimestamp");
            }
        }
        Kind::Pod => {
            if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
                status.remove("nominatedNodeName");
            }
        }
        _ => {}
    }
}

fn bind(api: &mut Api, path: &Path, node: &str, now: Timestamp) {
    let _gone_already = api.update(&Kind::Pod, path, None, |pod: &mut Pod| {
        pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
        set_condition(pod, "PodScheduled", "True", "", "", now);
    });
    if let Some(pod) = api.pods.get(path).cloned() {
        volumes::provision(api, &pod, node, now);
    }
}

fn mark_unschedulable(api: &mut Api, path: &Path, nodes: usize, now: Timestamp) {
    let is_marked = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        conditions.iter().any(|one| one.type_ == "PodScheduled" && one.reason.as_deref() == Some("Unschedulable"))
    };
    if api.pods.get(path).is_none_or(is_marked) {
        return;
    }
    let message = format!("0/{nodes} nodes are available");
    let _gone_already = api.update(&Kind::Pod, path, None, |pod: &mut Pod| {
        set_condition(pod, "PodScheduled", "False", "Unschedulable", &message, now);
    });
}

/// Sets a condition of a pod; its transition time changes only with its status.
pub(crate) fn set_condition(pod: &mut Pod, kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) {
    let all = pod.status.get_or_insert_default().conditions.get_or_insert_default();
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let before = all.iter().find(|one| one.type_ == kind && one.status == status);
    let since = before.and_then(|before| before.last_transition_time.clone()).unwrap_or_else(|| seconds(now));
    all.retain(|one| one.type_ != kind);
    all.push(PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: some(reason),
        message: some(message),
        last_transition_time: Some(since),
        ..PodCondition::default()
    });
}

/// Runs the DaemonSet controller: creates one pod of each DaemonSet on every node that it may run on.
fn give_daemons(api: &mut Api, problem: &Problem, now: Timestamp) {
    let Some(sets) = api.others.get("DaemonSet") else { return };
    let mut there: BTreeSet<(String, String)> = BTreeSet::new();
    for pod in api.pods.values() {
        let owner = pod.metadata.owner_references.as_deref().and_then(|owners| owners.first());
        if let (Some(owner), Some(node)) = (owner, node_of(pod)) {
            there.insert((owner.uid.clone(), node.to_owned()));
        }
    }
    let mut made = Vec::new();
    for daemon in &problem.daemons {
        let Some((path, set)) = sets.iter().find(|(path, _)| path.to_string() == *daemon.name) else { continue };
        let uid = set.metadata.uid.clone().unwrap_or_default();
        let Some(template) = set.data.pointer("/spec/template") else { continue };
        let Ok(template) = decode::<PodTemplateSpec>(template) else { continue };
        for node in &problem.nodes {
            let is_leaving =
                api.nodes.get(&Path::bare(&*node.name)).is_none_or(|node| node.metadata.deletion_timestamp.is_some());
            let is_there = there.contains(&(uid.clone(), node.name.to_string()));
            if is_leaving || is_there || !runs_on(&problem.specs[daemon.spec], node) {
                continue;
            }
            let name = Path::new(path.namespace.clone(), format!("{}-{}", path.name, node.name));
            let mut pod = pod_of(api, &template, &name, owner("apps/v1", "DaemonSet", &path.name, &uid));
            let spec = pod.spec.get_or_insert_default();
            spec.node_name = Some(node.name.to_string());
            let tolerations = spec.tolerations.get_or_insert_default();
            tolerations.retain(|one| one.toleration_seconds.is_none());
            for key in [taints::NOT_READY, taints::UNREACHABLE] {
                tolerations.push(tolerates(key, taints::NO_EXECUTE, None));
            }
            for pressure in ["disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"] {
                let key = format!("node.kubernetes.io/{pressure}");
                tolerations.push(tolerates(&key, taints::NO_SCHEDULE, None));
            }
            set_condition(&mut pod, "PodScheduled", "True", "", "", now);
            made.push(pod);
        }
    }
    for pod in made {
        let _there_already = api.create(pod, now);
    }
}
