//! Orders, converted between their gRPC messages and the types that decide them.

use std::sync::Arc;

use muster_gateway::Unanswered;
use muster_proto::muster as wire;

use crate::fleet::{
    Bought, Counter, Decision, Ended, Kind, Order, OrderedNode, Planned, Refusal, Termination, Ticket, read,
};

/// Plans an order. A refusal is an answer, unless the order is invalid.
pub(super) async fn plan(
    orders: Arc<dyn Counter>,
    request: wire::PlanRequest,
    by: String,
) -> Result<wire::PlanResponse, Unanswered> {
    let wire::PlanRequest { order, request_id } = request;
    let order = read(order.unwrap_or_default())?;
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
        Err(refusal) => Err(refusal.into()),
    }
}

pub(super) async fn launch(
    orders: &dyn Counter,
    request: wire::LaunchRequest,
    by: String,
) -> Result<wire::LaunchResponse, Unanswered> {
    let wire::LaunchRequest { request_id: id, order } = request;
    let order: Order = read(order.unwrap_or_default())?;
    let pool = order.pool.clone();
    let Decision { nodes, claims: _, hourly_price } = orders.launch(order, Ticket { by, id }).await?;
    Ok(wire::LaunchResponse { nodes: said(nodes, &pool), hourly_price })
}

pub(super) async fn terminate(
    orders: &dyn Counter,
    request: wire::TerminateRequest,
    by: String,
) -> Result<wire::TerminateResponse, Unanswered> {
    let wire::TerminateRequest { node_claim: claim, uid } = request;
    let uid = Some(uid).filter(|uid| !uid.is_empty());
    let Ended { uid, was_ending } = orders.terminate(Termination { by, claim, uid }).await?;
    Ok(wire::TerminateResponse { uid, was_terminating: was_ending })
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

impl From<Refusal> for Unanswered {
    fn from(refusal: Refusal) -> Self {
        let Refusal { kind, message } = refusal;
        match kind {
            Kind::Invalid => Self::Invalid(message),
            Kind::NotFound => Self::NotFound(message),
            Kind::Taken => Self::Taken(message),
            Kind::Exhausted => Self::Exhausted(message),
            Kind::Precondition => Self::Precondition(message),
            Kind::NotNow => Self::NotNow(message),
            Kind::Defect => Self::Failed(message),
        }
    }
}
