//! Report streams, one per node. A stream has no task: the answers are a stream that reads the node's messages while it
//! is itself polled. A node that does not read its answers is therefore not read either, and costs only its connection.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{Stream, unfold};
use muster_link::NodeIdentity;
use muster_proto::muster::follow_response::Message as Answer;
use muster_proto::muster::node_reports_server::NodeReports;
use muster_proto::muster::{Acknowledgement, BundleRequest, Configuration, FollowRequest, FollowResponse};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tonic::{Request, Response, Status, Streaming};

use crate::admit::Gate;
use crate::authority::Authority;
use crate::peer::Peer;
use crate::read::{Finding, Message, Report};
use crate::sources::{Sources, Wanted};

/// Maximum burst of messages of a node. A boot has six phases, and a burst of findings is one report.
const BURST: u32 = 64;
/// Minimum average interval between messages of a node.
const EVERY: Duration = Duration::from_millis(500);

/// Implements the report RPC.
pub(crate) struct Reports<S> {
    pub(crate) gate: Arc<Gate<S>>,
    pub(crate) streams: Streams,
    pub(crate) interval: Duration,
    pub(crate) authority: watch::Receiver<Arc<Authority>>,
}

/// Streams of this replica, by instance ID: each node has one.
#[derive(Debug, Default, Clone)]
pub(crate) struct Streams(Arc<Mutex<HashMap<String, oneshot::Sender<Infallible>>>>);

/// Registration of a stream. The next stream of the same node replaces it.
struct Place {
    streams: Streams,
    instance: String,
    /// Closed, without a message, when another stream has replaced this one.
    replaced: oneshot::Receiver<Infallible>,
}

/// Token bucket for the messages of a node.
#[derive(Debug)]
struct Allowance {
    left: u32,
    counted: Instant,
}

/// Stream of a node between two answers.
struct Conversation<S> {
    gate: Arc<Gate<S>>,
    node: Arc<NodeIdentity>,
    peer: Peer,
    place: Place,
    requests: Streaming<FollowRequest>,
    allowance: Allowance,
    interval: Duration,
    /// CA certificates that the node is to trust.
    authority: watch::Receiver<Arc<Authority>>,
    has_said_hello: bool,
    /// Latest report that is not stored yet.
    waiting: Option<Report>,
    /// Sequence number of the latest report.
    latest: Option<u64>,
    /// Earliest time to store the next report.
    due: Instant,
    /// Fatal finding of the node that was not examined yet.
    fatal: Option<Finding>,
    /// Code of the finding that was examined last.
    looked_at: Option<String>,
}

/// Event of a conversation.
enum Event {
    Replaced,
    Ending,
    Due,
    /// The CA certificates to trust have changed.
    Authority,
    Request(Option<FollowRequest>),
}

/// Result of one step of a conversation.
enum Next {
    Answer(Answer),
    Nothing,
    End,
}

impl Streams {
    fn take(&self, instance: &str) -> Place {
        let (held, replaced) = oneshot::channel();
        // This drops the sender of the previous stream, which ends that stream.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(instance.to_owned(), held);
        Place { streams: self.clone(), instance: instance.to_owned(), replaced }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut streams = self.streams.0.lock().unwrap_or_else(PoisonError::into_inner);
        // If this stream was replaced, the entry belongs to the new one.
        if self.replaced.try_recv() == Err(TryRecvError::Empty) {
            streams.remove(&self.instance);
        }
    }
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self { left: BURST, counted: now }
    }

    /// Takes one message; returns false if none is left.
    fn take(&mut self, now: Instant) -> bool {
        let since = now.duration_since(self.counted);
        let regained = u32::try_from(since.as_millis() / EVERY.as_millis()).unwrap_or(BURST);
        self.left = self.left.saturating_add(regained);
        // The rest of an interval counts towards the next message, unless the bucket is full.
        self.counted = if self.left < BURST { self.counted + EVERY * regained } else { now };
        self.left = self.left.min(BURST);
        let has_one = self.left > 0;
        self.left = self.left.saturating_sub(1);
        has_one
    }
}

