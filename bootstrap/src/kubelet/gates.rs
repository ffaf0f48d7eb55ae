//! Every feature gate that the kubelet knows, by version.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::flags::rows;
use super::version::Minor;

const TABLE: &str = include_str!("../../data/feature-gates.tsv");

#[derive(Debug, Clone, Copy)]
struct Row {
    from: Minor,
    to: Minor,
    default: bool,
    is_locked: bool,
}

static GATES: LazyLock<BTreeMap<&'static str, Vec<Row>>> = LazyLock::new(|| {
    let mut gates: BTreeMap<&'static str, Vec<Row>> = BTreeMap::new();
    for row in rows(TABLE) {
        let [name, from, to, default, locked] = row[..] else { continue };
        let (Ok(from), Ok(to)) = (from.parse(), to.parse()) else { continue };
        let row = Row { from: Minor(from), to: Minor(to), default: default == "true", is_locked: locked == "locked" };
        gates.entry(name).or_default().push(row);
    }
    gates
});

/// What the kubelet says to a gate that is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateFault {
    /// No version has a gate of this name.
    Unknown,
    /// The version does not know it any more.
    Gone {
        /// The first version without it.
        since: Minor,
    },
    /// The version does not know it yet.
    NotYet {
        /// The first version with it.
        since: Minor,
    },
    /// It can only be what it is.
    Locked {
        /// What it is.
        to: bool,
    },
}

/// Whether `version` refuses gate `name` set to `value`. Without a known version only names that none has are refused.
#[must_use]
pub fn fault(name: &str, value: bool, version: Option<Minor>) -> Option<GateFault> {
    let Some(rows) = GATES.get(name) else { return Some(GateFault::Unknown) };
    let version = version.filter(|version| version.is_known())?;
    if let Some(row) = rows.iter().find(|row| (row.from..=row.to).contains(&version)) {
        return (row.is_locked && row.default != value).then_some(GateFault::Locked { to: row.default });
    }
    match rows.iter().find(|row| row.from > version) {
        Some(later) => Some(GateFault::NotYet { since: later.from }),
        None => rows.last().map(|row| GateFault::Gone { since: Minor(row.to.0 + 1) }),
    }
}

/// Whether a gate is on: as somebody has set it, else by the default of the version. `None` if that differs between versions
/// and nobody says which one it is.
#[must_use]
pub(crate) fn enabled(name: &str, set: Option<bool>, version: Option<Minor>) -> Option<bool> {
    if set.is_some() {
        return set;
    }
    let rows = GATES.get(name)?;
    match version.filter(|version| version.is_known()) {
        Some(version) => {
            Some(rows.iter().find(|row| (row.from..=row.to).contains(&version)).is_some_and(|row| row.default))
        }
        None => rows.iter().all(|row| row.default == rows[0].default).then(|| rows[0].default),
    }
}

/// Whether any version has a gate of this name.
pub(crate) fn exists(name: &str) -> bool {
    GATES.contains_key(name)
}

/// The gate that looks most like `name`.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    crate::likeness::nearest(name, GATES.keys().copied())
}
