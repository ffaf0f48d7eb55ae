//! Output of `aws ec2 describe-spot-price-history`.

use std::fmt;

use jiff::Timestamp;
use serde::de::{DeserializeSeed, Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::document::{Document, full, is_in};
use super::own::PriceVisitor;
use super::quoted;
use crate::prices::OperatingSystem;
use crate::prices::spot_history::{Pool, SpotHistory};

/// An entry: the price of a pool since a moment.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    availability_zone: String,
    instance_type: String,
    product_description: String,
    spot_price: SpotPrice,
    timestamp: Moment,
}

/// A price, which the AWS CLI prints as text.
struct SpotPrice(f64);

impl<'de> Deserialize<'de> for SpotPrice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PriceVisitor).map(Self)
    }
}

struct Moment(Timestamp);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let at = text.parse().map_err(|_| D::Error::custom(format_args!("`{}` is not a time", quoted(&text))))?;
        Ok(Self(at))
    }
}

/// Reads the history: the newest entry of each pool counts.
pub(super) struct SpotHistorySeed<'d, 'r> {
    pub(super) region: &'r str,
    pub(super) document: &'d mut Document,
}

impl<'de> DeserializeSeed<'de> for SpotHistorySeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for SpotHistorySeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of spot prices")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Self { region, document } = self;
        let mut history = SpotHistory::default();
        while let Some(entry) = entries.next_element::<Entry>()? {
            let Entry { availability_zone: zone, instance_type, product_description, spot_price, timestamp } = entry;
            let (SpotPrice(price), Moment(at)) = (spot_price, timestamp);
            let Some(system) = OperatingSystem::of_product(&product_description) else { continue };
            if !is_in(&zone, region) {
                document.elsewhere.note(zone.trim_end_matches(|letter: char| letter.is_ascii_lowercase()));
                continue;
            }
            let prices = &mut document.prices;
            // The prices are as current as the last change of any of them: some pool changes every few minutes.
            prices.spot_at = prices.spot_at.max(Some(at));
            history.note(prices, Pool { system, instance_type, zone }, at, price).map_err(full)?;
        }
        Ok(())
    }
}
