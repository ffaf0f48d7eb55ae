//! A command under way: what is next, given what the API shows of it.

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{annotations, events};
use muster_cloud::after;
use muster_scheduling::disrupt::Cause;

use super::begin::{keep_away, told};
use super::look::{Candidate, Look, is_leaving, name};
use super::mark::Mark;
use super::objection::objection;
use super::patience::{self, Otherwise};
use super::rollback::{rollback, unmark};
use crate::lifecycle::condition;
use crate::step::{MetaChange, Step, Write};

/// How long the drain of a broken node honours budgets and annotations. Karpenter gives it no time at all.
const REPAIR_DRAIN: std::time::Duration = std::time::Duration::from_secs(5 * 60);

/// How far what was launched has come.
enum Progress {
    /// All of it is initialized.
    Ready,
    /// Not yet; it is looked at again then.
    Coming(Timestamp),
    /// It will not be, and why.
    Failed(String),
    /// It has not been in time.
    Late(String),
}

/// What to do next about one command. Its claims are deleted when everything that was launched for it is initialized, and
/// nobody objects; a command that cannot come to that is taken back.
#[must_use]
pub fn advance(look: &Look<'_>, now: Timestamp) -> Step {
    let mut staying: Vec<(&Candidate<'_>, Mark)> = Vec::new();
    let mut writes = Vec::new();
    for candidate in look.candidates.iter().filter(|candidate| !candidate.is_leaving()) {
        match candidate.mark() {
            Some(mark) => staying.push((candidate, mark)),
            // Whoever wrote it meant something that we cannot know: the node stays.
            None => writes.extend(unmark(candidate)),
        }
    }
    if !writes.is_empty() {
        return Step::act(writes);
    }
    let Some((_, mark)) = staying.first().cloned() else { return Step::rest() };
    let all: Vec<&Candidate<'_>> = staying.iter().map(|(candidate, _)| *candidate).collect();

    if let Some(step) = dropped_out(look, &staying, now) {
        return step;
    }
    let progress = progress(look, &mark, now);
    let otherwise = match &progress {
        Progress::Ready => Otherwise::Go,
        Progress::Failed(_) => patience::at_failure(mark.cause),
        Progress::Late(_) => patience::at_deadline(mark.cause),
        Progress::Coming(_) => Otherwise::TakeBack,
    };
    match (progress, otherwise) {
        (Progress::Failed(why) | Progress::Late(why), Otherwise::TakeBack) => rollback(look, &all, &why),
        (Progress::Coming(again), _) => {
            let unkept: Vec<Write> = all.iter().flat_map(|one| keep_away(one, mark.cause, now)).collect();
            let hurried: Vec<&Candidate<'_>> = all.iter().copied().filter(|one| is_due(one, now)).collect();
            if !unkept.is_empty() {
                return Step::act(unkept);
            }
            if !hurried.is_empty() {
                return remove(&hurried, Cause::Interrupted, now);
            }
            let notices = all.iter().filter_map(|one| one.interrupted_since());
            let due = notices.map(|since| after(since, patience::INTERRUPTED)).min();
            Step::until(again).or_sooner(due)
        }
        (_, Otherwise::Go | Otherwise::TakeBack) => {
            let unkept: Vec<Write> = all.iter().flat_map(|one| keep_away(one, mark.cause, now)).collect();
            if unkept.is_empty() { remove(&all, mark.cause, now) } else { Step::act(unkept) }
        }
    }
}

/// Candidates that somebody objects to are let go, the rest goes on; unless the rest no longer pays for what was launched:
/// then all of it is taken back.
fn dropped_out(look: &Look<'_>, staying: &[(&Candidate<'_>, Mark)], now: Timestamp) -> Option<Step> {
    let objections: Vec<Option<String>> =
        staying.iter().map(|(candidate, mark)| objection(candidate, mark.cause, mark.pods, look.pause, now)).collect();
    let first = objections.iter().flatten().next()?;
    let (_, mark) = staying.first()?;
    let others = objections.iter().filter(|objection| objection.is_none()).count();
    // Those that are not among the candidates any more have gone.
    let gone = mark.candidates.saturating_sub(staying.len());
    let left: f64 = staying
        .iter()
        .zip(&objections)
        .filter(|(_, objection)| objection.is_none())
        .map(|((_, mark), _)| mark.price)
        .sum();
    let pays = mark.cause != Cause::Underutilized || gone > 0 || left > mark.cost;
    if mark.replacements.is_empty() || others == 0 || !pays {
        let all: Vec<&Candidate<'_>> = staying.iter().map(|(candidate, _)| *candidate).collect();
        return Some(rollback(look, &all, first));
    }
    let mut writes = Vec::new();
    for ((candidate, _), objection) in staying.iter().zip(&objections) {
        if let Some(why) = objection {
            writes.push(told(candidate, events::DISRUPTION_TAKEN_BACK, &format!("it stays: {why}")));
            writes.extend(unmark(candidate));
        }
    }
    Some(Step::act(writes))
}

