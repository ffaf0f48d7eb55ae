//! What the gateway asks of the rest of the controller, and writes through it.

use muster_link::sts::SignedRequest;
use muster_link::{Described, Enrolled, KeyHash, Launch, NodeIdentity, Pins};

use crate::read::{Finding, LogBundle, Notice, Report};

/// Somebody who is asked does not answer; the text is for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// What came of writing an enrolment down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// It stands there.
    Written,
    /// Something else stands there by now: decide anew.
    Changed,
}

/// Whether the logs of a node are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// They are.
    Yes,
    /// They are not, and will not be for this verdict.
    No,
    /// That cannot be said now: ask again with the node's next report.
    AskAgain,
}

/// NodeClaims, EC2 and STS, as the gateway needs them.
pub trait Sources: Send + Sync + 'static {
    /// The launch that made an instance, if CreateFleet's answer named it for a NodeClaim that still exists.
    fn launch(&self, instance: &str) -> impl Future<Output = Result<Option<Launch>, Unavailable>> + Send;

    /// The key that has enrolled as an instance, as far as it is known here: asked at every message, so nobody else is asked for it.
    fn enrolled(&self, instance: &str) -> Option<KeyHash>;

    /// What EC2 says of an instance; `None` if it knows none of that ID.
    fn describe(&self, instance: &str) -> impl Future<Output = Result<Option<Described>, Unavailable>> + Send;

    /// Sends a request to STS, to the host that it names and no other: redirects are not followed. Gives status and body, of
    /// which no more is read than [`muster_link::sts::LONGEST_ANSWER`].
    fn ask_sts(&self, request: &SignedRequest) -> impl Future<Output = Result<(u16, Vec<u8>), Unavailable>> + Send;

    /// Writes down at a NodeClaim that its node has enrolled, if what stands there is still `before`; takes back the permission
    /// to enrol again if that is used up.
    fn record(
        &self,
        claim: &str,
        before: Option<KeyHash>,
        enrolled: &Enrolled,
        uses_permission: bool,
    ) -> impl Future<Output = Result<Recorded, Unavailable>> + Send;

    /// Keeps what a node says. Answered when it would survive the end of this replica.
    fn keep(&self, node: &NodeIdentity, report: Report) -> impl Future<Output = Result<(), Unavailable>> + Send;

    /// A node has said what keeps it from being one, and that is kept. Whether its logs are wanted.
    fn wants_logs(&self, node: &NodeIdentity, fatal: &Finding) -> impl Future<Output = Wanted> + Send;

    /// A node is connected, and says which authorities it believes: none if it cannot be told others.
    fn greeted(&self, node: &NodeIdentity, pins: Pins) -> impl Future<Output = ()> + Send;

    /// The cloud takes a node's instance back.
    fn notice(&self, node: &NodeIdentity, notice: Notice) -> impl Future<Output = ()> + Send;

    /// A node's log bundle.
    fn bundle(&self, node: &NodeIdentity, bundle: LogBundle) -> impl Future<Output = ()> + Send;
}
