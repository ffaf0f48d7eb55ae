//! Prices of a price list of our own: by type, and for spot by zone.

use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::document::full;
use super::quoted;
use crate::prices::{OperatingSystem, PriceList, is_price};

/// A price in USD per hour.
pub(super) struct Price(pub(super) f64);

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_f64(PriceVisitor).map(Self)
    }
}

/// Takes numbers, and texts of numbers, which the AWS CLI prints.
pub(super) struct PriceVisitor;

impl Visitor<'_> for PriceVisitor {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a price in USD per hour")
    }

    fn visit_f64<E: Error>(self, price: f64) -> Result<f64, E> {
        if is_price(price) { Ok(price) } else { Err(E::custom(format_args!("`{price:?}` is not a price"))) }
    }

    fn visit_u64<E: Error>(self, price: u64) -> Result<f64, E> {
        self.visit_f64(price as f64)
    }

    fn visit_i64<E: Error>(self, price: i64) -> Result<f64, E> {
        self.visit_f64(price as f64)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
        let price = text.parse().ok().filter(|price| is_price(*price));
        price.ok_or_else(|| E::custom(format_args!("`{}` is not a price", quoted(text))))
    }
}

/// Reads on-demand prices by type.
pub(super) struct OnDemandSeed<'l>(pub(super) OperatingSystem, pub(super) &'l mut PriceList);

impl<'de> DeserializeSeed<'de> for OnDemandSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OnDemandSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("prices by instance type")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(system, prices) = self;
        while let Some(name) = map.next_key::<String>()? {
            if prices.prices_on_demand(system, &name) {
                return Err(twice(&name));
            }
            let Price(price) = map.next_value()?;
            prices.set_on_demand(system, &name, price).map_err(full)?;
        }
        Ok(())
    }
}

/// Reads spot prices by type and zone.
pub(super) struct SpotSeed<'l>(pub(super) OperatingSystem, pub(super) &'l mut PriceList);

impl<'de> DeserializeSeed<'de> for SpotSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for SpotSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("prices by instance type and zone")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(system, prices) = self;
        while let Some(name) = map.next_key::<String>()? {
            map.next_value_seed(ZonesSeed { system, name: &name, prices })?;
        }
        Ok(())
    }
}

struct ZonesSeed<'l, 'n> {
    system: OperatingSystem,
    name: &'n str,
    prices: &'l mut PriceList,
}

impl<'de> DeserializeSeed<'de> for ZonesSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ZonesSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("prices by zone")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { system, name, prices } = self;
        while let Some(zone) = map.next_key::<String>()? {
            if prices.prices_spot(system, name, &zone) {
                return Err(twice(&zone));
            }
            let Price(price) = map.next_value()?;
            prices.set_spot(system, name, &zone, price).map_err(full)?;
        }
        Ok(())
    }
}

/// Reads the prices for Windows.
pub(super) struct WindowsSeed<'l>(pub(super) &'l mut PriceList);

impl<'de> DeserializeSeed<'de> for WindowsSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for WindowsSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`onDemand` and `spot`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(prices) = self;
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "onDemand" => map.next_value_seed(OnDemandSeed(OperatingSystem::Windows, prices))?,
                "spot" => map.next_value_seed(SpotSeed(OperatingSystem::Windows, prices))?,
                other => {
                    let other = quoted(other);
                    return Err(A::Error::custom(format_args!("`{other}` is neither `onDemand` nor `spot`")));
                }
            }
        }
        Ok(())
    }
}

fn twice<E: Error>(name: &str) -> E {
    E::custom(format_args!("`{}` is listed twice", quoted(name)))
}
