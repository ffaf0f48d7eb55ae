//! How long verdicts took, as the README shows it.

use std::fmt;
use std::time::Duration;

/// One measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Took {
    /// The fault, in words.
    pub(crate) what: &'static str,
    /// The code that named it.
    pub(crate) code: &'static str,
    /// From when the fault was visible until it was named.
    pub(crate) after: Duration,
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} | {} | {:.2} s |", self.what, self.code, self.after.as_secs_f64())
    }
}

/// Rows of fault, code, median and worst, in the order in which the faults came first.
pub(crate) fn of(all: &[Took]) -> String {
    let mut rows: Vec<(&Took, Vec<Duration>)> = Vec::new();
    for took in all {
        match rows.iter_mut().find(|(first, _)| (first.what, first.code) == (took.what, took.code)) {
            Some((_, times)) => times.push(took.after),
            None => rows.push((took, vec![took.after])),
        }
    }
    let mut text = "| fault | code | median | worst |\n|---|---|---|---|\n".to_owned();
    for (first, mut times) in rows {
        times.sort_unstable();
        let (median, worst) = (times[times.len() / 2].as_secs_f64(), times[times.len() - 1].as_secs_f64());
        text.push_str(&format!("| {} | {} | {median:.2} s | {worst:.2} s |\n", first.what, first.code));
    }
    text
}
