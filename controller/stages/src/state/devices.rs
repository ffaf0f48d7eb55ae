//! ResourceSlices: the drivers that have published the devices of a node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_manifest::Tree;

/// Relevant fields of a ResourceSlice of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slice {
    /// `spec.nodeName`; none for slices of several nodes.
    pub(super) node: Option<Arc<str>>,
    driver: Arc<str>,
    pool: Arc<str>,
    generation: i64,
    /// Number of slices of the pool.
    count: i64,
}

impl Slice {
    /// Reads a slice; none if the driver or the pool is missing.
    pub(crate) fn read(tree: &Tree<'_>) -> Option<Self> {
        let spec = tree.get("spec")?;
        let text = |tree: &Tree<'_>, key: &str| tree.get(key).and_then(Tree::text).map(Arc::from);
        let pool = spec.get("pool")?;
        let number = |key: &str| if let Some(Tree::Number(number)) = pool.get(key) { number.as_i64() } else { None };
        Some(Self {
            node: text(spec, "nodeName"),
            driver: text(spec, "driver")?,
            pool: text(pool, "name")?,
            generation: number("generation").unwrap_or(0),
            count: number("resourceSliceCount").unwrap_or(1),
        })
    }
}

/// Returns the drivers whose pools in `slices` are all complete in their newest generation.
pub(super) fn published<'s>(slices: impl Iterator<Item = &'s Slice>) -> BTreeSet<String> {
    let mut pools: BTreeMap<(&str, &str), (i64, i64, i64)> = BTreeMap::new();
    for slice in slices {
        let (generation, count, present) = pools.entry((&slice.driver, &slice.pool)).or_insert((i64::MIN, 0, 0));
        if slice.generation > *generation {
            (*generation, *count, *present) = (slice.generation, slice.count, 1);
        } else if slice.generation == *generation {
            *present += 1;
        }
    }
    let incomplete: BTreeSet<&str> =
        pools.iter().filter(|(_, (_, count, present))| present < count).map(|((driver, _), _)| *driver).collect();
    pools.keys().map(|(driver, _)| *driver).filter(|driver| !incomplete.contains(driver)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(driver: &str, pool: &str, generation: i64, count: i64) -> Slice {
        let text = format!(
            r#"{{"spec":{{"nodeName":"n","driver":"{driver}",
                "pool":{{"name":"{pool}","generation":{generation},"resourceSliceCount":{count}}}}}}}"#
        );
        Slice::read(&serde_json::from_str(&text).unwrap()).unwrap()
    }

    fn drivers(slices: &[Slice]) -> Vec<String> {
        published(slices.iter()).into_iter().collect()
    }

    #[test]
    fn a_driver_has_published_when_its_pools_are_complete() {
        assert_eq!(drivers(&[]), Vec::<String>::new());
        assert_eq!(drivers(&[slice("gpu", "a", 1, 1), slice("net", "b", 1, 2)]), ["gpu"], "a slice of `b` is missing");
        assert_eq!(drivers(&[slice("net", "b", 1, 2), slice("net", "b", 1, 2)]), ["net"]);
        assert_eq!(drivers(&[slice("gpu", "a", 1, 1), slice("gpu", "b", 1, 2)]), Vec::<String>::new());
        // What is left of an older generation no longer counts, and does not complete the newer one.
        assert_eq!(drivers(&[slice("gpu", "a", 1, 2), slice("gpu", "a", 2, 1)]), ["gpu"]);
        assert_eq!(drivers(&[slice("gpu", "a", 2, 2), slice("gpu", "a", 1, 2)]), Vec::<String>::new());
    }
}
