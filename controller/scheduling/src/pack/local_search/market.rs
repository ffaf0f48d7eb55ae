//! Launchable shapes, by groups of cells that the domain rules do not distinguish.

use fixedbitset::FixedBitSet;
use index_vec::IndexVec;
use rustc_hash::FxHashMap;

use crate::compile::{CellId, Compiled, fits};
use crate::pack::groups::{GroupId, Grouped};
use crate::pack::shape_index::ShapeIndex;

/// Shape and cell in which a node can be launched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer {
    /// USD per hour.
    pub(super) price: f64,
    pub(super) shape: usize,
    pub(super) cell: CellId,
}

/// Cells that the domain rules do not distinguish. Their other differences (mostly the capacity type) are decided by
/// price once the content of a node is known.
pub(super) struct Place {
    /// One of its cells.
    pub(super) cell: CellId,
    /// Offers in all of its cells, cheapest first.
    pub(super) offers: Vec<Offer>,
}

/// All places.
pub(super) struct Market<'a> {
    compiled: &'a Compiled<'a>,
    grouped: &'a Grouped,
    shape_index: &'a ShapeIndex<'a>,
    pub(super) places: Vec<Place>,
    /// Place of each cell.
    pub(super) place_of: IndexVec<CellId, usize>,
    /// Weight of the heaviest pool that can hold a unit, by place and group; empty if all pools have the same weight.
    tiers: Vec<IndexVec<GroupId, i32>>,
}

impl<'a> Market<'a> {
    pub(super) fn new(compiled: &'a Compiled<'a>, grouped: &'a Grouped, shape_index: &'a ShapeIndex<'a>) -> Self {
        let mut ruled = FixedBitSet::with_capacity(compiled.cells.dimensions.len());
        ruled.extend(grouped.rules.domain.iter().filter_map(|rule| compiled.cells.dimension(&rule.key)));
        let mut ids: FxHashMap<Vec<Option<usize>>, usize> = FxHashMap::default();
        let mut places: Vec<Place> = Vec::new();
        let mut place_of = IndexVec::with_capacity(compiled.cells.len());
        for cell in compiled.cells.indices() {
            let values = ruled.ones().map(|dimension| compiled.cells.value_index(cell, dimension)).collect();
            let place = *ids.entry(values).or_insert_with(|| {
                places.push(Place { cell, offers: Vec::new() });
                places.len() - 1
            });
            place_of.push(place);
            let shapes = shape_index.by_price[cell].iter();
            places[place].offers.extend(shapes.map(|&shape| Offer {
                price: compiled.shapes[shape].price[cell],
                shape,
                cell,
            }));
        }
        for place in &mut places {
            place.offers.sort_by(|a, b| a.price.total_cmp(&b.price).then((a.shape, a.cell).cmp(&(b.shape, b.cell))));
        }
        let mut market = Self { compiled, grouped, shape_index, places, place_of, tiers: Vec::new() };
        let mut weights = compiled.problem.pools.iter().map(|pool| pool.weight);
        let first = weights.next();
        if weights.any(|weight| Some(weight) != first) {
            market.tiers = market.heaviest();
        }
        market
    }

    /// Returns the weight of the heaviest pool that can hold a unit, by place and group. A unit without domain rules
    /// may go to any place, so a heavier pool in any place counts.
    fn heaviest(&self) -> Vec<IndexVec<GroupId, i32>> {
        let groups = self.grouped.groups.iter();
        let by_group: Vec<Vec<i32>> = groups
            .map(|group| {
                let admits = &self.grouped.admits[group.signature];
                let holds = |offer: &&Offer| {
                    admits[offer.cell].contains(offer.shape)
                        && fits(&group.sizes, &self.compiled.shapes[offer.shape].room)
                };
                let weight = |offer: &Offer| self.shape_index.weight_of(offer.shape);
                let of_place = |place: &Place| place.offers.iter().filter(holds).map(weight).max().unwrap_or(i32::MIN);
                let mut tiers: Vec<i32> = self.places.iter().map(of_place).collect();
                if group.part.owns_domain.is_empty() && group.part.targets_domain.is_empty() {
                    let most = tiers.iter().copied().max().unwrap_or(i32::MIN);
                    tiers.fill(most);
                }
                tiers
            })
            .collect();
        (0..self.places.len()).map(|place| by_group.iter().map(|tiers| tiers[place]).collect()).collect()
    }

    /// Returns the index of the cheapest offer of a place, from index `from` on, that may be opened for units of
    /// `groups`, holds `sizes`, their total requests, and costs less than `below`.
    pub(super) fn cheapest(
        &self,
        place: usize,
        from: usize,
        sizes: &[i32],
        groups: impl Iterator<Item = GroupId> + Clone,
        below: f64,
    ) -> Option<usize> {
        let offers = self.places[place].offers.get(from..)?;
        for (offset, offer) in offers.iter().enumerate() {
            if offer.price >= below {
                return None;
            }
            if fits(sizes, &self.compiled.shapes[offer.shape].room)
                && self.admits(offer, groups.clone())
                && groups.clone().all(|group| self.is_for(place, offer, group))
            {
                return Some(from + offset);
            }
        }
        None
    }

    /// Returns true if the signatures of all `groups` admit the offer.
    pub(super) fn admits(&self, offer: &Offer, mut groups: impl Iterator<Item = GroupId>) -> bool {
        groups.all(|group| {
            let signature = self.grouped.groups[group].signature;
            self.grouped.admits[signature][offer.cell].contains(offer.shape)
        })
    }

    /// Returns true if no heavier pool could hold a unit of `group`. Otherwise the unit may use remaining room, but no
    /// node is opened or enlarged for it.
    pub(super) fn is_for(&self, place: usize, offer: &Offer, group: GroupId) -> bool {
        let tiers = self.tiers.get(place);
        tiers.is_none_or(|tiers| tiers[group] <= self.shape_index.weight_of(offer.shape))
    }
}