type Answers = Pin<Box<dyn Stream<Item = Result<FollowResponse, Status>> + Send>>;

#[tonic::async_trait]
impl<S: Sources> NodeReports for Reports<S> {
    type FollowStream = Answers;

    async fn follow(&self, request: Request<Streaming<FollowRequest>>) -> Result<Response<Answers>, Status> {
        let peer = request.extensions().get::<Peer>().cloned();
        let peer = peer.ok_or_else(|| Status::internal("the connection has no peer"))?;
        let node = peer.node.clone().ok_or_else(|| Status::unauthenticated("enrol"))?;
        let now = Instant::now();
        // Boxed once: otherwise the stream's future reserves space for it twice.
        let conversation = Box::new(Conversation {
            gate: Arc::clone(&self.gate),
            place: self.streams.take(&node.instance),
            node,
            peer,
            requests: request.into_inner(),
            allowance: Allowance::new(now),
            interval: self.interval,
            authority: self.authority.clone(),
            has_said_hello: false,
            waiting: None,
            latest: None,
            due: now,
            fatal: None,
            looked_at: None,
        });
        let answers = unfold(Some(conversation), |conversation| async {
            let mut conversation = conversation?;
            loop {
                match conversation.step().await {
                    Ok(Next::Answer(answer)) => {
                        return Some((Ok(FollowResponse { message: Some(answer) }), Some(conversation)));
                    }
                    Ok(Next::Nothing) => {}
                    Ok(Next::End) => return None,
                    Err(status) => return Some((Err(status), None)),
                }
            }
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

impl<S: Sources> Conversation<S> {
    /// Waits for the next event and handles it. The handling is boxed: it takes kilobytes while it runs, and a node is
    /// silent for hours.
    async fn step(&mut self) -> Result<Next, Status> {
        if let Some(fatal) = self.fatal.take() {
            return Ok(Box::pin(self.look_at(&fatal)).await);
        }
        let event = tokio::select! {
            biased;
            _ = &mut self.place.replaced => Event::Replaced,
            _ = self.peer.ending.wait_for(|ending| *ending) => Event::Ending,
            () = sleep_until(self.due), if self.waiting.is_some() => Event::Due,
            // If the sender is gone, the CA stays as it is.
            Ok(()) = self.authority.changed(), if self.has_said_hello => Event::Authority,
            request = self.requests.message() => Event::Request(request?),
        };
        match event {
            Event::Replaced => Err(Status::aborted("the node has another stream")),
            Event::Ending => Box::pin(self.last()).await,
            Event::Authority => Ok(Next::Answer(self.configuration())),
            Event::Request(Some(request)) => Box::pin(self.hear(request)).await,
            // The node has closed its side.
            Event::Request(None) if self.waiting.is_none() => Ok(Next::End),
            Event::Due | Event::Request(None) => Box::pin(self.keep()).await,
        }
    }

    /// Stores the last report before the stream ends with the connection.
    async fn last(&mut self) -> Result<Next, Status> {
        match self.waiting {
            Some(_) => self.keep().await,
            None => Err(Status::unavailable("the connection is old: connect again")),
        }
    }

    /// Returns the configuration for the node.
    fn configuration(&mut self) -> Answer {
        let report_interval_ms = u32::try_from(self.interval.as_millis()).unwrap_or(u32::MAX);
        let authorities = self.authority.borrow_and_update().pinned().to_string();
        Answer::Configuration(Configuration { report_interval_ms, authorities })
    }

    async fn hear(&mut self, request: FollowRequest) -> Result<Next, Status> {
        if !self.allowance.take(Instant::now()) {
            self.gate.refusals.count("TooManyMessages");
            return Err(Status::resource_exhausted("more messages than a node may send"));
        }
        // The certificate may have been revoked since the stream began.
        self.gate.is_node(&self.peer)?;
        let message = Message::read(request).inspect_err(|_| self.gate.refusals.count("MessageMalformed"))?;
        match message {
            None => Ok(Next::Nothing),
            Some(Message::Hello { agent_version, boot_id, pins }) => {
                tracing::debug!(instance = self.node.instance, agent_version, boot_id, "a node is connected");
                self.gate.sources.greeted(&self.node, pins).await;
                // A repeated `hello` acknowledges the configuration that was sent last.
                let is_first = !std::mem::replace(&mut self.has_said_hello, true);
                Ok(if is_first { Next::Answer(self.configuration()) } else { Next::Nothing })
            }
            Some(_) if !self.has_said_hello => {
                self.gate.refusals.count("MessageMalformed");
                Err(Status::failed_precondition("a stream begins with `hello`"))
            }
            Some(Message::Report(report)) => {
                if self.latest.is_none_or(|latest| report.sequence > latest) {
                    self.latest = Some(report.sequence);
                    self.waiting = Some(report);
                }
                Ok(Next::Nothing)
            }
            Some(Message::Notice(notice)) => {
                self.gate.sources.notice(&self.node, notice).await;
                Ok(Next::Nothing)
            }
            Some(Message::Bundle(bundle)) => {
                self.gate.sources.bundle(&self.node, bundle).await;
                Ok(Next::Nothing)
            }
        }
    }

    /// Requests the node's logs if they are wanted. Once per verdict of a stream: a repeated verdict is ignored, unless
    /// the answer was to ask again.
    async fn look_at(&mut self, fatal: &Finding) -> Next {
        let wanted = self.gate.sources.wants_logs(&self.node, fatal).await;
        if wanted != Wanted::AskAgain {
            self.looked_at = Some(fatal.code.clone());
        }
        match wanted {
            Wanted::Yes => Next::Answer(Answer::SendBundle(BundleRequest {})),
            Wanted::No | Wanted::AskAgain => Next::Nothing,
        }
    }

    /// Stores the latest report and acknowledges it.
    async fn keep(&mut self) -> Result<Next, Status> {
        let Some(report) = self.waiting.take() else { return Ok(Next::Nothing) };
        let (sequence, fatal) = (report.sequence, report.fatal().cloned());
        self.gate.sources.keep(&self.node, report).await.map_err(|error| {
            tracing::warn!(%error, instance = self.node.instance, "what a node says cannot be kept");
            Status::unavailable("it could not be kept: connect again")
        })?;
        self.due = Instant::now() + self.interval;
        self.fatal = fatal.filter(|it| self.looked_at.as_ref() != Some(&it.code));
        Ok(Next::Answer(Answer::Acknowledgement(Acknowledgement { sequence })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_lost_to_the_next_and_leaves_nothing_behind() {
        let streams = Streams::default();
        let mut first = streams.take("i-1");
        let second = streams.take("i-1");
        assert_eq!(first.replaced.try_recv(), Err(TryRecvError::Closed), "it was told");
        drop(first);
        assert_eq!(streams.0.lock().unwrap().len(), 1, "the place is the second's");
        drop(second);
        assert!(streams.0.lock().unwrap().is_empty());
    }

    #[test]
    fn an_allowance_is_used_up_and_comes_back_with_time() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        assert!((0..BURST).all(|_| allowance.take(start)));
        assert!(!allowance.take(start));
        assert!(allowance.take(start + EVERY));
        assert!(!allowance.take(start + EVERY));
        let uneven = EVERY + EVERY / 2;
        let taken = (1..=10).filter(|turn| allowance.take(start + EVERY + uneven * *turn)).count();
        assert_eq!(taken, 10);
        assert!((11..=15).all(|_| allowance.take(start + EVERY + uneven * 10)), "the halves add up");
        assert!(!allowance.take(start + EVERY + uneven * 10));
        let later = start + EVERY * 10_000;
        assert!((0..BURST).all(|_| allowance.take(later)));
        assert!(!allowance.take(later), "no more than a burst is saved");
    }
}
