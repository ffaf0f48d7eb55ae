//! Findings and their severity.

use std::fmt;

use serde::Serialize;

use crate::place::{Evidence, Place};
use crate::secrets::{self, Values};
use crate::verdicts::Verdict;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The node does not join, or joins with a wrong configuration.
    Error,
    /// The node joins, but part of the document does not have its apparent effect.
    Warning,
    /// Informational.
    Info,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        })
    }
}

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
        self.push(verdict, verdict.severity, message.as_ref(), None, place, text.as_ref());
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
        self.push(verdict, severity, message.as_ref(), None, place, text.as_ref());
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
        self.add_with_fix_as(verdict.severity, verdict, message, fix, place, text);
    }

    /// Adds a finding with its own severity and a more specific fix.
    pub(crate) fn add_with_fix_as(
        &mut self,
        severity: Severity,
        verdict: &'static Verdict,
        message: impl AsRef<str>,
        fix: &str,
        place: Place,
        text: impl AsRef<str>,
    ) {
        self.push(verdict, severity, message.as_ref(), Some(fix), place, text.as_ref());
    }

    fn push(
        &mut self,
        verdict: &'static Verdict,
        severity: Severity,
        message: &str,
        fix: Option<&str>,
        place: Place,
        text: &str,
    ) {
        // Ten thousand findings on a document of a few kilobytes do not help the reader.
        const MOST: usize = 200;
        if self.found.len() >= MOST {
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
