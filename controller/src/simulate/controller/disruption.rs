//! Disruption: consolidation and drift.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::NodeClaim;
use muster_cloud::after;
use muster_scheduling::disrupt::Moments;

use super::edge::Carriage;
use super::{Controller, Stop};
use crate::disruption::{Home, Launches, Look, Opening, Openings, Timing, Turn, advance, running, stale};
use crate::simulate::api::Kind;
use crate::simulate::trace::Event;
use crate::simulate::world::World;
use crate::step::{Step, Write};

// === impl Controller ===

impl Controller {
    /// Decides which nodes to disrupt, and starts the commands.
    pub(super) fn deliberate(&mut self, world: &mut World) -> Result<(), Stop> {
        let now = world.clock.now();
        self.pass_schedule.ask(now);
        if self.cluster.claims().len() == 0 {
            self.pass_schedule.answer(after(now, Timing::default().every), false, Moments::default(), now);
            return Ok(());
        }
        let snapshot = self.snapshot(&self.cluster.manifests(), world).map_err(Stop::Failed)?;
        let mut estate = snapshot.managed_nodes.estate(&snapshot.problem);
        let settings = self.choices.policy.disruption(&self.choices.disruption);
        self.planner.note_left(&std::mem::take(&mut self.left));
        let Turn { decision, again, moments, violations } = self.planner.turn(&mut estate, now, &settings);
        for violation in violations {
            world.trace.add(now, Event::Broken { what: format!("a disruption is not valid: {violation}") });
        }
        self.pass_schedule.answer(again, self.planner.is_open(), moments, now);
        let pause = self.pause();
        if pause.disruption {
            return Ok(());
        }
        self.planner.note_begun(&estate, &decision, now);
        let stops = self.stops(now);
        let launches = Launches { pause, stops: &stops, caps: self.choices.provision.caps };
        for opening in Openings::new(&decision, &estate, launches).all(&self.cluster, &self.plan, now) {
            self.open(&opening, world)?;
        }
        Ok(())
    }

    fn open(&mut self, opening: &Opening, world: &mut World) -> Result<(), Stop> {
        let now = world.clock.now();
        let Opening { cause, savings, homes, steps } = opening;
        let replacements = steps.iter().flat_map(|step| &step.writes).filter_map(|write| match write {
            Write::CreateClaim(claim) => claim.metadata.name.clone(),
            _ => None,
        });
        world.trace.add(
            now,
            Event::Disrupting {
                reason: cause.name().to_owned(),
                claims: homes.iter().filter_map(|home| home.claim.metadata.name.clone()).collect(),
                replacements: replacements.collect(),
                savings: *savings,
            },
        );
        self.advance_at = Some(now);
        for step in steps {
            let mut carriage = Self::carriage(homes);
            self.carry_all(step, &mut carriage, world)?;
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
                let homes: Vec<Home> = candidates.iter().filter_map(|name| self.home_of(name)).collect();
                let new: Vec<Home> = launched.iter().filter_map(|name| self.home_of(name)).collect();
                let look = Look {
                    candidates: homes.iter().map(Home::candidate).collect(),
                    replacements: new.iter().map(Home::replacement).collect(),
                    pause: self.pause(),
                    timing: Timing::default(),
                };
                let step = advance(&look, now);
                self.note_again(&step, now);
                if step.writes.is_empty() {
                    break;
                }
                let mut all = homes;
                all.extend(new);
                let mut carriage = Self::carriage(&all);
                self.carry_all(&step, &mut carriage, world)?;
            }
        }
        self.clear_stale(world)
    }

    fn clear_stale(&mut self, world: &mut World) -> Result<(), Stop> {
        let now = world.clock.now();
        let all: Vec<Home> =
            self.cluster.claims().filter_map(|claim| self.home_of(claim.metadata.name.as_deref()?)).collect();
        for home in all {
            let step = stale(&home.candidate(), Timing::default(), now);
            self.note_again(&step, now);
            if !step.writes.is_empty() {
                let mut carriage = Self::carriage(std::slice::from_ref(&home));
                self.carry_all(&step, &mut carriage, world)?;
            }
        }
        Ok(())
    }

    fn note_again(&mut self, step: &Step, now: Timestamp) {
        let again = step.again.filter(|again| *again > now);
        self.advance_at = [self.advance_at, again].into_iter().flatten().min();
    }

    fn carriage(homes: &[Home]) -> Carriage {
        let mut carriage = Carriage::default();
        for home in homes {
            let meta = &home.claim.metadata;
            carriage.hold(Kind::NodeClaim, meta.name.as_deref().unwrap_or_default(), meta.resource_version.as_ref());
            if let Some(node) = &home.node {
                let meta = &node.metadata;
                carriage.hold(Kind::Node, meta.name.as_deref().unwrap_or_default(), meta.resource_version.as_ref());
            }
        }
        carriage
    }

    fn home_of(&self, claim: &str) -> Option<Home> {
        Home::of_claim(&self.cluster, &self.plan, claim)
    }
}

fn names(claims: &[&NodeClaim]) -> Vec<String> {
    claims.iter().filter_map(|claim| claim.metadata.name.clone()).collect()
}
