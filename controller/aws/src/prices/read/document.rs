//! The document as a whole: fields of our own and of the AWS CLI.

use std::fmt;

use jiff::Timestamp;
use muster_api::likeness::nearest_of;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::own::{OnDemandSeed, SpotSeed, WindowsSeed};
use super::spot_history::SpotHistorySeed;
use super::{PriceFile, quoted};
use crate::prices::list::{Full, MOST_PRICES};
use crate::prices::{API_VERSION, KIND, OperatingSystem, PriceList, PriceListError, product};

/// Fields of a price list of our own.
const FIELDS: [&str; 7] = ["apiVersion", "kind", "region", "at", "onDemand", "spot", "windows"];

/// A document that was read.
#[derive(Debug, Default)]
pub(super) struct Document {
    api_version: Option<String>,
    kind: Option<String>,
    region: Option<String>,
    at: Option<String>,
    pub(super) prices: PriceList,
    pub(super) elsewhere: Elsewhere,
    /// True if it is output of the AWS CLI.
    is_output: bool,
    is_cut_off: bool,
    /// First field that a price list does not have.
    unknown: Option<String>,
}

/// Prices of other regions.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    count: usize,
    /// Region of the first one.
    region: String,
}

impl Elsewhere {
    pub(super) fn note(&mut self, region: &str) {
        if self.count == 0 {
            self.region = quoted(region);
        }
        self.count += 1;
    }
}

impl Document {
    /// Checks the fields that belong together.
    pub(super) fn into_file(mut self, region: &str) -> Result<PriceFile, PriceListError> {
        if !self.is_output {
            let at = self.check(region)?;
            (self.prices.on_demand_at, self.prices.spot_at) = (Some(at), Some(at));
        }
        let Self { prices, elsewhere, is_cut_off, .. } = self;
        if prices.is_empty() {
            let (found, expected) = (elsewhere.region, region.to_owned());
            return Err(if found.is_empty() {
                PriceListError::Empty { region: expected }
            } else {
                PriceListError::OtherRegion { found, expected }
            });
        }
        Ok(PriceFile { prices, elsewhere: elsewhere.count, is_cut_off })
    }

    /// Checks a price list of our own, and returns its time.
    fn check(&self, region: &str) -> Result<Timestamp, PriceListError> {
        let Self { api_version, kind, region: of, at, prices, unknown, .. } = self;
        let fault =
            |field: &str, problem: String| PriceListError::Field { line: None, field: field.to_owned(), problem };
        if api_version.is_none() && kind.is_none() {
            return Err(PriceListError::NoPrices);
        }
        for (field, found, expected) in [("apiVersion", api_version, API_VERSION), ("kind", kind, KIND)] {
            match found {
                Some(found) if found == expected => {}
                Some(found) => return Err(fault(field, format!("is `{}`, expected `{expected}`", quoted(found)))),
                None => return Err(fault(field, "is missing".to_owned())),
            }
        }
        if let Some(unknown) = unknown {
            let nearest = nearest_of(FIELDS.into_iter(), unknown).map(|nearest| format!(", did you mean `{nearest}`?"));
            let problem = format!("is not a field of a price list{}", nearest.unwrap_or_default());
            return Err(fault(&quoted(unknown), problem));
        }
        let of = of.as_deref().ok_or_else(|| fault("region", "is missing".to_owned()))?;
        if !of.eq_ignore_ascii_case(region) {
            return Err(PriceListError::OtherRegion { found: quoted(of), expected: region.to_owned() });
        }
        if let Some(zone) = prices.zones().into_iter().find(|zone| !is_in(zone, region)) {
            return Err(fault("spot", format!("zone `{}` is not one of {region}", quoted(zone))));
        }
        let at = at.as_deref().ok_or_else(|| fault("at", "is missing".to_owned()))?;
        at.parse().map_err(|_| fault("at", format!("`{}` is not a time", quoted(at))))
    }
}

/// Returns true if the zone is one of the region, or a local one of it.
pub(super) fn is_in(zone: &str, region: &str) -> bool {
    let rest = zone.strip_prefix(region);
    rest.is_some_and(|rest| rest.starts_with(|letter: char| letter == '-' || letter.is_ascii_lowercase()))
}

/// Returns the error of a list that takes no more prices.
pub(super) fn full<E: Error>(_: Full) -> E {
    E::custom(format_args!("has more than {MOST_PRICES} prices, and a region has fewer"))
}

/// Reads a document with prices of `region`.
pub(super) struct DocumentSeed<'r> {
    pub(super) region: &'r str,
}

impl<'de> DeserializeSeed<'de> for DocumentSeed<'_> {
    type Value = Document;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Document, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for DocumentSeed<'_> {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of prices")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
        let region = self.region;
        let mut document = Document::default();
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "apiVersion" => document.api_version = Some(map.next_value()?),
                "kind" => document.kind = Some(map.next_value()?),
                "region" => document.region = Some(map.next_value()?),
                "at" => document.at = Some(map.next_value()?),
                "onDemand" => {
                    map.next_value_seed(OnDemandSeed(OperatingSystem::Linux, &mut document.prices))?;
                }
                "spot" => map.next_value_seed(SpotSeed(OperatingSystem::Linux, &mut document.prices))?,
                "windows" => map.next_value_seed(WindowsSeed(&mut document.prices))?,
                "SpotPriceHistory" => {
                    document.is_output = true;
                    map.next_value_seed(SpotHistorySeed { region, document: &mut document })?;
                }
                "PriceList" => {
                    document.is_output = true;
                    map.next_value_seed(ProductsSeed { region, document: &mut document })?;
                }
                "NextToken" => document.is_cut_off = map.next_value::<Option<IgnoredAny>>()?.is_some(),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    document.unknown.get_or_insert(key);
                }
            }
        }
        Ok(document)
    }
}

/// Reads products of the Price List.
struct ProductsSeed<'d, 'r> {
    region: &'r str,
    document: &'d mut Document,
}

impl<'de> DeserializeSeed<'de> for ProductsSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ProductsSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of products")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut products: A) -> Result<(), A::Error> {
        let Self { region, document } = self;
        while products.next_element_seed(ProductSeed { region, document: &mut *document })?.is_some() {}
        Ok(())
    }
}

struct ProductSeed<'d, 'r> {
    region: &'r str,
    document: &'d mut Document,
}

impl<'de> DeserializeSeed<'de> for ProductSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for ProductSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a product as JSON in a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let Self { region, document } = self;
        let read = product::read(text);
        let read = read.map_err(|error| E::custom(format_args!("is not a product as JSON in a string: {error}")))?;
        let Some(one) = read else { return Ok(()) };
        if one.region != region {
            document.elsewhere.note(&one.region);
            return Ok(());
        }
        let prices = &mut document.prices;
        prices.on_demand_at = prices.on_demand_at.max(one.published);
        prices.set_on_demand(one.system, &one.instance_type, one.price).map_err(full)
    }
}
