//! NodeOverlays: corrections by the operator of prices and extended resources of instance types.
//!
//! Overlays apply in the order weight descending, then name descending; for each price and each resource the first one
//! wins. Two overlays of equal weight that change the same one conflict: the later is skipped entirely, as in
//! Karpenter.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{Catalogue, NodePool, Requirements, Resource, Resources};

#[cfg(test)]
mod tests;

/// A NodeOverlay.
#[derive(Debug, Clone, PartialEq)]
pub struct Overlay {
    /// Its name.
    pub name: Arc<str>,
    /// `spec.weight`, 0 if absent. Heavier overlays win.
    pub weight: i32,
    /// Requirements on instance types and offerings; one on a label that neither they nor the pool have matches
    /// nothing.
    pub requirements: Requirements,
    /// Change of the price, if any.
    pub price: Option<PriceChange>,
    /// Extended resources to add to the types.
    pub capacity: Resources,
}

/// `spec.price` or `spec.priceAdjustment`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PriceChange {
    /// USD per hour; it also gives a price to offerings without one.
    Absolute(f64),
    /// USD per hour to add.
    Delta(f64),
    /// Percentage to add.
    Percent(f64),
}

impl PriceChange {
    /// Returns the price after the change, never below zero. An unknown price can only be replaced.
    fn apply(self, price: Option<f64>) -> Option<f64> {
        let changed = match self {
            Self::Absolute(absolute) => absolute,
            Self::Delta(delta) => price? + delta,
            Self::Percent(percent) => price? * (1.0 + percent / 100.0),
        };
        Some(changed.max(0.0))
    }
}

/// Result of applying an overlay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverlayReport {
    /// Its name.
    pub name: Arc<str>,
    /// The result.
    pub outcome: OverlayOutcome,
}

/// Result of applying an overlay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OverlayOutcome {
    /// It matched. Heavier overlays may have taken precedence on some or all of its targets.
    Applied {
        /// Number of prices that it set, over all pools.
        prices: usize,
        /// Number of resources of types that it set, over all pools.
        capacities: usize,
    },
    /// Another overlay of equal weight changes the same price or resource: this one is skipped entirely.
    Conflict {
        /// The names of these overlays, sorted.
        with: Vec<Arc<str>>,
    },
    /// It is invalid; the reason, for people.
    Invalid(String),
    /// No offering of any pool matches.
    MatchesNothing,
}

/// A value that an overlay can change: a price, or a resource of a type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// Pool, type, offering.
    Price(usize, usize, usize),
    /// Pool, type, resource.
    Capacity(usize, usize, Resource),
}

/// Overlay that sets a target, and the lightest overlay that matches the target.
struct Claim {
    winner: usize,
    lightest: usize,
}

/// Changes to one pool's catalogue; two pools with equal changes share the result.
#[derive(Debug, Clone, PartialEq, Default)]
struct Changes {
    prices: BTreeMap<(usize, usize), f64>,
    capacities: BTreeMap<(usize, Resource), i64>,
}

/// Applies `overlays` to the catalogues of `pools`. A pool gets its own catalogue only if the overlays make it differ
/// from those of the pools it shares one with. Reports are in the order in which the overlays apply.
///
/// ```
/// use muster_scheduling::overlay::apply;
///
/// assert!(apply(&[], &mut [], &mut Vec::new()).is_empty());
/// ```
pub fn apply(overlays: &[Overlay], pools: &mut [NodePool], catalogues: &mut Vec<Catalogue>) -> Vec<OverlayReport> {
    let mut order: Vec<usize> = (0..overlays.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&overlays[*a], &overlays[*b]);
        b.weight.cmp(&a.weight).then_with(|| b.name.cmp(&a.name))
    });
    let mut claims: BTreeMap<Target, Claim> = BTreeMap::new();
    let mut reports = Vec::new();
    let mut applied = Vec::new();
    for index in order {
        let overlay = &overlays[index];
        let outcome = match invalid(overlay) {
            Some(why) => OverlayOutcome::Invalid(why),
            None => claim(index, overlays, pools, catalogues, &mut claims),
        };
        if matches!(outcome, OverlayOutcome::Applied { .. }) {
            applied.push((index, reports.len()));
        }
        reports.push(OverlayReport { name: Arc::clone(&overlay.name), outcome });
    }
    for (overlay, report) in applied {
        let won = claims.iter().filter(|(_, claim)| claim.winner == overlay).map(|(target, _)| target);
        let (prices, capacities): (Vec<&Target>, Vec<&Target>) = won.partition(|it| matches!(it, Target::Price(..)));
        reports[report].outcome = OverlayOutcome::Applied { prices: prices.len(), capacities: capacities.len() };
    }
    write(changes(overlays, pools, catalogues, &claims), pools, catalogues);
    reports
}

fn invalid(overlay: &Overlay) -> Option<String> {
    let core = [Resource::Cpu, Resource::Memory, Resource::EphemeralStorage, Resource::Pods];
    if let Some(resource) = core.iter().find(|resource| overlay.capacity.contains(resource)) {
        return Some(format!("capacity may only name extended resources, not {resource}"));
    }
    if let Some((resource, _)) = overlay.capacity.iter().find(|(_, amount)| *amount < 0) {
        return Some(format!("capacity of {resource} is negative"));
    }
    match overlay.price? {
        PriceChange::Absolute(price) if !price.is_finite() || price < 0.0 => {
            Some("the price is not a number of zero or more".to_owned())
        }
        PriceChange::Delta(delta) if !delta.is_finite() => Some("the price adjustment is not a number".to_owned()),
        PriceChange::Percent(percent) if !percent.is_finite() || percent < -100.0 => {
            Some("the price adjustment is not a percentage of -100 or more".to_owned())
        }
        _ => None,
    }
}

