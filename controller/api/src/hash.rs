//! Hash of a NodePool's template, identical to Karpenter's. Karpenter and Muster compare it with the hash on NodeClaims
//! to detect drift, so either can take over from the other without replacing a node.
//!
//! ```text
//!  NodePool ──► spec.template without requirements ──► Shape (a Go value) ──► hashstructure, format 2 ──► "1234…"
//! ```
//!
//! The algorithm is that of the Go library `mitchellh/hashstructure` 2.0 with the options `SlicesAsSets`,
//! `IgnoreZeroValue` and `ZeroNil`: 64-bit FNV-1 over every leaf, with fields and entries combined by XOR.
//! [`NODEPOOL_HASH_VERSION`] identifies it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;

use crate::annotations;
use crate::nodepool::NodePool;

/// Version of the algorithm of [`node_pool`], used by Karpenter since 1.0.
pub const NODEPOOL_HASH_VERSION: &str = "v3";

/// A Go value, reduced to what the hash depends on.
enum Shape<'a> {
    Text(&'a str),
    Integer(i64),
    Map(Vec<(&'a str, &'a str)>),
    Set(Vec<Shape<'a>>),
    /// Type name, and non-zero fields in the order in which Go declares them.
    Struct(&'static str, Vec<(&'static str, Shape<'a>)>),
}

/// Lists and maps of a template that are written although they are empty. They affect Karpenter's hash but have no
/// meaning.
#[derive(Clone, Copy, Default)]
struct Spelling {
    labels: bool,
    annotations: bool,
    taints: bool,
    startup_taints: bool,
}

/// Returns the hash of the pool's template: the annotated hash if it matches this template in any spelling, else a
/// computed one.
///
/// ```
/// use muster_api::{NodePool, hash};
/// use serde_json::json;
///
/// let pool = |team: &str| -> NodePool {
///     serde_json::from_value(json!({
///         "apiVersion": "karpenter.sh/v1",
///         "kind": "NodePool",
///         "metadata": {"name": "general"},
///         "spec": {"template": {"metadata": {"labels": {"team": team}}, "spec": {
///             "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
///             "requirements": [],
///         }}},
///     }))
///     .unwrap()
/// };
/// assert_eq!(hash::node_pool(&pool("a")), hash::node_pool(&pool("a")));
/// assert_ne!(hash::node_pool(&pool("a")), hash::node_pool(&pool("b")));
/// ```
#[must_use]
pub fn node_pool(pool: &NodePool) -> String {
    let plain = of_template(pool, Spelling::default());
    let all = pool.metadata.annotations.as_ref();
    let version = all.and_then(|all| all.get(annotations::NODEPOOL_HASH_VERSION));
    let told = all
        .and_then(|all| all.get(annotations::NODEPOOL_HASH))
        .filter(|_| version.is_some_and(|version| version == NODEPOOL_HASH_VERSION));
    match told {
        Some(told) if *told != plain && Spelling::all().any(|spelling| of_template(pool, spelling) == *told) => {
            told.clone()
        }
        _ => plain,
    }
}

fn of_template(pool: &NodePool, spelling: Spelling) -> String {
    let template = &pool.spec.template;
    let spec = &template.spec;
    let mut meta = Fields::default();
    meta.unless(template.metadata.labels.is_empty() && !spelling.labels, "Labels", || map(&template.metadata.labels));
    meta.unless(template.metadata.annotations.is_empty() && !spelling.annotations, "Annotations", || {
        map(&template.metadata.annotations)
    });
    let mut claim = Fields::default();
    claim.unless(spec.taints.is_empty() && !spelling.taints, "Taints", || set(&spec.taints));
    claim.unless(spec.startup_taints.is_empty() && !spelling.startup_taints, "StartupTaints", || {
        set(&spec.startup_taints)
    });
    let reference = &spec.node_class_ref;
    let mut named = Fields::default();
    for (field, text) in [("Kind", &reference.kind), ("Name", &reference.name), ("Group", &reference.group)] {
        named.unless(text.is_empty(), field, || Shape::Text(text));
    }
    claim.0.push(("NodeClassRef", Shape::Struct("NodeClassReference", named.0)));
    if let Some(grace) = spec.termination_grace_period {
        let mut period = Fields::default();
        period.unless(grace.0.is_zero(), "Duration", || Shape::Integer(nanoseconds(grace.0)));
        claim.0.push(("TerminationGracePeriod", Shape::Struct("Duration", period.0)));
    }
    if let Some(age) = spec.expire_after.duration() {
        let duration = vec![("Duration", Shape::Integer(nanoseconds(age)))];
        claim.0.push(("ExpireAfter", Shape::Struct("NillableDuration", duration)));
    }
    let mut whole = Fields::default();
    whole.unless(meta.0.is_empty(), "ObjectMeta", || Shape::Struct("ObjectMeta", meta.0));
    whole.0.push(("Spec", Shape::Struct("NodeClaimTemplateSpec", claim.0)));
    Shape::Struct("NodeClaimTemplate", whole.0).hash().to_string()
}

/// Fields that are not zero.
#[derive(Default)]
struct Fields<'a>(Vec<(&'static str, Shape<'a>)>);

fn map(all: &BTreeMap<String, String>) -> Shape<'_> {
    Shape::Map(all.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect())
}

fn set(taints: &[Taint]) -> Shape<'_> {
    Shape::Set(taints.iter().map(taint).collect())
}

