//! Which of the alternatives one request names.
//!
//! Source: aws/karpenter-provider-aws, `pkg/providers/instance/filter/filter.go`, for what is not decided by price and
//! requirements already ([`muster_cloud::first_choice`]).

use muster_api::nodeclass::{CapacityReservation, ReservationType};
use muster_cloud::{Alternative, LaunchRequest};

use crate::inventory::Inventory;

/// The market that a reservation is taken from. A request is for one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Market {
    /// Capacity that the account has reserved.
    Reserved,
    /// A block of accelerated instances for a fixed time.
    Block,
    /// A reservation whose owner may take instances back.
    Interruptible,
}

/// Those of the request's alternatives that one CreateFleet may name together, cheapest first.
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
            // CreateFleet takes one block only.
            chosen.truncate(1);
        }
        // Of several reservations for one type in one zone the first: an override cannot name two.
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

/// Bare metal starts slowly and accelerators are scarce: EC2 is not to choose them for pods that anything else would hold.
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
