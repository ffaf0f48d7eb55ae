//! What the proxy answers itself because moto does not, or not as AWS does.

mod console;
mod groups;
mod market;
mod parameters;
mod prices;
mod pricing;
mod reservations;
mod status;
mod sts;
mod zonal_shifts;

pub(super) use super::images::Releases;
pub(super) use groups::{Groups, SPREAD_LIMIT, unknown as no_group};
pub(super) use market::Market as SpotMarket;
pub(super) use prices::{architecture, is_offered, on_demand_price};
pub(super) use reservations::{BlockOrder, Market, Reservations, not_found as no_reservation};
pub use status::InstanceFault;
pub(super) use status::Statuses;
pub(super) use zonal_shifts::{Shifts, action as shift_action, parameters as shift_parameters};

use super::answer::{Answer, ApiError};
use super::request::Request;
use super::shared::Shared;

/// The answer to `request`, or `None` if moto is to be asked.
pub(super) fn answer(shared: &Shared, request: &Request, request_id: &str) -> Option<Result<Answer, ApiError>> {
    let Request { service, action, .. } = request;
    match (service.as_str(), action.as_str()) {
        ("ec2", "GetConsoleOutput") => Some(console::output(shared, request, request_id)),
        ("ec2", "DescribeInstanceStatus") => status::answer(shared, request, request_id),
        ("ec2", "DescribeSpotPriceHistory") => Some(market::history(shared, request, request_id)),
        ("ec2", action) if action.ends_with("CapacityReservation") || action.ends_with("CapacityReservations") => {
            reservations::answer(shared, request, request_id)
        }
        ("ec2", action) if action.ends_with("PlacementGroup") || action.ends_with("PlacementGroups") => {
            groups::answer(shared, request, request_id)
        }
        ("ssm", _) => parameters::answer(shared, request),
        ("pricing", _) => pricing::answer(request),
        ("arc-zonal-shift", _) => Some(zonal_shifts::answer(shared, request)),
        ("sts", "GetCallerIdentity") => Some(sts::caller(shared, request, request_id)),
        _ => None,
    }
}
