//! Demotion: an instance whose capacity reservation has ended, or was cancelled, keeps running, and is billed on
//! demand. Its claim and Node say so from then on, so that its price counts in consolidation.
//!
//! Never the other way round: an instance that was launched on demand is not in a reservation that we count.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{events, labels};
use muster_cloud::{CapacityType, after};

use super::conditions::true_since;
use super::interruption::subjects;
use super::seen::Seen;
use crate::node::Node;
use crate::step::{Event, EventType, MetaChange, NodeChange, Step, Write};

/// Time after a launch from which the description of an instance is complete.
const SETTLED: Duration = Duration::from_secs(60);

/// Relabels a claim and its Nodes whose instance has left its capacity reservation.
pub(super) fn demote(seen: &Seen<'_>, _now: Timestamp) -> Step {
    let Some(listing) = seen.listing.filter(|it| it.capacity_type == Some(CapacityType::OnDemand)) else {
        return Step::rest();
    };
    let is_settled = true_since(seen.claim, nodeclaim::LAUNCHED).is_some_and(|at| after(at, SETTLED) <= listing.at);
    let of_claim = is_reserved(seen.claim.metadata.labels.as_ref());
    let nodes: Vec<&Node> =
        seen.nodes.iter().copied().filter(|node| is_reserved(node.metadata.labels.as_ref())).collect();
    if !is_settled || !of_claim && nodes.is_empty() {
        return Step::rest();
    }
    let mut writes: Vec<Write> = Vec::new();
    if of_claim {
        let id = seen.label(labels::CAPACITY_RESERVATION_ID).unwrap_or_default();
        let message = format!("its instance is no longer in the capacity reservation `{id}`, and is billed on demand");
        writes.extend(subjects(seen.claim, seen.nodes.first().copied()).map(|about| {
            let (kind, reason) = (EventType::Normal, events::CAPACITY_RESERVATION_ENDED);
            Write::Event(Event { about, kind, reason, message: message.clone() })
        }));
    }
    writes.extend(nodes.into_iter().filter_map(|node| {
        let meta = MetaChange { labels: on_demand(node.metadata.labels.as_ref()), ..MetaChange::default() };
        Some(Write::Node { name: node.metadata.name.clone()?, change: NodeChange { meta, taints: None } })
    }));
    // The claim comes last, so that a Node that could not be written is tried again.
    if of_claim {
        let change = MetaChange { labels: on_demand(seen.claim.metadata.labels.as_ref()), ..MetaChange::default() };
        writes.push(Write::ClaimMeta { name: seen.name(), change });
    }
    Step::act(writes)
}

/// Returns true if the labels say that the instance is in a capacity reservation.
#[must_use]
pub fn is_reserved(all: Option<&BTreeMap<String, String>>) -> bool {
    all.and_then(|all| all.get(labels::CAPACITY_TYPE)).is_some_and(|value| value == labels::RESERVED)
}

/// Returns the change of labels to those of an instance on demand.
fn on_demand(all: Option<&BTreeMap<String, String>>) -> BTreeMap<String, Option<String>> {
    let of_reservation = [
        labels::CAPACITY_RESERVATION_ID,
        labels::CAPACITY_RESERVATION_TYPE,
        labels::CAPACITY_RESERVATION_INTERRUPTIBLE,
    ];
    let there = |key: &&str| all.is_some_and(|all| all.contains_key(*key));
    let mut change: BTreeMap<String, Option<String>> =
        of_reservation.into_iter().filter(there).map(|key| (key.to_owned(), None)).collect();
    change.insert(labels::CAPACITY_TYPE.to_owned(), Some(labels::ON_DEMAND.to_owned()));
    change
}
