//! `--prices`: prices of files and of AWS, laid over those of the embedded catalogue, and the text about their source.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::stdin;
use std::path::Path;

use jiff::Timestamp;
use muster_aws::prices::{self, OperatingSystem, PriceFile, PriceList, WINDOWS_LICENCE};
use muster_aws::{Ec2, PriceSource, Prices, Region};
use muster_manifest::{self as manifest, Source};

use super::failure::Failure;
use super::live_prices;
use super::nodes::span;
use super::palette::Palette;
use super::progress::Progress;
use super::settings::PricesFrom;

/// Name of AWS among the origins of prices.
const AWS: &str = "AWS";
/// Number of unknown names that a warning lists.
const NAMED: usize = 4;

/// Prices that replace those of the embedded catalogue.
#[derive(Debug, Default)]
pub(crate) struct GivenPrices {
    list: PriceList,
    on_demand: Vec<Origin>,
    spot: Vec<Origin>,
    /// Warnings about what the files have, and what is not used.
    pub(crate) warnings: Vec<String>,
}

/// A file or AWS, with the time of its prices.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    name: String,
    at: Option<Timestamp>,
}

/// Source of the prices, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PriceWords {
    /// For documents: the same for the same input.
    pub(crate) plain: String,
    /// For people: with the age of the prices.
    pub(crate) aged: String,
    /// True if prices were given by `--prices`.
    pub(crate) are_given: bool,
}

impl GivenPrices {
    /// Reads the prices of `sources`, of which a later one replaces those before it.
    pub(crate) fn read(
        sources: &[PricesFrom],
        region: &'static Region,
        ec2: &'static Ec2,
        progress: &mut Progress,
    ) -> Result<Self, Failure> {
        let mut given = Self::default();
        for source in sources {
            match source {
                PricesFrom::Live => given.add(AWS.to_owned(), live_prices::ask(region.name(), progress)?),
                PricesFrom::File(file) => {
                    progress.stage("reading prices");
                    let (name, reading) = read_file(file, region)?;
                    given.warnings.extend(unused(&name, &reading, region, ec2));
                    given.add(name, reading.prices);
                }
            }
        }
        progress.clear();
        Ok(given)
    }

    fn add(&mut self, name: String, list: PriceList) {
        if list.has_on_demand() {
            self.on_demand.push(Origin { name: name.clone(), at: list.on_demand_at });
        }
        if list.has_spot() {
            self.spot.push(Origin { name, at: list.spot_at });
        }
        self.list.add(list);
    }

    /// Returns the prices of a type: those that were given, else those of the catalogue.
    pub(crate) fn over(&self, name: &str, mut prices: Prices) -> Prices {
        self.list.lay_over(name, &mut prices);
        prices
    }

    /// Describes the source of the prices of `region`. `has_windows`: some nodes run Windows.
    pub(crate) fn words(
        &self,
        region: &'static Region,
        ec2: &'static Ec2,
        has_windows: bool,
        now: Timestamp,
    ) -> PriceWords {
        let words = |now: Option<Timestamp>| {
            let mut text = format!("{}: {}", region.name(), self.sources(region, ec2, now));
            if has_windows && !self.has_all_of_windows(region, ec2) {
                let _ = write!(
                    text,
                    "; for Windows, where its price is not known, that of Linux and ${WINDOWS_LICENCE} for each vCPU \
                     (burstable types: less)"
                );
            }
            text
        };
        let are_given = !self.list.is_empty();
        PriceWords { plain: words(None), aged: words(Some(now)), are_given }
    }

    fn sources(&self, region: &'static Region, ec2: &'static Ec2, now: Option<Timestamp>) -> String {
        let base: PriceSource = region.price_source();
        let (on_demand, spot) = (named(&self.on_demand, now), named(&self.spot, now));
        let given = match (on_demand, spot) {
            (None, None) => return base.to_string(),
            (Some(on_demand), None) => format!("on-demand prices of {on_demand}, also for spot"),
            (None, Some(spot)) => format!("spot prices of {spot}"),
            (Some(on_demand), Some(spot)) if on_demand == spot => format!("prices of {on_demand}"),
            (Some(on_demand), Some(spot)) => format!("on-demand prices of {on_demand}, spot prices of {spot}"),
        };
        let has_rest = ec2.types(region).any(|(facts, prices)| {
            prices.linux.on_demand.is_some() && !self.list.prices_on_demand(OperatingSystem::Linux, &facts.name)
        });
        if has_rest { format!("{given}; else {base}") } else { given }
    }

