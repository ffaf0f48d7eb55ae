//! Nodes are taken away in an order: what decides that is played by wishes, what carries it out is under test.

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use muster_api::annotations::DO_NOT_DISRUPT;
use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, NodeClaimSpec, labels};
use muster_cloud::{Memory, after};
use muster_scheduling::disrupt::{Cause, Method};
use muster_stages::disruption::{
    Candidate, FirstSteps, Leaver, ObservedCommand, Order, Replacement, Timing, cleanup, is_marked, progress, running,
    start,
};
use muster_stages::lifecycle::{Answers, Resident, Step, is_true};
use muster_stages::node::Node;

use super::api::Api;
use super::edge::{Edge, Flow, Killed, Versions, WriteContext};
use super::world::at;

/// Somebody decides, as long as it has not come to pass, that nodes are to go.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    /// From and until which second.
    pub(crate) seconds: (u64, u64),
    pub(crate) cause: Cause,
    /// Names of the claims that go together.
    pub(crate) claims: &'static [&'static str],
    /// How many nodes take their place.
    pub(crate) launches: usize,
}

/// What is looked at of one claim, as it was at one moment.
struct Sight {
    claim: NodeClaim,
    node: Option<Node>,
    residents: Vec<Resident>,
}

impl Sight {
    fn of(api: &Api, name: &str) -> Option<Self> {
        let claim = api.claims.get(name)?.clone();
        let id = claim.status.as_ref().and_then(|status| status.provider_id.clone());
        let is_its = |node: &&v1::Node| node.spec.as_ref().is_some_and(|spec| id.is_some() && spec.provider_id == id);
        let node = api.nodes.values().find(is_its).cloned().map(Node::from);
        let name = node.as_ref().and_then(|node| node.metadata.name.clone());
        let residents = api.pods.values().map(|pod| pod.resident.clone());
        let residents = residents.filter(|pod| name.as_ref() == Some(&pod.node)).collect();
        Some(Self { claim, node, residents })
    }

    fn candidate(&self) -> Candidate<'_> {
        let Self { claim, node, residents } = self;
        Candidate { claim, pool: None, node: node.as_ref(), residents, promised_to: None }
    }

    fn replacement(&self) -> Replacement<'_> {
        Replacement { claim: &self.claim, pool: None, residents: &self.residents, promised_to: None }
    }
}

impl Edge {
    /// Continues what is under way, takes off what nothing explains, begins what is wanted.
    pub(crate) fn disrupt(&mut self, api: &mut Api, cloud: &mut Memory, now: Timestamp) -> Result<(), Killed> {
        self.remembered.disruption = None;
        let claims: Vec<NodeClaim> = api.claims.values().cloned().collect();
        for (command, (candidates, replacements)) in running(&claims) {
            let see = |claims: &[&NodeClaim]| -> Vec<Sight> {
                claims.iter().filter_map(|claim| Sight::of(api, claim.metadata.name.as_deref()?)).collect()
            };
            let (candidates, replacements) = (see(&candidates), see(&replacements));
            let observed = ObservedCommand {
                candidates: candidates.iter().map(Sight::candidate).collect(),
                replacements: replacements.iter().map(Sight::replacement).collect(),
                pause: self.pause,
                timing: Timing::default(),
            };
            let step = progress(&observed, now);
            assert_eq!(step, progress(&observed, now), "the same look gives the same step: {command}");
            self.carry_step(&step, api, cloud, now)?;
        }
        for claim in &claims {
            let Some(sight) = Sight::of(api, claim.metadata.name.as_deref().unwrap_or_default()) else { continue };
            let step = cleanup(&sight.candidate(), Timing::default(), now);
            self.carry_step(&step, api, cloud, now)?;
        }
        for wish in self.wishes.clone() {
            // As the loop decides: every ten seconds.
            let (from, until) = wish.seconds;
            let due = after(self.remembered.decided.unwrap_or(at(0)), Timing::default().every).max(at(from));
            if now < due {
                self.wake(due);
                continue;
            }
            self.remembered.decided = Some(now);
            let sights: Vec<Sight> = wish.claims.iter().filter_map(|name| Sight::of(api, name)).collect();
            let is_free = |sight: &&Sight| {
                let claim = &sight.claim;
                let held = claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(DO_NOT_DISRUPT));
                is_true(claim, nodeclaim::INITIALIZED) && (wish.cause.forceful() || !held)
            };
            let is_going = |sight: &Sight| sight.claim.metadata.deletion_timestamp.is_some() || is_marked(&sight.claim);
            let free: Vec<&Sight> = sights.iter().filter(is_free).filter(|sight| !is_going(sight)).collect();
            // What is under way is seen through first, if it is to get something in common.
            let waits = wish.launches > 0 && sights.iter().any(is_going);
            if now >= at(until) || free.is_empty() || waits {
                continue;
            }
            let mut launch = NodeClaim::new("unnamed", sights[0].claim.spec.clone());
            launch.spec = NodeClaimSpec { expire_after: muster_api::Lifetime::Never, ..launch.spec };
            launch.metadata.labels = Some([(labels::NODEPOOL.to_owned(), "default".to_owned())].into());
            let order = Order {
                cause: wish.cause,
                method: Method::MultiNode,
                leavers: free
                    .iter()
                    .map(|sight| Leaver { candidate: sight.candidate(), price: 1.0, drain: None })
                    .collect(),
                launches: vec![launch; wish.launches],
                cost: 0.5,
                pause: self.pause,
            };
            let steps = start(&order, now);
            assert_eq!(steps, start(&order, now), "the same decision gives the same steps");
            for FirstSteps { begin, keep_away } in steps {
                if self.carry_step(&begin, api, cloud, now)? == Flow::On {
                    self.carry_step(&keep_away, api, cloud, now)?;
                }
            }
        }
        Ok(())
    }

    fn carry_step(&mut self, step: &Step, api: &mut Api, cloud: &mut Memory, now: Timestamp) -> Result<Flow, Killed> {
        if let Some(again) = step.again {
            assert!(again > now, "a step that wants to look again at once never rests");
            self.wake(again);
        }
        let mut context = WriteContext { versions: Versions::of(api), api, cloud, answers: Answers::default(), now };
        self.carry_all(step, &mut context)
    }

    fn wake(&mut self, moment: Timestamp) {
        let known = self.remembered.disruption.get_or_insert(moment);
        *known = moment.min(*known);
    }
}
