//! Embedded table of instance types (`catalogue/ec2.tsv`, written by `catalogue/generate.py`).

use std::sync::{Arc, OnceLock};

use crate::error::Error;
use crate::facts::{InstanceTypeFacts, Place};
use crate::prices::{PriceSource, Prices, Rates};
use crate::row;

const TABLE: &str = include_str!("../catalogue/ec2.tsv");

/// Default region.
pub const DEFAULT_REGION: &str = "us-east-1";
/// Region of the prices in the table; they are used for all other regions too.
pub const PRICE_REGION: &str = "us-east-1";
/// Date of the prices in the table.
pub const PRICE_DATE: &str = "2026-07-20";

/// The table, parsed.
#[derive(Debug)]
pub struct Ec2 {
    regions: Vec<Region>,
    rows: Vec<row::Row>,
}

/// A region and its zones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    name: &'static str,
    zones: Vec<Arc<str>>,
    /// Index in the zones column.
    column: usize,
}

impl Region {
    /// Returns the name, such as `us-east-1`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the zones, sorted.
    pub fn zones(&self) -> &[Arc<str>] {
        &self.zones
    }

    /// Returns the region and zones in the form that the resolver takes.
    pub fn place(&self) -> Place<'_> {
        Place { region: self.name, zones: &self.zones }
    }

    /// Returns the source of the embedded prices.
    pub fn price_source(&self) -> PriceSource {
        if self.name == PRICE_REGION {
            PriceSource::Embedded { date: PRICE_DATE }
        } else {
            PriceSource::StandIn { region: PRICE_REGION, date: PRICE_DATE }
        }
    }
}

impl Ec2 {
    /// Returns the embedded table, which the first call parses.
    ///
    /// # Errors
    /// If the table is damaged, which a test of this crate excludes.
    pub fn embedded() -> Result<&'static Self, Error> {
        static PARSED: OnceLock<Result<Ec2, Error>> = OnceLock::new();
        PARSED.get_or_init(|| Self::parse(TABLE)).as_ref().map_err(Clone::clone)
    }

    /// Returns all regions, sorted by name.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Returns the region called `name`.
    ///
    /// # Errors
    /// If the table does not have it; the message lists the known regions.
    pub fn region(&self, name: &str) -> Result<&Region, Error> {
        let found = self.regions.iter().find(|region| region.name == name);
        found.ok_or_else(|| Error::UnknownRegion { region: name.to_owned(), hint: self.hint(name) })
    }

    fn hint(&self, name: &str) -> String {
        let is_zone = self.regions.iter().find(|region| region.zones.iter().any(|zone| &**zone == name));
        match is_zone {
            Some(region) => format!("that is a zone; its region is `{}`", region.name),
            None => {
                let known: Vec<&str> = self.regions.iter().map(|region| region.name).collect();
                format!("the regions are {}; `--catalog` takes any other", known.join(", "))
            }
        }
    }

    /// Iterates over the types that `region` offers in any zone, sorted by name, with their prices.
    pub fn types<'a>(&'a self, region: &'a Region) -> impl Iterator<Item = (InstanceTypeFacts, Prices)> + 'a {
        self.rows.iter().filter_map(move |row| {
            let zones = row.zones(region.column);
            if zones == 0 {
                return None;
            }
            let offered = region.zones.iter().enumerate().filter(|(bit, _)| zones >> bit & 1 == 1);
            let facts =
                InstanceTypeFacts { zones: offered.map(|(_, zone)| Arc::clone(zone)).collect(), ..row.facts.clone() };
            let linux = Rates { on_demand: row.price, spot: None };
            Some((facts, Prices { linux, windows: Rates::default() }))
        })
    }

    /// Iterates over the types of all regions. Their zones are left out.
    #[cfg(feature = "launch")]
    pub(crate) fn all_types(&self) -> impl Iterator<Item = &InstanceTypeFacts> {
        self.rows.iter().map(|row| &row.facts)
    }

    fn parse(table: &'static str) -> Result<Self, Error> {
        let mut regions = Vec::new();
        let mut rows = Vec::new();
        for (number, line) in table.lines().enumerate() {
            let at_line = |problem: String| Error::Embedded { line: number + 1, problem };
            if let Some(listed) = line.strip_prefix("#regions\t") {
                regions = listed.split('\t').enumerate().map(region).collect::<Result<_, _>>().map_err(at_line)?;
            } else if !line.starts_with('#') {
                rows.push(row::parse(line).map_err(at_line)?);
            }
        }
        Ok(Self { regions, rows })
    }
}

fn region((column, entry): (usize, &'static str)) -> Result<Region, String> {
    let (name, letters) = entry.split_once('=').ok_or_else(|| format!("region `{entry}` has no zones"))?;
    Ok(Region { name, zones: letters.chars().map(|letter| format!("{name}{letter}").into()).collect(), column })
}
