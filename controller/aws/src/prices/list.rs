//! Prices of many types, as files or AWS give them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::{Prices, Rates};

/// Maximum number of prices in a list. A region has about 1,400 types in at most six zones, with two operating systems.
pub(super) const MOST_PRICES: usize = 100_000;

/// Operating system, by which prices differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperatingSystem {
    /// Linux.
    Linux,
    /// Windows, with its licence.
    Windows,
}

/// Prices by instance type, USD per hour.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PriceList {
    linux: Table,
    windows: Table,
    /// Number of prices.
    len: usize,
    /// Time of the on-demand prices, if known.
    pub on_demand_at: Option<Timestamp>,
    /// Time of the spot prices, if known.
    pub spot_at: Option<Timestamp>,
}

/// Prices with one operating system.
#[derive(Debug, Clone, PartialEq, Default)]
struct Table {
    on_demand: BTreeMap<String, f64>,
    /// By type and zone.
    spot: BTreeMap<String, BTreeMap<Arc<str>, f64>>,
    /// True if a type without spot prices has no spot market.
    is_whole_market: bool,
}

/// The list has as many prices as it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

// === impl OperatingSystem ===

impl OperatingSystem {
    /// Returns the product descriptions of DescribeSpotPriceHistory. Those for a VPC have the same prices.
    #[cfg(feature = "live")]
    pub(crate) const fn products(self) -> [&'static str; 2] {
        match self {
            Self::Linux => ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
            Self::Windows => ["Windows", "Windows (Amazon VPC)"],
        }
    }

    /// Returns the operating system of a product description of DescribeSpotPriceHistory, if it is a plain one.
    pub(crate) fn of_product(description: &str) -> Option<Self> {
        match description.strip_suffix(" (Amazon VPC)").unwrap_or(description) {
            "Linux/UNIX" => Some(Self::Linux),
            "Windows" => Some(Self::Windows),
            _ => None,
        }
    }
}

// === impl PriceList ===

impl PriceList {
    /// Creates an empty list, of prices of that second.
    #[must_use]
    pub fn of(at: Timestamp) -> Self {
        let at = Timestamp::from_second(at.as_second()).unwrap_or(at);
        Self { on_demand_at: Some(at), spot_at: Some(at), ..Self::default() }
    }

    /// Sets the on-demand price of a type.
    ///
    /// # Errors
    /// If the list is full.
    pub(crate) fn set_on_demand(&mut self, system: OperatingSystem, name: &str, price: f64) -> Result<(), Full> {
        let is_full = self.len >= MOST_PRICES;
        let prices = &mut self.table_mut(system).on_demand;
        match prices.get_mut(name) {
            Some(known) => *known = price,
            None if is_full => return Err(Full),
            None => {
                prices.insert(name.to_owned(), price);
                self.len += 1;
            }
        }
        Ok(())
    }

    /// Sets the spot price of a type in a zone.
    ///
    /// # Errors
    /// If the list is full.
    pub(crate) fn set_spot(&mut self, system: OperatingSystem, name: &str, zone: &str, price: f64) -> Result<(), Full> {
        let is_full = self.len >= MOST_PRICES;
        let prices = &mut self.table_mut(system).spot;
        if let Some(known) = prices.get_mut(name).and_then(|zones| zones.get_mut(zone)) {
            *known = price;
            return Ok(());
        }
        if is_full {
            return Err(Full);
        }
        prices.entry(name.to_owned()).or_default().insert(zone.into(), price);
        self.len += 1;
        Ok(())
    }

    /// Records that types without spot prices with this operating system have no spot market.
    pub fn set_whole_market(&mut self, system: OperatingSystem) {
        self.table_mut(system).is_whole_market = true;
    }

    /// Adds a later list, whose prices replace those of the same type, zone and operating system.
    pub fn add(&mut self, later: Self) {
        let Self { linux, windows, len: _, on_demand_at, spot_at } = later;
        if !linux.on_demand.is_empty() || !windows.on_demand.is_empty() {
            self.on_demand_at = on_demand_at;
        }
        if !linux.spot.is_empty() || !windows.spot.is_empty() {
            self.spot_at = spot_at;
        }
        self.linux.add(linux);
        self.windows.add(windows);
        self.len = self.linux.len() + self.windows.len();
    }

    /// Replaces the prices of the type `name` by those of the list, as far as it has them. A type with a spot price in
    /// one zone has none in zones that the list leaves out.
    pub fn lay_over(&self, name: &str, prices: &mut Prices) {
        self.linux.lay_over(name, &mut prices.linux);
        self.windows.lay_over(name, &mut prices.windows);
    }

    /// Returns the number of prices.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no price.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if there is an on-demand price.
    #[must_use]
    pub fn has_on_demand(&self) -> bool {
        self.tables().any(|table| !table.on_demand.is_empty())
    }

    /// Returns true if there is a spot price.
    #[must_use]
    pub fn has_spot(&self) -> bool {
        self.tables().any(|table| !table.spot.is_empty())
    }

    /// Returns true if the on-demand price of the type `name` with this operating system is in the list.
    #[must_use]
    pub fn prices_on_demand(&self, system: OperatingSystem, name: &str) -> bool {
        self.table(system).on_demand.contains_key(name)
    }

    /// Returns true if the spot price of a pool is in the list.
    pub(crate) fn prices_spot(&self, system: OperatingSystem, name: &str, zone: &str) -> bool {
        self.table(system).spot.get(name).is_some_and(|zones| zones.contains_key(zone))
    }

    /// Returns the names of all types.
    #[must_use]
    pub fn names(&self) -> BTreeSet<&str> {
        self.tables().flat_map(|table| table.on_demand.keys().chain(table.spot.keys())).map(String::as_str).collect()
    }

    /// Returns all zones.
    #[must_use]
    pub fn zones(&self) -> BTreeSet<&str> {
        self.tables().flat_map(|table| table.spot.values().flat_map(BTreeMap::keys)).map(|zone| &**zone).collect()
    }

    const fn table(&self, system: OperatingSystem) -> &Table {
        match system {
            OperatingSystem::Linux => &self.linux,
            OperatingSystem::Windows => &self.windows,
        }
    }

    fn tables(&self) -> impl Iterator<Item = &Table> {
        [&self.linux, &self.windows].into_iter()
    }

    fn table_mut(&mut self, system: OperatingSystem) -> &mut Table {
        match system {
            OperatingSystem::Linux => &mut self.linux,
            OperatingSystem::Windows => &mut self.windows,
        }
    }
}

// === impl Table ===

impl Table {
    fn add(&mut self, later: Self) {
        let Self { on_demand, spot, is_whole_market } = later;
        self.on_demand.extend(on_demand);
        for (name, zones) in spot {
            self.spot.entry(name).or_default().extend(zones);
        }
        self.is_whole_market |= is_whole_market;
    }

    fn len(&self) -> usize {
        self.on_demand.len() + self.spot.values().map(BTreeMap::len).sum::<usize>()
    }

    fn lay_over(&self, name: &str, rates: &mut Rates) {
        if let Some(price) = self.on_demand.get(name) {
            rates.on_demand = Some(*price);
        }
        match self.spot.get(name) {
            Some(zones) => rates.spot = Some(zones.clone()),
            None if self.is_whole_market => rates.spot = Some(BTreeMap::new()),
            None => {}
        }
    }
}
