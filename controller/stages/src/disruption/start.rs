//! First writes of a command: all claims are marked before any other write, and everything is launched before a Node is
//! changed. A Node has a new version after every heartbeat, and a taint that is refused for it must not hold up
//! launches.

use jiff::{SignedDuration, Timestamp};
use muster_api::{NodeClaim, annotations, events, labels};
use muster_scheduling::disrupt::{Cause, Method};

use super::Mark;
use super::mark::{is_marked, short};
use super::objection::objection;
use super::observed_command::{Candidate, leavers};
use super::taint::keep_away;
use crate::lifecycle::pause::Pause;
use crate::lifecycle::whole_seconds;
use crate::step::{Event, EventType, MetaChange, Step, Write};

/// Maximum length of a name that is also the value of a label.
const LONGEST_NAME: usize = 63;

/// A command to execute.
#[derive(Debug, Clone)]
pub struct Order<'a> {
    /// Cause of the disruption.
    pub cause: Cause,
    /// Method that found the command.
    pub method: Method,
    /// Claims whose nodes are removed.
    pub leavers: Vec<Leaver<'a>>,
    /// NodeClaims that must be initialized first. Their names are assigned here.
    pub launches: Vec<NodeClaim>,
    /// Price of all launches together, in USD per hour.
    pub cost: f64,
    /// Operations that an operator has paused in the whole cluster.
    pub pause: Pause,
}

/// A claim whose node is removed.
#[derive(Debug, Clone, Copy)]
pub struct Leaver<'a> {
    /// The claim.
    pub candidate: Candidate<'a>,
    /// Price of its node in USD per hour; 0 if unknown.
    pub price: f64,
    /// Longest drain, if the policy of its repair bounds it.
    pub drain: Option<SignedDuration>,
}

/// First steps of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct FirstSteps {
    /// Marks and launches.
    pub begin: Step,
    /// Taints of the nodes and conditions of their claims, if `begin` has succeeded. This may fail:
    /// [`progress`](super::progress()) writes what is missing.
    pub keep_away: Step,
}

/// Returns the first steps of `order`, which are independent of each other: those of one command for all its nodes if
/// it launches anything, otherwise of one for each. Claims that are being deleted, are marked by another command, or
/// have an objection by now are skipped, and so are claims that share launches with them.
#[must_use]
pub fn start(order: &Order<'_>, now: Timestamp) -> Vec<FirstSteps> {
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

/// Returns the first steps of one command.
fn together(order: &Order<'_>, going: &[Leaver<'_>], now: Timestamp) -> FirstSteps {
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
            drain_seconds: leaver.drain.and_then(|drain| u64::try_from(drain.as_secs()).ok()),
        };
        let change = MetaChange::default().annotation(annotations::DISRUPTION, mark.write());
        writes.push(Write::ClaimMeta { name: leaver.candidate.name(), change });
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
        writes.extend(launches.into_iter().map(|claim| Write::CreateClaim(Box::new(claim))));
        writes.extend(going.iter().map(|leaver| told(&leaver.candidate, events::DISRUPTION_LAUNCHING, &message)));
    }
    let kept_away = going.iter().flat_map(|leaver| keep_away(&leaver.candidate, order.cause, now));
    FirstSteps { begin: Step::act(writes), keep_away: Step::act(kept_away) }
}

pub(super) fn told(candidate: &Candidate<'_>, reason: &'static str, message: &str) -> Write {
    let about = candidate.subject();
    Write::Event(Event { about, kind: EventType::Normal, reason, message: message.to_owned() })
}

/// Returns the launch with a name derived from the command, and the annotation that names the command.
fn named(claim: &NodeClaim, command: &str, number: usize) -> NodeClaim {
    let mut claim = claim.clone();
    let pool = claim.metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL)).cloned().unwrap_or_default();
    let hash = short([command, &number.to_string()]);
    let pool: String = pool.chars().take(LONGEST_NAME - 1 - hash.len()).collect();
    claim.metadata.name = Some(format!("{}-{hash}", pool.trim_end_matches(['-', '.'])));
    claim.metadata.annotations.get_or_insert_default().insert(annotations::REPLACES.to_owned(), command.to_owned());
    claim
}
