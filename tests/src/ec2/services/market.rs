//! The spot market: prices that move by the clock, how deep each pool is, and `DescribeSpotPriceHistory`.
//!
//! A pool's price is a share of the list price, between 25 % and 55 %, that changes by up to a tenth every four hours. Type,
//! zone and time decide it, so it is the same in every run. A price that the test sets holds from then on.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter::successors;

use jiff::{SignedDuration, Timestamp};

use super::super::answer::{Answer, ApiError};
use super::super::clock::later;
use super::super::digest;
use super::super::faults::invalid_value;
use super::super::parameters::Parameters;
use super::super::request::Request;
use super::super::shared::Shared;
use super::super::xml;
use super::prices;

/// Interval between changes of a price that no test has set.
const STEP: SignedDuration = SignedDuration::from_hours(4);
/// How far back the history goes before the proxy's start.
const HISTORY: SignedDuration = SignedDuration::from_hours(7 * 24);
const WINDOWS: &str = "Windows";
const PRODUCTS: [&str; 3] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)", WINDOWS];
const PAGE: usize = 1000;

/// What the test has set, and since when there is a market.
#[derive(Debug)]
pub(in crate::ec2) struct Market {
    begins: Timestamp,
    set: BTreeMap<(String, String), BTreeMap<Timestamp, f64>>,
    depth: BTreeMap<(String, String), u32>,
}

impl Market {
    pub(in crate::ec2) fn new(now: Timestamp) -> Self {
        let begins = later(now, -HISTORY);
        Self { begins, set: BTreeMap::new(), depth: BTreeMap::new() }
    }

    /// EC2 knows prices to the second.
    pub(in crate::ec2) fn set_price(&mut self, instance_type: &str, zone: &str, from: Timestamp, price: f64) {
        self.set.entry((instance_type.to_owned(), zone.to_owned())).or_default().insert(whole_second(from), price);
    }

    pub(in crate::ec2) fn set_depth(&mut self, instance_type: &str, zone: &str, depth: u32) {
        self.depth.insert((instance_type.to_owned(), zone.to_owned()), depth);
    }

    /// From 1 (rare) to 10 (plenty): what the strategies that look at capacity compare.
    pub(in crate::ec2) fn depth(&self, instance_type: &str, zone: &str) -> u32 {
        let drawn = || 1 + u32::try_from(digest::number(&format!("depth {instance_type} {zone}")) % 10).unwrap_or(0);
        let key = (instance_type.to_owned(), zone.to_owned());
        self.depth.get(&key).copied().unwrap_or_else(drawn)
    }

    /// USD per hour at `at`; `None` if the type has no list price.
    pub(in crate::ec2) fn price(&self, region: &str, instance_type: &str, zone: &str, at: Timestamp) -> Option<f64> {
        let set = self.set.get(&(instance_type.to_owned(), zone.to_owned()));
        if let Some((_, price)) = set.and_then(|set| set.range(..=at).next_back()) {
            return Some(*price);
        }
        Some(drawn(prices::on_demand_price(region, instance_type)?, instance_type, zone, at))
    }

    /// The moments at which a pool's price changes: the one in force at `from`, then each until `to`, oldest first.
    fn changes(&self, instance_type: &str, zone: &str, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
        // A caller whose clock is ahead asks from a moment that has not come.
        let from = from.min(to);
        let set = self.set.get(&(instance_type.to_owned(), zone.to_owned()));
        let first_set = set.and_then(|set| set.keys().next().copied()).unwrap_or(Timestamp::MAX);
        let first = step_of(from.max(self.begins));
        let steps = successors(Some(first), |step| Some(later(*step, STEP)));
        let mut changes = steps.take_while(|step| *step <= to && *step < first_set).collect::<Vec<_>>();
        if let Some(set) = set {
            let before = set.range(..=from).next_back();
            if before.is_some() {
                changes.clear();
            }
            // `from` itself may be both.
            let after = set.range(from..=to).filter(|(at, _)| before.is_none_or(|(before, _)| before != *at));
            changes.extend(before.into_iter().chain(after).map(|(at, _)| *at));
        }
        changes
    }
}

fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// The start of the step that `at` lies in.
fn step_of(at: Timestamp) -> Timestamp {
    let step = STEP.as_secs();
    Timestamp::from_second(at.as_second().div_euclid(step) * step).unwrap_or(Timestamp::MIN)
}

fn drawn(list_price: f64, instance_type: &str, zone: &str, at: Timestamp) -> f64 {
    let share = 0.25f64.mul_add(digest::fraction(&format!("{instance_type} {zone}")), 0.25);
    let step = step_of(at).as_second();
    let move_of = 0.1f64.mul_add(digest::fraction(&format!("{instance_type} {zone} {step}")), 1.0);
    // EC2 gives four decimals, padded to six.
    ((list_price * share * move_of * 10_000.0).round() / 10_000.0).max(0.0001)
}