fn taint(taint: &Taint) -> Shape<'_> {
    let Taint { key, value, effect, time_added: _ } = taint;
    let value = value.as_deref().unwrap_or_default();
    let mut fields = Fields::default();
    for (field, text) in [("Key", key.as_str()), ("Value", value), ("Effect", effect.as_str())] {
        fields.unless(text.is_empty(), field, || Shape::Text(text));
    }
    Shape::Struct("Taint", fields.0)
}

/// Durations are bounded so that they fit; larger ones saturate.
fn nanoseconds(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let step = |hash: u64, byte: u8| hash.wrapping_mul(0x0000_0100_0000_01b3) ^ u64::from(byte);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Combines two hashes in order.
fn pair(first: u64, second: u64) -> u64 {
    fnv(first.to_le_bytes().into_iter().chain(second.to_le_bytes()))
}

/// Finalizes hashes that were combined by XOR, so that a later XOR cannot cancel them.
fn seal(hash: u64) -> u64 {
    fnv(hash.to_le_bytes())
}

// === impl Spelling ===

impl Spelling {
    fn all() -> impl Iterator<Item = Self> {
        (0_u8..16).map(|bits| Self {
            labels: bits & 1 != 0,
            annotations: bits & 2 != 0,
            taints: bits & 4 != 0,
            startup_taints: bits & 8 != 0,
        })
    }
}

// === impl Fields ===

impl<'a> Fields<'a> {
    fn unless(&mut self, zero: bool, name: &'static str, value: impl FnOnce() -> Shape<'a>) {
        if !zero {
            self.0.push((name, value()));
        }
    }
}

// === impl Shape ===

impl Shape<'_> {
    fn hash(&self) -> u64 {
        match self {
            Self::Text(text) => fnv(text.bytes()),
            Self::Integer(number) => fnv(number.to_le_bytes()),
            Self::Map(entries) => {
                let entry = |(key, value): &(&str, &str)| pair(fnv(key.bytes()), fnv(value.bytes()));
                seal(entries.iter().map(entry).fold(0, |all, one| all ^ one))
            }
            // The library omits the final hash here.
            Self::Set(entries) => entries.iter().map(Self::hash).fold(0, |all, one| all ^ one),
            // It applies the final hash after every field here.
            Self::Struct(name, fields) => fields
                .iter()
                .fold(fnv(name.bytes()), |all, (field, value)| seal(all ^ pair(fnv(field.bytes()), value.hash()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Templates and their hashes in Karpenter 1.14.
    const KARPENTERS: &str = include_str!("../data/nodepool-hashes.tsv");

    fn rows() -> impl Iterator<Item = (&'static str, NodePool)> {
        let rows = KARPENTERS.lines().filter(|row| !row.starts_with('#'));
        rows.map(|row| {
            let (hash, template) = row.split_once('\t').unwrap();
            let mut pool = NodePool::default();
            pool.spec.template = serde_json::from_str(template).unwrap();
            (hash, pool)
        })
    }

    fn annotated(mut pool: NodePool, hash: &str, version: &str) -> NodePool {
        let all = [(annotations::NODEPOOL_HASH, hash), (annotations::NODEPOOL_HASH_VERSION, version)];
        pool.metadata.annotations = Some(all.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        pool
    }

    #[test]
    fn the_hash_is_karpenters() {
        let mut plain = 0;
        for (hash, pool) in rows() {
            let template = serde_json::to_string(&pool.spec.template).unwrap();
            assert_eq!(node_pool(&annotated(pool.clone(), hash, "v3")), hash, "{template}");
            plain += usize::from(node_pool(&pool) == hash);
        }
        assert_eq!(plain, rows().count() - 3, "three of them write out what is empty");
    }

    #[test]
    fn a_hash_of_another_template_or_version_is_not_kept() {
        let (hash, pool) = rows().next().unwrap();
        assert_eq!(node_pool(&annotated(pool.clone(), "1", "v3")), hash);
        let (empty, _) = rows().last().unwrap();
        assert_eq!(node_pool(&annotated(pool.clone(), empty, "v2")), hash);
        let mut other = annotated(pool, hash, "v3");
        other.spec.template.metadata.labels.insert("a".to_owned(), "b".to_owned());
        assert_ne!(node_pool(&other), hash);
    }
}
