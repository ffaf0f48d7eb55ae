//! Executes steps against the Kubernetes API server and the cloud: the only component that writes.
//!
//! ```text
//!   Step ──► Edge::carry_out ──► one write after the other ─┬─ request (pure) ─► Pace ─► Fence ─► API server
//!    ▲           │  ▲                                        ├─ call ──────────────────────────► Cloud
//!    │           │  └─ ObservedVersions: as observed, then   └─ Recorder ──────────────────────► events
//!    │           │     as the writes of this run left them          ▲
//!    │           ▼                                                  WriteObserver: before and after each
//!   decide ◄── Answers          (Edge::reconcile decides again at once while a step contains calls)
//! ```
//!
//! - Updates are merge patches conditional on the observed version: a conflict drops the rest of the step, and the next
//!   reconciliation decides again. A merge patch does not touch the fields that it does not contain, so unknown fields
//!   are kept.
//! - Nothing is written without the lease ([`Fence`]): a write in flight is abandoned when the lease expires.
//! - Who looks for an instance of a claim shares a listing with the others (`shared_listing`).
//! - Every write passes a [`WriteObserver`], before and after it is sent: metrics are counted there, and tests stop the
//!   controller there. This holds for new kinds of writes without further code.

mod call;
mod events;
mod fate;
mod fence;
mod observed;
mod pace;
mod request;
mod shared_listing;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::Client;
use muster_cloud::Cloud;
use muster_stages::lifecycle::{Answers, Eviction};
use muster_stages::step::{Call, Event, Step, Write};
use tokio::time::{Instant, timeout};

pub use self::events::Recorder;
pub(crate) use self::fate::BUDGET;
pub use self::fate::Fate;
pub use self::fence::{Fence, Gate};
pub use self::observed::ObservedVersions;
pub use self::pace::{Health, Pace};
use self::request::{Written, request};
use self::shared_listing::SharedListing;

/// Field manager of all writes in `metadata.managedFields`: one writer for all decisions.
pub const FIELD_MANAGER: &str = "muster";

/// Maximum number of rounds of calls and answers in one reconciliation. A launch with fallbacks takes two for each
/// attempt.
const MOST_ROUNDS: usize = 60;

/// Maximum number of independent writes in flight: each has a connection of its own, and the API server's priority
/// level for a controller has about thirty seats.
const AT_ONCE: usize = 8;
/// Timeout of a request to the API server. A connection that a load balancer has dropped may never return an answer,
/// and the writes behind it would be blocked.
const ANSWER: Duration = Duration::from_secs(30);

/// A boxed future without output.
pub type Pause<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Observer of all writes.
pub trait WriteObserver: Send + Sync {
    /// Called right before the write is sent. The write waits for it.
    fn before<'a>(&'a self, write: &'a Write) -> Pause<'a>;

    /// Called right after the write, with its outcome. The next write waits for it.
    fn after<'a>(&'a self, write: &'a Write, fate: &'a Fate) -> Pause<'a>;

    /// Called after a call of the cloud, with its answer and duration.
    fn called(&self, _call: &Call, _answers: &Answers, _took: Duration) {}
}

/// An observer that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

/// Executor of writes.
#[derive(Clone)]
pub struct Edge<C> {
    client: Client,
    cloud: C,
    listing: Arc<SharedListing>,
    fence: Fence,
    pace: Arc<Pace>,
    recorder: Recorder,
    observer: Arc<dyn WriteObserver>,
    clock: fn() -> Timestamp,
}

/// Outcome of a step or of a reconciliation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Everything was written.
    Done,
    /// An object had changed since it was observed: the rest was dropped.
    Stale,
    /// A write failed that the rest depends on, which was dropped; with the reason.
    Failed(String),
    /// This process may not write, because it does not hold the lease.
    Fenced,
}

