//! A cluster played in virtual time: what the live controller would do with it, what it would cost, and whether everything
//! holds that must.
//!
//! ```text
//!   manifests ──► World: Api, scheduler, workload controllers, kubelets, cloud ◄── script (deeds), Dice (seed)
//!                   │  ▲
//!            changes│  │writes (one edge; may be stopped at any)
//!                   ▼  │
//!                 Controller: state, provision, lifecycle, disruption, pools, classes: the functions of the live one
//!                   │
//!                   ├──► Trace     what happened
//!                   ├──► Ledger    what it cost, and what it had to cost
//!                   └──► Checks    what must hold at every moment
//! ```
//!
//! Nothing waits: time goes from one happening to the next. The same objects, script and seed give the same bytes.

mod api;
mod checks;
mod clock;
mod controller;
mod dice;
mod editions;
mod ledger;
mod outcome;
mod policy;
mod script;
mod supply;
#[cfg(test)]
mod tests;
pub mod trace;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::DynamicObject;
use muster_api::NodePool;
use muster_cloud::after;
use muster_scheduling::model::Catalogue;
use serde_json::Value;

use self::api::{Api, Kind, Path, has_ended, node_of, seconds};
use self::checks::Checks;
use self::controller::{Choices, Controller, Stop};
use self::dice::Dice;
use self::ledger::{Ledger, Rate};
pub(crate) use self::outcome::{NodeAtEnd, Outcome};
pub(crate) use self::policy::Policy;
pub(crate) use self::script::Script;
use self::script::{Deed, Reference};
pub(crate) use self::script::{default_day, read as read_script};
use self::trace::{Entry, Event};
use self::world::{Happening, WORKLOADS, World, is_waiting};
use crate::manifest::{InputError, NodeClass};
use crate::snapshot::Settings;

/// Everything that a day is made of.
pub(crate) struct Setting<'a> {
    /// The objects that there are at its beginning, as they stand in manifests.
    pub(crate) objects: Vec<Value>,
    /// Instance types by class.
    pub(crate) types: &'a dyn Fn(Option<&NodeClass>) -> Catalogue,
    /// NodeClasses, as they were read.
    pub(crate) classes: &'a [NodeClass],
    /// What shapes a snapshot.
    pub(crate) snapshot: Settings,
    /// How pods are packed.
    pub(crate) provision: crate::provision::Settings,
    /// How nodes are disrupted.
    pub(crate) disruption: muster_scheduling::disrupt::Settings,
    /// What decides.
    pub(crate) policy: Policy,
    /// What happens.
    pub(crate) script: Script,
    /// What is not said by the script.
    pub(crate) seed: u64,
}

/// Kinds that a day begins without: it makes its own.
const LEFT_OUT: [&str; 5] = ["Node", "NodeClaim", "CSINode", "VolumeAttachment", "ReplicaSet"];

/// Where the controller runs.
const NAMESPACE: &str = "karpenter";

/// A day being played.
struct Simulation<'w> {
    world: World,
    /// None while the controller is away.
    controller: Option<Controller>,
    choices: Choices,
    back_at: Timestamp,
    deeds: Vec<Deed>,
    ledger: Ledger,
    /// Machines that were paid for at the last look, by provider ID.
    paid: BTreeSet<String>,
    checks: Checks,
    told: usize,
    watch: &'w mut dyn FnMut(&Entry, &Glance),
}

/// How things stand at a moment, in figures.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Glance {
    /// Instances that run.
    pub(crate) nodes: usize,
    /// Pods that run or are about to, daemons aside.
    pub(crate) placed: usize,
    /// Pods without a node.
    pub(crate) waiting: usize,
    /// USD per hour.
    pub(crate) price: f64,
}

