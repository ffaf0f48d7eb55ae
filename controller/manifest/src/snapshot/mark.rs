//! The mark of a disrupted claim: an annotation with the whole state of its command.

use jiff::Timestamp;
use muster_scheduling::disrupt::Cause;
use serde::{Deserialize, Serialize};

const CAUSES: [Cause; 7] = [
    Cause::Empty,
    Cause::Underutilized,
    Cause::Drifted,
    Cause::Expired,
    Cause::Unhealthy,
    Cause::Broken,
    Cause::Interrupted,
];

/// Returns the name of a cause in marks. Two of them share the name that people see.
fn written(cause: Cause) -> &'static str {
    if cause == Cause::Broken { "Broken" } else { cause.name() }
}

/// Content of the annotation `muster.dev/disruption` of a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Identifier of the command, shared by all its claims.
    pub command: String,
    /// Cause of the disruption.
    pub cause: Cause,
    /// Method that found the command ([`muster_scheduling::disrupt::Method::name`]).
    pub method: String,
    /// Time at which the command began.
    pub since: Timestamp,
    /// Number of claims of the command.
    pub candidates: usize,
    /// Number of pods on this claim's node that had to move at the time of the decision.
    pub pods: usize,
    /// Price of this claim's node in USD per hour; 0 if unknown.
    pub price: f64,
    /// Price of all replacements together, in USD per hour.
    pub cost: f64,
    /// Names of the NodeClaims that must be initialized before the nodes are removed.
    pub replacements: Vec<String>,
    /// Longest drain of this claim's node in seconds, if the policy of its repair bounds it.
    pub drain_seconds: Option<u64>,
}

/// Serialized form of a mark.
#[derive(Serialize, Deserialize)]
struct Written {
    command: String,
    cause: String,
    method: String,
    since: String,
    candidates: usize,
    pods: usize,
    price: f64,
    cost: f64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    replacements: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    drain_seconds: Option<u64>,
}

// === impl Mark ===

impl Mark {
    /// Parses the annotation; `None` if it is invalid.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mark: Written = serde_json::from_str(text).ok()?;
        let Written { command, cause, method, since, candidates, pods, price, cost, replacements, drain_seconds } =
            mark;
        let cause = CAUSES.into_iter().find(|known| written(*known) == cause)?;
        let since = since.parse().ok()?;
        Some(Self { command, cause, method, since, candidates, pods, price, cost, replacements, drain_seconds })
    }

    /// Returns the value of the annotation.
    #[must_use]
    pub fn write(&self) -> String {
        let mark = Written {
            command: self.command.clone(),
            cause: written(self.cause).to_owned(),
            method: self.method.clone(),
            since: self.since.to_string(),
            candidates: self.candidates,
            pods: self.pods,
            price: self.price,
            cost: self.cost,
            replacements: self.replacements.clone(),
            drain_seconds: self.drain_seconds,
        };
        serde_json::to_string(&mark).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mark = Mark {
            command: "a1".to_owned(),
            cause: Cause::Underutilized,
            method: "multi-node".to_owned(),
            since: "2026-11-21T12:00:00Z".parse().unwrap(),
            candidates: 2,
            pods: 3,
            price: 0.1,
            cost: 0.05,
            replacements: vec!["general-b2".to_owned()],
            drain_seconds: None,
        };
        insta::assert_snapshot!(mark.write(), @r#"{"command":"a1","cause":"Underutilized","method":"multi-node","since":"2026-11-21T12:00:00Z","candidates":2,"pods":3,"price":0.1,"cost":0.05,"replacements":["general-b2"]}"#);
        assert_eq!(Mark::read(&mark.write()), Some(mark.clone()));
        let legacy = Mark { cause: Cause::Broken, drain_seconds: Some(300), ..mark };
        assert_eq!(Mark::read(&legacy.write()), Some(legacy));
        for odd in ["", "{}", "true", r#"{"command":"a","cause":"Bored"}"#] {
            assert_eq!(Mark::read(odd), None, "{odd}");
        }
    }
}
