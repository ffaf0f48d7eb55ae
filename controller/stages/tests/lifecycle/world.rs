//! Everything around the controller: kubelets, drivers, budgets, people, and the clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_api::nodeclaim::ResourceRequests;
use muster_api::{
    Lifetime, NodeClaim, NodeClaimSpec, NodeClassReference, Quantities, Span, annotations, labels, taints,
};
use muster_cloud::{Alternative, CapacityType, Instance, InstanceState, Memory, Offering, after};
use muster_stages::lifecycle::{
    Attachment, Class, DisruptionBlocker, MetaChange, Readiness, Resident, Status, Subject,
};

use super::api::{Api, Pod};
use super::edge::Edge;

const STARTUP: &str = "ebs.csi.aws.com/agent-not-ready";
/// How often the cloud's list is looked through.
const COLLECT: u64 = 120;

/// How the world behaves; seconds.
#[derive(Debug, Clone)]
pub(crate) struct Habits {
    /// From running to the Node; absent is never.
    pub(crate) joins: Option<u64>,
    /// From the Node to Ready; absent is never.
    pub(crate) ready: Option<u64>,
    /// From the Node until the startup taint is taken off; absent is never.
    pub(crate) startup: Option<u64>,
    /// Whether the Node gets what the claim requests.
    pub(crate) has_resource: bool,
    /// Until when a budget protects the pods.
    pub(crate) budget: Option<u64>,
    /// Whether a pod is never ended by its kubelet.
    pub(crate) has_stuck_pod: bool,
    /// From the end of its pod until a volume leaves; absent is never.
    pub(crate) volume: Option<u64>,
    /// From the launch until the instance ends by itself; absent is never.
    pub(crate) dies: Option<u64>,
    /// Whether a pod keeps its node.
    pub(crate) has_hold: bool,
    /// From a reboot until the kubelet reports another boot; absent is never.
    pub(crate) boots: Option<u64>,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            joins: Some(20),
            ready: Some(10),
            startup: Some(15),
            has_resource: true,
            budget: None,
            has_stuck_pod: false,
            volume: Some(5),
            dies: None,
            has_hold: false,
            boots: Some(40),
        }
    }
}

