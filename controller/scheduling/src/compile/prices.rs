//! Prices of the types of a pool, by cell.

use index_vec::{Idx, IndexVec, index_vec};

use super::cells::{CellId, Cells, Openings};
use super::shapes::{PoolUse, Reserved};
use crate::model::{Catalogue, SetId};

/// Prices of one type in one pool.
pub(crate) struct Priced {
    pub(crate) price: IndexVec<CellId, f64>,
    /// Index of the offering of that price, spot preferred; `u32::MAX` if there is none.
    pub(crate) offering: IndexVec<CellId, u32>,
    pub(crate) reserved: Vec<Reserved>,
}

/// Computes the prices of the types of one pool. Thousands of offerings have few distinct requirements on zone and
/// capacity type: the cells of each are computed once for all types of a class.
pub(crate) struct Pricing<'a> {
    cells: &'a Cells,
    types: &'a Catalogue,
    openings: &'a Openings,
    pool: &'a PoolUse,
    with_reserved: bool,
    /// Range in `opened`, by class of types and offering set.
    known: Vec<Option<(u32, u32)>>,
    opened: Vec<CellId>,
    /// True if the lowest price so far is one of spot, by cell.
    spot: IndexVec<CellId, bool>,
}

impl<'a> Pricing<'a> {
    /// Creates the pricing of a pool; `catalogue` is the index of `types`.
    pub(crate) fn new(
        cells: &'a Cells,
        types: &'a Catalogue,
        catalogue: usize,
        pool: &'a PoolUse,
        with_reserved: bool,
    ) -> Self {
        let openings = cells.openings(catalogue);
        let known = vec![None; openings.pairs(types)];
        Self {
            cells,
            types,
            openings,
            pool,
            with_reserved,
            known,
            opened: Vec::new(),
            spot: index_vec![false; cells.len()],
        }
    }

    /// Returns the prices of a type; `None` if it cannot be bought.
    pub(crate) fn of_type(&mut self, number: usize) -> Option<Priced> {
        let types = self.types;
        let mut priced = Priced { price: IndexVec::new(), offering: IndexVec::new(), reserved: Vec::new() };
        for offer in types.offers(number) {
            let set = &types.sets()[offer.set];
            if !self.pool.allows[offer.set] {
                continue;
            }
            if set.reserved && (!self.with_reserved || offer.reservation_capacity == 0) {
                continue;
            }
            let (from, to) = self.cells_of(number, offer.set);
            if from < to && priced.price.is_empty() {
                priced.price = index_vec![f64::INFINITY; self.cells.len()];
                priced.offering = index_vec![u32::MAX; self.cells.len()];
            }
            for &cell in &self.opened[from as usize..to as usize] {
                if set.reserved {
                    let (count, offering) = (offer.reservation_capacity, offer.number as usize);
                    priced.reserved.push(Reserved { cell, price: offer.price, count, offering });
                    continue;
                }
                let known = priced.offering[cell] != u32::MAX;
                let ties = known && offer.price == priced.price[cell] && set.spot && !self.spot[cell];
                if offer.price < priced.price[cell] || ties {
                    priced.price[cell] = offer.price;
                    priced.offering[cell] = offer.number;
                    self.spot[cell] = set.spot;
                }
            }
        }
        (!priced.price.is_empty()).then_some(priced)
    }

    fn cells_of(&mut self, number: usize, set: SetId) -> (u32, u32) {
        let class = self.openings.of_type[number] as usize;
        let pair = class * self.types.sets().len() + set.index();
        if let Some(range) = self.known[pair] {
            return range;
        }
        let from = self.opened.len() as u32;
        let one = &self.types[self.openings.representative[class]];
        let offering = &self.types.sets()[set].requirements;
        self.opened.extend(self.cells.open_to(one, offering, &self.pool.requirements));
        let range = (from, self.opened.len() as u32);
        self.known[pair] = Some(range);
        range
    }
}
