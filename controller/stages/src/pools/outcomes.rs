//! Results of a pool's last launches, in memory; the condition `NodeRegistrationHealthy` persists their summary.

use std::collections::VecDeque;

use muster_api::NodePool;
use muster_api::conditions::nodepool;

use crate::lifecycle::Class;

/// Number of launches considered, and number of failures that make a pool unhealthy; both as in Karpenter.
const LOOKED_AT: usize = 4;
const TOO_MANY: usize = 2;

/// Generations of a pool and its class. Results of other generations are discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Edition {
    pool: Option<i64>,
    class: Option<i64>,
}

/// Results of a pool's last launches: true for each that became a Node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcomes {
    edition: Edition,
    last: VecDeque<bool>,
}

/// Health of recent launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// No launch yet.
    Unknown,
    /// Fewer than two of the last four failed.
    Healthy,
    /// At least two of the last four failed.
    Unhealthy,
}

// === impl Edition ===

impl Edition {
    /// Returns the current generations.
    #[must_use]
    pub fn of(pool: &NodePool, class: Option<&Class>) -> Self {
        Self { pool: pool.metadata.generation, class: class.and_then(|class| class.meta.generation) }
    }
}

// === impl Outcomes ===

impl Outcomes {
    /// Restores the results after a restart from the pool's condition, if that was observed for the current
    /// generations.
    #[must_use]
    pub fn of(pool: &NodePool, class: Option<&Class>) -> Self {
        let edition = Edition::of(pool, class);
        let status = pool.status.as_ref();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let condition = conditions.iter().find(|one| one.type_ == nodepool::NODE_REGISTRATION_HEALTHY);
        let then = Edition {
            pool: condition.and_then(|one| one.observed_generation),
            class: status.and_then(|status| status.node_class_observed_generation),
        };
        let last = match condition.filter(|_| then == edition).map(|one| one.status.as_str()) {
            Some("True") => VecDeque::from([true]),
            Some("False") => VecDeque::from([false; TOO_MANY]),
            _ => VecDeque::new(),
        };
        Self { edition, last }
    }

    /// Records that a claim of this edition became a Node, or was given up before it did.
    pub fn note(&mut self, edition: Edition, became_a_node: bool) {
        if self.edition != edition {
            *self = Self { edition, last: VecDeque::new() };
        }
        self.last.push_back(became_a_node);
        if self.last.len() > LOOKED_AT {
            self.last.pop_front();
        }
    }

    /// Returns the health for this edition.
    #[must_use]
    pub fn health(&self, edition: Edition) -> Health {
        if self.edition != edition || self.last.is_empty() {
            Health::Unknown
        } else if self.last.iter().filter(|became_a_node| !**became_a_node).count() >= TOO_MANY {
            Health::Unhealthy
        } else {
            Health::Healthy
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(outcomes: &[bool]) -> Health {
        let mut all = Outcomes::default();
        outcomes.iter().for_each(|one| all.note(Edition::default(), *one));
        all.health(Edition::default())
    }

    #[test]
    fn half_of_the_last_four_must_become_nodes() {
        assert_eq!(health(&[]), Health::Unknown);
        assert_eq!(health(&[true]), Health::Healthy);
        assert_eq!(health(&[false]), Health::Healthy, "one may fail");
        assert_eq!(health(&[true, false, true, false]), Health::Unhealthy);
        assert_eq!(health(&[false, false, true, true, true]), Health::Healthy, "the fifth last is forgotten");
    }

    #[test]
    fn a_change_wipes_the_slate() {
        let next = Edition { pool: Some(2), class: None };
        let mut all = Outcomes::default();
        all.note(Edition::default(), false);
        all.note(Edition::default(), false);
        assert_eq!(all.health(next), Health::Unknown);
        all.note(next, false);
        assert_eq!(all.health(next), Health::Healthy);
    }
}