/// Plays a day, and shows `watch` what happens while it does.
///
/// # Errors
/// An object that makes no sense.
pub(crate) fn play(setting: Setting<'_>, watch: &mut dyn FnMut(&Entry, &Glance)) -> Result<Outcome, InputError> {
    let Setting { objects, types, classes, snapshot, provision, disruption, policy, script, seed } = setting;
    let start = script.start;
    let end = script.ends_at();
    let mut world = World::new(start, Dice::new(seed), script.habits, snapshot);
    world.cloud.latencies.boot = script.boot;
    world.cloud.latencies.end = script.end;
    world.runs.clone_from(&script.runs);
    for class in classes {
        world.supply.set(&class.name, types(Some(class)));
    }
    world.supply.set_default(types(None));
    let provision = crate::provision::Settings { packing: policy.packing(&provision.packing), ..provision };
    let choices = Choices { provision, disruption, policy };
    let mut deeds = Vec::new();
    for (at, deed) in &script.deeds {
        world.clock.at(after(start, *at), Happening::Deed(deeds.len()));
        deeds.push(deed.clone());
    }
    let emptied_at = emptied_at(&script);
    let mut simulation = Simulation {
        world,
        controller: None,
        choices,
        back_at: start,
        deeds,
        ledger: Ledger::default(),
        paid: BTreeSet::new(),
        checks: Checks::default(),
        told: 0,
        watch,
    };
    for object in objects {
        simulation.apply(object);
    }
    simulation.run(end)?;
    if emptied_at.is_some_and(|at| end >= after(after(start, at), checks::CLEARED)) {
        Checks::end(&mut simulation.world);
    }
    simulation.tell();
    simulation.outcome(&script)
}

/// When everything is deleted for good: nothing is made any more.
fn emptied_at(script: &Script) -> Option<Duration> {
    let last = script.deeds.iter().rposition(|(_, deed)| *deed == Deed::DeleteAll)?;
    let makes = |(_, deed): &(Duration, Deed)| matches!(deed, Deed::Apply(_));
    (!script.deeds[last..].iter().any(makes)).then(|| script.deeds[last].0)
}

// === impl Simulation ===

