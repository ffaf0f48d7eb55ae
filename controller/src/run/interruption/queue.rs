//! Messages of the queue: received by every replica of the program that leads, recorded, deleted.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use muster_api::NodeClaim;
use muster_cloud::{Content, Message, Notice, NoticeQueue};
use muster_gateway::Unavailable;
use muster_stages::state::Kind;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;

use super::super::metrics::Metrics;
use crate::facts::{ClaimFacts, Heeded};

/// Maximum number of receptions in progress, each of a few messages: more stay in the queue.
const MOST: usize = 4;
/// Pause after the first failure in a row; it doubles up to the longest.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// Age up to which a notice about an unknown instance may be about one whose launch is not recorded yet.
const YOUNG: SignedDuration = SignedDuration::from_secs(60);
/// Age up to which a NodeClaim without an instance may be one that is being launched: Karpenter's launch timeout.
const LAUNCHING: SignedDuration = SignedDuration::from_mins(5);
/// Age of a notice that claims to be older.
const OLDEST: SignedDuration = SignedDuration::from_hours(24);
/// Silence of the watch of NodeClaims after which an unknown instance may be one that was not heard of: the API server
/// sends a bookmark about once a minute.
const SILENCE: Duration = Duration::from_secs(90);
/// Maximum number of characters of a malformed message's fault in the log.
const SHOWN: usize = 200;

/// Reads the queue, while it may, until it is dropped or a task panics. `may_receive` is false while the holder of the
/// lease is Karpenter, which reads the same queue: what this replica would delete, Karpenter would not hear of.
pub(in crate::run) async fn follow(
    queue: Arc<dyn NoticeQueue>,
    facts: Arc<ClaimFacts>,
    metrics: Metrics,
    mut may_receive: watch::Receiver<bool>,
) -> JoinError {
    // An incomplete cache would not know the instances.
    facts.cluster_cache().synced().await;
    let mut acting = JoinSet::new();
    let mut failures = 0;
    loop {
        while acting.len() >= MOST {
            if let Some(Err(broken)) = acting.join_next().await {
                return broken;
            }
        }
        facts.forget();
        becomes(&mut may_receive, true).await;
        let messages = tokio::select! {
            received = queue.receive() => match received {
                Ok(messages) => messages,
                Err(error) => {
                    // Said once, however long it lasts.
                    if failures == 0 {
                        tracing::warn!(%error, "the interruption queue cannot be read, and is tried again");
                    }
                    failures += 1;
                    sleep(pause(failures)).await;
                    continue;
                }
            },
            () = becomes(&mut may_receive, false) => continue,
            Some(Err(broken)) = acting.join_next() => return broken,
        };
        if failures > 0 {
            tracing::info!("the interruption queue is read again");
            failures = 0;
        }
        if !messages.is_empty() {
            acting.spawn(act(Arc::clone(&queue), Arc::clone(&facts), metrics.clone(), messages));
        }
    }
}

/// Waits until the value is `wanted`, forever if it never will be.
async fn becomes(value: &mut watch::Receiver<bool>, wanted: bool) {
    if value.wait_for(|value| *value == wanted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Returns the pause after so many failures in a row, so that replicas do not ask at the same time.
fn pause(failures: u32) -> Duration {
    let most = PAUSE.saturating_mul(1 << failures.min(8)).min(LONGEST_PAUSE);
    most.mul_f64(fastrand::f64().mul_add(0.5, 0.5))
}

/// Records the notices and deletes the messages that are done with.
async fn act(queue: Arc<dyn NoticeQueue>, facts: Arc<ClaimFacts>, metrics: Metrics, messages: Vec<Message>) {
    let recorded = join_all(messages.iter().map(|message| record(&facts, &metrics, &message.content))).await;
    tell_malformed(&messages);
    let (mut handles, mut errors) = (Vec::new(), Vec::new());
    for (message, recorded) in messages.into_iter().zip(recorded) {
        match recorded {
            Ok(true) => handles.push(message.handle),
            Ok(false) => {}
            Err(error) => errors.push(error),
        }
    }
    if let Some(error) = errors.first() {
        tracing::warn!(%error, notices = errors.len(), "notices cannot be recorded, and will be received again");
    }
    if handles.is_empty() {
        return;
    }
    match queue.delete(handles).await {
        Ok(deleted) => metrics.messages_deleted(deleted),
        Err(error) => tracing::warn!(%error, "messages cannot be deleted, and will be received again"),
    }
}

/// Records a message. Returns true if it is to be deleted.
async fn record(facts: &ClaimFacts, metrics: &Metrics, content: &Content) -> Result<bool, Unavailable> {
    if let Some(kind) = content.name() {
        metrics.message_received(kind);
    }
    let notice = match content {
        Content::Notice(notice) => notice,
        Content::Other | Content::Malformed(_) => return Ok(true),
    };
    let now = facts.now();
    let given_at = notice.given_at.unwrap_or(now).max(before(now, OLDEST));
    metrics.message_age(given_at, now);
    let heeded = notice.instances.iter().map(|instance| facts.heed(instance, notice.kind, given_at, |_| true));
    let heeded: Vec<Heeded> = join_all(heeded).await.into_iter().collect::<Result<_, _>>()?;
    // Those that are known ignore it when it is received again.
    let is_unknown = heeded.contains(&Heeded::Unknown);
    Ok(!is_unknown || hears_of_claims(facts) && !may_be_launching(facts, notice, now))
}

/// Returns true if the NodeClaims in the cache are current.
fn hears_of_claims(facts: &ClaimFacts) -> bool {
    let of_claims = facts.cluster_cache().health().into_iter().find(|one| one.kind == Kind::NodeClaim);
    of_claims.is_none_or(|one| one.trouble.is_none() && one.silence.is_none_or(|silence| silence < SILENCE))
}

/// Logs one line about the malformed messages among those that were received together.
fn tell_malformed(messages: &[Message]) {
    let faults = messages.iter().filter_map(|message| match &message.content {
        Content::Malformed(fault) => Some(fault),
        Content::Notice(_) | Content::Other => None,
    });
    let count = faults.clone().count();
    if let Some(fault) = faults.into_iter().next() {
        let fault: String = fault.chars().take(SHOWN).collect();
        tracing::warn!(?fault, count, "messages of the interruption queue are malformed, and are deleted");
    }
}

/// Returns true if the notice may be about an instance whose launch is not recorded yet.
fn may_be_launching(facts: &ClaimFacts, notice: &Notice, now: Timestamp) -> bool {
    // Of a time to come, which no clock of AWS gives, the message would be kept until then.
    let is_young = notice.given_at.is_some_and(|at| now.duration_since(at) < YOUNG && at.duration_since(now) < YOUNG);
    let is_launching = |claim: &NodeClaim| {
        let created = claim.metadata.creation_timestamp.as_ref();
        let is_new = created.is_some_and(|created| created.0 > before(now, LAUNCHING));
        is_new && claim.status.as_ref().is_none_or(|status| status.provider_id.is_none())
    };
    is_young && facts.cluster_cache().read().claims().any(is_launching)
}

fn before(now: Timestamp, span: SignedDuration) -> Timestamp {
    now.checked_sub(span).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_at_eight_seconds() {
        for (failures, most) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 8), (100, 8)] {
            let (found, most) = (pause(failures), Duration::from_secs(most));
            assert!(found <= most && found * 2 >= most, "{failures}: {found:?}");
        }
    }
}
