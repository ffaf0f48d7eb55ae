//! Parser of the kubelet's argument list, with the rules of the kubelet's flag parser.
//!
//! Source: `cmd/kubelet/app/server.go` (a positional argument makes the kubelet exit, `_` in names means `-`) and
//! spf13/pflag (`--name=value`, `--name value`, a boolean takes a value only after `=`, `--` ends the flags).

use std::collections::{BTreeMap, BTreeSet};

use super::config;
use super::flags::{self, Flag, FlagType, Known};
use super::labels::{is_label_key, is_label_value};
use super::taints;
use super::version::Minor;

/// Flags that are supported.
#[derive(Debug, Clone, Default)]
pub struct FlagSet {
    /// Version whose flag table applies.
    pub version: Option<Minor>,
    /// Flag names that the binary itself lists. They take precedence over the table.
    pub of_binary: Option<BTreeSet<String>>,
}

/// A flag on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Name without dashes, with `_` replaced by `-`.
    pub name: String,
    /// Value; `true` for a boolean without a value.
    pub value: String,
    /// Index of its argument.
    pub index: usize,
}

/// A fault that the flag parser reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentFault {
    /// Index of the argument.
    pub index: usize,
    /// Name of the flag; empty if the fault is not about a flag.
    pub name: String,
    /// Kind of the fault.
    pub kind: ArgumentFaultKind,
}

/// Kind of an argument fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentFaultKind {
    /// The flag exists in no version.
    Unknown,
    /// The flag has been removed.
    Gone {
        /// First version without the flag.
        since: Minor,
        /// Replacement of the flag.
        instead: Option<&'static str>,
    },
    /// The flag was added in a later version.
    NotYet {
        /// First version with the flag.
        since: Minor,
    },
    /// The binary does not list the flag.
    NotInBinary,
    /// The flag has one dash, and is neither `-v` nor `-h`.
    OneDash,
    /// The argument is not a flag.
    Positional,
    /// The value is missing: the list ends.
    NoValue,
    /// The value is not of the flag's type; the message is that of the kubelet.
    Value(String),
    /// One of the labels is not valid.
    Label(String),
}

/// Result of parsing an argument list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Flags on the command line, in order.
    pub given: Vec<Given>,
    /// Faults. The kubelet exits at the first one; all are listed here.
    pub faults: Vec<ArgumentFault>,
}

impl Parsed {
    /// Returns the last occurrence of a flag, which takes effect unless values accumulate.
    #[must_use]
    pub fn last(&self, name: &str) -> Option<&Given> {
        self.given.iter().rfind(|given| given.name == name)
    }

    /// Returns every occurrence of a flag.
    pub fn all<'p>(&'p self, name: &'p str) -> impl Iterator<Item = &'p Given> {
        self.given.iter().filter(move |given| given.name == name)
    }

    /// Returns the pairs of a map flag; later pairs override earlier ones.
    #[must_use]
    pub fn map(&self, name: &str) -> BTreeMap<String, String> {
        let pairs = self.all(name).flat_map(|given| given.value.split(','));
        // A key alone has an empty value.
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key.trim().to_owned(), value.trim().to_owned())
        };
        pairs.filter(|pair| !pair.trim().is_empty()).map(pair).collect()
    }
}

/// Parses an argument list. `is_open` reports whether an argument contains a part that is not known yet; the values of
/// such arguments are not judged.
#[must_use]
pub fn parse(arguments: &[&str], is_open: &dyn Fn(usize) -> bool, set: &FlagSet) -> Parsed {
    let mut parsed = Parsed::default();
    let mut index = 0;
    while let Some(argument) = arguments.get(index) {
        let at = index;
        index += 1;
        if *argument == "--" {
            for (index, _) in arguments.iter().enumerate().skip(index) {
                parsed.faults.push(fault(index, "", ArgumentFaultKind::Positional));
            }
            break;
        }
        let Some((name, value)) = name_and_value(argument) else {
            parsed.faults.push(fault(at, "", ArgumentFaultKind::Positional));
            continue;
        };
        let name = name.replace('_', "-");
        if is_cluster_of_short_flags(argument) {
            parsed.faults.push(fault(at, &name, ArgumentFaultKind::OneDash));
            continue;
        }
        let (known, kind) = known(&name, set);
        if let Some(kind) = kind {
            parsed.faults.push(fault(at, &name, kind));
        }
        let takes = known.map_or(FlagType::Text, |flag| flag.takes);
        let value = match value {
            Some(value) => value.to_owned(),
            None if matches!(takes, FlagType::Bool | FlagType::Version) || name == "help" => "true".to_owned(),
            // For an unknown flag, the next argument counts as its value unless it looks like a flag.
            None if known.is_none() && arguments.get(index).is_none_or(|next| next.starts_with('-')) => String::new(),
            None => match arguments.get(index) {
                Some(next) => {
                    index += 1;
                    (*next).to_owned()
                }
                None => {
                    parsed.faults.push(fault(at, &name, ArgumentFaultKind::NoValue));
                    continue;
                }
            },
        };
        if known.is_some() && !is_open(at) && !is_open(index.saturating_sub(1)) {
            parsed.faults.extend(value_fault(takes, &value).map(|kind| fault(at, &name, kind)));
        }
        parsed.given.push(Given { name, value, index: at });
    }
    parsed
}

fn fault(index: usize, name: &str, kind: ArgumentFaultKind) -> ArgumentFault {
    ArgumentFault { index, name: name.to_owned(), kind }
}