impl Simulation<'_> {
    fn run(&mut self, end: Timestamp) -> Result<(), InputError> {
        // What is at the very beginning is there before anybody looks.
        for happening in self.world.clock.advance(self.world.clock.now()) {
            self.happen(happening);
        }
        loop {
            self.settle()?;
            self.note_running()?;
            self.checks.look(&mut self.world, self.controller.as_mut())?;
            self.tell();
            let now = self.world.clock.now();
            let rate = self.rate();
            let look = match &self.controller {
                Some(controller) => controller.next_look(),
                None => Some(self.back_at),
            };
            let next = [self.world.clock.next(), look].into_iter().flatten().min();
            let Some(next) = next.map(|next| next.max(now)).filter(|next| *next < end) else {
                self.ledger.pay(rate, now, end);
                self.world.clock.advance(end);
                self.ledger.close(end);
                return Ok(());
            };
            self.ledger.pay(rate, now, next);
            for happening in self.world.clock.advance(next) {
                self.happen(happening);
            }
        }
    }

    /// Lets everything happen that follows at once.
    fn settle(&mut self) -> Result<(), InputError> {
        let now = self.world.clock.now();
        if self.controller.is_none() && now >= self.back_at {
            self.world.settle()?;
            self.controller = Some(Controller::start(self.choices.clone(), &self.world.api, now));
            if now > self.world.born_at {
                self.world.trace.add(now, Event::Back);
            }
        }
        let Some(controller) = &mut self.controller else {
            self.world.settle()?;
            return Ok(());
        };
        match controller.tick(&mut self.world) {
            Ok(()) => {}
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Killed) => {
                self.controller = None;
                self.back_at = after(now, self.world.downtime);
                self.checks.excuse(self.back_at);
                self.world.trace.add(now, Event::Stopped);
            }
        }
        Ok(())
    }

    /// Notes, for the bound, what runs on nodes of ours.
    fn note_running(&mut self) -> Result<(), InputError> {
        let now = self.world.clock.now();
        let Some(controller) = &mut self.controller else {
            // Nobody knows what runs: for so long nothing had to be paid.
            self.ledger.close(now);
            self.paid.clear();
            return Ok(());
        };
        let mut paid = BTreeSet::new();
        self.world.cloud.each(now, |instance, state| {
            if !state.is_ending() {
                paid.insert(instance.provider_id.clone());
            }
        });
        if paid != self.paid {
            controller.stir_running();
            self.paid = paid;
        }
        if let Some(running) = controller.running(&self.paid, &self.world)? {
            self.ledger.run(running, now);
        }
        Ok(())
    }

    fn tell(&mut self) {
        if self.told < self.world.trace.entries().len() {
            let glance = self.glance();
            for entry in &self.world.trace.entries()[self.told..] {
                (self.watch)(entry, &glance);
            }
            self.told = self.world.trace.entries().len();
        }
    }

    fn rate(&self) -> Rate {
        let Glance { nodes, waiting, price, .. } = self.glance();
        Rate { price, nodes, waiting }
    }

    fn glance(&self) -> Glance {
        let mut nodes = 0;
        self.world.cloud.each(self.world.clock.now(), |_, state| nodes += usize::from(!state.is_ending()));
        let is_daemon = |pod: &Pod| {
            let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
            owners.iter().any(|owner| owner.kind == "DaemonSet")
        };
        let pods = || self.world.api.pods.values();
        Glance {
            nodes,
            placed: pods().filter(|pod| node_of(pod).is_some() && !has_ended(pod) && !is_daemon(pod)).count(),
            waiting: pods().filter(|pod| is_waiting(pod)).count(),
            price: self.world.hourly_price(),
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Deed(number) => {
                if let Some(deed) = self.deeds.get(number).cloned() {
                    self.act(deed);
                }
            }
            other => self.world.happen(other),
        }
    }

    /// Does what the script says.
    fn act(&mut self, deed: Deed) {
        let now = self.world.clock.now();
        let mut what = deed.to_string();
        match deed {
            Deed::Scale(reference, replicas) => {
                let is_done = self.edit(&reference, |data| data["spec"]["replicas"] = replicas.into());
                // Scaling to what it has is nothing to tell of.
                if is_done == Some(false) {
                    return;
                }
                if is_done.is_none() {
                    what = format!("{reference} cannot be scaled: there is none");
                }
            }
            Deed::Apply(object) => self.apply(object),
            Deed::Patch(reference, set) => {
                if self.edit(&reference, |data| merge(data, &set)).is_none() {
                    what = format!("{reference} cannot be changed: there is none");
                }
            }
            Deed::Delete(reference) => self.delete(&reference),
            Deed::DeleteAll => self.delete_all(),
            Deed::RunOut(meant, lasts) => {
                self.world.run_out(meant, lasts);
                self.checks.excuse(after(now, lasts));
            }
            Deed::Refuse(launches, lasts) => {
                self.world.snub(launches, lasts);
                self.checks.excuse(after(now, lasts));
            }
            Deed::Misregister(launches, code) => self.world.misregister(launches, code),
            Deed::Interrupt(meant, count) => {
                let told = self.world.interrupt(&meant, count);
                if told == 0 {
                    what = format!("{what}: there is none");
                }
            }
            Deed::Stop(writes, away) => {
                self.world.fuse = Some(writes);
                self.world.downtime = away;
            }
        }
        self.world.trace.add(now, Event::Script { what });
    }

    /// Makes an object, or replaces what it says of itself.
    fn apply(&mut self, object: Value) {
        let now = self.world.clock.now();
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        if LEFT_OUT.contains(&kind.as_str()) {
            return;
        }
        let api = &mut self.world.api;
        fn keep<T>(api: &mut Api, object: Value, now: Timestamp) -> Option<T>
        where
            T: api::Kept + serde::de::DeserializeOwned,
        {
            let made: T = serde_json::from_value(object).ok()?;
            let key = made.key();
            let replaced = api.update(&key.kind, &key.path, None, |there: &mut T| {
                let meta = there.meta().clone();
                *there = made.clone();
                let own = there.meta_mut();
                own.uid = meta.uid;
                own.resource_version = meta.resource_version;
                own.creation_timestamp = meta.creation_timestamp;
                own.generation = meta.generation.map(|number| number + 1);
                own.finalizers = meta.finalizers;
            });
            if replaced.is_err() {
                let _invalid = api.create(made.clone(), now);
            }
            Some(made)
        }
        let mut object = object;
        default_namespace(&kind, &mut object);
        match kind.as_str() {
            "Pod" => drop(keep::<Pod>(api, object, now)),
            "NodePool" => drop(keep::<NodePool>(api, object, now)),
            "PodDisruptionBudget" => {
                drop(keep::<k8s_openapi::api::policy::v1::PodDisruptionBudget>(api, object, now));
            }
            "PersistentVolumeClaim" => {
                drop(keep::<k8s_openapi::api::core::v1::PersistentVolumeClaim>(api, object, now));
            }
            "PersistentVolume" => drop(keep::<k8s_openapi::api::core::v1::PersistentVolume>(api, object, now)),
            _ => {
                let made = keep::<DynamicObject>(api, object, now);
                if let Some(class) = made.filter(|_| kind.ends_with("NodeClass")) {
                    judge_class(api, &kind, &Path::bare(class.metadata.name.unwrap_or_default()), now);
                }
            }
        }
    }

    /// Changes an object: whether that changed anything; nothing if there is none.
    fn edit(&mut self, reference: &Reference, change: impl FnOnce(&mut Value)) -> Option<bool> {
        let api = &mut self.world.api;
        let kind = Kind::Other(reference.kind.clone());
        if reference.kind == "NodePool" {
            let there = api.pools.get(&reference.path)?;
            let mut data = serde_json::to_value(there).ok()?;
            change(&mut data);
            let mut changed: NodePool = serde_json::from_value(data).ok()?;
            if changed == *there {
                return Some(false);
            }
            if changed.spec != there.spec {
                changed.metadata.generation = changed.metadata.generation.map(|number| number + 1);
            }
            let _there = api.update(&Kind::NodePool, &reference.path, None, |pool: &mut NodePool| *pool = changed);
            return Some(true);
        }
        let there = api.others.get(&reference.kind)?.get(&reference.path)?;
        let mut data = serde_json::to_value(there).ok()?;
        change(&mut data);
        let mut changed: DynamicObject = serde_json::from_value(data).ok()?;
        if changed == *there {
            return Some(false);
        }
        if changed.data.get("spec") != there.data.get("spec") {
            changed.metadata.generation = changed.metadata.generation.map(|number| number + 1);
        }
        let _there = api.update(&kind, &reference.path, None, |object: &mut DynamicObject| *object = changed);
        Some(true)
    }

    fn delete(&mut self, Reference { kind, path }: &Reference) {
        let now = self.world.clock.now();
        let api = &mut self.world.api;
        let _gone_already = match kind.as_str() {
            "Pod" => api.end_pod(path, None, Duration::from_secs(30), now),
            "NodePool" => api.delete::<NodePool>(&Kind::NodePool, path, None, now),
            "NodeClaim" => api.delete::<muster_api::NodeClaim>(&Kind::NodeClaim, path, None, now),
            "Node" => api.delete::<k8s_openapi::api::core::v1::Node>(&Kind::Node, path, None, now),
            "PodDisruptionBudget" => {
                api.delete::<k8s_openapi::api::policy::v1::PodDisruptionBudget>(&Kind::Budget, path, None, now)
            }
            _ => api.delete::<DynamicObject>(&Kind::Other(kind.clone()), path, None, now),
        };
    }

    fn delete_all(&mut self) {
        let mut all: Vec<Reference> = Vec::new();
        let kinds = WORKLOADS.iter().copied().chain(["DaemonSet", "EC2NodeClass", "KWOKNodeClass"]);
        for kind in kinds {
            let paths =
                self.world.api.others.get(kind).into_iter().flat_map(|shelf| shelf.iter().map(|(path, _)| path));
            all.extend(paths.map(|path| Reference { kind: kind.to_owned(), path: path.clone() }));
        }
        let api = &self.world.api;
        let named = |kind: &str, path: &Path| Reference { kind: kind.to_owned(), path: path.clone() };
        all.extend(api.budgets.iter().map(|(path, _)| named("PodDisruptionBudget", path)));
        all.extend(api.pools.iter().map(|(path, _)| named("NodePool", path)));
        let bare = api.pods.iter().filter(|(_, pod)| pod.metadata.owner_references.is_none());
        all.extend(bare.map(|(path, _)| named("Pod", path)));
        for reference in all {
            self.delete(&reference);
        }
    }

    fn outcome(self, script: &Script) -> Result<Outcome, InputError> {
        let now = self.world.clock.now();
        let mut nodes: Vec<NodeAtEnd> = Vec::new();
        let mut pods_on: BTreeMap<&str, usize> = BTreeMap::new();
        for pod in self.world.api.pods.values().filter(|pod| !has_ended(pod)) {
            if let Some(node) = node_of(pod) {
                *pods_on.entry(node).or_default() += 1;
            }
        }
        self.world.cloud.each(now, |instance, state| {
            if state.is_ending() {
                return;
            }
            let machine = self.world.machines.get(&instance.provider_id);
            let node = self.world.node_with(&instance.provider_id);
            nodes.push(NodeAtEnd {
                claim: machine.map(|machine| machine.claim.clone()).unwrap_or_default(),
                pods: node.as_deref().and_then(|node| pods_on.get(node)).copied().unwrap_or(0),
                node,
                instance_type: instance.offering.instance_type.clone(),
                zone: instance.offering.zone.clone(),
                capacity_type: instance.offering.capacity_type.name().to_owned(),
                price: machine.map_or(0.0, |machine| machine.price),
            });
        });
        nodes.sort_by(|a, b| a.claim.cmp(&b.claim));
        let glance = self.glance();
        Ok(Outcome {
            start: script.start,
            end: now,
            trace: self.world.trace.entries().to_vec(),
            nodes,
            glance,
            writes: self.world.writes,
            calls: self.world.cloud.record().len(),
            paid: self.ledger.paid,
            bound: self.ledger.bound,
            node_hours: self.ledger.node_seconds / 3600.0,
            most_nodes: self.ledger.most_nodes,
            dearest_hour: self.ledger.dearest_hour,
            waited_seconds: self.ledger.waited,
        })
    }
}