/// Result of a reconciliation.
#[derive(Debug, Clone, PartialEq)]
pub struct ReconcileResult {
    /// Outcome of the last step.
    pub end: End,
    /// True if any step contained writes.
    pub has_written: bool,
    /// Time of the next reconciliation, as the last step requested.
    pub again: Option<Timestamp>,
    /// All answers received, so that the caller can record refusals.
    pub answers: Answers,
}

// === impl NoObserver ===

impl WriteObserver for NoObserver {
    fn before<'a>(&'a self, _: &'a Write) -> Pause<'a> {
        Box::pin(std::future::ready(()))
    }

    fn after<'a>(&'a self, _: &'a Write, _: &'a Fate) -> Pause<'a> {
        Box::pin(std::future::ready(()))
    }
}

// === impl Edge ===

impl<C: Cloud> Edge<C> {
    /// Creates an edge that writes through `client`, whose retries must be off: a refused eviction is an answer.
    pub fn new(client: Client, cloud: C, fence: Fence, pace: Pace, recorder: Recorder) -> Self {
        let (listing, observer) = (Arc::default(), Arc::new(NoObserver));
        Self { client, cloud, listing, fence, pace: Arc::new(pace), recorder, observer, clock }
    }

    /// Sets the observer of all writes.
    #[must_use]
    pub fn seen_by(mut self, observer: Arc<dyn WriteObserver>) -> Self {
        self.observer = observer;
        self
    }

    /// Returns the cloud.
    pub fn cloud(&self) -> &C {
        &self.cloud
    }

    /// Returns true if an event was not published a moment ago. Those of states that last are decided again and again.
    pub fn is_news(&self, event: &Event) -> bool {
        self.recorder.is_news(event, (self.clock)())
    }

    /// Decides and executes, and decides again at once while a step contains calls whose answers are needed.
    pub async fn reconcile(
        &self,
        observed: &mut ObservedVersions,
        decide: impl Fn(&Answers, Timestamp) -> Step + Send,
    ) -> ReconcileResult {
        let mut result =
            ReconcileResult { end: End::Done, has_written: false, again: None, answers: Answers::default() };
        for _ in 0..MOST_ROUNDS {
            let step = decide(&result.answers, (self.clock)());
            result.again = step.again;
            result.has_written |= !step.writes.is_empty();
            let asks = step.writes.iter().any(Write::is_question);
            result.end = self.carry_out(&step, observed, &mut result.answers).await;
            if result.end != End::Done || !asks {
                return result;
            }
        }
        result.end = End::Failed(format!("not settled after {MOST_ROUNDS} rounds of queries"));
        result
    }

    /// Executes the writes of a step in order. Adjacent independent writes of the same kind ([`Write::stands_alone`])
    /// are executed concurrently.
    pub async fn carry_out(&self, step: &Step, observed: &mut ObservedVersions, answers: &mut Answers) -> End {
        let mut rest = step.writes.as_slice();
        while let Some(first) = rest.first() {
            let is_alike = |write: &&Write| write.stands_alone() && write.name() == first.name();
            let alike = rest.iter().take_while(is_alike).count();
            let end = if alike > 1 {
                let (crowd, others) = rest.split_at(alike);
                rest = others;
                self.carry_crowd(crowd).await
            } else {
                rest = &rest[1..];
                self.carry(first, observed, answers).await
            };
            if end != End::Done {
                return end;
            }
        }
        End::Done
    }

    /// Executes all of them, even if some fail. Returns the first outcome that is not [`End::Done`].
    async fn carry_crowd(&self, crowd: &[Write]) -> End {
        let one =
            async |write: &Write| self.carry(write, &mut ObservedVersions::default(), &mut Answers::default()).await;
        let mut ends = futures::stream::iter(crowd).map(one).buffer_unordered(AT_ONCE);
        let mut worst = End::Done;
        while let Some(end) = ends.next().await {
            if end != End::Done && worst == End::Done {
                worst = end;
            }
        }
        worst
    }

