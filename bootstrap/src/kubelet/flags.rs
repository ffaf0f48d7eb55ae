//! Kubelet flags, by version.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::version::Minor;

const TABLE: &str = include_str!("../../data/kubelet-flags.tsv");
const REMOVED: &str = include_str!("../../data/kubelet-flags-removed.tsv");

/// Type of a flag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagType {
    /// `true` or `false`; `true` without a value.
    Bool,
    /// A string.
    Text,
    /// Comma-separated strings.
    Texts,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A Go duration (`1m30s`).
    Duration,
    /// An IP address.
    Address,
    /// Comma-separated `key=value`; repeated flags accumulate.
    Map,
    /// Comma-separated `signal<quantity`.
    Evictions,
    /// Comma-separated `Name=true`; repeated flags accumulate.
    Gates,
    /// Comma-separated `name:value`.
    Headers,
    /// Labels, as a map.
    Labels,
    /// Taints; a repeated flag replaces the previous one.
    Taints,
    /// Reserved memory by NUMA node.
    ReservedMemory,
    /// A Kubernetes quantity.
    Quantity,
    /// `--version`: prints and exits.
    Version,
}

/// Lifecycle class of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagClass {
    /// The flag is not deprecated.
    Kept,
    /// The configuration file has a field for it.
    Config,
    /// Deprecated: it has little or no effect and will be removed.
    Deprecated,
}

/// A flag, in the form of one version range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag {
    /// Name without dashes.
    pub name: &'static str,
    /// Type of the value.
    pub takes: FlagType,
    /// Lifecycle class.
    pub class: FlagClass,
    from: Minor,
    to: Minor,
}

/// Result of looking up a flag name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// The version has the flag.
    Yes(Flag),
    /// The flag has been removed.
    Gone {
        /// The flag in its last version, if its type is known.
        flag: Option<Flag>,
        /// First version without the flag.
        since: Minor,
        /// Replacement of the flag, if one is known.
        instead: Option<&'static str>,
    },
    /// The flag was added in a later version.
    NotYet {
        /// First version with the flag.
        since: Minor,
    },
    /// The flag exists in no version.
    No,
    /// The version is newer than the tables.
    Unknown,
}

static FLAGS: LazyLock<BTreeMap<&'static str, Vec<Flag>>> = LazyLock::new(|| {
    let mut flags: BTreeMap<&'static str, Vec<Flag>> = BTreeMap::new();
    for row in rows(TABLE) {
        let [name, takes, from, to, class, ..] = row[..] else { continue };
        let (Ok(from), Ok(to)) = (from.parse(), to.parse()) else { continue };
        let Some(takes) = flag_type(takes) else { continue };
        let class = match class {
            "config" => FlagClass::Config,
            "deprecated" => FlagClass::Deprecated,
            _ => FlagClass::Kept,
        };
        flags.entry(name).or_default().push(Flag { name, takes, class, from: Minor(from), to: Minor(to) });
    }
    flags
});

static GONE: LazyLock<BTreeMap<&'static str, (Minor, &'static str)>> = LazyLock::new(|| {
    let row = |row: Vec<&'static str>| Some((*row.first()?, (Minor(row.get(1)?.parse().ok()?), *row.get(2)?)));
    rows(REMOVED).filter_map(row).collect()
});

/// Returns the rows of a table: tab-separated fields, `#` begins a comment line.
pub(super) fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(|line| line.split('\t').collect())
}

fn flag_type(name: &str) -> Option<FlagType> {
    Some(match name {
        "bool" => FlagType::Bool,
        "string" => FlagType::Text,
        "strings" => FlagType::Texts,
        "int32" => FlagType::Int32,
        "int64" => FlagType::Int64,
        "duration" => FlagType::Duration,
        "ip" => FlagType::Address,
        "map" => FlagType::Map,
        "evictions" => FlagType::Evictions,
        "gates" => FlagType::Gates,
        "headers" => FlagType::Headers,
        "labels" => FlagType::Labels,
        "taints" => FlagType::Taints,
        "reservedMemory" => FlagType::ReservedMemory,
        "quantity" => FlagType::Quantity,
        "version" => FlagType::Version,
        _ => return None,
    })
}

/// Looks up flag `name` in `version`. Without a version, a flag is found if any version has it, in its newest form;
/// [`removed_in`] returns the version that removed it.
#[must_use]
pub fn look_up(name: &str, version: Option<Minor>) -> Known {
    let rows = FLAGS.get(name).map(Vec::as_slice).unwrap_or_default();
    let newest = rows.last().copied();
    let Some(version) = version else {
        return newest.map_or_else(|| gone_before(name), Known::Yes);
    };
    if let Some(flag) = rows.iter().find(|flag| (flag.from..=flag.to).contains(&version)) {
        return Known::Yes(*flag);
    }
    let Some(flag) = newest else { return gone_before(name) };
    if version > Minor::NEWEST {
        return if flag.to == Minor::NEWEST { Known::Yes(flag) } else { gone(flag) };
    }
    if version < Minor::OLDEST {
        return if flag.from == Minor::OLDEST { Known::Yes(flag) } else { Known::NotYet { since: flag.from } };
    }
    match rows.iter().find(|flag| flag.from > version) {
        Some(later) => Known::NotYet { since: later.from },
        None => gone(flag),
    }
}

fn gone(flag: Flag) -> Known {
    Known::Gone { flag: Some(flag), since: Minor(flag.to.0 + 1), instead: None }
}

fn gone_before(name: &str) -> Known {
    GONE.get(name).map_or(Known::No, |(since, instead)| Known::Gone {
        flag: None,
        since: *since,
        instead: Some(instead),
    })
}

/// Returns the first version that no longer has the flag, if there is one.
#[must_use]
pub fn removed_in(name: &str) -> Option<Minor> {
    let last = FLAGS.get(name)?.last()?;
    (last.to < Minor::NEWEST).then(|| Minor(last.to.0 + 1))
}

/// Returns the flag of a version whose name is most similar to `name`.
#[must_use]
pub fn nearest(name: &str, version: Option<Minor>) -> Option<&'static str> {
    // `maxPods` is meant as `max-pods`.
    let mut dashed = String::new();
    for char in name.chars().take(64) {
        if char.is_ascii_uppercase() && !dashed.is_empty() && !dashed.ends_with('-') {
            dashed.push('-');
        }
        dashed.push(char.to_ascii_lowercase());
    }
    let known: BTreeSet<&'static str> =
        FLAGS.keys().copied().filter(|known| matches!(look_up(known, version), Known::Yes(_))).collect();
    crate::likeness::nearest(&dashed, known)
}

/// Returns the flag names in the output of `kubelet --help`.
#[must_use]
pub fn of_help(help: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let rest = line.trim_start();
        let rest = rest
            .strip_prefix('-')
            .filter(|rest| !rest.starts_with('-'))
            .map_or(rest, |short| short.split_once(", ").map_or(short, |(_, long)| long));
        let name = rest.strip_prefix("--")?;
        let end = name.find(|char: char| !char.is_ascii_alphanumeric() && char != '-').unwrap_or(name.len());
        (end > 0).then(|| name[..end].to_owned())
    };
    help.lines().filter_map(name).collect()
}