/// `DescribeSpotPriceHistory`: newest first, in pages.
pub(super) fn history(shared: &Shared, request: &Request, request_id: &str) -> Result<Answer, ApiError> {
    let parameters = &request.parameters;
    let now = shared.clock.now();
    // A page belongs to the moment of the first one.
    let (now, offset) = match parameters.text("NextToken") {
        Some(token) => page_of(token).ok_or_else(|| invalid_value("The token is invalid."))?,
        None => (now, 0),
    };
    let time = |name| match parameters.text(name) {
        Some(text) => text.parse().map(Some).map_err(|_| invalid_value(format!("Invalid format for {name}: {text}"))),
        None => Ok(None),
    };
    let wanted = Wanted::of(parameters);
    let size = parameters.number::<usize>("MaxResults").filter(|size| (1..=PAGE).contains(size)).unwrap_or(PAGE);
    let state = shared.state();
    let (from, to) = (time("StartTime")?.unwrap_or(state.market.begins), time("EndTime")?.unwrap_or(now).min(now));
    let types = prices::types(&request.region);
    let mut entries = Vec::new();
    for (name, facts) in types.iter().filter(|(name, facts)| facts.spot && wanted.types.has(name)) {
        for zone in facts.zones.iter().filter(|zone| facts.price.is_some() && wanted.zones.has(zone)) {
            let changes = state.market.changes(name, zone, from, to);
            entries.extend(changes.into_iter().map(|at| (at, name, zone, facts)));
        }
    }
    // Of one moment by type, as the types are listed.
    entries.sort_by_key(|entry| Reverse(entry.0));
    let products = PRODUCTS.into_iter().filter(|product| wanted.products.has(product)).collect::<Vec<_>>();
    let is_sold = |facts: &prices::Facts, product: &str| product != WINDOWS || facts.architecture == "x86_64";
    let all = entries.iter().flat_map(|entry| products.iter().map(move |product| (entry, *product)));
    let all = all.filter(|(entry, product)| is_sold(entry.3, product)).collect::<Vec<_>>();
    let total = all.len();
    let page = all.into_iter().skip(offset).take(size).filter_map(|(&(at, name, zone, facts), product)| {
        let linux = state.market.price(&request.region, name, zone, at)?;
        let price = if product == WINDOWS { prices::with_licence(linux, facts) } else { linux };
        Some(vec![
            xml::leaf("instanceType", name.as_ref()),
            xml::leaf("productDescription", product),
            xml::leaf("spotPrice", format!("{price:.6}")),
            xml::leaf("timestamp", at.to_string()),
            xml::leaf("availabilityZone", zone.as_ref()),
        ])
    });
    let set = xml::list("spotPriceHistorySet", page);
    let next = if offset + size < total { format!("{}.{}", now.as_nanosecond(), offset + size) } else { String::new() };
    Ok(Answer::ec2(&request.action, request_id, vec![set, xml::leaf("nextToken", next)]))
}

/// A list of names; none given wants all.
struct Names(Option<Vec<String>>);

struct Wanted {
    types: Names,
    zones: Names,
    products: Names,
}

impl Wanted {
    fn of(parameters: &Parameters) -> Self {
        let listed = |name: &str| Some(parameters.list(name)).filter(|names| !names.is_empty());
        let zone = || parameters.text("AvailabilityZone").map(|zone| vec![zone.to_owned()]);
        Self {
            types: Names(listed("InstanceType").or_else(|| parameters.filter("instance-type"))),
            zones: Names(zone().or_else(|| parameters.filter("availability-zone"))),
            products: Names(listed("ProductDescription").or_else(|| parameters.filter("product-description"))),
        }
    }
}

impl Names {
    fn has(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.iter().any(|wanted| wanted == name))
    }
}

fn page_of(token: &str) -> Option<(Timestamp, usize)> {
    let (at, offset) = token.split_once('.')?;
    Some((Timestamp::from_nanosecond(at.parse().ok()?).ok()?, offset.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_moves_by_the_clock_and_stays_where_it_is_set() {
        let start = "2026-09-01T00:00:00Z".parse().unwrap();
        let mut market = Market::new(start);
        let price = |market: &Market, at| market.price("us-east-1", "m5.large", "us-east-1a", at).unwrap();
        let first = price(&market, start);
        assert!(first < 0.096 && first > 0.02, "{first}");
        let moved = (0..42).filter(|step| price(&market, later(start, STEP * *step)) != first).count();
        assert!(moved > 35, "{moved}");
        let noon = later(start, SignedDuration::from_hours(12));
        market.set_price("m5.large", "us-east-1a", noon, 0.5);
        assert_eq!(price(&market, start), first);
        assert_eq!(price(&market, later(noon, SignedDuration::from_hours(100))), 0.5);
        let changes = market.changes("m5.large", "us-east-1a", start, later(noon, STEP * 5));
        assert_eq!(
            changes,
            [start, later(start, STEP), later(start, STEP * 2), noon],
            "three steps and the one that was set"
        );
        assert_eq!(market.changes("m5.large", "us-east-1a", noon, noon), [noon]);
    }
}
