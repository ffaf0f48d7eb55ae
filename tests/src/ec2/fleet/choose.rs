//! Which of the offers a fleet gets: a pure function of the offers and the strategy.
//!
//! The strategies are those of the EC2 Fleet guide ("Use allocation strategies"). Where EC2 looks at how much capacity a
//! pool has, the offer's depth (1 to 10) is compared.

use std::cmp::Ordering;

use super::super::answer::ApiError;
use super::super::faults;

/// One pool that a fleet may draw from.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::ec2) struct Offer {
    pub(in crate::ec2) instance_type: String,
    pub(in crate::ec2) zone: String,
    pub(in crate::ec2) subnet: String,
    /// USD per hour and instance.
    pub(in crate::ec2) price: f64,
    /// Lower first; none comes last.
    pub(in crate::ec2) priority: Option<f64>,
    /// Units that one instance counts for.
    pub(in crate::ec2) weight: f64,
    /// From 1 (rare) to 10 (plenty).
    pub(in crate::ec2) depth: u32,
    /// So many instances at most, `None` without end.
    pub(in crate::ec2) left: Option<u32>,
    /// Why not more than `left`.
    pub(in crate::ec2) short_of: Option<ApiError>,
}

/// How EC2 picks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ec2) enum Strategy {
    /// The cheapest per unit, then the next.
    LowestPrice,
    /// By priority.
    Prioritized,
    /// In turns over all pools.
    Diversified,
    /// The deepest pool, then the next.
    CapacityOptimized,
    /// The deepest third by priority, then by depth.
    CapacityOptimizedPrioritized,
    /// The cheapest of the pools that are at least half as deep as the deepest.
    PriceCapacityOptimized,
}

/// How much is wanted.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::ec2) struct Demand {
    pub(in crate::ec2) units: u32,
    pub(in crate::ec2) strategy: Strategy,
    /// Nothing is launched if fewer units than this can be had.
    pub(in crate::ec2) least: u32,
}

/// Indices into the offers.
#[derive(Debug, Default, PartialEq)]
pub(in crate::ec2) struct Choice {
    /// How many instances of which, in the order of choice.
    pub(in crate::ec2) launches: Vec<(usize, u32)>,
    /// Those that were tried and had not enough.
    pub(in crate::ec2) refused: Vec<(usize, ApiError)>,
}

/// Fills the demand pool by pool. A pool that runs short is reported; one that is not reached is not.
pub(in crate::ec2) fn choose(offers: &[&Offer], demand: &Demand) -> Choice {
    let order = order(offers, demand.strategy);
    let mut choice = Choice::default();
    let mut wanted = f64::from(demand.units);
    let mut counts = vec![0_u32; offers.len()];
    let mut short = vec![false; offers.len()];
    loop {
        let mut progress = false;
        for &index in &order {
            let offer = offers[index];
            if wanted <= 0.0 || short[index] {
                continue;
            }
            let all = count_for(wanted, offer.weight);
            let turn = if demand.strategy == Strategy::Diversified { 1 } else { all };
            let room = offer.left.map_or(u32::MAX, |left| left - counts[index]);
            let take = turn.min(room);
            counts[index] += take;
            wanted -= f64::from(take) * offer.weight;
            progress |= take > 0;
            if take < turn {
                short[index] = true;
                choice.refused.extend(offer.short_of.clone().map(|error| (index, error)));
            }
        }
        if wanted <= 0.0 || !progress {
            break;
        }
    }
    let had = f64::from(demand.units) - wanted.max(0.0);
    if had < f64::from(demand.least) {
        let error = ApiError::new(
            400,
            "UnfulfillableCapacity",
            "Unable to fulfill capacity due to your request configuration. Please adjust your request and try again.",
        );
        let unused = order.iter().filter(|&&index| !short[index]);
        choice.refused.extend(unused.map(|&index| (index, error.clone())));
        return choice;
    }
    choice.launches = order.into_iter().map(|index| (index, counts[index])).filter(|(_, count)| *count > 0).collect();
    choice
}

