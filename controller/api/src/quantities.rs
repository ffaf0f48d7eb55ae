//! Compact map of quantities by resource: ten thousand nodes have five such maps with four entries each.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::resources;

/// Quantities by resource, sorted by name. Compact because a `BTreeMap` allocates room for eleven entries; these are
/// written once and then only read.
#[derive(Clone, PartialEq, Default)]
pub struct Quantities(Box<[(Name, Quantity)]>);

/// Name of a resource; common names are not allocated.
type Name = Cow<'static, str>;

/// Resources that every node has.
const COMMON: [&str; 6] = [
    resources::CPU,
    resources::MEMORY,
    resources::PODS,
    resources::EPHEMERAL_STORAGE,
    "hugepages-1Gi",
    "hugepages-2Mi",
];

impl Quantities {
    /// Returns the quantity of `resource`, as written.
    #[must_use]
    pub fn get(&self, resource: &str) -> Option<&Quantity> {
        let at = self.0.binary_search_by(|(name, _)| (**name).cmp(resource)).ok()?;
        self.0.get(at).map(|(_, amount)| amount)
    }

    /// Iterates over all entries, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Quantity)> {
        self.0.iter().map(|(name, amount)| (&**name, amount))
    }

    /// Returns true if the map is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn named(name: String) -> Name {
    COMMON.into_iter().find(|one| *one == name).map_or(Cow::Owned(name), Cow::Borrowed)
}

impl From<BTreeMap<String, Quantity>> for Quantities {
    fn from(all: BTreeMap<String, Quantity>) -> Self {
        Self(all.into_iter().map(|(name, amount)| (named(name), amount)).collect())
    }
}

impl FromIterator<(String, Quantity)> for Quantities {
    fn from_iter<I: IntoIterator<Item = (String, Quantity)>>(all: I) -> Self {
        // The last entry of a name wins, as in a map.
        all.into_iter().collect::<BTreeMap<_, _>>().into()
    }
}

impl<const N: usize> From<[(String, Quantity); N]> for Quantities {
    fn from(all: [(String, Quantity); N]) -> Self {
        all.into_iter().collect()
    }
}

impl fmt::Debug for Quantities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Quantities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Quantities {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Amounts;

        impl<'de> Visitor<'de> for Amounts {
            type Value = Quantities;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of quantities")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Quantities, A::Error> {
                let mut all = BTreeMap::new();
                while let Some((name, amount)) = map.next_entry::<String, Quantity>()? {
                    all.insert(name, amount);
                }
                Ok(all.into())
            }
        }

        deserializer.deserialize_map(Amounts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_in_any_order_and_written_by_name() {
        let text = r#"{"pods":"29","cpu":"2","a.example/gpu":1,"cpu":"1930m"}"#;
        let all: Quantities = serde_json::from_str(text).unwrap();
        let amount = |name| all.get(name).map(|amount| amount.0.as_str());
        assert_eq!(
            ["a.example/gpu", "cpu", "pods", "memory"].map(amount),
            [Some("1"), Some("1930m"), Some("29"), None]
        );
        assert_eq!(serde_json::to_string(&all).unwrap(), r#"{"a.example/gpu":"1","cpu":"1930m","pods":"29"}"#);
        assert!(
            matches!(all.0.first(), Some((Cow::Owned(_), _))) && matches!(all.0.last(), Some((Cow::Borrowed(_), _)))
        );
        assert!(serde_json::from_str::<Quantities>("[]").is_err());
        assert!(serde_json::from_str::<Quantities>("{}").unwrap().is_empty());
    }
}
