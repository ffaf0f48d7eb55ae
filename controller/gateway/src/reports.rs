//! Report streams, one per node. A stream has no task: the answers are a stream that reads the node's messages while it
//! is itself polled. A node that does not read its answers is therefore not read either, and costs only its connection.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{Stream, unfold};
use muster_link::{NodeIdentity, Pins};
use muster_proto::muster::follow_response::Message as Answer;
use muster_proto::muster::node_reports_server::NodeReports;
use muster_proto::muster::{Acknowledgement, BundleRequest, Configuration, FollowRequest, FollowResponse};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tonic::{Request, Response, Status, Streaming};

use crate::admit::Gate;
use crate::certificate_authority::Authority;
use crate::peer::Peer;
use crate::read::{Finding, Message, Report};
use crate::sources::{Sources, Wanted};
use crate::streams::{Place, Streams};

/// Implements the report RPC.
pub(crate) struct Reports<S> {
    pub(crate) gate: Arc<Gate<S>>,
    pub(crate) streams: Streams,
    pub(crate) interval: Duration,
    pub(crate) authority: watch::Receiver<Arc<Authority>>,
}

/// Stream of a node between two answers.
struct Conversation<S> {
    gate: Arc<Gate<S>>,
    node: Arc<NodeIdentity>,
    peer: Peer,
    place: Place,
    requests: Streaming<FollowRequest>,
    interval: Duration,
    /// CA certificates that the node is to trust.
    authority: watch::Receiver<Arc<Authority>>,
    has_said_hello: bool,
    /// Pins of the node that are not passed on yet, and the time to try it.
    pins: Option<(Pins, Instant)>,
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
    Pins,
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

type Answers = Pin<Box<dyn Stream<Item = Result<FollowResponse, Status>> + Send>>;

#[tonic::async_trait]
impl<S: Sources> NodeReports for Reports<S> {
    type FollowStream = Answers;

    async fn follow(&self, request: Request<Streaming<FollowRequest>>) -> Result<Response<Answers>, Status> {
        let peer = request.extensions().get::<Peer>().cloned();
        let peer = peer.ok_or_else(|| Status::internal("the connection has no peer"))?;
        let node = peer.node.clone().ok_or_else(|| Status::unauthenticated("enrol"))?;
        let now = Instant::now();
        let Some(place) = self.streams.take(&node.instance, now) else {
            self.gate.refusals.count("TooManyStreams");
            return Err(Status::resource_exhausted("more streams than a node may open: try again"));
        };
        // Boxed once: otherwise the stream's future reserves space for it twice.
        let conversation = Box::new(Conversation {
            gate: Arc::clone(&self.gate),
            place,
            node,
            peer,
            requests: request.into_inner(),
            interval: self.interval,
            authority: self.authority.clone(),
            has_said_hello: false,
            pins: None,
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
            () = sleep_until(self.pins.as_ref().map_or(self.due, |(_, due)| *due)), if self.pins.is_some() => Event::Pins,
            // If the sender is gone, the CA stays as it is.
            Ok(()) = self.authority.changed(), if self.has_said_hello => Event::Authority,
            request = self.requests.message() => Event::Request(request?),
        };
        match event {
            Event::Replaced => Err(Status::aborted("the node has another stream")),
            Event::Ending => Box::pin(self.last()).await,
            Event::Pins => {
                if let Some((pins, _)) = self.pins.take() {
                    Box::pin(self.greet(pins)).await;
                }
                Ok(Next::Nothing)
            }
            Event::Authority => Ok(Next::Answer(self.configuration())),
            Event::Request(Some(request)) => Box::pin(self.hear(request)).await,
            // The node has closed its side.
            Event::Request(None) if self.waiting.is_none() => Ok(Next::End),
            Event::Request(None) if !self.place.takes_report(Instant::now()) => Ok(Next::End),
            Event::Request(None) => Box::pin(self.keep()).await,
            Event::Due if !self.place.takes_report(Instant::now()) => {
                self.due = Instant::now() + Place::again();
                Ok(Next::Nothing)
            }
            Event::Due => Box::pin(self.keep()).await,
        }
    }

    /// Stores the last report before the stream ends with the connection.
    async fn last(&mut self) -> Result<Next, Status> {
        match self.waiting {
            Some(_) if self.place.takes_report(Instant::now()) => self.keep().await,
            // The node says it again on the next connection.
            _ => Err(Status::unavailable("the connection is old: connect again")),
        }
    }

    /// Returns the configuration for the node.
    fn configuration(&mut self) -> Answer {
        let report_interval_ms = u32::try_from(self.interval.as_millis()).unwrap_or(u32::MAX);
        let authorities = self.authority.borrow_and_update().pinned().to_string();
        Answer::Configuration(Configuration { report_interval_ms, authorities })
    }

    async fn hear(&mut self, request: FollowRequest) -> Result<Next, Status> {
        if !self.place.takes_message(Instant::now()) {
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
                self.greet(pins).await;
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

    /// Passes on that the node is there and whom it believes. Pins that change all the time have to wait.
    async fn greet(&mut self, pins: Pins) {
        let now = Instant::now();
        if self.place.takes_pins(&pins, now) {
            self.pins = None;
            self.gate.sources.greeted(&self.node, pins).await;
        } else {
            self.gate.refusals.count("TooManyPins");
            self.pins = Some((pins, now + Place::again()));
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