fn progress(look: &Look<'_>, mark: &Mark, now: Timestamp) -> Progress {
    let settled = after(mark.since, look.tempo.settled);
    let there = |wanted: &&String| look.replacements.iter().find(|one| name(one.claim) == wanted.as_str());
    for wanted in &mark.replacements {
        if let Some(one) = there(&wanted).filter(|one| is_leaving(one.claim)) {
            let launched = condition(one.claim, nodeclaim::LAUNCHED).filter(|one| !one.message.is_empty());
            let why = launched.map_or_else(String::new, |one| format!(" ({})", one.message));
            return Progress::Failed(format!("replacement `{wanted}` was given up{why}"));
        }
    }
    if let Some(absent) = mark.replacements.iter().find(|wanted| there(wanted).is_none()) {
        if now < settled {
            return Progress::Coming(settled);
        }
        return Progress::Failed(format!("replacement `{absent}` does not exist"));
    }
    let deadline = patience::deadline(mark.cause, mark.since, &look.replacements);
    match look.replacements.iter().find(|one| !one.is_initialized()) {
        None => Progress::Ready,
        Some(_) if now < deadline => Progress::Coming(deadline),
        Some(one) => Progress::Late(format!("replacement `{}` is not initialized in time", name(one.claim))),
    }
}

/// Whether the cloud takes the candidate's node back so soon that it cannot wait for the others.
fn is_due(candidate: &Candidate<'_>, now: Timestamp) -> bool {
    candidate.interrupted_since().is_some_and(|since| now >= after(since, patience::INTERRUPTED))
}

/// Deletes the claims: from here on it is [`crate::lifecycle`] that drains their nodes and ends them.
fn remove(going: &[&Candidate<'_>], cause: Cause, now: Timestamp) -> Step {
    let mut writes = Vec::new();
    for candidate in going {
        if cause == Cause::Unhealthy {
            writes.extend(bounded(candidate, now));
        }
        writes.push(told(candidate, events::DISRUPTION_TERMINATING, cause.name()));
        writes.push(Write::DeleteClaim { name: candidate.name(), uid: candidate.uid(), cause: metric(cause) });
    }
    Step::act(writes)
}

/// A broken node may never let its pods go in good order.
fn bounded(candidate: &Candidate<'_>, now: Timestamp) -> Option<Write> {
    let key = annotations::NODECLAIM_TERMINATION_TIMESTAMP;
    let grace = candidate.claim.spec.termination_grace_period.map_or(REPAIR_DRAIN, |grace| grace.0.min(REPAIR_DRAIN));
    let has = candidate.claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key));
    let change = MetaChange::default().annotation(key, after(now, grace).to_string());
    (!has).then(|| Write::ClaimMeta { name: candidate.name(), change })
}

/// The cause as Karpenter's metrics name it.
const fn metric(cause: Cause) -> &'static str {
    match cause {
        Cause::Empty => "empty",
        Cause::Underutilized => "underutilized",
        Cause::Drifted => "drifted",
        Cause::Expired => "expired",
        Cause::Unhealthy => "unhealthy",
        Cause::Interrupted => "interrupted",
    }
}
