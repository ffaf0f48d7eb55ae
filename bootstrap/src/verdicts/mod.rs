//! All verdicts, each with code, severity, cause, fix and source.
//!
//! The codes are stable across releases, so dashboards can count them. Numbers from 27 (`UD`), 33 (`KA`), 11 (`WN`), 13
//! (`NW`), 14 (`ID`) and 16 (`GP`) on are for failures that are not in the catalogue of known failures.

mod devices;
mod identity;
mod kubelet;
mod machine;
mod network;
mod node;
mod user_data;
mod windows;

use std::fmt::Write;

pub use self::devices::*;
pub use self::identity::*;
pub use self::kubelet::*;
pub use self::machine::*;
pub use self::network::*;
pub use self::node::*;
pub use self::user_data::*;
pub use self::windows::*;
use crate::severity::Severity;

/// Definition of a verdict.
#[derive(Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Code of the verdict.
    pub code: &'static str,
    /// Default severity; a finding may have another one.
    pub severity: Severity,
    /// Summary in a few words.
    pub title: &'static str,
    /// Cause and consequence.
    pub cause: &'static str,
    /// Instructions to fix it.
    pub fix: &'static str,
    /// Source of this knowledge.
    pub source: &'static str,
}

/// Declares verdicts and the list of them.
macro_rules! verdicts {
    ($all:ident; $($code:ident $severity:ident $title:literal cause $cause:literal fix $fix:literal source $source:literal)*) => {
        $(
            #[doc = $title]
            pub static $code: Verdict = Verdict {
                code: stringify!($code),
                severity: Severity::$severity,
                title: $title,
                cause: $cause,
                fix: $fix,
                source: $source,
            };
        )*
        pub(super) static $all: &[&Verdict] = &[$(&$code),*];
    };
}
use verdicts;

/// URL of the published page of [`reference()`].
pub const PAGE: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/verdicts.md");

impl Verdict {
    /// Returns the URL of its documentation.
    #[must_use]
    pub fn link(&self) -> String {
        format!("{PAGE}#{}", self.code.to_lowercase())
    }
}

/// Returns the verdicts on documents and images, which [`crate::validate`] finds, in the order of their codes.
#[must_use]
pub fn of_documents() -> Vec<&'static Verdict> {
    sorted(&[USER_DATA, KUBELET, NODE])
}

/// Returns the verdicts that the agent finds on a running node, in the order of their codes.
#[must_use]
pub fn of_nodes() -> Vec<&'static Verdict> {
    sorted(&[IDENTITY, MACHINE, NETWORK, DEVICES, WINDOWS])
}

/// Returns all verdicts, in the order of their codes.
#[must_use]
pub fn all() -> Vec<&'static Verdict> {
    sorted(&[USER_DATA, KUBELET, NODE, IDENTITY, MACHINE, NETWORK, DEVICES, WINDOWS])
}

fn sorted(lists: &[&[&'static Verdict]]) -> Vec<&'static Verdict> {
    let mut all = lists.concat();
    all.sort_by_key(|verdict| verdict.code);
    all
}

/// Returns the verdict of a code.
///
/// ```
/// let verdict = muster_bootstrap::verdicts::find("KA07").unwrap();
/// assert_eq!(verdict.title, "a required taint is not in effect");
/// ```
#[must_use]
pub fn find(code: &str) -> Option<&'static Verdict> {
    all().into_iter().find(|verdict| verdict.code == code)
}

/// Returns the content of `docs/verdicts.md`.
#[must_use]
pub fn reference() -> String {
    let mut text = String::from(
        "<!-- Written by a test of muster-bootstrap (src/verdicts). Edit the verdicts there. -->\n# Verdicts\n\nWhat \
         `muster-agent` finds, by code. An `error` means that the node will not join, or joins wrong.\n\nUD user data \
         · ID identity and metadata · KA kubelet and machine · CR container runtime, disks · NW the way to the API server · AU \
         names and authorization · CN network of pods, startup taints · GP devices · WN Windows · EX EC2.\n\n| code | severity | what |\n|---|---|---|\n",
    );
    for verdict in all() {
        let Verdict { code, severity, title, .. } = verdict;
        let _ = writeln!(text, "| [{code}](#{}) | {severity} | {title} |", code.to_lowercase());
    }
    for Verdict { code, severity, title, cause, fix, source } in all() {
        let _ = write!(
            text,
            "\n## {code}\n\n**{title}** ({severity})\n\nCause: {cause}\n\nFix: {fix}\n\nSource: {source}\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/verdicts.md");
        let current = reference();
        if std::fs::read_to_string(path).unwrap_or_default() != current {
            std::fs::write(path, current).unwrap();
            panic!("docs/verdicts.md was out of date and has been written anew: look at the difference and commit it");
        }
    }

    #[test]
    fn every_code_is_there_once_and_says_what_to_do() {
        let all = all();
        for pair in all.windows(2) {
            assert!(pair[0].code < pair[1].code, "{}", pair[1].code);
        }
        for verdict in all {
            assert_eq!(verdict.code.len(), 4);
            for text in [verdict.title, verdict.cause, verdict.fix, verdict.source] {
                assert!(!text.is_empty() && !text.contains('\n'), "{}", verdict.code);
            }
        }
    }
}
