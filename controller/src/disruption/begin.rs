//! From a command to its first writes: every claim gets its mark before anything else is done to any, every node its taint
//! before anything is launched.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, annotations, events, labels, taints};
use muster_scheduling::disrupt::{Cause, Method};

use super::look::{Candidate, leavers};
use super::mark::{Mark, is_marked, short};
use super::objection::objection;
use crate::lifecycle::pause::Pause;
use crate::lifecycle::{Status, condition, judged, set_condition, whole_seconds};
use crate::node::Node;
use crate::step::{Event, EventType, MetaChange, NodeChange, Step, Write};

/// Names of Kubernetes may be this long where they become values of labels.
const LONGEST_NAME: usize = 63;

/// A command that is to be carried out.
#[derive(Debug, Clone)]
pub struct Order<'a> {
    /// Why.
    pub cause: Cause,
    /// How it was found.
    pub method: Method,
    /// The claims whose nodes go.
    pub leavers: Vec<Leaver<'a>>,
    /// NodeClaims for what has to be up before they do. Their names are given here.
    pub launches: Vec<NodeClaim>,
    /// USD per hour of all launches together.
    pub cost: f64,
    /// What an operator has paused in the whole cluster.
    pub pause: Pause,
}

/// A claim whose node goes.
#[derive(Debug, Clone, Copy)]
pub struct Leaver<'a> {
    /// The claim.
    pub candidate: Candidate<'a>,
    /// USD per hour of its node; 0 if it is not known.
    pub price: f64,
}

/// The first steps of `order`, each of which stands for itself: one for all its nodes if it launches anything, else one for
/// each. Nothing is begun about claims that are on their way out, that another command has marked, or that somebody objects
/// to take by now, nor about those that share launches with them.
#[must_use]
pub fn begin(order: &Order<'_>, now: Timestamp) -> Vec<Step> {
    let is_free = |leaver: &&Leaver<'_>| {
        let candidate = &leaver.candidate;
        let pods = leavers(candidate.residents);
        let is_taken = candidate.is_leaving() || is_marked(candidate.claim);
        !is_taken && objection(candidate, order.cause, pods, order.pause, now).is_none()
    };
    let free: Vec<Leaver<'_>> = order.leavers.iter().filter(is_free).copied().collect();
    if order.launches.is_empty() {
        return free.iter().map(|leaver| together(order, std::slice::from_ref(leaver), now)).collect();
    }
    if free.len() < order.leavers.len() || free.is_empty() {
        return Vec::new();
    }
    vec![together(order, &free, now)]
}

/// One command: its marks, then taints and conditions, then what is launched.
fn together(order: &Order<'_>, going: &[Leaver<'_>], now: Timestamp) -> Step {
    let since = whole_seconds(now);
    let mut uids: Vec<String> = going.iter().map(|leaver| leaver.candidate.uid()).collect();
    uids.sort();
    let moment = since.to_string();
    let command = short(uids.iter().map(String::as_str).chain([order.cause.name(), moment.as_str()]));
    let launches: Vec<NodeClaim> =
        order.launches.iter().enumerate().map(|(number, claim)| named(claim, &command, number)).collect();
    let names: Vec<String> = launches.iter().filter_map(|claim| claim.metadata.name.clone()).collect();
    let mut writes = Vec::new();
    for leaver in going {
        let mark = Mark {
            command: command.clone(),
            cause: order.cause,
            method: order.method.name().to_owned(),
            since,
            candidates: going.len(),
            pods: leavers(leaver.candidate.residents),
            price: leaver.price,
            cost: order.cost,
            replacements: names.clone(),
        };
        let change = MetaChange::default().annotation(annotations::DISRUPTION, mark.write());
        writes.push(Write::ClaimMeta { name: leaver.candidate.name(), change });
    }
    for leaver in going {
        writes.extend(keep_away(&leaver.candidate, order.cause, now));
    }
    if !launches.is_empty() {
        let count = if names.len() == 1 { "1 node is".to_owned() } else { format!("{} nodes are", names.len()) };
        let others = going.len() - 1;
        let with = match others {
            0 => String::new(),
            1 => ", together with 1 other".to_owned(),
            _ => format!(", together with {others} others"),
        };
        let message = format!("{}: {count} launched before it goes{with}", order.cause.name());
        writes.extend(going.iter().map(|leaver| told(&leaver.candidate, events::DISRUPTION_LAUNCHING, &message)));
        writes.extend(launches.into_iter().map(|claim| Write::CreateClaim(Box::new(claim))));
    }
    Step::act(writes)
}

pub(super) fn told(candidate: &Candidate<'_>, reason: &'static str, message: &str) -> Write {
    let about = candidate.subject();
    Write::Event(Event { about, kind: EventType::Normal, reason, message: message.to_owned() })
}

/// What is still missing of the taint on a candidate's node and of the condition of its claim.
pub(super) fn keep_away(candidate: &Candidate<'_>, cause: Cause, now: Timestamp) -> Vec<Write> {
    let mut writes = Vec::new();
    if let Some(node) = candidate.node.filter(|node| disruption_taint(node).is_none()) {
        let mut all: Vec<Taint> = taints_of(node).to_vec();
        // The moment tells a taint that nothing explains any more from one whose mark is yet to be seen.
        all.push(Taint { time_added: Some(Time(whole_seconds(now))), ..taints::disrupted() });
        let name = node.metadata.name.clone().unwrap_or_default();
        writes.push(Write::Node { name, change: NodeChange { taints: Some(all), ..NodeChange::default() } });
    }
    let kind = nodeclaim::DISRUPTION_REASON;
    let is_told = |one: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        one.status == Status::True.name() && one.reason == cause.name()
    };
    if condition(candidate.claim, kind).filter(is_told).is_none() {
        let mut status = candidate.claim.status.clone().unwrap_or_default();
        let generation = candidate.claim.metadata.generation;
        set_condition(&mut status.conditions, judged(kind, Status::True, cause.name(), cause.name(), generation, now));
        writes.push(Write::ClaimStatus { name: candidate.name(), status: Box::new(status) });
    }
    writes
}

pub(super) fn taints_of(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// The taint of nodes that are about to be taken away, if the node has it.
pub(super) fn disruption_taint(node: &Node) -> Option<&Taint> {
    let wanted = taints::disrupted();
    taints_of(node).iter().find(|taint| taint.key == wanted.key && taint.effect == wanted.effect)
}

/// The launch with a name that follows from the command, and the annotation that says for which command it is.
fn named(claim: &NodeClaim, command: &str, number: usize) -> NodeClaim {
    let mut claim = claim.clone();
    let pool = claim.metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL)).cloned().unwrap_or_default();
    let hash = short([command, &number.to_string()]);
    let pool: String = pool.chars().take(LONGEST_NAME - 1 - hash.len()).collect();
    claim.metadata.name = Some(format!("{}-{hash}", pool.trim_end_matches(['-', '.'])));
    claim.metadata.annotations.get_or_insert_default().insert(annotations::REPLACES.to_owned(), command.to_owned());
    claim
}