    /// Returns true if every type with a price for Linux has one for Windows.
    fn has_all_of_windows(&self, region: &'static Region, ec2: &'static Ec2) -> bool {
        ec2.types(region).all(|(facts, prices)| {
            let prices = self.over(&facts.name, prices);
            let runs_windows = facts.architecture == muster_aws::Architecture::Amd64;
            !runs_windows || prices.linux.on_demand.is_none() || prices.windows.on_demand.is_some()
        })
    }
}

impl PriceWords {
    /// Returns the last line of a command's text: empty unless prices were given.
    pub(crate) fn line(&self, palette: Palette) -> String {
        if !self.are_given {
            return String::new();
        }
        format!("{}\n", palette.faint(format!("Prices: {}.", self.aged)))
    }

    /// Describes prices that have no age.
    pub(crate) fn ageless(words: String) -> Self {
        Self { aged: words.clone(), plain: words, are_given: false }
    }
}

/// Returns the warnings about prices that are not used.
fn unused(name: &str, reading: &PriceFile, region: &'static Region, ec2: &'static Ec2) -> Vec<String> {
    let PriceFile { prices, elsewhere, is_cut_off } = reading;
    let region_name = region.name();
    let mut warnings = Vec::new();
    if *elsewhere > 0 {
        let noun = counted(*elsewhere, "price");
        warnings.push(format!("{name}: {noun} of other regions than {region_name}: not used"));
    }
    if *is_cut_off {
        warnings.push(format!("{name}: it is a part of the answer (`NextToken`), so some prices are missing"));
    }
    let mut unknown = |names: &[&str], noun: &str| {
        if !names.is_empty() {
            let (count, listed) = (counted(names.len(), noun), listed(names));
            warnings.push(format!("{name}: {count} that the catalogue of {region_name} does not have: {listed}"));
        }
    };
    let types: BTreeSet<_> = ec2.types(region).map(|(facts, _)| facts.name).collect();
    let zones: BTreeSet<&str> = region.zones().iter().map(|zone| &**zone).collect();
    unknown(&prices.names().into_iter().filter(|name| !types.contains(*name)).collect::<Vec<_>>(), "instance type");
    unknown(&prices.zones().into_iter().filter(|zone| !zones.contains(zone)).collect::<Vec<_>>(), "zone");
    warnings
}

fn read_file(file: &Path, region: &Region) -> Result<(String, PriceFile), Failure> {
    let Source { name, text, .. } = manifest::read_one(file, &mut stdin().lock())?;
    match prices::read(&text, region.name()) {
        Ok(reading) => Ok((name, reading)),
        Err(error) => Err(Failure::Usage(format!("{name}: {error}\n\nhint: {}", error.hint()))),
    }
}

/// Formats as `a.json from 2026-11-20T00:00:00Z (6d old) and b.yaml`. `None` if there are none.
fn named(origins: &[Origin], now: Option<Timestamp>) -> Option<String> {
    let each = origins.iter().map(|Origin { name, at }| {
        let Some(at) = at else { return name.clone() };
        let age = now.map(|now| now.duration_since(*at)).filter(|age| age.as_mins() > 0);
        let age = age.map(|age| format!(" ({} old)", span(age))).unwrap_or_default();
        format!("{name} from {at}{age}")
    });
    each.reduce(|before, next| format!("{before} and {next}"))
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn listed(names: &[&str]) -> String {
    let first = names.iter().take(NAMED).map(|name| manifest::shorten(name)).collect::<Vec<_>>().join(", ");
    if names.len() > NAMED { format!("{first}, …") } else { first }
}
