//! Evaluation of a trial as a consolidation: its launches and its savings.

use super::decision::Block;
use super::launch::{self, Miss};
use super::pass::Pass;
use super::ranking;
use super::world::Trial;
use crate::labels;
use crate::model::Packing;
use crate::solution::NewNode;

/// Minimum share of the replaced nodes' price that a replacement must save, so that rounded prices do not cause
/// flapping.
const LEAST_SAVING: f64 = 0.01;

/// Minimum number of cheaper types for replacing one spot node by another: with fewer, each move ends on a type that is
/// more likely to be interrupted than the previous one.
const SPOT_CHOICE: usize = 15;

/// Launches of a consolidation, and its savings in USD per hour.
pub(super) struct Offer {
    pub(super) launches: Vec<NewNode>,
    pub(super) savings: f64,
}

/// Reason why a trial has no offer.
pub(super) type Refusal = (Block, String);

impl Pass<'_> {
    /// Returns the launches and savings of executing `trial`.
    pub(super) fn offer(&self, trial: &Trial) -> Result<Offer, Refusal> {
        let world = &self.world;
        if !trial.places_all() {
            return Err((Block::PodsWouldNotFit, self.who_is_stuck(trial)));
        }
        let launched = trial.solution.new_nodes.len();
        if launched > 1 && world.settings.options.packing == Packing::FirstFit {
            // The algorithm used for comparison replaces nodes by at most one.
            return Err((Block::NoCheaperReplacement, format!("its pods would need {launched} new nodes")));
        }
        let cost = world.prices(&trial.nodes);
        let launches = if trial.launches() { self.cheaper(trial, cost)? } else { Vec::new() };
        let savings = cost - launches.iter().map(|node| node.price).sum::<f64>();
        // The room of virtual pods moves at no price: nothing is evicted.
        let moved = world.moves(trial);
        let moves = moved as f64 * world.settings.move_price;
        if !launches.is_empty() && savings < LEAST_SAVING * cost || savings <= moves {
            let pods = if moved == 1 { "pod" } else { "pods" };
            let message =
                format!("moving {moved} {pods} would save ${savings:.4} an hour, too little to pay for the moves");
            return Err((Block::NothingToGain, message));
        }
        ranking::balanced(world, &trial.nodes, savings).map_err(|message| (Block::NothingToGain, message))?;
        Ok(Offer { launches, savings })
    }

    /// Returns the launches of `trial`, restricted to the types that leave a saving.
    fn cheaper(&self, trial: &Trial, cost: f64) -> Result<Vec<NewNode>, Refusal> {
        let world = &self.world;
        let (problem, options) = (&world.problem, &world.settings.options);
        let planned = &trial.solution.new_nodes;
        let total: f64 = planned.iter().map(|node| node.price).sum();
        let what = if trial.nodes.len() == 1 { "the node costs" } else { "the nodes cost" };
        let dear = || {
            let message = format!("{what} ${cost:.4} an hour, and the cheapest launch that holds the pods ${total:.4}");
            (Block::NoCheaperReplacement, message)
        };
        let mut launches = Vec::with_capacity(planned.len());
        for node in planned {
            let others = total - node.price;
            let mut limit = cost - others;
            if planned.len() == 1 && trial.nodes.len() > 1 {
                limit = limit.min(self.least_of_same_types(trial, node));
            }
            let kept = launch::below(problem, options, node, limit).map_err(|miss| match miss {
                Miss::Dear => dear(),
                Miss::Choice(count) => {
                    let name = &problem.pools[node.pool].name;
                    let types = if count == 1 { "type is" } else { "types are" };
                    let message =
                        format!("{count} cheaper {types} fewer than the `minValues` of NodePool `{name}` ask for");
                    (Block::NoCheaperReplacement, message)
                }
            })?;
            launches.push(kept);
        }
        if launches.iter().map(|node| node.price).sum::<f64>() >= cost {
            return Err(dear());
        }
        let is_spot =
            |&node: &usize| problem.nodes[node].labels.get(labels::CAPACITY_TYPE).is_some_and(|kind| &**kind == "spot");
        if !trial.nodes.iter().all(is_spot) || !launches.iter().any(|node| launch::may_be_spot(problem, options, node))
        {
            return Ok(launches);
        }
        if !world.settings.spot_to_spot {
            let message =
                "spot would be replaced by spot, which the gate SpotToSpotConsolidation does not allow".to_owned();
            return Err((Block::SpotToSpot, message));
        }
        if trial.nodes.len() == 1 {
            let choice = launches.iter().map(|node| node.alternatives.len()).min().unwrap_or(0);
            if choice < SPOT_CHOICE {
                let types = if choice == 1 { "type is" } else { "types are" };
                let message = format!(
                    "{choice} cheaper {types} too little choice to replace spot by spot: {SPOT_CHOICE} are needed"
                );
                return Err((Block::SpotToSpot, message));
            }
            launches = launches.into_iter().map(|node| launch::truncated(problem, node, SPOT_CHOICE)).collect();
        }
        Ok(launches)
    }

    /// Returns the price of the cheapest removed node of a type that `launch` may use: keeping that node would be
    /// better than buying another one.
    fn least_of_same_types(&self, trial: &Trial, launch: &NewNode) -> f64 {
        let problem = &self.world.problem;
        let types = &problem.catalogues[problem.pools[launch.pool].catalogue];
        let names: Vec<&str> = launch.alternatives.iter().map(|&kind| &*types[kind].name).collect();
        let same = trial.nodes.iter().filter(|&&node| {
            problem.nodes[node].labels.get(labels::INSTANCE_TYPE).is_some_and(|kind| names.contains(&&**kind))
        });
        same.filter_map(|&node| self.world.price(node)).fold(f64::INFINITY, f64::min)
    }
}
