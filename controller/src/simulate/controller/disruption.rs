//! Nodes that are no longer worth their price, or no longer as they should be.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use muster_api::{NodeClaim, NodePool};
use muster_cloud::after;
use muster_scheduling::disrupt::{Command, Decision, Estate};
use muster_scheduling::model::Problem;

use super::edge::Carriage;
use super::rounds::pool_of;
use super::{Controller, Stop};
use crate::disruption::{Candidate, Leaver, Look, Order, Replacement, advance, begin, running, stale};
use crate::lifecycle::Resident;
use crate::provision;
use crate::simulate::api::Kind;
use crate::simulate::trace::Event;
use crate::simulate::world::World;
use crate::step::{Step, Write};

// === impl Controller ===

impl Controller {
    /// Decides what goes, and begins it.
    pub(super) fn deliberate(&mut self, world: &mut World) -> Result<(), Stop> {
        let now = world.clock.now();
        if self.cluster.claims().len() == 0 {
            self.rest(after(now, crate::disruption::EVERY), now);
            return Ok(());
        }
        let snapshot = self.snapshot(&self.cluster.manifests(), world).map_err(Stop::Failed)?;
        let estate = snapshot.custody.estate(&snapshot.problem);
        let settings = self.choices.policy.disruption(&self.choices.disruption);
        let (decision, again) = self.deliberation.turn(&estate, now, &settings);
        self.rest(again, now);
        if self.deliberation.is_open() {
            self.is_stirred = true;
        }
        if self.pause().disruption {
            return Ok(());
        }
        for command in &decision.commands {
            self.begin(command, &decision, &estate, world)?;
        }
        Ok(())
    }

    fn begin(
        &mut self,
        command: &Command,
        decision: &Decision,
        estate: &Estate,
        world: &mut World,
    ) -> Result<(), Stop> {
        let now = world.clock.now();
        let names: Vec<Arc<str>> =
            command.candidates.iter().map(|node| Arc::clone(&estate.problem.nodes[*node].name)).collect();
        let homes: Vec<Home> = names.iter().filter_map(|node| self.home(node)).collect();
        if homes.len() < names.len() {
            return Ok(());
        }
        // What a launch requests counts its pods by their numbers in the decision.
        let mut problem: Problem = estate.problem.clone();
        problem.pods.clone_from(&decision.pods);
        let launches: Vec<NodeClaim> = command
            .replacements
            .iter()
            .filter_map(|node| {
                let pool = self.cluster.pool(&problem.pools[node.pool].name)?;
                Some(provision::claim(&problem, node, pool, String::new()))
            })
            .collect();
        let order = Order {
            cause: command.cause,
            method: command.method,
            leavers: homes
                .iter()
                .zip(&command.candidates)
                .map(|(home, node)| Leaver { candidate: home.candidate(), price: estate.price(*node).unwrap_or(0.0) })
                .collect(),
            launches,
            cost: command.replacements.iter().map(|node| node.price).sum(),
            pause: self.pause(),
        };
        let steps = begin(&order, now);
        if steps.is_empty() {
            return Ok(());
        }
        let replacements = steps.iter().flat_map(|step| &step.writes).filter_map(|write| match write {
            Write::CreateClaim(claim) => claim.metadata.name.clone(),
            _ => None,
        });
        world.trace.add(
            now,
            Event::Disrupting {
                reason: command.cause.name().to_owned(),
                claims: homes.iter().filter_map(|home| home.claim.metadata.name.clone()).collect(),
                replacements: replacements.collect(),
                savings: command.savings,
            },
        );
        self.advance_at = Some(now);
        for step in &steps {
            let mut carriage = Self::carriage(&homes);
            self.carry_all(step, &mut carriage, world)?;
        }
        Ok(())
    }

    /// Brings commands that are under way to their next step, and takes off taints that nothing explains.
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
            let step = stale(&home.candidate(), now);
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

    /// The claim of a Node, with what is around it.
    fn home(&self, node: &str) -> Option<Home> {
        let id = self.cluster.node(node)?.spec.as_ref()?.provider_id.clone()?;
        let claim = self.cluster.claims_of(&id).next()?;
        self.home_of(claim.metadata.name.as_deref()?)
    }

    fn home_of(&self, claim: &str) -> Option<Home> {
        let around = self.cluster.around(claim)?;
        let node = around.nodes.first().copied().cloned();
        let name = node.as_ref().and_then(|node| node.metadata.name.clone());
        let is_promised = |pod: &&crate::state::LivePod| {
            let nominated = pod.pod.nominated_node.as_deref();
            pod.waits()
                && (nominated.is_some() && nominated == name.as_deref()
                    || self.plan.place_of(&pod.pod.path) == Some(claim))
        };
        let promised_to = self.cluster.unbound().find(is_promised).map(|pod| pod.pod.path.to_string());
        let pool = pool_of(around.claim).and_then(|pool| self.cluster.pool(pool)).cloned();
        Some(Home { claim: around.claim.clone(), pool, node, residents: around.residents, promised_to })
    }

    /// When time alone makes a node quiet enough to be consolidated, or old enough to go.
    pub(super) fn next_quiet(&self, now: Timestamp) -> Timestamp {
        let moments = self.cluster.claims().filter_map(|claim| {
            let pool = self.cluster.pool(pool_of(claim)?)?;
            let wait = pool.spec.disruption.consolidate_after.duration()?;
            let status = claim.status.as_ref()?;
            let initialized = status
                .conditions
                .iter()
                .find(|one| one.type_ == muster_api::conditions::nodeclaim::INITIALIZED && one.status == "True");
            let since = status.last_pod_event_time.as_ref().or(initialized.map(|one| &one.last_transition_time))?;
            Some(after(since.0, wait))
        });
        moments.filter(|moment| *moment > now).min().unwrap_or(Timestamp::MAX)
    }
}

/// A claim and what is around it, at one look.
struct Home {
    claim: NodeClaim,
    pool: Option<NodePool>,
    node: Option<k8s_openapi::api::core::v1::Node>,
    residents: Vec<Resident>,
    promised_to: Option<String>,
}

// === impl Home ===

impl Home {
    fn candidate(&self) -> Candidate<'_> {
        Candidate {
            claim: &self.claim,
            pool: self.pool.as_ref(),
            node: self.node.as_ref(),
            residents: &self.residents,
            promised_to: self.promised_to.as_deref(),
        }
    }

    fn replacement(&self) -> Replacement<'_> {
        Replacement {
            claim: &self.claim,
            pool: self.pool.as_ref(),
            residents: &self.residents,
            promised_to: self.promised_to.as_deref(),
        }
    }
}

fn names(claims: &[&NodeClaim]) -> Vec<String> {
    claims.iter().filter_map(|claim| claim.metadata.name.clone()).collect()
}
