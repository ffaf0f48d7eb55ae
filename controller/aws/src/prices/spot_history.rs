//! Spot price history of EC2: the newest entry of each pool is its price.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::list::Full;
use super::{OperatingSystem, PriceList};

/// A pool of spot instances.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pool {
    pub(crate) system: OperatingSystem,
    pub(crate) instance_type: String,
    pub(crate) zone: String,
}

/// Times of the newest entries, for entries in any order.
#[derive(Debug, Default)]
pub(crate) struct SpotHistory(BTreeMap<Pool, Timestamp>);

impl SpotHistory {
    /// Sets the price of a pool in `prices`, unless a newer one is known.
    ///
    /// # Errors
    /// If the list is full.
    pub(crate) fn note(&mut self, prices: &mut PriceList, pool: Pool, at: Timestamp, price: f64) -> Result<(), Full> {
        if self.0.get(&pool).is_some_and(|known| *known >= at) {
            return Ok(());
        }
        prices.set_spot(pool.system, &pool.instance_type, &pool.zone, price)?;
        self.0.insert(pool, at);
        Ok(())
    }
}
