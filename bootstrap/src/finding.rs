//! What is found, and how much it matters.

use std::fmt;

use serde::Serialize;

use crate::place::{Evidence, Place};
use crate::secrets::{self, Values};
use crate::verdicts::Verdict;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The node will not join, or joins wrong.
    Error,
    /// It joins, and something in the document does not do what it seems to.
    Warning,
    /// Worth knowing.
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

/// One finding: which verdict, on what, because of what. None of its texts holds a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which verdict; it has the cause.
    pub verdict: &'static Verdict,
    /// How much it matters here.
    pub severity: Severity,
    /// What is wrong, in one line, with names.
    pub message: String,
    /// What to do.
    pub fix: String,
    /// What it rests on.
    pub evidence: Option<Evidence>,
}

impl Finding {
    /// A finding with the severity and the fix of its verdict.
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

    /// The same, mattering more or less here than its verdict says.
    #[must_use]
    pub fn with_severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// The same, with a fix that says more exactly what to do.
    #[must_use]
    pub fn with_fix(mut self, fix: &str) -> Self {
        self.fix = secrets::clean(fix);
        self
    }
}

/// The findings of one document, gathered.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: Vec<Finding>,
    /// What none of them may show.
    secrets: Values,
}

impl Findings {
    /// None as yet, of documents that hold these secrets.
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

    /// Adds a finding that matters more or less here than its verdict says.
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

    /// Adds a finding whose fix can be said more exactly than the verdict says it.
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

    /// Adds a finding of which both are said more exactly.
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
        // A document of a few kilobytes that is all faults is read no better with ten thousand findings.
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

    /// Whether there is a finding of this verdict.
    pub(crate) fn has(&self, verdict: &Verdict) -> bool {
        self.found.iter().any(|finding| finding.verdict.code == verdict.code)
    }

    /// All of them: errors first, then in the order in which they were found, which is that of the layers.
    pub(crate) fn into_sorted(self) -> Vec<Finding> {
        let mut all = self.found;
        all.sort_by_key(|finding| finding.severity);
        all
    }
}
