//! Findings and their severity.

use crate::place::{Evidence, Place};
use crate::secrets::{self, Values};
pub use crate::severity::Severity;
use crate::verdicts::Verdict;

/// A finding: its verdict, severity, message, fix and evidence. None of its texts holds a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The verdict, which states the cause.
    pub verdict: &'static Verdict,
    /// Severity of this finding.
    pub severity: Severity,
    /// Problem in one line, with names.
    pub message: String,
    /// Instructions to fix it.
    pub fix: String,
    /// Location and text that the finding is based on.
    pub evidence: Option<Evidence>,
}

impl Finding {
    /// Creates a finding with the severity and the fix of its verdict.
    #[must_use]
    pub fn new(verdict: &'static Verdict, message: &str, evidence: Option<(Place, &str)>) -> Self {
        Self {
            verdict,
            severity: verdict.severity,
            message: secrets::clean(message),
            fix: verdict.fix.to_owned(),
            evidence: evidence.map(|(place, text)| Evidence { place, text: secrets::clean(text) }),
        }
    }

    /// Returns the finding with a severity other than that of its verdict.
    #[must_use]
    pub fn with_severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Returns the finding with a more specific fix.
    #[must_use]
    pub fn with_fix(mut self, fix: &str) -> Self {
        self.fix = secrets::clean(fix);
        self
    }
}

/// Findings of one document, collected.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: Vec<Finding>,
    /// Secrets that no finding may show.
    secrets: Values,
}

impl Findings {
    /// Creates an empty collection for documents that hold these secrets.
    pub(crate) fn without(secrets: Values) -> Self {
        Self { found: Vec::new(), secrets }
    }

    /// Adds a finding with the severity and the fix of its verdict.
    pub(crate) fn add(
        &mut self,
        verdict: &'static Verdict,
        message: impl AsRef<str>,
        place: Place,
        text: impl AsRef<str>,
    ) {
        self.push(verdict, verdict.severity, message.as_ref(), None, (place, text.as_ref()));
    }

    /// Adds a finding with a severity other than that of its verdict.
    pub(crate) fn add_as(
        &mut self,
        severity: Severity,
        verdict: &'static Verdict,
        message: impl AsRef<str>,
        place: Place,
        text: impl AsRef<str>,
    ) {
        self.push(verdict, severity, message.as_ref(), None, (place, text.as_ref()));
    }

    /// Adds a finding with a more specific fix than that of its verdict.
    pub(crate) fn add_with_fix(
        &mut self,
        verdict: &'static Verdict,
        message: impl AsRef<str>,
        fix: &str,
        place: Place,
        text: impl AsRef<str>,
    ) {
        self.add_with_fix_as(verdict.severity, verdict, message, fix, (place, text));
    }

    /// Adds a finding with its own severity and a more specific fix.
    pub(crate) fn add_with_fix_as(
        &mut self,
        severity: Severity,
        verdict: &'static Verdict,
        message: impl AsRef<str>,
        fix: &str,
        (place, text): (Place, impl AsRef<str>),
    ) {
        self.push(verdict, severity, message.as_ref(), Some(fix), (place, text.as_ref()));
    }

    fn push(
        &mut self,
        verdict: &'static Verdict,
        severity: Severity,
        message: &str,
        fix: Option<&str>,
        (place, text): (Place, &str),
    ) {
        // Ten thousand findings on a document of a few kilobytes do not help the reader.
        const MOST: usize = 200;
        // An error takes the place of a warning: without it, the document would count as good.
        let is_full = self.found.len() >= MOST;
        let least = (0..self.found.len()).max_by_key(|index| self.found[*index].severity).filter(|_| is_full);
        if least.is_some_and(|index| self.found[index].severity <= severity) {
            return;
        }
        let finding = Finding {
            verdict,
            severity,
            message: secrets::clean(&self.secrets.hide(message)),
            fix: secrets::clean(&self.secrets.hide(fix.unwrap_or(verdict.fix))),
            evidence: Some(Evidence { place, text: secrets::clean_quote(&self.secrets.hide(text)) }),
        };
        if !self.found.contains(&finding) {
            if let Some(index) = least {
                self.found.remove(index);
            }
            self.found.push(finding);
        }
    }

    /// Returns true if there is a finding of this verdict.
    pub(crate) fn has(&self, verdict: &Verdict) -> bool {
        self.found.iter().any(|finding| finding.verdict.code == verdict.code)
    }

    /// Returns all findings: errors first, then in the order in which they were found, which is that of the layers.
    pub(crate) fn into_sorted(self) -> Vec<Finding> {
        let mut all = self.found;
        all.sort_by_key(|finding| finding.severity);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Source;
    use crate::verdicts;

    #[test]
    fn an_error_after_many_findings_is_kept() {
        let place = || Source::whole("user-data").anywhere();
        let mut findings = Findings::default();
        for number in 0..300 {
            let severity = if number % 2 == 0 { Severity::Warning } else { Severity::Info };
            findings.add_as(severity, &verdicts::WN04, format!("finding {number}"), place(), "");
        }
        findings.add_as(Severity::Error, &verdicts::WN04, "an error", place(), "");
        let found = findings.into_sorted();
        assert_eq!(found.len(), 200);
        assert_eq!((found[0].severity, found[0].message.as_str()), (Severity::Error, "an error"));
        assert!(!found[1..].iter().any(|it| it.severity == Severity::Error));
    }
}
