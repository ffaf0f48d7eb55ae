//! Messages of the queue: received by every replica of the program that leads, recorded, deleted.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use muster_cloud::{Content, Message, Notice, NoticeQueue};
use muster_gateway::Unavailable;
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
    let mut handles = Vec::new();
    for (message, recorded) in messages.into_iter().zip(recorded) {
        match recorded {
            Ok(true) => handles.push(message.handle),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "a notice cannot be recorded, and will be received again"),
        }
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
        Content::Other => return Ok(true),
        Content::Malformed(fault) => {
            let fault: String = fault.chars().take(SHOWN).collect();
            tracing::warn!(?fault, "a message of the interruption queue is malformed, and is deleted");
            return Ok(true);
        }
    };
    let now = facts.now();
    let given_at = notice.given_at.unwrap_or(now);
    metrics.message_age(given_at, now);
    let heeded = notice.instances.iter().map(|instance| facts.heed(instance, notice.kind, given_at, |_| true));
    let heeded: Vec<Heeded> = join_all(heeded).await.into_iter().collect::<Result<_, _>>()?;
    let is_unknown = heeded.iter().all(|one| *one == Heeded::Unknown);
    Ok(!(is_unknown && may_be_launching(facts, notice, now)))
}

/// Returns true if the notice may be about an instance whose launch is not recorded yet.
fn may_be_launching(facts: &ClaimFacts, notice: &Notice, now: Timestamp) -> bool {
    let is_young = notice.given_at.is_some_and(|given_at| now.duration_since(given_at) < YOUNG);
    let has_no_instance =
        |claim: &muster_api::NodeClaim| claim.status.as_ref().is_none_or(|status| status.provider_id.is_none());
    is_young && facts.cluster_cache().read().claims().any(has_no_instance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_at_eight_seconds() {
        for failures in 1..100 {
            let most = PAUSE.saturating_mul(1 << failures.min(8)).min(LONGEST_PAUSE);
            let found = pause(failures);
            assert!(found <= most && found * 2 >= most, "{failures}: {found:?}");
        }
    }
}
