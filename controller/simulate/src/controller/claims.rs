//! Lifecycle of single NodeClaims.

use jiff::Timestamp;
use muster_cloud::after;
use muster_stages::driver::claim::{
    ClaimStart, PodEvent, PreparedClaim, launch_outcome, note_launch, note_outcome, pod_event, prepare, wrote_pod_event,
};
use muster_stages::driver::{LOST, Verdict};
use muster_stages::step::{Step, Write};

use super::edge::{Carriage, Flow};
use super::{Controller, Stop};
use crate::api::Kind;
use crate::world::World;

/// Maximum number of rounds of calls and answers in one reconciliation.
const MOST_ROUNDS: usize = 60;

// === impl Controller ===

impl Controller {
    /// Reconciles one claim.
    pub(super) fn reconcile_claim(&mut self, name: &str, world: &mut World) -> Result<Verdict, Stop> {
        let now = world.clock.now();
        let owed = match pod_event(&self.settings, &self.cluster, &mut self.state, name, now) {
            PodEvent::None => None,
            PodEvent::Later(moment) => Some(moment),
            PodEvent::Behind(moment) => return Ok(Verdict::Rest(Some(moment))),
            PodEvent::Write { step, at } => {
                let mut carriage = self.carriage_of(name);
                return Ok(match self.carry_all(&step, &mut carriage, world)? {
                    Flow::On => {
                        wrote_pod_event(&mut self.state, name, at);
                        Verdict::Again
                    }
                    Flow::Drop => Verdict::Conflicted,
                });
            }
        };
        match prepare(&world.supply, &self.settings, &self.cluster, &mut self.state, name, now) {
            ClaimStart::Wait(moment) => Ok(Verdict::Rest(moment).or_sooner(owed)),
            ClaimStart::Write(prepared) => Ok(self.write_claim(name, &prepared, world)?.or_sooner(owed)),
        }
    }

    /// Decides and writes, and decides again while a step contains calls whose answers are needed.
    fn write_claim(&mut self, name: &str, prepared: &PreparedClaim, world: &mut World) -> Result<Verdict, Stop> {
        let mut carriage = self.carriage_of(name);
        let class = &prepared.class;
        carriage.class = Some((class.reference.kind.clone(), class.reference.name.clone()));
        let kind = Kind::Other(class.reference.kind.clone());
        carriage.hold(kind, &class.meta);
        let (mut verdict, mut outcome) = (None, None);
        let mut has_written = false;
        for _ in 0..MOST_ROUNDS {
            let now = world.clock.now();
            let Some(around) = self.cluster.around(name) else { break };
            let decide = || prepared.decide(&around, self.pause(), carriage.answers.clone(), now);
            let step = decide();
            #[cfg(test)]
            assert_eq!(step, decide(), "the same input gives the same step");
            outcome = launch_outcome(&step, around.claim).or(outcome);
            has_written |= !step.writes.is_empty();
            let asks = step.writes.iter().any(Write::is_question);
            let flow = self.carry_all(&step, &mut carriage, world)?;
            if flow == Flow::Drop || !asks {
                verdict = Some(verdict_of(flow, has_written, &step, now));
                break;
            }
        }
        let now = world.clock.now();
        let is_done = matches!(verdict, Some(Verdict::Rest(_)));
        if let Some(became_a_node) = outcome.filter(|_| is_done) {
            note_outcome(&world.supply, &self.cluster, &mut self.state, name, became_a_node);
        }
        if let Some(answer) = &carriage.answers.launch {
            note_launch(&mut self.state, answer, now);
        }
        prepared.note_instance(&mut self.state, &carriage.answers, now);
        Ok(verdict.unwrap_or_else(|| {
            if self.cluster.claim(name).is_none() {
                return Verdict::Rest(None);
            }
            let what = format!("NodeClaim `{name}` does not come to rest");
            world.trace.add(now, crate::trace::Event::Broken { what });
            Verdict::Failed
        }))
    }

    /// Returns the versions of a claim and of its Nodes, as the cluster shows them.
    fn carriage_of(&self, name: &str) -> Carriage {
        let mut carriage = Carriage::default();
        let Some(around) = self.cluster.around(name) else { return carriage };
        carriage.hold(Kind::NodeClaim, &around.claim.metadata);
        around.nodes.iter().for_each(|node| carriage.hold(Kind::Node, &node.metadata));
        carriage
    }
}

/// Returns the verdict on an object after a step about it.
pub(super) fn verdict_of(flow: Flow, has_written: bool, step: &Step, now: Timestamp) -> Verdict {
    match flow {
        Flow::Drop => Verdict::Conflicted,
        Flow::On if has_written => Verdict::Rest(Some(step.again.unwrap_or_else(|| after(now, LOST)))),
        Flow::On => Verdict::Rest(step.again),
    }
}
