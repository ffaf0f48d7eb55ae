//! State of a pass: the decisions so far, and the reasons against each node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::budgets::Ledger;
use super::candidates::{consolidation_block, node_block, pods_block};
use super::decision::{Block, Blocked, Command, Decision, Method};
use super::input::{Cause, DisruptionInput, ManagedNode};
use super::validation::places_hold;
use super::world::{Trial, World};
use super::{Repair, Settings};
use crate::solution::{NewNode, Solution};

/// State of a pass; see the module.
pub(super) struct Pass<'a> {
    pub(super) world: World<'a>,
    pub(super) ledger: Ledger,
    pub(super) commands: Vec<Command>,
    /// Nodes that are rebooted.
    pub(super) reboots: Vec<usize>,
    /// Known reason to keep a node, by node.
    verdicts: Vec<Option<Blocked>>,
    /// True if the node is to be deleted, by node.
    gone: Vec<bool>,
    /// A pending pod that a plan places on the node, by node; not a virtual one.
    promised: BTreeMap<usize, Arc<str>>,
    careful: bool,
    /// Nodes that may be disrupted voluntarily; `None` means all.
    pub(super) among: Option<&'a BTreeSet<usize>>,
}

impl<'a> Pass<'a> {
    /// Creates a pass. `careful`: each command must keep the rules between pods, together with all commands before it.
    pub(super) fn new(input: &'a DisruptionInput, settings: &'a Settings, now: Timestamp, careful: bool) -> Self {
        let world = World::new(input, settings, now);
        let nodes = input.problem.nodes.len();
        Self {
            world,
            ledger: Ledger::new(input, now),
            commands: Vec::new(),
            reboots: Vec::new(),
            verdicts: vec![None; nodes],
            gone: vec![false; nodes],
            promised: BTreeMap::new(),
            careful,
            among: None,
        }
    }

    /// Places the pending pods where a plan would, but not on `going`. All other decisions follow this one.
    pub(super) fn settle(&mut self, going: &[usize]) {
        going.iter().for_each(|&node| self.world.close(node));
        self.promised = self.world.settle_pending().into_iter().collect();
    }

