//! First steps of the commands of a decision, as far as their launches are allowed.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use muster_api::NodeClaim;
use muster_scheduling::disrupt::{Cause, Command, Decision, DisruptionInput};
use muster_scheduling::model::Problem;

use super::command_node::CommandNode;
use super::objection::paused;
use super::reboots;
use super::start::{FirstSteps, Leaver, Order, start};
use crate::lifecycle::caps::{Admission, Caps, Spent};
use crate::lifecycle::pause::Pause;
use crate::provision::{self, ClaimAndNode, Plan, Stop};
use crate::state::Cluster;
use crate::step::Step;

/// Context shared by the commands of one decision.
#[derive(Debug)]
pub struct CommandStarts<'a> {
    decision: &'a Decision,
    input: &'a DisruptionInput,
    /// Problem of the input with the pods of the decision, to which launches refer by index.
    problem: Problem,
    launches: Launches<'a>,
}

/// Limits on launches.
#[derive(Debug, Clone, Copy)]
pub struct Launches<'a> {
    /// Operations that an operator has paused in the whole cluster.
    pub pause: Pause,
    /// Reasons that block launches for ready pools, by name: a pool that is only on trial cannot provide replacements.
    pub stops: &'a BTreeMap<String, Stop>,
    /// Limits on rate and price.
    pub caps: Caps,
}

/// A command or a reboot that is begun.
#[derive(Debug, Clone)]
pub struct CommandStart {
    /// Index of the command in the decision; of a reboot, that in its list behind the commands.
    pub number: usize,
    /// True if the node is rebooted and stays.
    pub is_reboot: bool,
    /// Cause of the disruption.
    pub cause: Cause,
    /// Savings in USD per hour.
    pub savings: f64,
    /// Candidates.
    pub command_nodes: Vec<CommandNode>,
    /// First steps, independent of each other ([`start`]).
    pub steps: Vec<FirstSteps>,
}

// === impl CommandStarts ===

impl<'a> CommandStarts<'a> {
    /// Prepares the commands of `decision`, which was made about `input`.
    #[must_use]
    pub fn new(decision: &'a Decision, input: &'a DisruptionInput, launches: Launches<'a>) -> Self {
        let mut problem = Problem::default();
        if decision.commands.iter().any(Command::replaces) {
            problem.clone_from(&input.problem);
            problem.pods.clone_from(&decision.pods);
        }
        Self { decision, input, problem, launches }
    }

    /// Returns the commands that can begin in the current state of the cluster, in order.
    pub fn all(&self, cluster: &Cluster, plan: &Plan, now: Timestamp) -> Vec<CommandStart> {
        let mut spent = self.spent(cluster);
        let numbers = 0..self.decision.commands.len();
        let reboots = (numbers.end..).zip(&self.decision.reboots);
        let reboots = reboots.filter_map(|(number, &node)| self.reboot(number, node, cluster, plan, now));
        numbers.filter_map(|number| self.one(number, cluster, plan, &mut spent, now)).chain(reboots).collect()
    }

    fn reboot(
        &self,
        number: usize,
        node: usize,
        cluster: &Cluster,
        plan: &Plan,
        now: Timestamp,
    ) -> Option<CommandStart> {
        let due = self.input.managed_nodes[node].as_ref()?.repair_due(now)?;
        let command_node = CommandNode::of_node(cluster, plan, &self.input.problem.nodes[node].name)?;
        let step = reboots::request(&command_node.candidate(), &due, self.launches.pause, now)?;
        let steps = vec![FirstSteps { begin: step, keep_away: Step::rest() }];
        let command_nodes = vec![command_node];
        Some(CommandStart { number, is_reboot: true, cause: Cause::Unhealthy, savings: 0.0, command_nodes, steps })
    }

    fn one(
        &self,
        number: usize,
        cluster: &Cluster,
        plan: &Plan,
        spent: &mut Spent,
        now: Timestamp,
    ) -> Option<CommandStart> {
        let command = &self.decision.commands[number];
        let names: Vec<Arc<str>> =
            command.candidates.iter().map(|node| Arc::clone(&self.input.problem.nodes[*node].name)).collect();
        let command_nodes: Vec<CommandNode> =
            names.iter().map(|node| CommandNode::of_node(cluster, plan, node)).collect::<Option<_>>()?;
        let launches = match self.launches(command, cluster, spent, now) {
            Some(launches) => launches,
            // Forceful commands proceed without replacements; their pods are provisioned for like others.
            None if matches!(command.cause, Cause::Interrupted | Cause::Broken) => Vec::new(),
            None => return None,
        };
        let order = Order {
            cause: command.cause,
            method: command.method,
            leavers: command_nodes
                .iter()
                .zip(&command.candidates)
                .map(|(command_node, &node)| Leaver {
                    candidate: command_node.candidate(),
                    price: self.input.price(node).unwrap_or(0.0),
                    drain: self.drain(command.cause, node, now),
                })
                .collect(),
            cost: if launches.is_empty() { 0.0 } else { cost(command) },
            launches,
            pause: self.launches.pause,
        };
        let launched = order.launches.len();
        let steps = start(&order, now);
        if steps.is_empty() {
            return None;
        }
        spent.made_at.extend(std::iter::repeat_n(now, launched));
        spent.hourly_price += if launched > 0 { cost(command) } else { 0.0 };
        let (cause, savings) = (command.cause, command.savings);
        Some(CommandStart { number, is_reboot: false, cause, savings, command_nodes, steps })
    }

    /// Returns the longest drain of a node that is repaired: none if it was never initialized.
    fn drain(&self, cause: Cause, node: usize, now: Timestamp) -> Option<SignedDuration> {
        let managed_node = self.input.managed_nodes.get(node)?.as_ref()?;
        match cause {
            Cause::Unhealthy => managed_node.repair_due(now)?.drain,
            Cause::Broken if !self.input.problem.nodes[node].initialized => Some(SignedDuration::ZERO),
            _ => None,
        }
    }

    /// Returns the claims of the replacements; `None` if any of them may not be launched.
    fn launches(&self, command: &Command, cluster: &Cluster, spent: &Spent, now: Timestamp) -> Option<Vec<NodeClaim>> {
        let Launches { pause, stops, caps } = self.launches;
        let mut spent = spent.clone();
        let mut claims = Vec::new();
        for node in &command.replacements {
            let pool = cluster.pool(&self.problem.pools[node.pool].name)?;
            let name = pool.metadata.name.as_deref().unwrap_or_default();
            if (pause | paused(Some(pool))).launches || stops.contains_key(name) {
                return None;
            }
            if caps.admit(&spent, node.price, now) != Admission::Now {
                return None;
            }
            spent.made_at.push(now);
            spent.hourly_price += node.price;
            claims.push(provision::claim(&self.problem, node, pool, String::new()));
        }
        Some(claims)
    }

    /// Returns the usage of the limits so far; empty if nothing is limited.
    fn spent(&self, cluster: &Cluster) -> Spent {
        if self.launches.caps == Caps::default() {
            return Spent::default();
        }
        let claims: Vec<ClaimAndNode<'_>> = cluster.claims().map(|claim| ClaimAndNode { claim, node: None }).collect();
        provision::spent(&self.input.problem, &claims)
    }
}

fn cost(command: &Command) -> f64 {
    command.replacements.iter().map(|node| node.price).sum()
}
