//! Launches of a replacement: only types that are cheaper than the nodes they replace, whichever of them the cloud
//! picks.

use std::collections::BTreeSet;
use std::sync::Arc;

use index_vec::IndexVec;

use crate::labels;
use crate::model::{Catalogue, Offer, OfferingSet, Operator, Options, Problem, Requirement, Requirements, SetId};
use crate::solution::NewNode;

const SPOT: &str = "spot";
const ON_DEMAND: &str = "on-demand";

/// Supply for a launch: its pool's types, and those of their offerings that its requirements allow.
struct Market<'p> {
    types: &'p Catalogue,
    /// True if the requirements allow the offering set, by index.
    open: IndexVec<SetId, bool>,
}

impl<'p> Market<'p> {
    fn new(problem: &'p Problem, options: &Options, pool: usize, requirements: &Requirements) -> Self {
        let types = &problem.catalogues[problem.pools[pool].catalogue];
        let open = types
            .sets()
            .iter()
            .map(|set| (!set.reserved || options.reserved_capacity) && requirements.intersects(&set.requirements));
        Self { types, open: open.collect() }
    }

    fn offers(&self, kind: usize) -> impl Iterator<Item = (&'p Offer, &'p OfferingSet)> {
        let offers = self.types.offers(kind).iter().map(|offer| (offer, &self.types.sets()[offer.set]));
        offers.filter(|(offer, set)| self.open[offer.set] && (!set.reserved || offer.reservation_capacity > 0))
    }

    /// Returns the maximum price of a launch of the type: that of the dearest reserved offering, without one that of
    /// the dearest spot, without one that of the dearest on-demand, since the cloud tries them in this order.
    fn worst_price(&self, kind: usize) -> Option<f64> {
        let mut worst: [Option<f64>; 3] = [None; 3];
        for (offer, set) in self.offers(kind) {
            let rank = if set.reserved { 0 } else { 1 + usize::from(!set.spot) };
            worst[rank] = Some(worst[rank].map_or(offer.price, |known: f64| known.max(offer.price)));
        }
        worst.into_iter().flatten().next()
    }

    /// Returns the cheapest offering of the type: price and index.
    fn cheapest(&self, kind: usize) -> Option<(f64, usize)> {
        let offers = self.offers(kind).map(|(offer, _)| (offer.price, offer.number as usize));
        offers.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
    }

    /// Returns the minimum price of the type on demand.
    fn cheapest_on_demand(&self, kind: usize) -> Option<f64> {
        let on_demand = self.offers(kind).filter(|(_, set)| !set.spot && !set.reserved).map(|(offer, _)| offer.price);
        on_demand.min_by(f64::total_cmp)
    }

    /// Returns the maximum price of the type as spot.
    fn dearest_spot(&self, kind: usize) -> Option<f64> {
        let spot = self.offers(kind).filter(|(_, set)| set.spot).map(|(offer, _)| offer.price);
        spot.max_by(f64::total_cmp)
    }

    /// Returns two flags: some of `kinds` may be launched as spot, and some as on-demand.
    fn spot_and_on_demand(&self, kinds: &[usize]) -> (bool, bool) {
        let sets = || kinds.iter().flat_map(|&kind| self.offers(kind)).map(|(_, set)| set);
        (sets().any(|set| set.spot), sets().any(|set| !set.spot && !set.reserved))
    }
}

/// Returns true if the node may be launched as spot.
pub(super) fn may_be_spot(problem: &Problem, options: &Options, node: &NewNode) -> bool {
    Market::new(problem, options, node.pool, &node.requirements).spot_and_on_demand(&node.alternatives).0
}

/// Reason why no cheaper launch exists.
pub(super) enum Miss {
    /// Every type costs as much.
    Dear,
    /// Number of cheaper types, too few for the pool's `minValues`.
    Choice(usize),
}

