//! NodeClaims to launch for an order.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::{NodeClaim, NodePool, annotations};
use muster_aws::quantity::format;
use muster_scheduling::explain::Explainer;
use muster_scheduling::model::{PoolState, Problem};
use muster_scheduling::{NewNode, Reason, Solution, solve, validate};

use super::demand::demand;
use super::{Bought, Decision, Kind, Order, OrderedNode, Planned, Refusal, Ticket};
use crate::lifecycle::Readiness;
use crate::provision::{Admissions, ClaimAndNode, Closed, Denied, Round, claim, closed, name};

/// Maximum number of offerings reported for a node.
const TOLD: usize = 10;

/// Returns the decision for an order in `round`, whose pods are ignored; `class` is the readiness of the pool's class.
/// With a ticket, nodes that already exist for it are kept.
///
/// # Errors
/// Returns a refusal if the order cannot be fulfilled completely.
pub fn launch(
    round: &Round<'_>,
    class: &Readiness,
    order: &Order,
    ticket: Option<&Ticket>,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let mut nodes = match ticket {
        Some(ticket) => known(round.view.claims, order, ticket)?,
        None => vec![OrderedNode { claim: None, uid: None, planned: None }; order.count],
    };
    let missing: Vec<&mut OrderedNode> = nodes.iter_mut().filter(|node| node.uid.is_none()).collect();
    if missing.is_empty() {
        return Ok(Decision { nodes, ..Decision::default() });
    }
    let (pool, index) = pool_of(round, class, order)?;
    let problem = demand(round.problem, index, order, missing.len());
    let solution = solved(round, &problem, order)?;
    admitted(round, &problem, pool, &solution, now)?;
    let (mut claims, mut hourly_price) = (Vec::new(), 0.0);
    for (node, new) in missing.into_iter().zip(&solution.new_nodes) {
        hourly_price += new.price;
        node.planned = Some(planned(&problem, new));
        if let (Some(ticket), Some(name)) = (ticket, &node.claim) {
            claims.push(signed(claim(&problem, new, pool, name.clone()), order, ticket));
        }
    }
    Ok(Decision { nodes, claims, hourly_price })
}

/// Returns the nodes of the order with the names of their NodeClaims, and the UIDs of those that exist.
fn known(claims: &[ClaimAndNode<'_>], order: &Order, ticket: &Ticket) -> Result<Vec<OrderedNode>, Refusal> {
    let said = |one: &ClaimAndNode<'_>, key: &str| one.claim.metadata.annotations.as_ref()?.get(key).cloned();
    let Ticket { by, id } = ticket;
    let is_its = |one: &&ClaimAndNode<'_>| {
        said(one, annotations::REQUESTED_BY).as_ref() == Some(by)
            && said(one, annotations::REQUEST).as_ref() == Some(id)
    };
    let fingerprint = order.fingerprint();
    let other =
        claims.iter().filter(is_its).find(|one| said(one, annotations::REQUEST_HASH).as_ref() != Some(&fingerprint));
    if let Some(other) = other {
        return Err(Refusal::new(
            Kind::Taken,
            format!(
                "request_id: `{id}` was used for another order, which has NodeClaim `{}`\n\nhint: give each order an ID of its own",
                other.name()
            ),
        ));
    }
    let by_name: BTreeMap<&str, &ClaimAndNode<'_>> = claims.iter().map(|one| (one.name(), one)).collect();
    let names: Vec<String> =
        (0..order.count).map(|number| name(&order.pool, ["request", by, id, &number.to_string()])).collect();
    let is_ending = |name: &&String| {
        by_name.get(name.as_str()).is_some_and(|there| there.claim.metadata.deletion_timestamp.is_some())
    };
    // A repeated order requires nodes, but the name of a terminating one cannot be reused yet.
    if let Some(ending) = names.iter().find(is_ending) {
        return Err(Refusal::new(
            Kind::NotNow,
            format!(
                "NodeClaim `{ending}` of this order is ending, and nothing was done\n\nhint: repeat the order when it has gone, \
                 which launches it again, or give an order with an ID of its own now"
            ),
        ));
    }
    let node = |name: String| {
        let there = by_name.get(name.as_str());
        let uid = there.map(|one| one.claim.metadata.uid.clone().unwrap_or_default());
        OrderedNode { claim: Some(name), uid, planned: None }
    };
    Ok(names.into_iter().map(node).collect())
}

