//! Drafts for one reading: the same demand is packed in several ways, and the best draft is kept.

use rustc_hash::FxHashSet;

use super::construct::{self, OpenedNode, Remaining, Settings};
use super::groups::Grouped;
use super::pricing::PriceModel;
use super::recombine::{CHOICES, Choice, Patterns};
use super::remaining_demand::RemainingDemand;
use super::reserved::Reservations;
use super::shape_index::{Headroom, ShapeIndex};
use super::zones::ZonePolicy;
use super::{Draft, exact, existing, existing_nodes, patterns, zones};
use crate::compile::Compiled;
use crate::pack::relaxation::fluid;
use crate::solution::Reason;

/// Settings of the construction passes: few shapes and low minimum column weights; more shapes and higher weights; all
/// shapes, preferring smaller ones if their promises are nearly equal.
const PORTFOLIO: [Settings; 3] = [
    Settings { candidates: 2, floor: 0.15, lean: 0.0 },
    Settings { candidates: 6, floor: 0.5, lean: 0.0 },
    Settings { candidates: usize::MAX, floor: 0.5, lean: 0.001 },
];

/// Maximum number of nodes of a plan that is also drafted with smaller nodes. In larger plans no node holds more than a
/// few percent of the pods, and kube-scheduler fills small nodes less well.
const FEW_NODES: usize = 20;

/// Maximum number of nodes per group of shapes for a second pass. In larger plans the last, wasteful nodes of each
/// group weigh too little.
const SECOND_PASS_NODES: usize = 150;

/// Maximum number of shapes for which patterns are generated: each requires its own search.
const PATTERN_SHAPES: usize = 128;

/// Minimum number of units for patterns; smaller plans are covered by other searches.
const PATTERN_UNITS: usize = 24;

/// Maximum price of a draft, as a factor of the fluid bound, at which patterns are not tried.
const GOOD_ENOUGH: f64 = 1.002;

/// Maximum price of a draft by patterns that leaves no more units than the known one, as a factor of what its programs
/// promise, at which no other is made.
const AS_PROMISED: f64 = 1.02;

/// Returns the best draft for one reading, without the units `without`.
pub(super) fn draft(
    compiled: &Compiled<'_>,
    grouped: &Grouped,
    without: &FxHashSet<u32>,
    zone_policy: ZonePolicy,
) -> Draft {
    drafting(compiled, grouped, without, zone_policy, |drafting| drafting.best())
}

/// Returns drafts of a small plan besides the one that [`draft`] chooses: the cheapest draft before local search need
/// not be the cheapest after it.
pub(super) fn others(compiled: &Compiled<'_>, grouped: &Grouped, zone_policy: ZonePolicy) -> Vec<Draft> {
    drafting(compiled, grouped, &FxHashSet::default(), zone_policy, |drafting| drafting.others())
}

/// Assigns domains, fills existing nodes, and calls `make` for the rest.
fn drafting<D>(
    compiled: &Compiled<'_>,
    grouped: &Grouped,
    without: &FxHashSet<u32>,
    zone_policy: ZonePolicy,
    make: impl FnOnce(&Drafting<'_>) -> D,
) -> D {
    let standing = existing_nodes::standing(compiled);
    let standing_admits = existing_nodes::standing_admits(compiled, &standing);
    let zoned = zones::assign(compiled, grouped, &standing, &standing_admits, without, zone_policy);
    let mut unplaced = RemainingDemand::new(compiled, grouped, &zoned);
    let mut filled = standing;
    let placed = existing::fill(compiled, grouped, &mut unplaced, &mut filled, &standing_admits);
    let existing = filled.iter().zip(placed).filter(|(_, units)| !units.is_empty());
    let units = grouped.groups.iter().flat_map(|group| &group.units);
    let set_aside = units.filter(|unit| without.contains(unit)).map(|&unit| (unit, None));
    let rejected = zoned.rejected.iter().map(|&(unit, reason)| (unit, Some(reason)));
    make(&Drafting {
        compiled,
        grouped,
        shape_index: &ShapeIndex::new(compiled, grouped, &unplaced, true),
        unplaced: &unplaced,
        reservations: &Reservations::new(compiled),
        existing: existing.map(|(one, units)| (one.node, units)).collect(),
        waiting: rejected.chain(set_aside).collect(),
        tasted: zoned.tasted,
    })
}

/// Input shared by all drafts.
struct Drafting<'a> {
    compiled: &'a Compiled<'a>,
    grouped: &'a Grouped,
    shape_index: &'a ShapeIndex<'a>,
    /// Units for new nodes.
    unplaced: &'a RemainingDemand,
    reservations: &'a Reservations,
    /// Units placed on existing nodes.
    existing: Vec<(usize, Vec<u32>)>,
    /// Units excluded from placement.
    waiting: Vec<(u32, Option<Reason>)>,
    /// True if another [`ZonePolicy`] might have assigned other domains.
    tasted: bool,
}

