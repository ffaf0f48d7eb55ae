//! Disruption: consolidation and drift.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::NodeClaim;
use muster_api::conditions::READY;
use muster_api::labels::CAPACITY_RESERVATION_ID;
use muster_api::nodeclass::Ami;
use muster_cloud::after;
use muster_manifest::{Condition, NodeClass};
use muster_scheduling::disrupt::Moments;
use muster_stages::disruption::{
    CommandNode, CommandStart, CommandStarts, FirstSteps, Launches, ObservedCommand, Timing, Turn, cleanup, progress,
    running,
};
use muster_stages::step::{Step, Write};
use serde_json::json;

use super::edge::{Carriage, Flow};
use super::{Controller, Stop};
use crate::api::Kind;
use crate::trace::Event;
use crate::world::World;

// === impl Controller ===

impl Controller {
    /// Decides which nodes to disrupt, and starts the commands.
    pub(super) fn plan_disruption(&mut self, world: &mut World) -> Result<(), Stop> {
        let now = world.clock.now();
        self.pass_schedule.ask(now);
        if self.cluster.claims().len() == 0 {
            self.pass_schedule.answer(after(now, Timing::default().every), false, Moments::default(), now);
            return Ok(());
        }
        let mut manifests = self.cluster.manifests();
        let image = world.cloud.image.as_deref();
        let has_reserved =
            manifests.node_claims.iter().any(|claim| claim.meta.labels.get(CAPACITY_RESERVATION_ID).is_some());
        for class in &mut manifests.node_classes {
            // Simulated machines have no network or placement group of their own that a class could have ceased to
            // select: what the status of a real class selects says nothing of them. Images are those of the script.
            match image.filter(|_| !has_reserved) {
                Some(image) => publish(class, image),
                None => class.conditions.retain(|one| &*one.kind != READY || &*one.status != "True"),
            }
        }
        let snapshot = self.snapshot(&manifests, world).map_err(Stop::Failed)?;
        let mut input = snapshot.managed_nodes.disruption_input(&snapshot.problem);
        let settings = self.choices.policy.disruption(&self.choices.disruption);
        self.planner.note_left(&std::mem::take(&mut self.left));
        let Turn { decision, again, moments, violations } = self.planner.turn(&mut input, now, &settings);
        for violation in violations {
            world.trace.add(now, Event::Broken { what: format!("a disruption is not valid: {violation}") });
        }
        self.pass_schedule.answer(again, self.planner.is_open(), moments, now);
        let pause = self.pause();
        if pause.disruption {
            return Ok(());
        }
        let stops = self.stops(now);
        let launches = Launches { pause, stops: &stops, caps: self.choices.provision.caps };
        let command_starts = CommandStarts::new(&decision, &input, launches).all(&self.cluster, &self.plan, now);
        self.planner.note_begun(&input, &decision, &command_starts, now);
        for command_start in command_starts {
            self.open(&command_start, world)?;
        }
        Ok(())
    }

    fn open(&mut self, command_start: &CommandStart, world: &mut World) -> Result<(), Stop> {
        let now = world.clock.now();
        let CommandStart { number: _, is_reboot, cause, savings, command_nodes, steps } = command_start;
        let replacements = steps.iter().flat_map(|steps| &steps.begin.writes).filter_map(|write| match write {
            Write::CreateClaim(claim) => claim.metadata.name.clone(),
            _ => None,
        });
        let claims = command_nodes.iter().filter_map(|command_node| command_node.claim.metadata.name.clone());
        if *is_reboot {
            claims.for_each(|claim| world.trace.add(now, Event::Rebooting { claim }));
        } else {
            let (reason, claims, savings) = (cause.name().to_owned(), claims.collect(), *savings);
            let event = Event::Disrupting { reason, claims, replacements: replacements.collect(), savings };
            world.trace.add(now, event);
        }
        self.advance_at = Some(now);
        for FirstSteps { begin, keep_away } in steps {
            let mut carriage = Self::carriage(command_nodes);
            if self.carry_each(begin, &mut carriage, world)? == Flow::On {
                self.carry_each(keep_away, &mut carriage, world)?;
            }
            self.refresh(world)?;
        }
        Ok(())
    }