/// Returns the pool of the order and its index, if the pool may launch.
fn pool_of<'r>(round: &Round<'r>, class: &Readiness, order: &Order) -> Result<(&'r NodePool, usize), Refusal> {
    let name = order.pool.as_str();
    let Some(pool) = round.pools.get(name) else {
        return Err(Refusal::not_found("NodePool", name, round.pools.keys().copied()));
    };
    let refused = |why: String, hint: &str| {
        let message = format!("nothing is launched with NodePool `{name}`: {why}\n\nhint: {hint}");
        Err(Refusal::new(Kind::Precondition, message))
    };
    let reference = &pool.spec.template.spec.node_class_ref;
    let class_name = format!("{} `{}`", reference.kind, reference.name);
    let look_at_class = format!("`kubectl describe {} {}`", reference.kind.to_lowercase(), reference.name);
    match closed(round, name) {
        Some(Closed::Gone) => return Err(Refusal::not_found("NodePool", name, round.pools.keys().copied())),
        Some(paused @ Closed::Paused) => {
            let key = annotations::PAUSE;
            let hint = format!(
                "remove it, or set it to `false`: `kubectl annotate nodepool {name} {key}-`, and from the namespace"
            );
            return refused(paused.to_string(), &hint);
        }
        Some(Closed::Stopped(why)) => {
            let key = annotations::RESET_BREAKER;
            let hint = format!("change {class_name}, or `kubectl annotate` it with {key}=true");
            return refused(why, &hint);
        }
        None => {}
    }
    match class {
        Readiness::Ready | Readiness::Unknown => {}
        Readiness::Missing => return refused(format!("there is no {class_name}"), "create it, or name another one"),
        Readiness::Terminating => return refused(format!("{class_name} is being deleted"), "name another one"),
        Readiness::NotReady(why) => return refused(format!("{class_name} is not ready: {why}"), &look_at_class),
    }
    let index = round.problem.pools.iter().position(|one| &*one.name == name);
    let Some((index, model)) = index.map(|index| (index, &round.problem.pools[index])) else {
        return refused("it cannot be read".to_owned(), &format!("`kubectl describe nodepool {name}`"));
    };
    if model.missing_replicas.is_some() || pool.spec.replicas.is_some() {
        return refused("it is static".to_owned(), &format!("`kubectl scale nodepool {name} --replicas=…`"));
    }
    match &model.state {
        PoolState::Ready => Ok((pool, index)),
        PoolState::NotReady(why) => refused(why.clone(), &format!("`kubectl describe nodepool {name}`")),
    }
}

/// Returns a validated solution with all nodes.
fn solved(round: &Round<'_>, problem: &Problem, order: &Order) -> Result<Solution, Refusal> {
    let packing = &round.settings.packing;
    let solution = solve(problem, packing);
    if let Some(violation) = validate(problem, packing, &solution).first() {
        tracing::error!(?violation, "an order was not carried out: please report this");
        return Err(Refusal::new(Kind::Defect, format!("the plan failed its own validation: {violation}")));
    }
    let Some(unplaced) = solution.unschedulable.first() else {
        return match solution.new_nodes.len() == problem.pods.len() {
            true => Ok(solution),
            false => Err(Refusal::new(Kind::Defect, "two pods of an order were planned on one node")),
        };
    };
    let (there, wanted) = (solution.new_nodes.len(), problem.pods.len());
    let found = Explainer::new(problem, packing, &solution).unschedulable(unplaced.pod);
    let verdict = found.pools.into_iter().find(|verdict| *verdict.pool == *order.pool);
    let (reason, message, near, hint) = match verdict {
        Some(one) => (one.reason, one.message, one.nearest, one.hint),
        None => (found.reason, found.message, None, None),
    };
    let so_far = match there {
        0 => String::new(),
        there => format!("only {there} of {wanted} nodes are possible: "),
    };
    let near = near.map(|near| format!("; {near}")).unwrap_or_default();
    let hint = hint.map(|hint| format!("\n\nhint: {hint}")).unwrap_or_default();
    let kind = if matches!(reason, Reason::Limits | Reason::Reserved) { Kind::Exhausted } else { Kind::Precondition };
    let name = &order.pool;
    Err(Refusal::new(
        kind,
        format!("NodePool `{name}` has no instance type for this order: {so_far}{message}{near}{hint}"),
    ))
}

