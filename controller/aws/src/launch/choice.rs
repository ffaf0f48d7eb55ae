//! Selection of the alternatives for one request.
//!
//! Source: aws/karpenter-provider-aws, `pkg/providers/instance/filter/filter.go`, for the rules besides price and
//! requirements ([`muster_cloud::first_choice`]).

use muster_api::nodeclass::{CapacityReservation, ReservationType};
use muster_cloud::{Alternative, LaunchRequest};

use crate::inventory::Inventory;

/// Market of a capacity reservation. A request is limited to one market.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Market {
    /// On-demand capacity reservation of the account.
    Reserved,
    /// Capacity block: accelerated instances for a fixed time.
    Block,
    /// Reservation whose owner may reclaim instances.
    Interruptible,
}

/// Selects the alternatives that one CreateFleet may contain, cheapest first.
pub(super) fn choose(
    request: &LaunchRequest,
    inventory: &Inventory,
    reservations: &[CapacityReservation],
) -> Vec<Alternative> {
    let mut chosen = request.alternatives.clone();
    let market = |one: &Alternative| market_of(one.offering.reservation.as_deref()?, reservations);
    let cheapest = chosen.iter().filter_map(|one| Some((market(one)?, one.price)));
    if let Some((kept, _)) = cheapest.min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0))) {
        chosen.retain(|one| market(one) == Some(kept));
        if kept == Market::Block {
            // CreateFleet accepts one block only.
            chosen.truncate(1);
        }
        // An override cannot name two reservations, so of several for one type in one zone the first is used.
        let mut seen: Vec<(String, String)> = Vec::new();
        chosen.retain(|one| {
            let key = (one.offering.instance_type.clone(), one.offering.zone.clone());
            let is_new = !seen.contains(&key);
            seen.push(key);
            is_new
        });
    }
    if !request.keeps_choice {
        leave_out_exotic(&mut chosen, inventory);
    }
    chosen
}

pub(super) fn market_of(reservation: &str, reservations: &[CapacityReservation]) -> Option<Market> {
    let found = reservations.iter().find(|one| one.id == reservation)?;
    Some(match (found.reservation_type, found.interruptible) {
        (ReservationType::CapacityBlock, _) => Market::Block,
        (ReservationType::Default, true) => Market::Interruptible,
        (ReservationType::Default, false) => Market::Reserved,
    })
}

/// Removes bare metal, which starts slowly, and accelerated types, which are scarce, if other types are among the
/// alternatives.
fn leave_out_exotic(chosen: &mut Vec<Alternative>, inventory: &Inventory) {
    let is_generic = |one: &Alternative| {
        inventory.facts(&one.offering.instance_type).is_none_or(|facts| {
            !facts.bare_metal
                && facts.gpus.is_empty()
                && facts.neuron_devices.is_empty()
                && facts.inference_accelerators.is_empty()
        })
    };
    if chosen.iter().any(is_generic) {
        chosen.retain(is_generic);
    }
}