/// Returns `node` with only the types that cost less than `limit` in every allowed offering, if they satisfy the pool's
/// `minValues`. Returns the reason if too few types remain.
///
/// A launch that may be spot or on-demand becomes one of them, so that a shortage of spot cannot turn the saving into a
/// loss: spot, unless on-demand is cheaper. Spot that is dearer than the same type on demand is left out, as at launch,
/// unless the pool sets `minValues`: its types may be needed for them.
pub(super) fn below(problem: &Problem, options: &Options, node: &NewNode, limit: f64) -> Result<NewNode, Miss> {
    let market = Market::new(problem, options, node.pool, &node.requirements);
    if market.spot_and_on_demand(&node.alternatives) != (true, true) {
        return cheaper(problem, options, node, limit);
    }
    let keeps_choice = problem.pools[node.pool].requirements.iter().any(|(_, one)| one.min_values.is_some());
    let is_worth_it = |&kind: &usize| {
        let prices = market.dearest_spot(kind).zip(market.cheapest_on_demand(kind));
        keeps_choice || prices.is_none_or(|(spot, on_demand)| spot <= on_demand)
    };
    let worth_it: Arc<[usize]> = node.alternatives.iter().copied().filter(is_worth_it).collect();
    let spot = NewNode { alternatives: worth_it, ..pinned(node, SPOT) };
    let spot = cheaper(problem, options, &spot, limit);
    let on_demand = node.alternatives.iter().filter_map(|&kind| market.cheapest_on_demand(kind));
    let on_demand = on_demand.min_by(f64::total_cmp).filter(|price| *price < limit);
    if on_demand.is_none_or(|price| spot.as_ref().is_ok_and(|spot| spot.price <= price)) {
        return spot;
    }
    match cheaper(problem, options, &pinned(node, ON_DEMAND), limit) {
        Ok(on_demand) => Ok(on_demand),
        Err(_) => spot,
    }
}

/// Returns `node` with one capacity type only.
fn pinned(node: &NewNode, capacity_type: &str) -> NewNode {
    let mut node = node.clone();
    let one = Requirement::new(Operator::In, [capacity_type]);
    Arc::make_mut(&mut node.requirements).add(labels::CAPACITY_TYPE, one);
    node
}

/// Returns `node` with only the types that cost less than `limit` in every offering that its requirements allow.
fn cheaper(problem: &Problem, options: &Options, node: &NewNode, limit: f64) -> Result<NewNode, Miss> {
    let market = Market::new(problem, options, node.pool, &node.requirements);
    let cheaper = node.alternatives.iter().filter(|&&kind| market.worst_price(kind).is_some_and(|worst| worst < limit));
    let priced = cheaper.filter_map(|&kind| market.cheapest(kind).map(|(price, offering)| (price, kind, offering)));
    let mut kept: Vec<(f64, usize, usize)> = priced.collect();
    // The order of the plan, but by the prices of the remaining offerings.
    kept.sort_by(|a, b| a.0.total_cmp(&b.0));
    let &(price, instance_type, offering) = kept.first().ok_or(Miss::Dear)?;
    let alternatives: Arc<[usize]> = kept.iter().map(|&(_, kind, _)| kind).collect();
    let kept = NewNode { instance_type, offering, price, alternatives, ..node.clone() };
    let count = kept.alternatives.len();
    if choice_is_kept(problem, &kept, &kept.alternatives) { Ok(kept) } else { Err(Miss::Choice(count)) }
}

/// Returns `node` with its `count` cheapest types, or more if `minValues` requires them.
pub(super) fn truncated(problem: &Problem, node: NewNode, count: usize) -> NewNode {
    let enough =
        (count..node.alternatives.len()).find(|&most| choice_is_kept(problem, &node, &node.alternatives[..most]));
    match enough {
        Some(most) => NewNode { alternatives: node.alternatives[..most].into(), ..node },
        None => node,
    }
}

/// Returns true if these types satisfy the pool's `minValues`. A consolidation never relaxes them.
fn choice_is_kept(problem: &Problem, node: &NewNode, kinds: &[usize]) -> bool {
    let pool = &problem.pools[node.pool];
    let types = &problem.catalogues[pool.catalogue];
    pool.requirements.iter().all(|(key, requirement)| {
        let Some(least) = requirement.min_values else { return true };
        let values = kinds.iter().filter_map(|&kind| types[kind].requirements.get(key));
        let distinct: BTreeSet<&str> = values
            .flat_map(|of_type| of_type.values())
            .map(|value| &**value)
            .filter(|value| requirement.has(value))
            .collect();
        // A type's name counts as a value, even if the catalogue does not repeat it as a label.
        let names = if &**key == labels::INSTANCE_TYPE { kinds.len() } else { 0 };
        distinct.len().max(names) >= least as usize
    })
}