/// Checks that all nodes may be launched; partial orders are not accepted.
fn admitted(
    round: &Round<'_>,
    problem: &Problem,
    pool: &NodePool,
    solution: &Solution,
    now: Timestamp,
) -> Result<(), Refusal> {
    let mut admissions = Admissions::new(round, problem, round.view.claims);
    for (number, node) in solution.new_nodes.iter().enumerate() {
        let Err(denied) = admissions.admit(pool, node.price, now) else { continue };
        let so_far = format!("{number} of {} nodes may be launched now", solution.new_nodes.len());
        let (kind, message, hint) = match denied {
            Denied::Trial(why) => {
                (Kind::Precondition, why, "order one node, or wait until that one is initialized".to_owned())
            }
            Denied::NotBefore(moment, why) => (
                Kind::Exhausted,
                why,
                format!("order fewer at once, or again after {moment}: `--max-launches-per-minute`"),
            ),
            Denied::TooDear(why) => {
                (Kind::Exhausted, why, "end other nodes first, or raise `--max-hourly-price`".to_owned())
            }
        };
        return Err(Refusal::new(kind, format!("{so_far}: {message}\n\nhint: {hint}")));
    }
    Ok(())
}

fn planned(problem: &Problem, node: &NewNode) -> Planned {
    let types = &problem.catalogues[problem.pools[node.pool].catalogue];
    let offerings = node.alternatives.iter().flat_map(|number| {
        let of = &types[*number];
        let can_be_had = of.offerings.iter().filter(|offering| {
            let is_left = !offering.reserved() || offering.reservation_capacity > 0;
            is_left && offering.launchable() && offering.requirements.intersects(&node.requirements)
        });
        can_be_had.filter_map(|offering| {
            Some(Bought {
                instance_type: of.name.to_string(),
                zone: offering.zone().unwrap_or_default().to_owned(),
                capacity_type: offering.capacity_type().unwrap_or_default().to_owned(),
                price: offering.price?,
            })
        })
    });
    let mut offerings: Vec<Bought> = offerings.collect();
    // The sort is stable: offerings of equal price keep the order in which they are tried.
    offerings.sort_by(|one, other| one.price.total_cmp(&other.price));
    offerings.truncate(TOLD);
    let requests = node.requests.iter().filter(|(_, amount)| *amount > 0);
    let requests = requests.map(|(resource, amount)| (resource.name().to_owned(), format(resource, amount)));
    Planned { requests: requests.collect(), offerings, types: node.alternatives.len(), price: node.price }
}

/// Adds the annotations of the order to the claim.
fn signed(mut claim: NodeClaim, order: &Order, ticket: &Ticket) -> NodeClaim {
    let said = [
        (annotations::REQUESTED_BY, ticket.by.clone()),
        (annotations::REQUEST, ticket.id.clone()),
        (annotations::REQUEST_HASH, order.fingerprint()),
    ];
    let all = claim.metadata.annotations.get_or_insert_default();
    all.extend(said.map(|(key, value)| (key.to_owned(), value)));
    claim
}
