//! Batching of many requests about one object each into one call.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_cloud::CloudError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep, timeout};

/// Idle time after which the batch is sent, as in Karpenter.
const IDLE: Duration = Duration::from_millis(100);
/// Maximum time that the first request waits for others, as in Karpenter.
const LONGEST: Duration = Duration::from_secs(1);
/// Number of unanswered calls beside which the next one waits. If the cloud is slower than requests come in, they
/// gather in the next batch, and what is asked again meanwhile is asked once.
const AT_ONCE: usize = 2;
/// Longest such wait, so that two calls that hang hold nothing up.
const TURN: Duration = Duration::from_secs(3);

/// A batched call.
pub(super) trait Work: Send + Sync + 'static {
    /// Result for one object.
    type Answer: Clone + Send + 'static;

    /// Maximum number of objects per call.
    const MOST: usize;

    /// Makes the call. Objects that are missing from the result get an error.
    fn ask(
        &self,
        about: Vec<String>,
    ) -> impl Future<Output = BTreeMap<String, Result<Self::Answer, CloudError>>> + Send;

    /// Records that so many objects are asked about in one call, for which the first request has waited.
    fn batched(&self, _objects: usize, _waited: Duration) {}
}

/// Collects requests into batches.
pub(super) struct Batch<W: Work>(Arc<Inner<W>>);

struct Inner<W: Work> {
    work: W,
    /// Locked for a few instructions.
    waiting: Mutex<Waiting<W::Answer>>,
    calls: Arc<Semaphore>,
}

type Answered<A> = oneshot::Sender<Result<A, CloudError>>;

struct Waiting<A> {
    asked: BTreeMap<String, Vec<Answered<A>>>,
    /// Number of requests so far, to detect an idle period.
    count: u64,
    /// True if a task is collecting the current batch.
    has_gatherer: bool,
}

// === impl Batch ===

impl<W: Work> Batch<W> {
    pub(super) fn new(work: W) -> Self {
        let waiting = Waiting { asked: BTreeMap::new(), count: 0, has_gatherer: false };
        Self(Arc::new(Inner { work, waiting: Mutex::new(waiting), calls: Arc::new(Semaphore::new(AT_ONCE)) }))
    }

    /// Returns the result for `thing`. The call is a task of its own, so a caller that is cancelled does not affect the
    /// others. If all callers are cancelled, the call is not made or not retried: callers wait only as long as they may
    /// write.
    pub(super) async fn ask(&self, thing: &str) -> Result<W::Answer, CloudError> {
        let (sender, answer) = oneshot::channel();
        let is_first = {
            let mut waiting = self.0.lock();
            waiting.asked.entry(thing.to_owned()).or_default().push(sender);
            waiting.count += 1;
            !std::mem::replace(&mut waiting.has_gatherer, true)
        };
        if is_first {
            tokio::spawn(gather(Arc::clone(&self.0)));
        }
        let lost = || CloudError::Transient { message: format!("the call about `{thing}` was given up") };
        answer.await.unwrap_or_else(|_| Err(lost()))
    }
}

impl<W: Work> Inner<W> {
    fn lock(&self) -> MutexGuard<'_, Waiting<W::Answer>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until few calls are unanswered, but not for long.
    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        timeout(TURN, Arc::clone(&self.calls).acquire_owned()).await.ok()?.ok()
    }
}