/// What people do.
#[derive(Debug, Clone)]
pub(crate) enum Deed {
    Create(&'static str),
    Delete(&'static str),
    DeleteNodes,
    ChangeClass(&'static str),
    Annotate(&'static str, &'static str),
    /// Says of a claim that its node is to be left alone.
    DisruptionBlocker(&'static str),
    /// Asks for the reboot of a claim's node, drained for at most so many seconds.
    Reboot(&'static str, Option<u64>),
    /// Pauses disruption.
    Pause,
    /// From now on the world behaves otherwise.
    Behave(Box<Habits>),
    /// Nothing can be bought any more.
    SellOut,
}

#[derive(Debug, Clone)]
enum Happening {
    Deed(usize),
    Join(Box<Instance>),
    Ready(String),
    StartupTaintLeaves(String),
    Bind(String),
    PodEnds(String),
    VolumeLeaves(String),
    KubeletDies(String),
    Boots(String, usize),
    InstanceDies(String),
    Collect,
    Look,
}

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) api: Api,
    pub(crate) cloud: Memory,
    pub(crate) edge: Edge,
    pub(crate) now: Timestamp,
    pub(crate) habits: Habits,
    pub(crate) offered: Vec<Alternative>,
    pub(crate) grace: Option<u64>,
    pub(crate) startup_wait: Lifetime,
    pub(crate) restarts: usize,
    /// For how long the controller is away when it was killed.
    pub(crate) downtime: u64,
    /// UIDs of claims that were let go before their instance had ended.
    pub(crate) let_go_too_early: BTreeSet<String>,
    /// What people do, and when; done in the order in which it stands here if at the same moment.
    pub(crate) deeds: Vec<(u64, Deed)>,
    done: BTreeSet<usize>,
    joined: BTreeSet<String>,
    bound: BTreeSet<String>,
    pod_ended: BTreeMap<String, Timestamp>,
    collected: Timestamp,
    /// When the controller is back after it was killed.
    back_at: Timestamp,
}

pub(crate) fn at(seconds: u64) -> Timestamp {
    after(Timestamp::UNIX_EPOCH, Duration::from_secs(seconds))
}

pub(crate) fn offering(instance_type: &str, capacity_type: CapacityType) -> Offering {
    Offering {
        instance_type: instance_type.to_owned(),
        zone: "eu-west-1a".to_owned(),
        capacity_type,
        reservation: None,
    }
}

/// The boot of a machine that was rebooted so many times.
fn boot_id(reboots: usize) -> String {
    format!("boot-{reboots}")
}

fn startup_taint() -> Taint {
    Taint { key: STARTUP.to_owned(), effect: taints::NO_EXECUTE.to_owned(), value: None, time_added: None }
}

fn condition(status: &str, reason: &str) -> NodeCondition {
    NodeCondition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(String::new()),
        ..NodeCondition::default()
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let reference = NodeClassReference {
            group: labels::AWS_GROUP.to_owned(),
            kind: "EC2NodeClass".to_owned(),
            name: "default".to_owned(),
        };
        let class = Class {
            reference,
            meta: ObjectMeta {
                name: Some("default".to_owned()),
                uid: Some("class".to_owned()),
                ..ObjectMeta::default()
            },
            conditions: Vec::new(),
            readiness: Readiness::Ready,
            hash: "1".to_owned(),
            bootstrap_fault: None,
            hands_over_taints: true,
            tags_instances: true,
            reboots_instances: true,
            block_ends: BTreeMap::new(),
        };
        let mut api = Api::default();
        api.class = Some(class);
        api.change_class(|_| {});
        let alternative = |(name, capacity_type, price)| Alternative { offering: offering(name, capacity_type), price };
        let mut cloud = Memory::default();
        let gpu = BTreeMap::from([("nvidia.com/gpu".to_owned(), "1".to_owned())]);
        cloud.resources = ["a", "b", "c"].into_iter().map(|name| (name.to_owned(), gpu.clone())).collect();
        Self {
            api,
            cloud,
            edge: Edge::default(),
            now: at(0),
            habits: Habits::default(),
            offered: [
                ("a", CapacityType::Spot, 0.1),
                ("b", CapacityType::Spot, 0.2),
                ("a", CapacityType::OnDemand, 0.3),
                ("c", CapacityType::OnDemand, 0.4),
            ]
            .into_iter()
            .map(alternative)
            .collect(),
            grace: None,
            startup_wait: Lifetime::Never,
            restarts: 0,
            downtime: 0,
            let_go_too_early: BTreeSet::new(),
            back_at: at(0),
            deeds: Vec::new(),
            done: BTreeSet::new(),
            joined: BTreeSet::new(),
            bound: BTreeSet::new(),
            pod_ended: BTreeMap::new(),
            collected: at(0),
        }
    }

    /// Lets everything happen until that second. The controller is started again whenever it is killed.
    pub(crate) fn run(&mut self, until: u64) {
        while self.advance(until) {}
    }

    /// Lets everything happen that follows now, and what comes next. Returns false if nothing does until that second.
    pub(crate) fn advance(&mut self, until: u64) -> bool {
        self.settle();
        self.check();
        let Some((moment, happening)) = self.next().filter(|(moment, _)| *moment <= at(until)) else { return false };
        self.now = self.now.max(moment);
        self.happen(happening);
        true
    }

    /// Instances that have not ended.
    pub(crate) fn alive(&self) -> Vec<Instance> {
        let mut all = self.cloud.everything(self.now);
        all.retain(|one| !one.state.is_ending());
        all
    }

    pub(crate) fn claim(&self, name: &str) -> &NodeClaim {
        &self.api.claims[name]
    }

    pub(crate) fn condition(&self, name: &str, kind: &str) -> (String, String, String) {
        muster_stages::lifecycle::condition(self.claim(name), kind)
            .map(|one| (one.status.clone(), one.reason.clone(), one.message.clone()))
            .unwrap_or_default()
    }

    pub(crate) fn events(&self, reason: &str) -> Vec<&str> {
        self.api.events.iter().filter(|one| one.reason == reason).map(|one| one.message.as_str()).collect()
    }

    /// What must hold at every moment.
    fn check(&mut self) {
        let mut claims = BTreeSet::new();
        for one in self.cloud.everything(self.now) {
            if one.state == InstanceState::Terminated {
                continue;
            }
            let uid = one.token.map(|token| token.claim_uid).unwrap_or_default();
            if !self.api.claims.values().any(|claim| claim.metadata.uid.as_ref() == Some(&uid)) {
                self.let_go_too_early.insert(uid.clone());
            }
            assert!(
                one.state.is_ending() || claims.insert(uid.clone()),
                "two instances for claim {uid} at {}\n{}",
                self.now,
                self.diary()
            );
        }
        for node in self.api.nodes.values() {
            let is_registered = node.metadata.labels.as_ref().is_some_and(|all| all.contains_key(labels::REGISTERED));
            let is_held = node.metadata.finalizers.as_ref().is_some_and(|all| !all.is_empty());
            let is_unregistered = node
                .spec
                .as_ref()
                .and_then(|spec| spec.taints.as_ref())
                .is_some_and(|all| all.iter().any(|taint| taint.key == taints::UNREGISTERED));
            assert!(!is_registered || is_held || node.metadata.deletion_timestamp.is_some(), "{}", self.diary());
            assert!(!(is_registered && is_unregistered), "registered in two writes\n{}", self.diary());
        }
        super::disruptions::check(self);
    }

    pub(crate) fn diary(&self) -> String {
        self.edge.told()
    }

    fn settle(&mut self) {
        // Each blow falls once, so this ends.
        while self.now >= self.back_at {
            if self.edge.settle(&mut self.api, &mut self.cloud, &self.offered, self.now).is_ok() {
                return;
            }
            self.restart();
        }
    }

    fn restart(&mut self) {
        self.edge.restart();
        self.back_at = after(self.now, Duration::from_secs(self.downtime));
        self.restarts += 1;
    }

    fn next(&self) -> Option<(Timestamp, Happening)> {
        let mut due: Vec<(Timestamp, Happening)> = Vec::new();
        for (number, (second, _)) in self.deeds.iter().enumerate().filter(|(number, _)| !self.done.contains(number)) {
            due.push((at(*second), Happening::Deed(number)));
        }
        let seconds = Duration::from_secs;
        for instance in self.cloud.everything(self.now) {
            if instance.state == InstanceState::Terminated {
                continue;
            }
            if let (Some(joins), false) = (self.habits.joins, self.joined.contains(&instance.provider_id)) {
                let moment = after(instance.launched_at, self.cloud.latencies.boot + seconds(joins));
                due.push((moment, Happening::Join(Box::new(instance.clone()))));
            }
            if let (Some(dies), false) = (self.habits.dies, instance.state.is_ending()) {
                due.push((after(instance.launched_at, seconds(dies)), Happening::InstanceDies(instance.provider_id)));
            }
        }
        for (name, node) in &self.api.nodes {
            let made_at = node.metadata.creation_timestamp.as_ref().unwrap().0;
            let id = node.spec.as_ref().unwrap().provider_id.clone().unwrap();
            let everything = self.cloud.everything(self.now);
            let is_dead = everything.iter().any(|one| one.provider_id == id && one.state == InstanceState::Terminated);
            let reboots = self.cloud.reboots(&id);
            let boot = boot_id(reboots.len());
            let has_booted = node.status.as_ref().and_then(|status| status.node_info.as_ref()).map(|it| &it.boot_id);
            if let (Some(boots), Some(last), true) = (self.habits.boots, reboots.last(), has_booted != Some(&boot)) {
                due.push((after(*last, seconds(boots)), Happening::Boots(name.clone(), reboots.len())));
            }
            let conditions = node.status.as_ref().unwrap().conditions.as_ref().unwrap();
            let is_ready = conditions.iter().any(|one| one.status == "True");
            let all = node.spec.as_ref().unwrap().taints.clone().unwrap_or_default();
            if is_dead {
                if is_ready {
                    due.push((self.now, Happening::KubeletDies(name.clone())));
                }
                continue;
            }
            if let (Some(ready), false) = (self.habits.ready, is_ready) {
                due.push((after(made_at, seconds(ready)), Happening::Ready(name.clone())));
            }
            if let (Some(startup), true) = (self.habits.startup, all.iter().any(|taint| taint.key == STARTUP)) {
                due.push((after(made_at, seconds(startup)), Happening::StartupTaintLeaves(name.clone())));
            }
            let is_initialized = node.metadata.labels.as_ref().is_some_and(|all| all.contains_key(labels::INITIALIZED));
            let takes_pods = is_initialized && node.metadata.deletion_timestamp.is_none();
            if takes_pods && !self.bound.contains(name) {
                due.push((after(self.now, seconds(1)), Happening::Bind(name.clone())));
            }
        }
        for (uid, pod) in &self.api.pods {
            if let (Some(end), false) = (pod.resident.deleted_at, pod.is_stuck) {
                due.push((end, Happening::PodEnds(uid.clone())));
            }
        }
        for one in &self.api.attachments {
            if let (Some(volume), Some(ended)) = (self.habits.volume, self.pod_ended.get(&one.volume)) {
                due.push((after(*ended, seconds(volume)), Happening::VolumeLeaves(one.volume.clone())));
            }
        }
        due.push((after(self.collected, seconds(COLLECT)).max(self.back_at), Happening::Collect));
        due.extend(self.edge.next_look().map(|moment| (moment, Happening::Look)));
        if self.now < self.back_at {
            due.push((self.back_at, Happening::Look));
        }
        due.into_iter().min_by_key(|(moment, _)| *moment)
    }

    fn happen(&mut self, happening: Happening) {
        let now = self.now;
        match happening {
            Happening::Deed(number) => {
                self.done.insert(number);
                self.act(self.deeds[number].1.clone());
            }
            Happening::Join(instance) => self.join(*instance),
            Happening::Ready(node) => {
                let has_resource = self.habits.has_resource;
                self.api.change_node(&node, |node| {
                    let status = node.status.as_mut().unwrap();
                    status.conditions = Some(vec![condition("True", "KubeletReady")]);
                    let gpus = if has_resource { "1" } else { "0" };
                    status.allocatable =
                        Some(BTreeMap::from([("nvidia.com/gpu".to_owned(), Quantity(gpus.to_owned()))]));
                });
            }
            Happening::StartupTaintLeaves(node) => self.api.change_node(&node, |node| {
                node.spec.as_mut().unwrap().taints.as_mut().unwrap().retain(|taint| taint.key != STARTUP);
            }),
            Happening::Bind(node) => self.bind(&node),
            Happening::PodEnds(uid) => {
                if let Some(pod) = self.api.pods.remove(&uid) {
                    for volume in pod.resident.volumes {
                        self.pod_ended.insert(volume, now);
                    }
                }
                self.api.changes += 1;
            }
            Happening::VolumeLeaves(volume) => {
                self.api.attachments.retain(|one| one.volume != volume);
                self.api.changes += 1;
            }
            Happening::KubeletDies(node) => self.api.change_node(&node, |node| {
                node.status.as_mut().unwrap().conditions = Some(vec![condition("Unknown", "NodeStatusUnknown")]);
            }),
            Happening::Boots(node, count) => self.api.change_node(&node, |node| {
                node.status.as_mut().unwrap().node_info.as_mut().unwrap().boot_id = boot_id(count);
            }),
            Happening::InstanceDies(id) => {
                self.cloud.interrupt(&id, "Client.InvalidKMSKey.InvalidState: the key is disabled", now);
            }
            Happening::Collect => {
                self.collected = now;
                if self.edge.collect(&mut self.api, &mut self.cloud, now).is_err() {
                    self.restart();
                }
            }
            Happening::Look => {}
        }
    }

    fn act(&mut self, deed: Deed) {
        match deed {
            Deed::Create(name) => {
                let spec = NodeClaimSpec {
                    node_class_ref: self.api.class.as_ref().unwrap().reference.clone(),
                    startup_taints: vec![startup_taint()],
                    resources: ResourceRequests {
                        requests: Quantities::from([("nvidia.com/gpu".to_owned(), Quantity("1".to_owned()))]),
                    },
                    termination_grace_period: self.grace.map(Span::from_secs),
                    expire_after: self.startup_wait,
                    ..NodeClaimSpec::default()
                };
                let mut claim = NodeClaim::new(name, spec);
                claim.metadata.labels = Some(BTreeMap::from([(labels::NODEPOOL.to_owned(), "default".to_owned())]));
                self.api.create_claim(claim, self.now);
            }
            Deed::Delete(name) => {
                if let Some(uid) = self.api.claims.get(name).and_then(|claim| claim.metadata.uid.clone()) {
                    let _ = self.api.delete_claim(name, &uid, self.now);
                }
            }
            Deed::DeleteNodes => {
                let all: Vec<Node> = self.api.nodes.values().cloned().collect();
                for node in all {
                    let (name, uid) = (node.metadata.name.unwrap(), node.metadata.uid.unwrap());
                    let _ = self.api.delete_node(&name, &uid, self.now);
                }
            }
            Deed::ChangeClass(hash) => self.api.change_class(|class| class.hash = hash.to_owned()),
            Deed::DisruptionBlocker(name) => {
                let version = self.api.claims[name].metadata.resource_version.clone().unwrap();
                let change = MetaChange::default().annotation(annotations::DO_NOT_DISRUPT, "true");
                self.api.claim_meta(name, &version, &change).unwrap();
            }
            Deed::Reboot(name, grace) => self.reboot(name, grace),
            Deed::Pause => {
                self.edge.pause.disruption = true;
                self.api.changes += 1;
            }
            Deed::Behave(habits) => self.habits = *habits,
            Deed::SellOut => {
                let all = self.offered.iter().map(|one| (one.offering.clone(), 0));
                self.cloud.capacity.extend(all);
            }
            Deed::Annotate(key, value) => self.api.change_class(|class| {
                class.meta.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
            }),
        }
    }

    /// As disruption does, if the node is one that may be rebooted.
    fn reboot(&mut self, name: &str, grace: Option<u64>) {
        let Some(claim) = self.api.claims.get(name).cloned() else { return };
        if !muster_stages::lifecycle::is_true(&claim, "Initialized") || claim.metadata.deletion_timestamp.is_some() {
            return;
        }
        let version = claim.metadata.resource_version.clone().unwrap();
        let key = annotations::REBOOT_TERMINATION_GRACE_PERIOD;
        let change = match grace {
            Some(grace) => MetaChange::default().annotation(key, format!("{grace}s")),
            None => MetaChange::default().without_annotation(key),
        };
        let version = self.api.claim_meta(name, &version, &change).unwrap();
        let mut status = claim.status.unwrap();
        let reason = muster_api::conditions::reason::REBOOT_REQUESTED;
        let message = "rebooting for AcceleratedHardwareReady/XID48";
        let wanted = muster_stages::lifecycle::judged("Rebooting", Status::True, reason, message, None, self.now);
        muster_stages::lifecycle::set_condition(&mut status.conditions, wanted);
        self.api.claim_status(name, &version, &status).unwrap();
    }

    fn join(&mut self, instance: Instance) {
        self.joined.insert(instance.provider_id.clone());
        if !self.alive().iter().any(|one| one.provider_id == instance.provider_id) {
            return;
        }
        // The kubelet registers with the labels of its user data, whatever the claim has heard of the instance.
        let pool = BTreeMap::from([(labels::NODEPOOL.to_owned(), "default".to_owned())]);
        let node = Node {
            metadata: ObjectMeta { name: instance.host_name.clone(), labels: Some(pool), ..ObjectMeta::default() },
            spec: Some(NodeSpec {
                provider_id: Some(instance.provider_id),
                taints: Some(vec![taints::unregistered(), startup_taint()]),
                ..NodeSpec::default()
            }),
            status: Some(NodeStatus {
                conditions: Some(vec![condition("False", "KubeletNotReady")]),
                node_info: Some(NodeSystemInfo { boot_id: boot_id(0), ..NodeSystemInfo::default() }),
                ..NodeStatus::default()
            }),
        };
        self.api.create_node(node, self.now);
    }

    fn bind(&mut self, node: &str) {
        self.bound.insert(node.to_owned());
        self.api.changes += 1;
        for (name, is_critical, is_daemon) in [("web", false, false), ("dns", true, false), ("proxy", true, true)] {
            let uid = format!("{node}-{name}");
            let volume = format!("pv-{uid}");
            let has_volume = name == "web";
            if has_volume {
                self.api.attachments.push(Attachment { node: node.to_owned(), volume: volume.clone() });
            }
            let resident = Resident {
                pod: Subject {
                    kind: "Pod".to_owned(),
                    namespace: Some("shop".to_owned()),
                    name: name.to_owned(),
                    uid: uid.clone(),
                },
                node: node.to_owned(),
                is_critical,
                is_daemon,
                is_mirror: false,
                is_terminal: false,
                tolerates_disruption: false,
                hold: if name == "web" && self.habits.has_hold {
                    DisruptionBlocker::Forever
                } else {
                    DisruptionBlocker::None
                },
                deleted_at: None,
                grace: Duration::from_secs(30),
                volumes: has_volume.then_some(volume).into_iter().collect(),
            };
            let budget_until = self.habits.budget.filter(|_| name == "web").map(at);
            let is_stuck = self.habits.has_stuck_pod && name == "dns";
            self.api.pods.insert(uid, Pod { resident, budget_until, is_stuck });
        }
    }
}

/// Annotation by which an operator resumes launches.
pub(crate) const RESET: &str = annotations::RESET_BREAKER;
