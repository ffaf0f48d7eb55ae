//! Simulation of a cluster in virtual time: loop and decisions of the live controller, their cost, and checks of all
//! invariants.
//!
//! ```text
//!   manifests ──► World: Api, scheduler, workload controllers, kubelets, cloud ◄── script (events), Dice (seed)
//!                   │  ▲
//!            changes│  │writes (one edge; can be stopped at any write)
//!                   ▼  │
//!                 Controller: the live controller's driver, and its stages for each job
//!                   │
//!                   ├──► Trace     events
//!                   ├──► Ledger    cost, and its lower bound
//!                   └──► Checks    invariants
//! ```
//!
//! Nothing waits in real time: the clock advances from event to event. The same objects, script and seed give the same
//! bytes.

mod api;
mod checks;
mod clock;
mod controller;
mod deeds;
mod dice;
mod editions;
mod ledger;
pub mod objects;
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
use muster_cloud::after;
use muster_manifest::snapshot::Settings;
use muster_manifest::{InputError, NodeClass};
use muster_scheduling::model::Catalogue;
use serde_json::Value;

use self::api::{has_ended, node_of};
use self::checks::Checks;
use self::controller::{Choices, Controller, Stop};
use self::deeds::Author;
use self::dice::Dice;
use self::ledger::{Ledger, Rate};
pub use self::outcome::{NodeAtEnd, Outcome};
pub use self::policy::Policy;
use self::script::Deed;
pub use self::script::Script;
pub use self::script::{Misdeed, Remark, Written, default_day, read as read_script, rehearse};
use self::trace::{Entry, Event};
use self::world::{Happening, World, is_waiting};

/// Input of a simulation.
pub struct Setting<'a> {
    /// Initial objects, as in manifests.
    pub objects: Vec<Value>,
    /// Function that returns the instance types of a class.
    pub types: &'a (dyn Fn(Option<&NodeClass>) -> Catalogue + Sync),
    /// Parsed NodeClasses.
    pub classes: &'a [NodeClass],
    /// Options that affect a snapshot.
    pub snapshot: Settings,
    /// Options of provisioning.
    pub provision: muster_stages::provision::Settings,
    /// Options of disruption.
    pub disruption: muster_scheduling::disrupt::Settings,
    /// Policy that decides.
    pub policy: Policy,
    /// Script of events.
    pub script: Script,
    /// Seed for everything that the script does not specify.
    pub seed: u64,
}

/// Namespace of the controller.
const NAMESPACE: &str = "karpenter";

/// A running simulation.
struct Simulation<'w> {
    world: World,
    /// None while the controller is down.
    controller: Option<Controller>,
    choices: Choices,
    back_at: Timestamp,
    deeds: Vec<Deed>,
    author: Author,
    ledger: Ledger,
    /// Provider IDs of the instances that were paid for at the last step.
    paid: BTreeSet<String>,
    checks: Checks,
    told: usize,
    watch: &'w mut dyn FnMut(&Entry, &Glance),
}

/// Figures of the cluster at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Glance {
    /// Number of running instances.
    pub nodes: usize,
    /// Number of pods with a node, except daemons.
    pub placed: usize,
    /// Number of pods without a node.
    pub waiting: usize,
    /// Price in USD per hour.
    pub price: f64,
}

/// Runs a simulation, and passes each trace entry to `watch`.
///
/// # Errors
/// Fails if an object is invalid.
pub fn play(setting: Setting<'_>, watch: &mut dyn FnMut(&Entry, &Glance)) -> Result<Outcome, InputError> {
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
    let provision = muster_stages::provision::Settings { packing: policy.packing(&provision.packing), ..provision };
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
        author: Author::default(),
        ledger: Ledger::default(),
        paid: BTreeSet::new(),
        checks: Checks::default(),
        told: 0,
        watch,
    };
    for object in objects {
        simulation.author.start(&mut simulation.world.api, object, start)?;
    }
    simulation.run(end)?;
    if emptied_at.is_some_and(|at| end >= after(after(start, at), checks::CLEARED)) {
        Checks::end(&mut simulation.world);
    }
    simulation.tell();
    simulation.outcome(&script)
}

/// Returns the time at which everything is deleted and nothing is applied afterwards.
fn emptied_at(script: &Script) -> Option<Duration> {
    let last = script.deeds.iter().rposition(|(_, deed)| *deed == Deed::DeleteAll)?;
    let makes = |(_, deed): &(Duration, Deed)| matches!(deed, Deed::Apply(_));
    (!script.deeds[last..].iter().any(makes)).then(|| script.deeds[last].0)
}

// === impl Simulation ===

impl Simulation<'_> {
    fn run(&mut self, end: Timestamp) -> Result<(), InputError> {
        // Events at the start are executed before the controller starts.
        for happening in self.world.clock.advance(self.world.clock.now()) {
            self.happen(happening)?;
        }
        loop {
            self.settle()?;
            self.note_running()?;
            self.checks.look(&mut self.world, self.controller.as_mut())?;
            self.tell();
            let now = self.world.clock.now();
            let rate = self.rate();
            let look = match &self.controller {
                Some(controller) => controller.next_job_at(),
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
                self.happen(happening)?;
            }
        }
    }

    /// Executes everything that follows without delay.
    fn settle(&mut self) -> Result<(), InputError> {
        let now = self.world.clock.now();
        if self.controller.is_none() && now >= self.back_at {
            self.world.settle()?;
            self.controller = Some(Controller::start(self.choices.clone(), &self.world.settings, &self.world.api, now));
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

    /// Records the pods on managed nodes, for the lower bound.
    fn note_running(&mut self) -> Result<(), InputError> {
        let now = self.world.clock.now();
        let Some(controller) = &mut self.controller else {
            // Without a controller it is not known what runs: the bound counts this time as free.
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

    fn happen(&mut self, happening: Happening) -> Result<(), InputError> {
        let Happening::Deed(number) = happening else {
            self.world.happen(happening);
            return Ok(());
        };
        self.deeds.get(number).cloned().map_or(Ok(()), |deed| self.act(deed))
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
            solved: self.controller.as_ref().map_or(0, |controller| controller.solved),
            paid: self.ledger.paid,
            bound: self.ledger.bound,
            node_hours: self.ledger.node_seconds / 3600.0,
            most_nodes: self.ledger.most_nodes,
            dearest_hour: self.ledger.dearest_hour,
            waited_seconds: self.ledger.waited,
        })
    }
}