/// The order in which pools are tried. Ties go to the earlier override.
fn order(offers: &[&Offer], strategy: Strategy) -> Vec<usize> {
    let deepest = offers.iter().filter(|offer| offer.left != Some(0)).map(|offer| offer.depth).max().unwrap_or(0);
    let mut order = (0..offers.len()).collect::<Vec<_>>();
    let by = |a: &Offer, b: &Offer| -> Ordering {
        let price = (a.price / a.weight).total_cmp(&(b.price / b.weight));
        let depth = b.depth.cmp(&a.depth);
        let priority = a.priority.unwrap_or(f64::INFINITY).total_cmp(&b.priority.unwrap_or(f64::INFINITY));
        let half = |offer: &Offer| offer.depth * 2 < deepest;
        let third = |offer: &Offer| offer.depth * 3 < deepest * 2;
        match strategy {
            Strategy::LowestPrice => price,
            Strategy::Prioritized => priority.then(price),
            Strategy::Diversified => Ordering::Equal,
            Strategy::CapacityOptimized => depth.then(price),
            Strategy::CapacityOptimizedPrioritized => third(a).cmp(&third(b)).then(priority).then(depth),
            Strategy::PriceCapacityOptimized => half(a).cmp(&half(b)).then(price),
        }
    };
    order.sort_by(|&a, &b| by(offers[a], offers[b]));
    order
}

/// Instances that give at least `units`.
fn count_for(units: f64, weight: f64) -> u32 {
    let count = (units / weight).ceil().clamp(0.0, f64::from(u32::MAX));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range of u32")]
    let count = count as u32;
    count
}

/// A pool that cannot be drawn from at all.
impl Offer {
    pub(in crate::ec2) fn refuse(&mut self, error: ApiError) {
        if self.left != Some(0) {
            self.left = Some(0);
            self.short_of = Some(error);
        }
    }

    /// At most `left`, else `error`.
    pub(in crate::ec2) fn limit(&mut self, left: u32, error: impl FnOnce() -> ApiError) {
        if self.left.is_none_or(|least| left < least) {
            self.left = Some(left);
            self.short_of = Some(error());
        }
    }

    /// A spot price that may not be paid.
    pub(in crate::ec2) fn cap_price(&mut self, most: Option<f64>) {
        if let Some(most) = most.filter(|most| *most < self.price) {
            let error = faults::price_too_low(most, self.price);
            self.refuse(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(price: f64, depth: u32, left: Option<u32>) -> Offer {
        let ice = ApiError::new(500, "InsufficientInstanceCapacity", "none");
        Offer {
            instance_type: "t".to_owned(),
            zone: "z".to_owned(),
            subnet: "s".to_owned(),
            price,
            priority: None,
            weight: 1.0,
            depth,
            left,
            short_of: left.map(|_| ice),
        }
    }

    fn pick(offers: &[Offer], units: u32, strategy: Strategy, least: u32) -> (Vec<(usize, u32)>, Vec<usize>) {
        let offers = offers.iter().collect::<Vec<_>>();
        let choice = choose(&offers, &Demand { units, strategy, least });
        (choice.launches, choice.refused.into_iter().map(|(index, _)| index).collect())
    }

    #[test]
    fn the_cheapest_is_filled_first_and_reported_when_it_runs_short() {
        let offers = [offer(3.0, 1, None), offer(1.0, 1, Some(2)), offer(2.0, 1, Some(0))];
        assert_eq!(pick(&offers, 2, Strategy::LowestPrice, 0), (vec![(1, 2)], vec![]));
        assert_eq!(pick(&offers, 5, Strategy::LowestPrice, 0), (vec![(1, 2), (0, 3)], vec![1, 2]));
    }

    #[test]
    fn price_capacity_optimized_passes_over_what_is_cheap_and_rare() {
        let offers = [offer(1.0, 2, None), offer(2.0, 6, None), offer(3.0, 10, None)];
        assert_eq!(pick(&offers, 1, Strategy::PriceCapacityOptimized, 0).0, [(1, 1)]);
        assert_eq!(pick(&offers, 1, Strategy::CapacityOptimized, 0).0, [(2, 1)]);
        assert_eq!(pick(&offers, 1, Strategy::LowestPrice, 0).0, [(0, 1)]);
        assert_eq!(pick(&offers, 4, Strategy::Diversified, 0).0, [(0, 2), (1, 1), (2, 1)]);
    }

    #[test]
    fn priority_counts_before_price_and_weight_in_it() {
        let mut offers = [offer(1.0, 5, None), offer(4.0, 5, None)];
        offers[1].priority = Some(0.0);
        assert_eq!(pick(&offers, 1, Strategy::Prioritized, 0).0, [(1, 1)]);
        offers[1].weight = 8.0;
        assert_eq!(pick(&offers, 9, Strategy::LowestPrice, 0).0, [(1, 2)]);
    }

    #[test]
    fn less_than_the_least_is_nothing() {
        let offers = [offer(1.0, 1, Some(2)), offer(2.0, 1, Some(0))];
        assert_eq!(pick(&offers, 3, Strategy::LowestPrice, 3), (vec![], vec![0, 1]));
        assert_eq!(pick(&offers, 3, Strategy::LowestPrice, 2).0, [(0, 2)]);
    }
}
