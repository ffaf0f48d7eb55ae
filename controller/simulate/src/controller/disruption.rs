//! Disruption: consolidation and drift.

use muster_api::conditions::READY;
use muster_api::labels::CAPACITY_RESERVATION_ID;
use muster_api::nodeclass::Ami;
use muster_cloud::after;
use muster_manifest::{Condition, NodeClass};
use muster_scheduling::disrupt::Moments;
use muster_stages::disruption::{CommandNode, CommandStart, CommandStarts, FirstSteps, Launches, Turn};
use muster_stages::driver::command::advance;
use muster_stages::driver::{CommandItem, Done, PassEnd, Verdict, tell_due_repairs};
use muster_stages::step::Write;
use serde_json::json;

use super::claims::verdict_of;
use super::edge::{Carriage, Flow};
use super::{Controller, Stop};
use crate::api::Kind;
use crate::trace::Event;
use crate::world::World;

// === impl Controller ===

impl Controller {
    /// Decides which nodes to disrupt, and begins the commands.
    pub(super) fn plan_disruption(&mut self, world: &mut World) -> Result<(), Stop> {
        let now = world.clock.now();
        self.planner.note_left(&std::mem::take(&mut self.state.left));
        let due_repairs = self.state.unhealthy.take();
        if self.cluster.claims().len() == 0 {
            let again = after(now, self.settings.timing.every);
            let end = PassEnd::of(&self.planner, again, Moments::default(), false);
            self.done(Done::DecidedDisruption(end), world);
            return Ok(());
        }
        let mut manifests = self.cluster.without_void_nominations();
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
        self.state.tell_moves(&mut manifests);
        tell_due_repairs(&mut manifests, due_repairs);
        let snapshot = self.snapshot(&manifests, world).map_err(Stop::Failed)?;
        let mut input = snapshot.managed_nodes.disruption_input(&snapshot.problem);
        let settings = self.choices.policy.disruption(&self.choices.disruption);
        let Turn { decision, again, moments, violations } = self.planner.turn(&mut input, now, &settings);
        for violation in violations {
            world.trace.add(now, Event::Broken { what: format!("a disruption is not valid: {violation}") });
        }
        let pause = self.pause();
        let command_starts = if pause.disruption {
            Vec::new()
        } else {
            let stops = self.stops(world);
            let launches = Launches { pause, stops: &stops, caps: self.choices.provision.caps };
            let command_starts =
                CommandStarts::new(&decision, &input, launches).all(&self.cluster, &self.state.plan, now);
            self.planner.note_begun(&input, &decision, &command_starts, now);
            command_starts
        };
        let begins = !command_starts.is_empty();
        self.done(Done::DecidedDisruption(PassEnd::of(&self.planner, again, moments, begins)), world);
        let mut is_open = false;
        for command_start in &command_starts {
            is_open |= self.open(command_start, world)?;
        }
        if begins {
            self.done(Done::BegunCommands { is_open }, world);
        }
        Ok(())
    }

    /// Begins a command. Returns true if it cannot wait, and has to be decided again.
    pub(super) fn open(&mut self, command_start: &CommandStart, world: &mut World) -> Result<bool, Stop> {
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
        let mut is_open = false;
        for FirstSteps { begin, keep_away } in steps {
            let mut carriage = Self::carriage(command_nodes);
            match self.carry_each(begin, &mut carriage, world)? {
                Flow::On => drop(self.carry_each(keep_away, &mut carriage, world)?),
                Flow::Drop => is_open |= cause.begins_at_once(),
            }
            self.refresh(world)?;
        }
        Ok(is_open)
    }

    /// Executes the next step of a command in progress.
    pub(super) fn advance(&mut self, item: &CommandItem, world: &mut World) -> Result<Verdict, Stop> {
        let now = world.clock.now();
        let decide = || advance(&self.settings, &self.cluster, &self.state, item, now);
        let (step, command_nodes) = decide();
        #[cfg(test)]
        assert_eq!(step, decide().0, "the same input gives the same step");
        if step.writes.is_empty() {
            return Ok(Verdict::Rest(step.again));
        }
        let flow = self.carry_all(&step, &mut Self::carriage(&command_nodes), world)?;
        Ok(verdict_of(flow, true, &step, now))
    }

    fn carriage(command_nodes: &[CommandNode]) -> Carriage {
        let mut carriage = Carriage::default();
        for command_node in command_nodes {
            carriage.hold(Kind::NodeClaim, &command_node.claim.metadata);
            if let Some(node) = &command_node.node {
                carriage.hold(Kind::Node, &node.metadata);
            }
        }
        carriage
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