/// Draft in progress, after reserved capacity is filled.
#[derive(Clone)]
struct Begun {
    reservations: Reservations,
    rest: RemainingDemand,
    headroom: Headroom,
    opened: Vec<OpenedNode>,
}

/// Draft of construction.
struct Constructed {
    draft: Draft,
    /// Prices that it was made with.
    price_model: PriceModel,
    /// Contents that were considered, if the prices are split.
    seen: Patterns,
}

impl<'a> Drafting<'a> {
    fn best(&self) -> Draft {
        let begun = self.begin();
        let mut known = self.constructed(&begun);
        // Choosing again is a search for patterns too, a coarser one.
        if !self.has_many_shapes() {
            known = self.chosen_again(&begun, known);
        }
        match self.by_patterns(&begun, &known) {
            Some(other) if other.saves(&known.draft, patterns::SAVES) => other,
            _ if self.has_many_shapes() => self.chosen_again(&begun, known).draft,
            _ => known.draft,
        }
    }

    /// Returns true if so many shapes are on offer that patterns are not generated for all of them.
    fn has_many_shapes(&self) -> bool {
        self.shape_index.basic.len() > PATTERN_SHAPES
    }

    /// Returns the best draft that fills nodes one after the other.
    fn constructed(&self, begun: &Begun) -> Constructed {
        let optimal = exact::applies(self.shape_index, &begun.rest, &begun.headroom);
        let mut best: Option<Draft> = None;
        let mut price_model = PriceModel::Unknown;
        for settings in PORTFOLIO.iter().take(self.compiled.options.passes.max(1)) {
            let nodes = best.as_ref().map_or(0, |best| best.opened.len());
            if nodes > SECOND_PASS_NODES * self.shape_index.groups || settings.lean > 0.0 && nodes > FEW_NODES {
                break;
            }
            let mut pass = begun.clone();
            if !self.construct(&mut pass, *settings, &price_model, None) {
                price_model = PriceModel::sharper(self.shape_index, &begun.rest, &self.grouped.rules.host);
                pass = begun.clone();
                if matches!(price_model, PriceModel::Split(_)) {
                    return self.split(pass, *settings, price_model);
                }
                self.construct(&mut pass, *settings, &price_model, None);
            }
            let other = self.end(pass);
            if best.as_ref().is_none_or(|best| other.beats(best)) {
                best = Some(other);
            }
            price_model = PriceModel::Fluid;
            if optimal {
                break;
            }
        }
        Constructed { draft: best.unwrap_or_default(), price_model, seen: Patterns::default() }
    }

    /// Returns a draft with split prices.
    fn split(&self, mut pass: Begun, settings: Settings, price_model: PriceModel) -> Constructed {
        let mut seen = Patterns::default();
        self.construct(&mut pass, settings, &price_model, Some(&mut seen));
        Constructed { draft: self.end(pass), price_model, seen }
    }