/// Returns the name after the dashes and the value in the same argument. The only short flags are `-v` and `-h`.
fn name_and_value(argument: &str) -> Option<(&str, Option<&str>)> {
    let short = argument.strip_prefix('-').filter(|rest| !rest.is_empty())?;
    // `-v2` is `-v=2`. Source: `parseSingleShortArg` of pflag.
    if let Some(value) = short.strip_prefix('v').filter(|value| !value.is_empty() && !value.starts_with(['=', 'e'])) {
        return Some(("v", Some(value)));
    }
    let flag = match short.strip_prefix('-') {
        Some(long) => long,
        None if short == "h" => "help",
        None => short,
    };
    Some(match flag.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (flag, None),
    })
}

/// Returns true if pflag parses the argument letter by letter and fails at the first letter: the kubelet's only short
/// flags are `-v`, with its value, and `-h`.
fn is_cluster_of_short_flags(argument: &str) -> bool {
    let short = argument.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    short.is_some_and(|short| !short.starts_with(['v', 'h']) || short.starts_with("ve") || short.starts_with("he"))
}

fn known(name: &str, set: &FlagSet) -> (Option<Flag>, Option<ArgumentFaultKind>) {
    let looked_up = flags::look_up(name, set.version);
    let flag = match looked_up {
        Known::Yes(flag) => Some(flag),
        Known::Gone { flag, .. } => flag,
        Known::NotYet { .. } | Known::No | Known::Unknown => None,
    };
    if let Some(names) = &set.of_binary {
        if names.contains(name) {
            return (flag, None);
        }
        let kind = match looked_up {
            Known::Gone { since, instead, .. } => ArgumentFaultKind::Gone { since, instead },
            Known::No => ArgumentFaultKind::Unknown,
            _ => ArgumentFaultKind::NotInBinary,
        };
        return (flag, Some(kind));
    }
    let kind = match looked_up {
        Known::Yes(_) | Known::Unknown => None,
        Known::Gone { since, instead, .. } => Some(ArgumentFaultKind::Gone { since, instead }),
        Known::NotYet { since } => Some(ArgumentFaultKind::NotYet { since }),
        Known::No => Some(ArgumentFaultKind::Unknown),
    };
    (flag, kind)
}

/// Parses a boolean like Go's `strconv.ParseBool`.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Parses an integer like Go's `strconv.ParseInt` with base 0, as pflag does: `32`, `0x20`, `0o40`, `040`, `3_2`.
pub(crate) fn integer(text: &str) -> Option<i64> {
    const BASES: [(&str, u32); 4] = [("0x", 16), ("0o", 8), ("0b", 2), ("0", 8)];
    let lower = text.to_ascii_lowercase();
    let (is_negative, unsigned) = match lower.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, lower.strip_prefix('+').unwrap_or(&lower)),
    };
    let after = |prefix: &str| unsigned.strip_prefix(prefix).filter(|rest| !rest.is_empty());
    let (base, digits) = match BASES.into_iter().find_map(|(prefix, base)| Some((base, after(prefix)?))) {
        Some((base, rest)) => (base, rest.strip_prefix('_').unwrap_or(rest)),
        None => (10, unsigned),
    };
    // An underscore separates digits.
    if digits.starts_with(['_', '-', '+']) || digits.ends_with('_') || digits.contains("__") {
        return None;
    }
    let number = i128::from_str_radix(&digits.replace('_', ""), base).ok()?;
    i64::try_from(if is_negative { -number } else { number }).ok()
}

fn value_fault(takes: FlagType, value: &str) -> Option<ArgumentFaultKind> {
    let bad = |what: &str| Some(ArgumentFaultKind::Value(what.to_owned()));
    let pairs = || value.split(',').filter(|pair| !pair.is_empty());
    match takes {
        FlagType::Text | FlagType::Texts | FlagType::Version => None,
        FlagType::Bool if boolean(value).is_none() => bad("it must be true or false"),
        FlagType::Int32 if integer(value).is_none_or(|it| i32::try_from(it).is_err()) => {
            bad("it must be a whole number of 32 bits")
        }
        FlagType::Int64 if integer(value).is_none() => bad("it must be a whole number of 64 bits"),
        FlagType::Duration if config::duration(value).is_none() => bad("it must be a duration such as 1m30s"),
        FlagType::Address if !value.is_empty() && value.trim().parse::<std::net::IpAddr>().is_err() => {
            bad("it must be an IP address")
        }
        FlagType::Map if pairs().any(|pair| !pair.contains('=')) => bad("malformed pair, expect string=string"),
        FlagType::Evictions if pairs().any(|pair| !pair.contains('<')) => bad("malformed pair, expect string<string"),
        FlagType::Headers if pairs().any(|pair| !pair.contains(':')) => bad("malformed pair, expect string:string"),
        FlagType::Gates => {
            match pairs().find(|pair| pair.split_once('=').is_none_or(|(_, it)| boolean(it.trim()).is_none())) {
                Some(_) => bad("each gate must be Name=true or Name=false"),
                None => None,
            }
        }
        FlagType::Labels => label_fault(value),
        FlagType::Taints => taints::flag_value(value).err().map(|fault| ArgumentFaultKind::Value(fault.to_string())),
        FlagType::Quantity if config::quantity(value).is_none() => bad("it must be a quantity"),
        _ => None,
    }
}

/// Returns the first label that is not valid. The kubelet trims keys and values.
fn label_fault(value: &str) -> Option<ArgumentFaultKind> {
    let is_bad = |pair: &&str| {
        // A key alone is a label with an empty value.
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        !is_label_key(key.trim()) || !is_label_value(value.trim())
    };
    value.split(',').filter(|pair| !pair.is_empty()).find(is_bad).map(|pair| ArgumentFaultKind::Label(pair.to_owned()))
}