    async fn carry(&self, write: &Write, observed: &mut ObservedVersions, answers: &mut Answers) -> End {
        self.observer.before(write).await;
        let fate = self.write(write, observed, answers).await;
        self.observer.after(write, &fate).await;
        match fate {
            Fate::Done | Fate::Gone => End::Done,
            Fate::Fenced => End::Fenced,
            _ if !write.needs_success() => End::Done,
            Fate::Conflict => {
                observed.note_conflict(write);
                End::Stale
            }
            Fate::Refused(why) | Fate::Unavailable(why) => End::Failed(format!("{}: {why}", write.name())),
        }
    }

    async fn write(&self, write: &Write, observed: &mut ObservedVersions, answers: &mut Answers) -> Fate {
        match write {
            Write::Cloud(question) => {
                let begun = Instant::now();
                let asked = self.fence.keep(call::ask(&self.cloud, &self.listing, question, answers)).await;
                if asked.is_some() {
                    self.observer.called(question, answers, begun.elapsed());
                }
                asked.map_or(Fate::Fenced, |()| Fate::Done)
            }
            Write::Event(event) => {
                let published = self.fence.keep(self.recorder.publish(event, (self.clock)())).await;
                published.unwrap_or(Fate::Fenced)
            }
            Write::Evict(pod) => {
                let fate = self.send(write, observed).await;
                answers.evictions.insert(pod.uid.clone(), evicted(&fate));
                fate
            }
            Write::DeletePod { pod, .. } => {
                let fate = self.send(write, observed).await;
                let answer = match evicted(&fate) {
                    Eviction::Done => Eviction::Forced,
                    refused => refused,
                };
                answers.evictions.insert(pod.uid.clone(), answer);
                fate
            }
            _ => self.send(write, observed).await,
        }
    }

    /// Sends a write to the API server.
    async fn send(&self, write: &Write, observed: &mut ObservedVersions) -> Fate {
        let request = match request(write, observed) {
            Ok(request) => request,
            Err(defect) => return Fate::Refused(defect.to_string()),
        };
        let sent = async {
            self.pace.turn().await;
            // A process that was suspended may resume here long after its lease expired.
            if !self.fence.is_open() {
                return None;
            }
            let asked = Instant::now();
            let answer = timeout(ANSWER, self.client.request::<Written>(request)).await;
            self.pace.heed(health(write, answer.as_ref().ok(), asked.elapsed()));
            Some(answer.map_err(|_| ()))
        };
        match self.fence.keep(sent).await.flatten() {
            None => Fate::Fenced,
            Some(Ok(Ok(written))) => {
                observed.note(write, written);
                Fate::Done
            }
            Some(Ok(Err(error))) => Fate::of(write, &error),
            Some(Err(())) => Fate::Unavailable(format!("no answer within {} s", ANSWER.as_secs())),
        }
    }
}

/// Returns the health that the outcome of a write indicates; `answer` is `None` after a timeout.
fn health(write: &Write, answer: Option<&Result<Written, kube::Error>>, after: Duration) -> Health {
    match answer {
        Some(Ok(_)) => Health::Answered(after),
        Some(Err(error)) if matches!(Fate::of(write, error), Fate::Unavailable(_)) => Health::InTrouble,
        Some(Err(_)) => Health::Answered(after),
        None => Health::InTrouble,
    }
}

fn evicted(fate: &Fate) -> Eviction {
    match fate {
        // Another pod has this name now.
        Fate::Done | Fate::Gone | Fate::Conflict => Eviction::Done,
        Fate::Refused(why) => match why.strip_prefix(BUDGET) {
            Some(budget) => Eviction::Blocked(budget.to_owned()),
            None if why.contains("more than one PodDisruptionBudget") => Eviction::Ambiguous(why.clone()),
            None => Eviction::Failed(why.clone()),
        },
        Fate::Unavailable(why) => Eviction::Failed(why.clone()),
        Fate::Fenced => Eviction::Failed("this replica is not the leader any more".to_owned()),
    }
}

/// Returns the current time. Decisions take the time as an argument.
#[expect(clippy::disallowed_methods, reason = "the edge: decisions are given the moment")]
fn clock() -> Timestamp {
    Timestamp::now()
}
