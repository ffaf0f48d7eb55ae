//! Meaning of journal lines: a table (`data/signatures.tsv`) and the function that searches it.

use std::sync::LazyLock;

use jiff::SignedDuration;
use muster_bootstrap::verdicts::{self, Verdict};

use super::journal::Line;
use crate::phase::Phase;

/// Text pattern of a fault.
#[derive(Debug)]
pub struct Signature {
    /// Verdict on a matching line.
    pub verdict: &'static Verdict,
    /// Units whose lines are matched.
    units: Vec<&'static str>,
    /// Time for which a healthy boot may repeat the line.
    pub patience: SignedDuration,
    /// Stage after which the line no longer matters.
    pub clears: Phase,
    /// Substrings that must occur, in order.
    pieces: Vec<&'static str>,
}

static TABLE: LazyLock<Vec<Signature>> =
    LazyLock::new(|| include_str!("../../data/signatures.tsv").lines().filter_map(parse).collect());

/// Returns all signatures, in matching order.
#[must_use]
pub fn all() -> &'static [Signature] {
    &TABLE
}

/// Returns the first signature that matches a line.
#[must_use]
pub fn find(line: &Line) -> Option<&'static Signature> {
    // The kubelet's log quotes errors: `err="… \"x\" …"`.
    let text = line.text.replace("\\\"", "\"");
    all().iter().find(|signature| signature.fits(&line.unit, &text))
}

impl Signature {
    fn fits(&self, unit: &str, text: &str) -> bool {
        let mut rest = text;
        self.units.contains(&unit)
            && self.pieces.iter().all(|piece| match rest.split_once(piece) {
                Some((_, after)) => {
                    rest = after;
                    true
                }
                None => false,
            })
    }
}

fn parse(row: &'static str) -> Option<Signature> {
    let mut columns = row.split('\t');
    let (code, units, patience, clears, pattern) =
        (columns.next()?, columns.next()?, columns.next()?, columns.next()?, columns.next()?);
    Some(Signature {
        verdict: verdicts::find(code)?,
        units: units.split(' ').collect(),
        patience: SignedDuration::from_secs(patience.parse().ok()?),
        clears: *Phase::ALL.iter().find(|phase| phase.to_string() == clears)?,
        pieces: pattern.split('…').collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(unit: &str, text: &str) -> Option<&'static str> {
        let line = Line::new(unit, text);
        find(&line).map(|signature| signature.verdict.code)
    }

    #[test]
    fn every_row_is_read() {
        let rows = include_str!("../../data/signatures.tsv").lines().filter(|row| !row.starts_with('#')).count();
        assert_eq!(all().len(), rows);
    }

    #[test]
    fn every_signature_is_found_by_its_own_text_first() {
        for signature in all() {
            for unit in &signature.units {
                assert_eq!(code(unit, &signature.pieces.join(" x ")), Some(signature.verdict.code), "{signature:?}");
            }
        }
    }

    #[test]
    fn what_programs_really_print_is_known() {
        for (unit, text, expected) in include_str!("../../data/journal-lines.tsv")
            .lines()
            .filter(|row| !row.starts_with('#'))
            .map(|row| {
                let mut columns = row.splitn(3, '\t');
                (columns.next().unwrap(), columns.next().unwrap(), columns.next().unwrap())
            })
            .map(|(expected, unit, text)| (unit, text, expected))
        {
            assert_eq!(code(unit, text).unwrap_or("-"), expected, "{unit}: {text}");
        }
    }
}
