//! `CreateFleet` of type `instant`: moto would launch the first override, EC2 picks.
//!
//! ```text
//!  request ──► offers (override × zone: price, depth, what is left) ──► choose (pure) ──► launches ──► moto RunInstances
//!              ▲ subnets, images, template from moto                        │                             │
//!              │ prices, rules                                              └─ refusals ──► fleet answer ◄┘
//! ```

mod answer;
mod choose;
mod offers;
mod request;

use std::collections::BTreeSet;

use choose::{Choice, Demand, choose};
use request::FleetRequest;

use super::answer::{Answer, ApiError};
use super::digest::hex;
use super::faults::{self, CapacityType};
use super::launch::{Order, launch};
use super::parameters::Parameters;
use super::request::Request;
use super::shared::Shared;

/// Answers `CreateFleet`.
pub(super) async fn create(shared: &Shared, request: &Request, request_id: &str) -> Result<Answer, ApiError> {
    let fleet = FleetRequest::read(&request.parameters)?;
    if request.parameters.flag("DryRun") {
        return Err(faults::dry_run());
    }
    let id = fleet_id(&shared.state().id(&shared.account));
    let denied = may_not_run(shared, request);
    let mut made = answer::Made::default();
    let mut pools_refused = BTreeSet::new();
    for (capacity_type, units) in fleet.parts() {
        let offers = offers::of(shared, request, &fleet, capacity_type).await?;
        let demand = Demand { units, strategy: fleet.strategy(capacity_type), least: fleet.least(capacity_type) };
        let plain = offers.iter().map(|offered| &offered.offer).collect::<Vec<_>>();
        let Choice { launches, refused } = choose(&plain, &demand);
        for (index, error) in refused {
            pools_refused.insert((offers[index].offer.instance_type.clone(), offers[index].offer.zone.clone()));
            made.refused(&offers[index], capacity_type, error);
        }
        for (index, count) in launches {
            let offered = &offers[index];
            if let Some(error) = &denied {
                made.refused(offered, capacity_type, error.clone());
                continue;
            }
            let order = order(shared, &fleet, offered, &id, capacity_type, count);
            match launch(shared, request, order).await {
                Ok(launched) => made.launched(offered, capacity_type, &launched.instances),
                Err(error) => made.refused(offered, capacity_type, error),
            }
        }
    }
    let now = shared.clock.now();
    for pool in pools_refused {
        shared.state().refused.entry(pool).or_insert(now);
    }
    Ok(answer::of(request, request_id, &id, made))
}

/// EC2 checks `RunInstances` for each launch of a fleet; what it says stands among the fleet's errors.
fn may_not_run(shared: &Shared, request: &Request) -> Option<ApiError> {
    let mut state = shared.state();
    let (identity, arn) = (state.identities.name(&request.access_key), state.identities.arn(&request.access_key));
    let verdict = state.rules.on_call("ec2", "RunInstances", &identity);
    verdict.error("ec2", "ec2:RunInstances", &arn)
}

fn fleet_id(seed: &str) -> String {
    let digits = hex(seed, 32);
    format!("fleet-{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..])
}

fn order(
    shared: &Shared,
    fleet: &FleetRequest,
    offered: &offers::Offered,
    id: &str,
    capacity_type: CapacityType,
    count: u32,
) -> Order {
    let offer = &offered.offer;
    let mut order = Order {
        instance_type: offer.instance_type.clone(),
        zone: offer.zone.clone(),
        subnet: offer.subnet.clone(),
        capacity_type,
        count,
        image: offered.image.clone(),
        architecture: offered.architecture.clone(),
        template: Some(offered.template.clone()),
        instance_tags: fleet.instance_tags.clone(),
        volume_tags: fleet.volume_tags.clone(),
        fleet: Some(id.to_owned()),
        reservation: offered.reservation.clone(),
        placement_group: offered.placement_group.clone(),
        sent: Parameters::default(),
    };
    order.instance_tags.insert("aws:ec2:fleet-id".to_owned(), id.to_owned());
    if order.reservation.is_none()
        && capacity_type == CapacityType::OnDemand
        && offered.template.takes_open_reservations()
    {
        let (state, now) = (shared.state(), shared.clock.now());
        let open = state.reservations.open(&order.instance_type, &order.zone, now);
        let has_room = |open: &&_| state.reservations.available(open, &state.instances, now) >= count;
        order.reservation = open.filter(has_room).map(|open| open.id.clone());
    }
    order
}
