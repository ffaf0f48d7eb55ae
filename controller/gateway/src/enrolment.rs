//! RPCs of enrolment: they gather the evidence for [`muster_link::decide`] and carry out its decision.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use muster_link::document::{self, Certificates};
use muster_link::sts::{self, CallerFault, SignedRequest};
use muster_link::{
    Admission, Answers, Case, Evidence, KeyHash, NONCE_BYTES, Nonce, Policy, PreviousKey, Refusal, Remedy, Unasked,
    check_nonce, decide, examine,
};
use muster_proto::muster::enrolment_server::Enrolment;
use muster_proto::muster::{
    ChallengeRequest, ChallengeResponse, Credential, EnrolRequest, EnrolResponse, RenewRequest, RenewResponse,
};
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, timeout};
use tonic::{Request, Response, Status};

use crate::certificate_authority::{Authority, Issued};
use crate::peer::Peer;
use crate::recent::Recent;
use crate::refusal_counters::Refusals;
use crate::sources::{Recorded, Sources, Unavailable};

/// Timeout of requests to STS and EC2, which run concurrently.
const ASKING: Duration = Duration::from_secs(10);
/// Timeout of recording an enrolment, including its wait among other writes. It is long because a caller refused here
/// has cost requests to STS and EC2 for nothing.
const WRITING: Duration = Duration::from_secs(30);
/// Maximum time that an enrolment waits for its turn: half the lifetime of its nonce. Waiting costs a connection; a
/// retry costs a handshake.
const TURN: Duration = Duration::from_secs(30);
/// Message of every refusal; the reason is only logged.
const REFUSED: &str = "enrolment is refused: the controller's log says why";
const AGAIN: &str = "not yet: try again";

/// Implements the enrolment RPCs.
pub(crate) struct Enrolments<S> {
    pub(crate) sources: Arc<S>,
    pub(crate) authority: watch::Receiver<Arc<Authority>>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) at_once: Semaphore,
    pub(crate) recent: Recent,
    pub(crate) refusals: Refusals,
    pub(crate) clock: fn() -> Timestamp,
}

#[tonic::async_trait]
impl<S: Sources> Enrolment for Enrolments<S> {
    async fn challenge(&self, request: Request<ChallengeRequest>) -> Result<Response<ChallengeResponse>, Status> {
        let peer = peer(&request)?;
        let mut bytes = [0; NONCE_BYTES];
        aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Status::internal("no random numbers"))?;
        let mut slot = peer.nonce.lock().unwrap_or_else(PoisonError::into_inner);
        let given = slot.give(Nonce::new(bytes), peer.key, (self.clock)());
        Ok(Response::new(ChallengeResponse {
            nonce: given.nonce.bytes().to_vec(),
            expires_at: Some(moment(given.expires_at)),
            cluster: self.policy.cluster.clone(),
        }))
    }

    async fn enrol(&self, request: Request<EnrolRequest>) -> Result<Response<EnrolResponse>, Status> {
        let peer = peer(&request)?;
        let request = request.into_inner();
        let issued = self.admit(&peer, request).await?;
        Ok(Response::new(EnrolResponse { credential: Some(credential(issued)) }))
    }

    async fn renew(&self, request: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        let peer = peer(&request)?;
        let node = peer.node.as_ref().ok_or_else(|| Status::unauthenticated(REFUSED))?;
        if let Some(issued) = self.recent(&peer, &node.instance) {
            return Ok(Response::new(RenewResponse { credential: Some(credential(issued)) }));
        }
        let described = within(self.sources.describe(&node.instance)).await.map_err(|_| Status::unavailable(AGAIN))?;
        let Some(described) = described.filter(|it| it.is_running && it.instance == node.instance) else {
            self.refusals.count("NotRunning");
            return Err(Status::permission_denied(REFUSED));
        };
        let issued = self.issue(&peer, node, &described.addresses)?;
        Ok(Response::new(RenewResponse { credential: Some(credential(issued)) }))
    }
}

impl<S: Sources> Enrolments<S> {
    async fn admit(&self, peer: &Peer, request: EnrolRequest) -> Result<Issued, Status> {
        let given = peer.nonce.lock().unwrap_or_else(PoisonError::into_inner).take();
        // First, since it costs nothing: a caller without a nonce must not have a document verified.
        check_nonce(given.as_ref(), peer.key, Nonce::read(&request.nonce), (self.clock)())
            .map_err(|refusal| self.refused(&refusal, peer, ""))?;
        let document = document::verify(&request.identity_document, &self.certificates, &self.policy.region);
        let instance = document.as_ref().map(|it| it.instance.clone()).unwrap_or_default();
        // First come, first served. Documents that AWS has not signed do not take a turn.
        let _turn = match &document {
            Ok(_) => Some(self.turn().await?),
            Err(_) => None,
        };
        let launch = match instance.as_str() {
            "" => None,
            known => within(self.sources.launch(known)).await.map_err(|_| self.later("LaunchUnavailable"))?,
        };
        let evidence = read(request);
        let case = Case {
            policy: &self.policy,
            key: peer.key,
            peer: peer.address,
            given: given.as_ref(),
            evidence: &evidence,
            document: &document,
            launch: launch.as_ref(),
            now: (self.clock)(),
        };
        let refused = |refusal: Refusal| self.refused(&refusal, peer, &instance);
        let question = examine(&case).map_err(refused)?;
        // The answer was lost, or the node asks for another one at once.
        if launch.as_ref().and_then(|it| it.enrolled).is_some_and(|it| it.key == peer.key)
            && let Some(issued) = self.recent(peer, &instance)
        {
            return Ok(issued);
        }
        let (described, caller) =
            tokio::join!(within(self.sources.describe(&question.instance)), self.caller(&question.request));
        let answers = Answers { caller, described: described.map_err(|_| Unasked) };
        let admission = decide(&case, &answers).map_err(refused)?;
        let before = launch.as_ref().and_then(|it| it.enrolled).map(|it| it.key);
        self.record(&admission, before).await?;
        let Admission { identity, claim, addresses, is_again, .. } = &admission;
        if *is_again {
            tracing::warn!(instance, claim, peer = %peer.address, "an instance has enrolled again, with another key");
        } else {
            tracing::info!(instance, claim, "a node has enrolled");
        }
        self.issue(peer, identity, addresses)
    }

