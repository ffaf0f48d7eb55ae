//! Feature gates that the kubelet knows, by version.

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

/// Reason why the kubelet refuses a gate that is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateFault {
    /// The gate exists in no version.
    Unknown,
    /// The gate has been removed.
    Gone {
        /// First version without the gate.
        since: Minor,
    },
    /// The gate was added in a later version.
    NotYet {
        /// First version with the gate.
        since: Minor,
    },
    /// The gate is locked to its default.
    Locked {
        /// The locked value.
        to: bool,
    },
}

/// Returns the reason why `version` refuses gate `name` set to `value`, if any. Without a known version, only names
/// that exist in no version are refused.
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

/// Returns true if a gate is enabled: `set` if it is present, else the default of the version. `None` if the version is
/// unknown and the default differs between versions.
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

/// Returns true if any version has a gate of this name.
pub(crate) fn exists(name: &str) -> bool {
    GATES.contains_key(name)
}

/// Returns the gate whose name is most similar to `name`.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    crate::likeness::nearest(name, GATES.keys().copied())
}
