//! Next step of a command in progress, computed from the observed state.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{annotations, events};
use muster_cloud::after;
use muster_scheduling::disrupt::Cause;

use super::Mark;
use super::deadlines::{self, Otherwise};
use super::objection::objection;
use super::observed_command::{Candidate, ObservedCommand, is_leaving, name};
use super::rollback::{rollback, size, unmark};
use super::start::told;
use super::taint::{disruption_taint, keep_away};
use crate::lifecycle::{condition, interruption};
use crate::step::{DeletionCause, Event, EventType, MetaChange, Step, Write};

/// Time for which the drain of an unhealthy node honours budgets and annotations, if no policy says it. Karpenter
/// before 1.15 allows none.
const REPAIR_DRAIN: Duration = Duration::from_secs(5 * 60);

/// Progress of the replacements.
enum Progress {
    /// All of them are initialized.
    Ready,
    /// Not all of them are initialized yet; checked again at this time.
    Coming(Timestamp),
    /// One of them has failed, for this reason.
    Failed(String),
    /// One of them was not initialized in time.
    Late(String),
}

/// Decides the next step of one command. Its claims are deleted once all replacements are initialized, unless there is
/// an objection; a command that cannot get there is rolled back.
#[must_use]
pub fn progress(observed: &ObservedCommand<'_>, now: Timestamp) -> Step {
    let mut staying: Vec<(&Candidate<'_>, Mark)> = Vec::new();
    let mut writes = Vec::new();
    for candidate in observed.candidates.iter().filter(|candidate| !candidate.is_leaving()) {
        match candidate.mark() {
            Some(mark) => staying.push((candidate, mark)),
            // The mark is unreadable, so its purpose is unknown: the node stays.
            None => writes.extend(unmark(candidate)),
        }
    }
    if !writes.is_empty() {
        return Step::act(writes);
    }
    let Some((_, mark)) = staying.first().cloned() else { return Step::rest() };
    let all: Vec<&Candidate<'_>> = staying.iter().map(|(candidate, _)| *candidate).collect();

    if let Some(step) = dropped_out(observed, &staying, now) {
        return step;
    }
    let progress = outcome(observed, &mark, now);
    let otherwise = match &progress {
        Progress::Ready => Otherwise::Go,
        Progress::Failed(_) => deadlines::at_failure(mark.cause),
        Progress::Late(_) => deadlines::at_deadline(mark.cause),
        Progress::Coming(_) => Otherwise::TakeBack,
    };
    let unkept: Vec<Write> = all.iter().flat_map(|one| keep_away(one, mark.cause, now)).collect();
    // A node that the cloud takes back in a moment does not wait for a taint that may be refused.
    let hurried: Vec<&Candidate<'_>> = all.iter().copied().filter(|one| is_due(one, now)).collect();
    match (progress, otherwise) {
        (Progress::Failed(why) | Progress::Late(why), Otherwise::TakeBack) => rollback(observed, &all, &why),
        (Progress::Coming(again), _) => {
            if !hurried.is_empty() {
                return remove(&hurried, Cause::Interrupted, Some("its replacement is not initialized yet"), now);
            }
            if !unkept.is_empty() {
                return Step::act(unkept);
            }
            Step::until(again).or_sooner(all.iter().filter_map(|one| due(one)).min())
        }
        (progress, Otherwise::Go | Otherwise::TakeBack) => {
            let lacks = match &progress {
                Progress::Failed(why) | Progress::Late(why) => Some(why.as_str()),
                Progress::Ready | Progress::Coming(_) => None,
            };
            // A taint that is refused for ever, by an admission policy for example, must not keep both nodes.
            let is_late = now >= deadline(observed, &mark);
            match deadlines::at_deadline(mark.cause) {
                _ if unkept.is_empty() => remove(&all, mark.cause, lacks, now),
                _ if !hurried.is_empty() => remove(&hurried, Cause::Interrupted, lacks, now),
                _ if !is_late => Step::act(unkept),
                Otherwise::TakeBack if all.iter().any(|one| is_untainted(one)) => {
                    rollback(observed, &all, "the node could not be tainted in time")
                }
                Otherwise::Go | Otherwise::TakeBack => remove(&all, mark.cause, lacks, now),
            }
        }
    }
}

/// Releases the candidates with objections and continues with the rest; if what remains does not pay for the
/// replacements any more, rolls back the whole command.
fn dropped_out(observed: &ObservedCommand<'_>, staying: &[(&Candidate<'_>, Mark)], now: Timestamp) -> Option<Step> {
    let objections: Vec<Option<String>> = staying
        .iter()
        .map(|(candidate, mark)| objection(candidate, mark.cause, mark.pods, observed.pause, now))
        .collect();
    let all: Vec<&Candidate<'_>> = staying.iter().map(|(candidate, _)| *candidate).collect();
    let size = size(&all);
    let Some(why) = objections.iter().flatten().next() else {
        // A release was begun, and its objection is gone: the claim stays in the command, and counts.
        let writes = recounted(staying, size);
        return (!writes.is_empty()).then(|| Step::act(writes));
    };
    let (_, mark) = staying.first()?;
    let others = objections.iter().filter(|objection| objection.is_none()).count();
    // Marked claims that are not among the candidates any more have been deleted, since releases lower the size.
    let gone = size.saturating_sub(staying.len());
    let left: f64 = staying
        .iter()
        .zip(&objections)
        .filter(|(_, objection)| objection.is_none())
        .map(|((_, mark), _)| mark.price)
        .sum();
    let pays = mark.cause != Cause::Underutilized || gone > 0 || left > mark.cost;
    if mark.replacements.is_empty() || others == 0 || !pays {
        return Some(rollback(observed, &all, why));
    }
    // Those that are released lose their marks one after the other. The mark of the first keeps the size, that of each
    // other says what the size is once those before it are released, and those that stay have what is left. The largest
    // counts, so wherever this is interrupted, the size is that of the claims that still have marks, and of those that
    // were deleted: none that was released passes for deleted.
    let released = staying.iter().zip(&objections).filter_map(|(one, why)| Some((one, why.as_ref()?)));
    let rest: Vec<_> =
        staying.iter().zip(&objections).filter(|(_, why)| why.is_none()).map(|(one, _)| one.clone()).collect();
    let mut writes = Vec::new();
    for (before, (one, _)) in released.clone().enumerate() {
        writes.extend(recounted(std::slice::from_ref(one), size.saturating_sub(before)));
    }
    writes.extend(recounted(&rest, size.saturating_sub(staying.len() - rest.len())));
    for ((candidate, _), why) in released {
        writes.push(told(candidate, events::DISRUPTION_TAKEN_BACK, &format!("the node is kept: {why}")));
        writes.extend(unmark(candidate));
    }
    Some(Step::act(writes))
}