/// What the controller of the cloud makes of a NodeClass: here all that it selects exists.
fn judge_class(api: &mut Api, kind: &str, path: &Path, now: Timestamp) {
    let kind = Kind::Other(kind.to_owned());
    let _gone_already = api.update(&kind, path, None, |class: &mut DynamicObject| {
        let ready = Condition {
            type_: muster_api::conditions::READY.to_owned(),
            status: "True".to_owned(),
            reason: muster_api::conditions::READY.to_owned(),
            message: String::new(),
            last_transition_time: seconds(now),
            observed_generation: class.metadata.generation,
        };
        if let (Some(data), Ok(ready)) = (class.data.as_object_mut(), serde_json::to_value(ready)) {
            data.insert("status".to_owned(), serde_json::json!({"conditions": [ready]}));
        }
    });
}

/// Objects without a namespace are in `default`, where their kind has namespaces.
fn default_namespace(kind: &str, object: &mut Value) {
    let kinds = ["Pod", "PodDisruptionBudget", "PersistentVolumeClaim", "DaemonSet", "LimitRange", "PodTemplate"];
    let others = ["Service", "CapacityBuffer"];
    if kinds.contains(&kind) || others.contains(&kind) || WORKLOADS.contains(&kind) {
        let meta = &mut object["metadata"];
        if meta.get("namespace").and_then(Value::as_str).is_none() {
            meta["namespace"] = "default".into();
        }
    }
}

/// JSON merge patch (RFC 7386).
fn merge(there: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *there = patch.clone();
        return;
    };
    if !there.is_object() {
        *there = Value::Object(serde_json::Map::new());
    }
    let Some(own) = there.as_object_mut() else { return };
    for (key, value) in fields {
        if value.is_null() {
            own.remove(key);
        } else {
            merge(own.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