    /// Returns a draft made of patterns, if few shapes are on offer or prices do not follow resources, and the best
    /// draft so far is not known to be good.
    fn by_patterns(&self, begun: &Begun, known: &Constructed) -> Option<Draft> {
        let Constructed { draft: known, price_model, .. } = known;
        let values = if self.has_many_shapes() { Some(price_model.split_values()?) } else { None };
        let limited = !known.left.is_empty() && begun.headroom.binds();
        if begun.rest.left < PATTERN_UNITS || limited || self.compiled.options.passes <= 1 || known.opened.is_empty() {
            return None;
        }
        let demands = self.shape_index.demands(&begun.rest, begun.rest.least_nodes(&self.grouped.rules.host));
        let duals = fluid::solve(&self.shape_index.sources(self.shape_index.basic), &demands);
        if construct::bought(&known.opened) <= GOOD_ENOUGH * fluid::value(&duals, &demands) {
            return None;
        }
        let mut free = begun.clone();
        let (rest, headroom) = (&mut free.rest, &mut free.headroom);
        let found = patterns::open(self.shape_index, self.grouped, rest, headroom, (&known.opened, values))?;
        free.opened.extend(found.nodes);
        // The rest keeps to the cells of its programs, unless that leaves too many nodes half empty.
        let mut kept = (!found.cells.is_empty()).then(|| free.clone());
        if let Some(kept) = &mut kept {
            kept.rest.restrict(&found.cells);
        }
        let enough = AS_PROMISED * found.promised;
        let is_good =
            |draft: &Draft| draft.left.len() <= known.left.len() && construct::bought(&draft.opened) <= enough;
        let mut best: Option<Draft> = None;
        for pass in kept.into_iter().chain([free]) {
            if best.as_ref().is_some_and(is_good) {
                break;
            }
            // Split prices name their shapes: the settings make no difference.
            let passes = if matches!(price_model, PriceModel::Split(_)) { 1 } else { 2 };
            for settings in PORTFOLIO.iter().take(passes) {
                let mut pass = pass.clone();
                self.construct(&mut pass, *settings, price_model, None);
                let other = self.end(pass);
                if best.as_ref().is_none_or(|best| other.saves(best, 0.0)) {
                    best = Some(other);
                }
            }
        }
        best
    }

    /// Returns one draft for each of the settings, and one for split prices.
    fn others(&self) -> Vec<Draft> {
        let begun = self.begin();
        if exact::applies(self.shape_index, &begun.rest, &begun.headroom) {
            return Vec::new();
        }
        let mut drafts = Vec::new();
        if let Some(splits) = PriceModel::split(self.shape_index, &begun.rest, &self.grouped.rules.host) {
            let known = self.split(begun.clone(), PORTFOLIO[0], splits);
            drafts.push(self.chosen_again(&begun, known).draft);
        }
        for settings in PORTFOLIO {
            let mut pass = begun.clone();
            self.construct(&mut pass, settings, &PriceModel::Fluid, None);
            drafts.push(self.end(pass));
        }
        drafts
    }

    /// Returns the best of `known` and, if its prices are split, of drafts that choose again among the contents that
    /// were considered.
    fn chosen_again(&self, begun: &Begun, mut known: Constructed) -> Constructed {
        let unlimited = begun.headroom.allows_any(self.compiled, self.shape_index.basic, begun.rest.left);
        let is_split = matches!(known.price_model, PriceModel::Split(_));
        let choice =
            (unlimited && is_split).then(|| Choice::new(self.shape_index, self.grouped, &begun.rest)).flatten();
        let Some(mut choice) = choice else { return known };
        for _ in 0..CHOICES {
            let mut pass = begun.clone();
            pass.opened.extend(choice.open(&mut pass.rest, &known.seen));
            self.construct(&mut pass, PORTFOLIO[0], &known.price_model, Some(&mut known.seen));
            let other = self.end(pass);
            if other.beats(&known.draft) {
                known.draft = other;
            }
        }
        known
    }

    fn begin(&self) -> Begun {
        let mut begun = Begun {
            reservations: self.reservations.clone(),
            rest: self.unplaced.clone(),
            headroom: Headroom::new(self.compiled),
            opened: Vec::new(),
        };
        begun.opened = begun.reservations.fill(self.shape_index, self.grouped, &mut begun.rest, &mut begun.headroom);
        begun
    }

    /// Opens nodes for the rest. Returns false if fluid prices mislead.
    fn construct(
        &self,
        begun: &mut Begun,
        settings: Settings,
        price_model: &PriceModel,
        seen: Option<&mut Patterns>,
    ) -> bool {
        let remaining = Remaining { unplaced: &mut begun.rest, headroom: &mut begun.headroom };
        let bought =
            construct::construct(self.shape_index, self.grouped, remaining, settings, price_model.clone(), seen);
        let known = bought.is_some();
        begun.opened.extend(bought.unwrap_or_default());
        known
    }

    fn end(&self, mut begun: Begun) -> Draft {
        begun.reservations.claim(self.compiled, self.grouped, &mut begun.opened);
        let mut left = self.waiting.clone();
        let batches = begun.rest.batches.iter();
        left.extend(batches.flat_map(|batch| batch.units[batch.taken..].iter().map(|&unit| (unit, None))));
        Draft { opened: begun.opened, existing: self.existing.clone(), left, tasted: self.tasted }
    }
}