/// Returns the writes that set the size of the command in the marks that have another one.
fn recounted(marked: &[(&Candidate<'_>, Mark)], size: usize) -> Vec<Write> {
    let differs = marked.iter().filter(|(_, mark)| mark.candidates != size);
    let write = |(candidate, mark): &(&Candidate<'_>, Mark)| {
        let mark = Mark { candidates: size, ..mark.clone() };
        let change = MetaChange::default().annotation(annotations::DISRUPTION, mark.write());
        Write::ClaimMeta { name: candidate.name(), change }
    };
    differs.map(write).collect()
}

fn outcome(observed: &ObservedCommand<'_>, mark: &Mark, now: Timestamp) -> Progress {
    let settled = after(mark.since, observed.timing.settled);
    let there = |wanted: &&String| observed.replacements.iter().find(|one| name(one.claim) == wanted.as_str());
    for wanted in &mark.replacements {
        if let Some(one) = there(&wanted).filter(|one| is_leaving(one.claim)) {
            let launched = condition(one.claim, nodeclaim::LAUNCHED).filter(|one| !one.message.is_empty());
            let why = launched.map_or_else(String::new, |one| format!(" ({})", one.message));
            return Progress::Failed(format!("replacement `{wanted}` failed{why}"));
        }
    }
    if let Some(absent) = mark.replacements.iter().find(|wanted| there(wanted).is_none()) {
        if now < settled {
            return Progress::Coming(settled);
        }
        return Progress::Failed(format!("replacement `{absent}` does not exist"));
    }
    let deadline = deadline(observed, mark);
    match observed.replacements.iter().find(|one| !one.is_initialized()) {
        None => Progress::Ready,
        Some(_) if now < deadline => Progress::Coming(deadline),
        Some(one) => Progress::Late(format!("replacement `{}` is not initialized in time", name(one.claim))),
    }
}

/// Returns the time until which the command can wait.
fn deadline(observed: &ObservedCommand<'_>, mark: &Mark) -> Timestamp {
    let announced = |one: &Candidate<'_>| after(mark.since, deadlines::of_notice(one.notice()));
    let staying = observed.candidates.iter().filter(|one| !one.is_leaving());
    let dues = staying.map(|one| due(one).unwrap_or_else(|| announced(one)));
    deadlines::deadline(mark.cause, mark.since, &observed.replacements, dues)
}

/// Returns the time from which the interruption of the candidate's node is so close that it cannot wait for the others.
fn due(candidate: &Candidate<'_>) -> Option<Timestamp> {
    candidate.interruption().map(|(kind, since)| after(since, deadlines::of_notice(kind)))
}

fn is_untainted(candidate: &Candidate<'_>) -> bool {
    candidate.node.is_some_and(|node| disruption_taint(node).is_none())
}

fn is_due(candidate: &Candidate<'_>, now: Timestamp) -> bool {
    due(candidate).is_some_and(|due| now >= due)
}

/// Deletes the claims: [`crate::lifecycle`] drains their nodes and terminates the instances. `lacks` says which
/// replacement is not there.
fn remove(going: &[&Candidate<'_>], cause: Cause, lacks: Option<&str>, now: Timestamp) -> Step {
    let mut writes = Vec::new();
    for candidate in going {
        if matches!(cause, Cause::Unhealthy | Cause::Broken) {
            writes.extend(bounded(candidate, now));
        }
        if cause == Cause::Interrupted {
            writes.extend(interrupted(candidate, lacks));
        } else {
            writes.push(told(candidate, events::DISRUPTION_TERMINATING, cause.name()));
        }
        let cause = deletion(cause, candidate);
        writes.push(Write::DeleteClaim { name: candidate.name(), uid: candidate.uid(), cause });
    }
    Step::act(writes)
}

/// Returns the events about an interrupted candidate and its Node.
fn interrupted(candidate: &Candidate<'_>, lacks: Option<&str>) -> impl Iterator<Item = Write> {
    let lacks = lacks.map_or_else(String::new, |lacks| format!("; {lacks}"));
    interruption::subjects(candidate.claim, candidate.node).map(move |about| {
        let (reason, message) = (events::TERMINATING_ON_INTERRUPTION, format!("{}{lacks}", interruption::TERMINATING));
        Write::Event(Event { about, kind: EventType::Warning, reason, message })
    })
}

/// Limits the drain of an unhealthy node, whose pods may never terminate gracefully.
fn bounded(candidate: &Candidate<'_>, now: Timestamp) -> Option<Write> {
    let key = annotations::NODECLAIM_TERMINATION_TIMESTAMP;
    let policy = candidate.mark().and_then(|mark| mark.drain_seconds).map_or(REPAIR_DRAIN, Duration::from_secs);
    let grace = candidate.claim.spec.termination_grace_period.map_or(policy, |grace| grace.0.min(policy));
    let has = candidate.claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key));
    let change = MetaChange::default().annotation(key, after(now, grace).to_string());
    (!has).then(|| Write::ClaimMeta { name: candidate.name(), change })
}

/// Returns the cause of the deletion, as Karpenter's metrics tell them apart.
fn deletion(cause: Cause, candidate: &Candidate<'_>) -> DeletionCause {
    match cause {
        Cause::Empty => DeletionCause::Empty,
        Cause::Underutilized => DeletionCause::Underutilized,
        Cause::Drifted => DeletionCause::Drifted,
        Cause::Expired => DeletionCause::Expired,
        Cause::Unhealthy | Cause::Broken => DeletionCause::Unhealthy,
        Cause::Interrupted => DeletionCause::Notice(candidate.notice()),
    }
}