    /// Waits until fewer enrolments are in progress.
    async fn turn(&self) -> Result<SemaphorePermit<'_>, Status> {
        match timeout(TURN, self.at_once.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => {
                self.refusals.count("TooManyEnrolments");
                Err(Status::resource_exhausted(AGAIN))
            }
        }
    }

    /// Asks STS who signed the request.
    async fn caller(&self, request: &SignedRequest) -> Result<sts::Caller, CallerFault> {
        match within(self.sources.ask_sts(request)).await {
            Ok((status, body)) => sts::read(status, &body),
            Err(Unavailable(why)) => Err(CallerFault::Unavailable(why)),
        }
    }

    /// Records the enrolment before the certificate is issued: from then on another key is another enrolment.
    async fn record(&self, admission: &Admission, before: Option<KeyHash>) -> Result<(), Status> {
        let Some(enrolled) = &admission.record else { return Ok(()) };
        let record = self.sources.record(&admission.claim, before, enrolled, admission.uses_permission);
        let written = in_time(WRITING, record).await;
        match written {
            Ok(Recorded::Written) => Ok(()),
            Ok(Recorded::Changed) => Err(self.later("RecordChanged")),
            Err(_) => Err(self.later("RecordUnavailable")),
        }
    }

    fn issue(&self, peer: &Peer, identity: &muster_link::NodeIdentity, addresses: &[IpAddr]) -> Result<Issued, Status> {
        let authority = Arc::clone(&self.authority.borrow());
        let issued = authority.node(identity, addresses, &peer.public_key_info, (self.clock)()).map_err(|error| {
            tracing::error!(%error, instance = identity.instance, "no certificate can be made");
            Status::internal("no certificate can be made")
        })?;
        self.recent.note(&identity.instance, peer.key, &authority, &issued, Instant::now());
        Ok(issued)
    }

    /// Returns the certificate that the caller was given moments ago, if any.
    fn recent(&self, peer: &Peer, instance: &str) -> Option<Issued> {
        let authority = Arc::clone(&self.authority.borrow());
        self.recent.of(instance, peer.key, &authority, Instant::now())
    }

    fn later(&self, code: &'static str) -> Status {
        self.refusals.count(code);
        Status::unavailable(AGAIN)
    }

    /// Counts and logs a refusal with its reason; the caller learns only whether to retry.
    fn refused(&self, refusal: &Refusal, peer: &Peer, instance: &str) -> Status {
        let (code, address) = (refusal.code(), peer.address);
        self.refusals.count(code);
        // Any client can cause these at any rate, and so can any instance of another account.
        let is_noise = instance.is_empty() || matches!(refusal, Refusal::Foreign(_));
        match (refusal.remedy(), instance) {
            _ if is_noise => tracing::debug!(code, peer = %address, "an enrolment is refused: {refusal}"),
            (Remedy::TryAgain, _) => {
                tracing::info!(code, instance, peer = %address, "an enrolment has to wait: {refusal}")
            }
            (Remedy::None, _) => tracing::warn!(code, instance, peer = %address, "an enrolment is refused: {refusal}"),
        }
        match refusal.remedy() {
            Remedy::None => Status::permission_denied(REFUSED),
            Remedy::TryAgain => Status::unavailable(AGAIN),
        }
    }
}

/// Applies the timeout for requests to AWS.
async fn within<T>(asking: impl Future<Output = Result<T, Unavailable>>) -> Result<T, Unavailable> {
    in_time(ASKING, asking).await
}

async fn in_time<T>(most: Duration, asking: impl Future<Output = Result<T, Unavailable>>) -> Result<T, Unavailable> {
    match timeout(most, asking).await {
        Ok(answer) => answer,
        Err(_) => Err(Unavailable("no answer in time".to_owned())),
    }
    .inspect_err(|error| tracing::warn!(%error, "an enrolment could not be verified: no answer"))
}

fn read(request: EnrolRequest) -> Evidence {
    Evidence {
        nonce: Nonce::read(&request.nonce),
        launch_token: request.launch_token,
        role_proof: request.role_proof.map(|proof| sts::RoleProof {
            authorization: proof.authorization,
            date: proof.date,
            security_token: proof.security_token,
        }),
        previous_key: request
            .previous_key
            .map(|previous| PreviousKey { public_key_info: previous.public_key, signature: previous.signature }),
    }
}

fn peer<T>(request: &Request<T>) -> Result<Peer, Status> {
    request.extensions().get::<Peer>().cloned().ok_or_else(|| Status::internal("the connection has no peer"))
}

fn credential(issued: Issued) -> Credential {
    Credential {
        certificate_chain: issued.chain_pem,
        renew_at: Some(moment(issued.renew_at)),
        expires_at: Some(moment(issued.expires_at)),
    }
}

fn moment(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: time.as_second(), nanos: time.subsec_nanosecond() }
}