async fn gather<W: Work>(inner: Arc<Inner<W>>) {
    let first = Instant::now();
    let mut seen = inner.lock().count;
    loop {
        sleep(IDLE).await;
        let waiting = inner.lock();
        let is_quiet = waiting.count == seen;
        if is_quiet || waiting.asked.len() >= W::MOST || first.elapsed() >= LONGEST {
            break;
        }
        seen = waiting.count;
    }
    let mut turn = inner.turn().await;
    let asked = {
        let mut waiting = inner.lock();
        waiting.has_gatherer = false;
        std::mem::take(&mut waiting.asked)
    };
    let mut asked: Vec<(String, Vec<Answered<W::Answer>>)> = asked.into_iter().collect();
    while !asked.is_empty() {
        let rest = asked.split_off(asked.len().min(W::MOST));
        let part = std::mem::replace(&mut asked, rest);
        inner.work.batched(part.len(), first.elapsed());
        let inner = Arc::clone(&inner);
        let turn = turn.take();
        tokio::spawn(async move {
            let _turn = turn;
            let mut part = part;
            part.retain(|(_, senders)| senders.iter().any(|sender| !sender.is_closed()));
            let things = part.iter().map(|(thing, _)| thing.clone()).collect();
            let answers = tokio::select! {
                biased;
                () = all_gone(&mut part) => return,
                answers = inner.work.ask(things) => answers,
            };
            for (thing, senders) in part {
                let unanswered = || Err(CloudError::Transient { message: format!("no answer about `{thing}`") });
                let answer = answers.get(&thing).cloned().unwrap_or_else(unanswered);
                for sender in senders {
                    // A cancelled caller has dropped its receiver.
                    let _ = sender.send(answer.clone());
                }
            }
        });
    }
}

/// Completes when all callers of `part` are cancelled.
async fn all_gone<A>(part: &mut [(String, Vec<Answered<A>>)]) {
    for sender in part.iter_mut().flat_map(|(_, senders)| senders) {
        sender.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers after a minute, and records requests and answers.
    #[derive(Default)]
    struct Slow(Arc<Mutex<(Vec<String>, Vec<String>)>>);

    impl Work for Slow {
        type Answer = ();

        const MOST: usize = 10;

        async fn ask(&self, about: Vec<String>) -> BTreeMap<String, Result<(), CloudError>> {
            self.0.lock().unwrap().0.extend(about.clone());
            sleep(Duration::from_secs(60)).await;
            self.0.lock().unwrap().1.extend(about.clone());
            about.into_iter().map(|thing| (thing, Ok(()))).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_waits_for_is_not_asked() {
        let diary = Arc::default();
        let batch = Batch::new(Slow(Arc::clone(&diary)));
        let gone_soon = timeout(Duration::from_millis(50), batch.ask("a")).await;
        assert!(gone_soon.is_err());
        assert_eq!(batch.ask("b").await, Ok(()));
        assert_eq!(*diary.lock().unwrap(), (vec!["b".to_owned()], vec!["b".to_owned()]));
    }

    #[tokio::test(start_paused = true)]
    async fn beside_two_unanswered_calls_the_others_gather_for_a_while() {
        let diary = Arc::default();
        let batch = Arc::new(Batch::new(Slow(Arc::clone(&diary))));
        let mut asked = tokio::task::JoinSet::new();
        for thing in ["a", "b", "c", "d", "c"] {
            let batch = Arc::clone(&batch);
            asked.spawn(async move { batch.ask(thing).await });
            sleep(Duration::from_millis(500)).await;
        }
        let made = |diary: &Mutex<(Vec<String>, Vec<String>)>| diary.lock().unwrap().0.clone();
        assert_eq!(made(&diary), ["a", "b"]);
        sleep(TURN).await;
        assert_eq!(made(&diary), ["a", "b", "c", "d"], "once");
        assert!(asked.join_all().await.iter().all(Result::is_ok));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_given_up_with_the_last_who_waits_for_it() {
        let diary = Arc::default();
        let batch = Batch::new(Slow(Arc::clone(&diary)));
        let wait = |seconds, thing| timeout(Duration::from_secs(seconds), batch.ask(thing));
        let (one, other) = tokio::join!(wait(10, "a"), wait(20, "b"));
        assert!(one.is_err() && other.is_err());
        sleep(Duration::from_secs(120)).await;
        assert_eq!(*diary.lock().unwrap(), (vec!["a".to_owned(), "b".to_owned()], Vec::new()));
        let (one, other) = tokio::join!(wait(10, "c"), wait(90, "d"));
        assert!(one.is_err());
        assert_eq!(other.unwrap(), Ok(()), "who still waits is answered");
    }
}