/// Claims every target of one overlay, or none if another of its weight has claimed one of them.
fn claim(
    index: usize,
    overlays: &[Overlay],
    pools: &[NodePool],
    catalogues: &[Catalogue],
    claims: &mut BTreeMap<Target, Claim>,
) -> OverlayOutcome {
    let overlay = &overlays[index];
    let (targets, matched) = targets(overlay, pools, catalogues);
    if !matched {
        return OverlayOutcome::MatchesNothing;
    }
    let touched = targets.iter().filter_map(|target| claims.get(target)).map(|claim| &overlays[claim.lightest]);
    let mut with: Vec<Arc<str>> =
        touched.filter(|other| other.weight == overlay.weight).map(|other| Arc::clone(&other.name)).collect();
    with.sort();
    with.dedup();
    if !with.is_empty() {
        return OverlayOutcome::Conflict { with };
    }
    for target in targets {
        claims.entry(target).and_modify(|it| it.lightest = index).or_insert(Claim { winner: index, lightest: index });
    }
    OverlayOutcome::Applied { prices: 0, capacities: 0 }
}

/// Returns the targets of the overlay, and true if it matches an offering.
fn targets(overlay: &Overlay, pools: &[NodePool], catalogues: &[Catalogue]) -> (Vec<Target>, bool) {
    let mut targets = Vec::new();
    let mut matched = false;
    for (pool_index, pool) in pools.iter().enumerate() {
        let catalogue = catalogues.get(pool.catalogue).map_or(&[][..], Catalogue::types);
        for (type_index, instance_type) in catalogue.iter().enumerate() {
            if !pool.requirements.intersects(&instance_type.requirements) {
                continue;
            }
            let mut node = pool.requirements.clone();
            node.add_all(&instance_type.requirements);
            // If the type itself contradicts the overlay, none of its offerings can match.
            if !node.intersects(&overlay.requirements) {
                continue;
            }
            let mut any = false;
            for (offering_index, offering) in instance_type.offerings.iter().enumerate() {
                if !node.intersects(&offering.requirements) {
                    continue;
                }
                let mut node = node.clone();
                node.add_all(&offering.requirements);
                if node.first_conflict(&overlay.requirements, |_| false).is_some() {
                    continue;
                }
                any = true;
                if overlay.price.is_some() {
                    targets.push(Target::Price(pool_index, type_index, offering_index));
                }
            }
            if any {
                matched = true;
                let resources = overlay.capacity.iter().map(|(resource, _)| resource.clone());
                targets.extend(resources.map(|resource| Target::Capacity(pool_index, type_index, resource)));
            }
        }
    }
    (targets, matched)
}

/// Returns the changes to the catalogue of each pool.
fn changes(
    overlays: &[Overlay],
    pools: &[NodePool],
    catalogues: &[Catalogue],
    claims: &BTreeMap<Target, Claim>,
) -> Vec<Changes> {
    let mut changes = vec![Changes::default(); pools.len()];
    for (target, claim) in claims {
        let overlay = &overlays[claim.winner];
        match target {
            Target::Price(pool, type_index, offering) => {
                let before = catalogues[pools[*pool].catalogue][*type_index].offerings[*offering].price;
                let after = overlay.price.and_then(|change| change.apply(before));
                if let Some(after) = after.filter(|after| before != Some(*after)) {
                    changes[*pool].prices.insert((*type_index, *offering), after);
                }
            }
            Target::Capacity(pool, type_index, resource) => {
                let before = &catalogues[pools[*pool].catalogue][*type_index].capacity;
                let after = overlay.capacity.get(resource);
                if !before.contains(resource) || before.get(resource) != after {
                    changes[*pool].capacities.insert((*type_index, resource.clone()), after);
                }
            }
        }
    }
    changes
}

fn write(changes: Vec<Changes>, pools: &mut [NodePool], catalogues: &mut Vec<Catalogue>) {
    // Distinct changes by original catalogue, each with the pools that have it.
    let mut groups: BTreeMap<usize, Vec<(Changes, Vec<usize>)>> = BTreeMap::new();
    for (pool, changes) in changes.into_iter().enumerate() {
        let group = groups.entry(pools[pool].catalogue).or_default();
        match group.iter_mut().find(|(other, _)| *other == changes) {
            Some((_, sharing)) => sharing.push(pool),
            None => group.push((changes, vec![pool])),
        }
    }
    for (original, mut group) in groups {
        let Some(before) = catalogues.get(original).cloned() else { continue };
        // Pools without changes keep the index of the catalogue; without such pools the first group takes it.
        group.sort_by_key(|(changes, _)| *changes != Changes::default());
        for (number, (changes, sharing)) in group.into_iter().enumerate() {
            let mut after = before.clone();
            if changes != Changes::default() {
                after.overlay(|types| {
                    for ((type_index, offering), price) in changes.prices {
                        types[type_index].offerings[offering].price = Some(price);
                    }
                    for ((type_index, resource), amount) in changes.capacities {
                        types[type_index].capacity.set(resource, amount);
                    }
                });
            }
            let place = if number == 0 { original } else { catalogues.len() };
            if number == 0 {
                catalogues[place] = after;
            } else {
                catalogues.push(after);
            }
            sharing.into_iter().for_each(|pool| pools[pool].catalogue = place);
        }
    }
}
