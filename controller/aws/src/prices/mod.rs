//! Prices of instance types: on demand and spot, for Linux and Windows.
//!
//! ```text
//!  embedded table ───────────────────────────────► Prices of a type ──► offerings
//!                                                        ▲
//!  file of ours, output of the AWS CLI ─► read ─┐        │ lay_over
//!  Price List, spot history ─► live ────────────┴─► PriceList
//!                                 (product: one product of the Price List, read alike by both)
//! ```

mod error;
mod licence;
mod list;
pub(crate) mod product;
mod read;
mod source;
pub(crate) mod spot_history;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use error::PriceListError;
pub use licence::WINDOWS_LICENCE;
pub use list::{OperatingSystem, PriceList};
pub use read::{LONGEST_YAML, PriceFile, read};
pub use source::PriceSource;

use crate::facts::InstanceTypeFacts;
use crate::family::AmiFamily;

/// `apiVersion` of a price list.
pub const API_VERSION: &str = "muster.dev/v1";
/// `kind` of a price list.
pub const KIND: &str = "PriceList";
/// Maximum price in USD per hour. The most expensive instance of EC2 costs a few hundred; a higher price is a typing
/// error.
pub const MOST_DOLLARS: f64 = 10_000.0;

/// Prices of one instance type with one operating system, USD per hour.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rates {
    /// On-demand price; `None` if unknown.
    pub on_demand: Option<f64>,
    /// Spot prices by zone once the history is known: a zone without an entry then has no price. With `None` the
    /// on-demand price is used.
    pub spot: Option<BTreeMap<Arc<str>, f64>>,
}

/// Prices of one instance type, USD per hour.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prices {
    /// Prices for Linux.
    pub linux: Rates,
    /// Prices for Windows, as far as they are known; else they are those of Linux with the [licence](WINDOWS_LICENCE).
    pub windows: Rates,
}

// === impl Rates ===

impl Rates {
    fn spot(&self, zone: &str) -> Option<f64> {
        match &self.spot {
            Some(by_zone) => by_zone.get(zone).copied(),
            None => self.on_demand,
        }
    }
}

// === impl Prices ===

impl Prices {
    /// Returns the on-demand price of a type for nodes of `family`.
    pub(crate) fn on_demand(&self, facts: &InstanceTypeFacts, family: AmiFamily) -> Option<f64> {
        if !family.is_windows() {
            return self.linux.on_demand;
        }
        self.windows.on_demand.or_else(|| Some(self.linux.on_demand? + licence::of_type(facts)))
    }

    /// Returns the spot price of a type in `zone` for nodes of `family`.
    pub(crate) fn spot(&self, zone: &str, facts: &InstanceTypeFacts, family: AmiFamily) -> Option<f64> {
        if !family.is_windows() {
            return self.linux.spot(zone);
        }
        match (&self.windows.spot, &self.linux.spot) {
            (Some(by_zone), _) => by_zone.get(zone).copied(),
            (None, Some(by_zone)) => Some(by_zone.get(zone)? + licence::of_type(facts)),
            (None, None) => self.on_demand(facts, family),
        }
    }
}

/// Returns true if `price` may be a price: above zero, and not absurd.
pub(crate) fn is_price(price: f64) -> bool {
    price > 0.0 && price <= MOST_DOLLARS
}

#[cfg(test)]
mod tests;
