//! Admission of planned nodes: one if it is a trial, and as many as the caps allow.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use muster_api::NodePool;
use muster_scheduling::model::Problem;

use super::plan::ClaimAndNode;
use super::spending::spent;
use super::{Round, Stop};
use crate::lifecycle::caps::{Admission, Caps, Spent};

/// Admits nodes one by one, and counts those admitted.
pub(crate) struct Admissions<'r> {
    stops: &'r BTreeMap<String, Stop>,
    caps: Caps,
    spent: Spent,
    /// Classes with a trial node in this decision, by kind and name.
    tried: BTreeSet<(&'r str, &'r str)>,
}

/// Reason why a node is not launched, with its message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Denied {
    /// Another trial node of its class was admitted.
    Trial(String),
    /// The rate limit of launches is reached until this time.
    NotBefore(Timestamp, String),
    /// The price limit would be exceeded.
    TooDear(String),
}

impl<'r> Admissions<'r> {
    /// Creates admissions with the usage of the existing claims, at the prices of `problem`.
    pub(crate) fn new(round: &Round<'r>, problem: &Problem, claims: &[ClaimAndNode<'_>]) -> Self {
        let (stops, caps) = (round.stops, round.settings.caps);
        Self { stops, caps, spent: spent(problem, claims), tried: BTreeSet::new() }
    }

    /// Admits another node of `pool` at this price, or returns the reason why it may not be launched.
    pub(crate) fn admit(&mut self, pool: &'r NodePool, price: f64, now: Timestamp) -> Result<(), Denied> {
        let class = &pool.spec.template.spec.node_class_ref;
        let stop = pool.metadata.name.as_ref().and_then(|name| self.stops.get(name));
        if let Some(Stop::ButOne { why }) = stop
            && !self.tried.insert((&class.kind, &class.name))
        {
            return Err(Denied::Trial(why.clone()));
        }
        match self.caps.admit(&self.spent, price, now) {
            Admission::Now => {}
            Admission::NotBefore(moment) => {
                let cap = self.caps.launches_per_minute.unwrap_or_default();
                let why = format!("no more than {cap} nodes are launched in a minute");
                return Err(Denied::NotBefore(moment, why));
            }
            Admission::TooDear(over) => {
                let cap = self.caps.hourly_price.unwrap_or_default();
                return Err(Denied::TooDear(format!(
                    "all nodes together may cost {cap} USD an hour, and one more would exceed that by {over:.4}"
                )));
            }
        }
        self.spent.made_at.push(now);
        self.spent.hourly_price += price;
        Ok(())
    }
}
