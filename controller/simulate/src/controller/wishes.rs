//! Disruptions that a test begins in place of the planner.

use muster_api::annotations::DO_NOT_DISRUPT;
use muster_api::conditions::nodeclaim;
use muster_api::{Lifetime, NodeClaim, NodeClaimSpec, labels};
use muster_scheduling::disrupt::{Cause, Method};
use muster_stages::disruption::{CommandNode, CommandStart, Leaver, Order, is_marked, start};
use muster_stages::lifecycle::is_true;

use super::{Controller, Stop};
use crate::world::World;

/// A disruption that a test wants.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) cause: Cause,
    /// Names of the claims that go together.
    pub(crate) claims: &'static [&'static str],
    /// Number of nodes that take their place.
    pub(crate) launches: usize,
}

// === impl Controller ===

impl Controller {
    /// Begins a disruption, unless none of its claims can go.
    pub(crate) fn begin_wish(&mut self, wish: &Wish, world: &mut World) -> Result<(), Stop> {
        self.refresh(world)?;
        let now = world.clock.now();
        let known = wish.claims.iter().filter_map(|name| CommandNode::of_claim(&self.cluster, &self.state.plan, name));
        let is_going = |one: &CommandNode| one.claim.metadata.deletion_timestamp.is_some() || is_marked(&one.claim);
        let (going, staying): (Vec<_>, Vec<_>) = known.partition(is_going);
        let is_free = |CommandNode { claim, .. }: &CommandNode| {
            let is_held = claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(DO_NOT_DISRUPT));
            is_true(claim, nodeclaim::INITIALIZED) && (wish.cause.forceful() || !is_held)
        };
        let command_nodes: Vec<CommandNode> = staying.into_iter().filter(is_free).collect();
        // A command in progress is completed first if the claims are to have replacements in common.
        let waits = wish.launches > 0 && !going.is_empty();
        let Some(first) = command_nodes.first().filter(|_| !waits) else { return Ok(()) };
        let mut launch = NodeClaim::new("unnamed", NodeClaimSpec::clone(&first.claim.spec));
        launch.spec.expire_after = Lifetime::Never;
        launch.metadata.labels = Some([(labels::NODEPOOL.to_owned(), "default".to_owned())].into());
        let leaver = |one| Leaver { candidate: CommandNode::candidate(one), price: 1.0, drain: None };
        let order = Order {
            cause: wish.cause,
            method: Method::MultiNode,
            leavers: command_nodes.iter().map(leaver).collect(),
            launches: vec![launch; wish.launches],
            cost: 0.5,
            pause: self.pause(),
        };
        let steps = start(&order, now);
        assert_eq!(steps, start(&order, now), "the same input gives the same steps");
        let (cause, is_reboot) = (wish.cause, false);
        self.open(&CommandStart { number: 0, is_reboot, cause, savings: 0.0, command_nodes, steps }, world)?;
        Ok(())
    }
}
