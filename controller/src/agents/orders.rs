//! Orders, converted between their gRPC messages and the types that decide them.

use std::sync::Arc;

use muster_gateway::Unanswered;
use muster_proto::muster as wire;
use muster_stages::fleet::{
    Bought, Decision, Ended, Kind, OrderedNode, Planned, Refusal, Termination, Ticket, WrittenOrder,
    WrittenRequirement, read,
};

use super::counter::Counter;

/// Plans an order. A refusal is an answer, unless the order is invalid.
pub(super) async fn plan(
    orders: Arc<dyn Counter>,
    request: wire::PlanRequest,
    by: String,
) -> Result<wire::PlanResponse, Unanswered> {
    let wire::PlanRequest { order, request_id } = request;
    let order = read(written(order.unwrap_or_default())).map_err(unanswered)?;
    let ticket = (!request_id.is_empty()).then_some(Ticket { by, id: request_id });
    let pool = order.pool.clone();
    // For a large cluster this takes a second of a core, and connections need this thread.
    let planned = tokio::task::spawn_blocking(move || orders.plan(&order, ticket.as_ref())).await;
    match planned.map_err(|error| Unanswered::Failed(error.to_string()))? {
        Ok(Decision { nodes, claims: _, hourly_price }) => {
            Ok(wire::PlanResponse { nodes: said(nodes, &pool), hourly_price, refusal: None })
        }
        Err(Refusal { kind, message }) if matches!(kind, Kind::Taken | Kind::Exhausted | Kind::Precondition) => {
            let refusal = wire::Refusal { code: kind.code().to_owned(), message };
            Ok(wire::PlanResponse { refusal: Some(refusal), ..wire::PlanResponse::default() })
        }
        Err(refusal) => Err(unanswered(refusal)),
    }
}

pub(super) async fn launch(
    orders: &dyn Counter,
    request: wire::LaunchRequest,
    by: String,
) -> Result<wire::LaunchResponse, Unanswered> {
    let wire::LaunchRequest { request_id: id, order } = request;
    let order = read(written(order.unwrap_or_default())).map_err(unanswered)?;
    let pool = order.pool.clone();
    let Decision { nodes, claims: _, hourly_price } =
        orders.launch(order, Ticket { by, id }).await.map_err(unanswered)?;
    Ok(wire::LaunchResponse { nodes: said(nodes, &pool), hourly_price })
}

pub(super) async fn terminate(
    orders: &dyn Counter,
    request: wire::TerminateRequest,
    by: String,
) -> Result<wire::TerminateResponse, Unanswered> {
    let wire::TerminateRequest { node_claim: claim, uid } = request;
    let uid = Some(uid).filter(|uid| !uid.is_empty());
    let Ended { uid, was_ending } = orders.terminate(Termination { by, claim, uid }).await.map_err(unanswered)?;
    Ok(wire::TerminateResponse { uid, was_terminating: was_ending })
}

fn written(order: wire::Order) -> WrittenOrder {
    let wire::Order { node_pool, count, requests, requirements } = order;
    let requirements = requirements.into_iter().map(|one| {
        let wire::Requirement { key, operator, values } = one;
        WrittenRequirement { key, operator, values }
    });
    WrittenOrder { node_pool, count, requests, requirements: requirements.collect() }
}

fn said(nodes: Vec<OrderedNode>, pool: &str) -> Vec<wire::OrderedNode> {
    let nodes = nodes.into_iter();
    nodes
        .map(|OrderedNode { claim, uid, planned }| {
            let node = wire::OrderedNode {
                node_claim: claim.unwrap_or_default(),
                uid: uid.unwrap_or_default(),
                node_pool: pool.to_owned(),
                existed: planned.is_none(),
                ..wire::OrderedNode::default()
            };
            let Some(Planned { requests, offerings, types, price }) = planned else { return node };
            wire::OrderedNode {
                requests,
                offerings: offerings.into_iter().map(offering).collect(),
                instance_types: u32::try_from(types).unwrap_or(u32::MAX),
                hourly_price: price,
                ..node
            }
        })
        .collect()
}

fn offering(one: Bought) -> wire::NodeOffering {
    let Bought { instance_type, zone, capacity_type, price } = one;
    wire::NodeOffering { instance_type, zone, capacity_type, hourly_price: price }
}

/// Returns the answer of a refused order.
fn unanswered(Refusal { kind, message }: Refusal) -> Unanswered {
    match kind {
        Kind::Invalid => Unanswered::Invalid(message),
        Kind::NotFound => Unanswered::NotFound(message),
        Kind::Taken => Unanswered::Taken(message),
        Kind::Exhausted => Unanswered::Exhausted(message),
        Kind::Precondition => Unanswered::Precondition(message),
        Kind::NotNow => Unanswered::NotNow(message),
        Kind::Defect => Unanswered::Failed(message),
    }
}