    /// Advances running commands, and removes stale disruption taints.
    pub(super) fn advance_commands(&mut self, world: &mut World) -> Result<(), Stop> {
        let now = world.clock.now();
        let commands: BTreeMap<String, (Vec<String>, Vec<String>)> = running(self.cluster.claims())
            .into_iter()
            .map(|(command, (candidates, launched))| (command, (names(&candidates), names(&launched))))
            .collect();
        self.advance_at = None;
        for (candidates, launched) in commands.into_values() {
            for _ in 0..20 {
                let command_nodes: Vec<CommandNode> =
                    candidates.iter().filter_map(|name| self.command_node_of(name)).collect();
                let new: Vec<CommandNode> = launched.iter().filter_map(|name| self.command_node_of(name)).collect();
                let observed = ObservedCommand {
                    candidates: command_nodes.iter().map(CommandNode::candidate).collect(),
                    replacements: new.iter().map(CommandNode::replacement).collect(),
                    pause: self.pause(),
                    timing: Timing::default(),
                };
                let step = progress(&observed, now);
                self.note_again(&step, now);
                if step.writes.is_empty() {
                    break;
                }
                let mut all = command_nodes;
                all.extend(new);
                let mut carriage = Self::carriage(&all);
                self.carry_all(&step, &mut carriage, world)?;
            }
        }
        self.clear_stale(world)
    }

    fn clear_stale(&mut self, world: &mut World) -> Result<(), Stop> {
        let now = world.clock.now();
        let all: Vec<CommandNode> =
            self.cluster.claims().filter_map(|claim| self.command_node_of(claim.metadata.name.as_deref()?)).collect();
        for command_node in all {
            let step = cleanup(&command_node.candidate(), Timing::default(), now);
            self.note_again(&step, now);
            if !step.writes.is_empty() {
                let mut carriage = Self::carriage(std::slice::from_ref(&command_node));
                self.carry_all(&step, &mut carriage, world)?;
            }
        }
        Ok(())
    }

    fn note_again(&mut self, step: &Step, now: Timestamp) {
        let again = step.again.filter(|again| *again > now);
        self.advance_at = [self.advance_at, again].into_iter().flatten().min();
    }

    fn carriage(command_nodes: &[CommandNode]) -> Carriage {
        let mut carriage = Carriage::default();
        for command_node in command_nodes {
            let meta = &command_node.claim.metadata;
            carriage.hold(Kind::NodeClaim, meta.name.as_deref().unwrap_or_default(), meta.resource_version.as_ref());
            if let Some(node) = &command_node.node {
                let meta = &node.metadata;
                carriage.hold(Kind::Node, meta.name.as_deref().unwrap_or_default(), meta.resource_version.as_ref());
            }
        }
        carriage
    }

    fn command_node_of(&self, claim: &str) -> Option<CommandNode> {
        CommandNode::of_claim(&self.cluster, &self.plan, claim)
    }
}

/// Has the class select the image. A class without a condition Ready, as in a manifest that was never applied, is
/// ready.
fn publish(class: &mut NodeClass, image: &str) {
    let ami = Ami { id: image.to_owned(), ..Ami::default() };
    class.object["status"] = json!({ "amis": [ami] });
    if class.conditions.iter().all(|one| &*one.kind != READY) {
        let [kind, status, reason, message] = [READY, "True", READY, ""].map(Into::into);
        class.conditions.push(Condition { kind, status, reason, message, since: None });
    }
}

fn names(claims: &[&NodeClaim]) -> Vec<String> {
    claims.iter().filter_map(|claim| claim.metadata.name.clone()).collect()
}