    pub(super) fn input(&self) -> &'a DisruptionInput {
        self.world.input
    }

    /// Returns the managed nodes that stay so far, in the order of the input.
    pub(super) fn managed_nodes(&self) -> Vec<(usize, &'a ManagedNode)> {
        let input = self.input();
        let managed_nodes = input.managed_nodes.iter().enumerate();
        let managed_nodes = managed_nodes.filter_map(|(node, managed_node)| Some((node, managed_node.as_ref()?)));
        managed_nodes.filter(|&(node, _)| !input.problem.nodes[node].deleting && !self.gone[node]).collect()
    }

    /// Records the reason to keep a node. For an unhealthy, drifted or expired node, the reason against that disruption
    /// is kept, since its owner needs to know that one.
    pub(super) fn block(&mut self, blocked: Blocked) {
        let verdict = &mut self.verdicts[blocked.node];
        let now = self.world.now;
        let repairs = self.world.settings.repair == Repair::Voluntary;
        let has_to_go = self.world.input.managed_nodes[blocked.node].as_ref().is_some_and(|managed_node| {
            managed_node.drifted.is_some()
                || managed_node.expires().is_some_and(|expires| expires <= now)
                || !managed_node.repair_conditions.is_empty() && repairs
        });
        let says_more = verdict.as_ref().is_none_or(|known| known.block == Block::StaticPool);
        if !has_to_go || says_more {
            *verdict = Some(blocked);
        }
    }

    /// Records a reason to keep a node, given in parts.
    pub(super) fn keep(&mut self, node: usize, block: Block, message: String) {
        let since = self.input().managed_nodes[node].as_ref().and_then(ManagedNode::known_since);
        self.block(Blocked { node, block, since, message });
    }

    /// Records that a budget of the node's pool is used up, according to `ledger`.
    pub(super) fn keep_by_budget(&mut self, ledger: &Ledger, node: usize, pool: usize, cause: Cause) {
        let (message, since) = ledger.refusal(pool, cause);
        let message = format!("{message} (NodePool `{}`)", self.input().problem.pools[pool].name);
        let since = since.or_else(|| self.input().managed_nodes[node].as_ref().and_then(ManagedNode::known_since));
        self.block(Blocked { node, block: Block::Budget, since, message });
    }

    /// Returns the recorded reason to keep a node, if there is one.
    pub(super) fn verdict(&self, node: usize) -> Option<&Blocked> {
        self.verdicts[node].as_ref()
    }

    /// Returns true if the node may be disrupted voluntarily in this pass.
    pub(super) fn is_asked_about(&self, node: usize) -> bool {
        self.among.is_none_or(|among| among.contains(&node))
    }

    /// Returns true if the node itself may be disrupted; otherwise records the reason.
    pub(super) fn node_is_free(&mut self, node: usize) -> bool {
        if let Some(blocked) = node_block(self.input(), node, self.promised.get(&node)) {
            self.block(blocked);
            return false;
        }
        true
    }

    /// Returns true if its pods may be moved; otherwise records the reason.
    pub(super) fn pods_are_free(&mut self, node: usize) -> bool {
        let blocked = pods_block(self.input(), node, self.world.now);
        let free = blocked.is_none();
        blocked.into_iter().for_each(|blocked| self.block(blocked));
        free
    }

    /// Returns true if it takes no pods in this pass: a node that does is not disrupted. Otherwise records the reason.
    pub(super) fn takes_none(&mut self, node: usize) -> bool {
        let takes = self.world.received[node] > 0;
        if takes {
            self.keep(node, Block::NothingToGain, self.why_kept(node));
        }
        !takes
    }

    /// Returns true if earlier commands leave enough of its pods' budgets; otherwise records the reason.
    pub(super) fn evictions_are_left(&mut self, node: usize) -> bool {
        let over = self.ledger.pods_left(self.input(), node);
        over.into_iter().for_each(|budget| self.keep_by_evictions(node, budget));
        over.is_none()
    }

    fn keep_by_evictions(&mut self, node: usize, budget: usize) {
        let name = &self.input().pod_budgets[budget].name;
        let message = format!("nodes disrupted before this one use up what PodDisruptionBudget `{name}` allows");
        self.keep(node, Block::PodDisruptionBudget, message);
    }

    /// Returns the nodes that may be consolidated; records the reasons against the others.
    pub(super) fn consolidatable(&mut self, empty: bool) -> Vec<(usize, usize)> {
        let mut nodes = Vec::new();
        for (node, managed_node) in self.managed_nodes() {
            // A node with the room of virtual pods goes only if that room is elsewhere.
            if (is_empty(managed_node) && self.world.virtual_pods(node).is_empty()) != empty
                || !self.is_asked_about(node)
                || !self.node_is_free(node)
                || !self.pods_are_free(node)
                || !self.takes_none(node)
            {
                continue;
            }
            let price = self.world.price(node);
            let blocked = consolidation_block(self.input(), node, self.world.now, empty, price);
            let blocked = blocked.map(|blocked| self.with_virtual_pod(blocked, managed_node));
            match (blocked, managed_node.pool) {
                (None, Some(pool)) => nodes.push((node, pool)),
                // For a node that could not be disrupted for drift, the recorded reason is the better one.
                (Some(_), _) if self.verdict(node).is_some_and(|known| known.block != Block::StaticPool) => {}
                (blocked, _) => blocked.into_iter().for_each(|blocked| self.block(blocked)),
            }
        }
        let value = |&(node, _): &(usize, usize)| {
            let cost = self.input().managed_nodes[node].as_ref().map_or(1.0, ManagedNode::moving_cost);
            self.world.price(node).unwrap_or(0.0) / cost
        };
        // The most expensive nodes for the pods that they run come first.
        nodes.sort_by(|a, b| value(b).total_cmp(&value(a)).then(a.0.cmp(&b.0)));
        nodes
    }

    /// Returns the reason, and names the virtual pod without which the node would be empty.
    fn with_virtual_pod(&self, mut blocked: Blocked, managed_node: &ManagedNode) -> Blocked {
        if blocked.block == Block::ConsolidationPolicy
            && is_empty(managed_node)
            && let Some(pod) = self.world.virtual_pods(blocked.node).first()
        {
            blocked.message = format!("{}, and it has the room of virtual pod `{}`", blocked.message, pod.name);
        }
        blocked
    }

    /// Executes a trial as a command, and counts it. Forceful commands are executed in any case.
    pub(super) fn accept(&mut self, why: (Cause, Method), trial: &Trial, replacements: Vec<NewNode>) {
        if self.world.settings.first && !why.0.forceful() && self.has_voluntary_command() {
            // It is for the next pass, and must leave no trace in this one.
            return;
        }
        let mut command = self.world.command(why, trial, &replacements);
        if self.careful && !self.rules_hold(trial, &command) {
            if !why.0.forceful() {
                let message = "rules between pods would not hold once all commands are carried out".to_owned();
                trial.nodes.iter().for_each(|&node| self.keep(node, Block::PodsWouldNotFit, message.clone()));
                return;
            }
            let mut homeless = trial.clone();
            homeless.solution = Solution::default();
            homeless.solution.unschedulable = (0..trial.pods.len()).map(super::world::unplaced).collect();
            if why.0 == Cause::Expired && trial.nodes.iter().any(|&node| self.waits_for_places(node)) {
                let message = "it has expired, but rules between pods leave no place for its pods".to_owned();
                trial.nodes.iter().for_each(|&node| self.keep(node, Block::PodsWouldNotFit, message.clone()));
                return;
            }
            command = self.world.command(why, &homeless, &[]);
            self.world.carry_out(&homeless, &[]);
        } else {
            self.world.carry_out(trial, &replacements);
        }
        for &node in &trial.nodes {
            self.gone[node] = true;
            self.verdicts[node] = None;
            self.ledger.take(self.input().managed_nodes[node].as_ref().and_then(|managed_node| managed_node.pool));
            self.ledger.evict(self.input(), node);
        }
        self.commands.push(command);
    }

    fn has_voluntary_command(&self) -> bool {
        !self.reboots.is_empty() || self.commands.iter().any(|command| !command.cause.forceful())
    }

    /// Reboots the node, and counts it as unavailable. It takes no pods in this pass.
    pub(super) fn reboot(&mut self, node: usize, pool: usize) {
        if self.world.settings.first && self.has_voluntary_command() {
            return;
        }
        self.gone[node] = true;
        self.verdicts[node] = None;
        self.ledger.take(Some(pool));
        self.reboots.push(node);
    }

    /// Returns true if the rules between pods would hold after all commands and this one.
    fn rules_hold(&self, trial: &Trial, command: &Command) -> bool {
        let pods = trial.pods.iter().map(|&place| self.world.pod(place));
        let so_far = Decision {
            pods: self.world.moved.iter().cloned().chain(pods).collect(),
            commands: self.commands.iter().chain([command]).cloned().collect(),
            reboots: Vec::new(),
            blocked: Vec::new(),
            arrivals: self.world.arrivals.clone(),
        };
        places_hold(self.input(), &self.world.settings.options, &so_far)
    }

    /// Disrupts nodes without pods that would have to move: all that the budgets allow, in one command.
    pub(super) fn emptiness(&mut self) {
        let mut going = Vec::new();
        let mut waiting = Vec::new();
        let mut ledger = self.ledger.clone();
        for (node, pool) in self.consolidatable(true) {
            if ledger.left(pool, Cause::Empty) == 0 {
                waiting.push((node, pool));
                continue;
            }
            // Pods with eviction cost zero may still have a budget.
            if let Some(budget) = ledger.pods_left(self.input(), node) {
                self.keep_by_evictions(node, budget);
                continue;
            }
            ledger.take(Some(pool));
            ledger.evict(self.input(), node);
            going.push(node);
        }
        for (node, pool) in waiting {
            self.keep_by_budget(&ledger, node, pool, Cause::Empty);
        }
        if !going.is_empty() {
            // Pods with eviction cost zero may be left without a place, and no node is bought for them.
            let mut trial = self.world.attempt(&going);
            let launches = std::mem::take(&mut trial.solution.new_nodes);
            let bought = launches.into_iter().flat_map(|node| node.pods);
            trial.solution.unschedulable.extend(bought.map(super::world::unplaced));
            trial.solution.unschedulable.sort_by_key(|one| one.pod);
            self.accept((Cause::Empty, Method::Emptiness), &trial, Vec::new());
        }
    }

    /// Returns the decision.
    pub(super) fn end(mut self) -> Decision {
        for (node, _) in self.managed_nodes() {
            if self.verdicts[node].is_none()
                && self.node_is_free(node)
                && self.pods_are_free(node)
                && self.takes_none(node)
            {
                self.keep(node, Block::NothingToGain, self.why_kept(node));
            }
        }
        let managed_nodes = self.managed_nodes();
        let blocked = managed_nodes.into_iter().filter_map(|(node, _)| self.verdicts[node].take()).collect();
        let Self { world, commands, reboots, .. } = self;
        Decision { pods: world.moved, commands, reboots, blocked, arrivals: world.arrivals }
    }

    /// Returns the reason why a node stays that could be disrupted.
    fn why_kept(&self, node: usize) -> String {
        let received = self.world.received[node];
        if received > 0 {
            let pods = if received == 1 { "pod" } else { "pods" };
            return format!("it receives {received} {pods} of nodes that are removed");
        }
        if self.among.is_some() {
            return "it was not among the nodes that an earlier pass chose".to_owned();
        }
        if self.world.settings.first && self.has_voluntary_command() {
            return "another command comes first: it is considered again in the next pass".to_owned();
        }
        "keeping it is cheaper than replacing it".to_owned()
    }
}

/// Returns true if no pod of the node would have to move, except pods with eviction cost zero.
pub(super) fn is_empty(managed_node: &ManagedNode) -> bool {
    managed_node.moving_cost() <= 1.0
}
