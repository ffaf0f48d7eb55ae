//! Interface of the gateway to the rest of the controller.

use muster_link::sts::SignedRequest;
use muster_link::{Described, Enrolled, KeyHash, Launch, NodeIdentity, Pins};

use crate::read::{Finding, LogBundle, Notice, Report};

/// Error of a source that does not answer; the text is for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// Result of recording an enrolment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// Recorded.
    Written,
    /// The record has changed meanwhile: decide again.
    Changed,
}

/// Answer whether the logs of a node are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The logs are wanted.
    Yes,
    /// They are not, and will not be for this verdict.
    No,
    /// Undecided: ask again with the node's next report.
    AskAgain,
}

/// NodeClaims, EC2 and STS, as the gateway needs them.
pub trait Sources: Send + Sync + 'static {
    /// Returns the launch of an instance, if CreateFleet's answer named it for a NodeClaim that still exists.
    fn launch(&self, instance: &str) -> impl Future<Output = Result<Option<Launch>, Unavailable>> + Send;

    /// Returns the key that has enrolled as an instance, as far as this replica knows. It is called for every message,
    /// so it makes no requests.
    fn enrolled(&self, instance: &str) -> Option<KeyHash>;

    /// Describes an instance by EC2; `None` if EC2 does not know its ID.
    fn describe(&self, instance: &str) -> impl Future<Output = Result<Option<Described>, Unavailable>> + Send;

    /// Sends a request to STS, to the host that it names only: redirects are not followed. Returns the status and the
    /// body, of which at most [`muster_link::sts::LONGEST_ANSWER`] bytes are read.
    fn ask_sts(&self, request: &SignedRequest) -> impl Future<Output = Result<(u16, Vec<u8>), Unavailable>> + Send;

    /// Records at a NodeClaim that its node has enrolled, if the record still is `before`; removes the permission to
    /// enrol again if that is used up.
    fn record(
        &self,
        claim: &str,
        before: Option<KeyHash>,
        enrolled: &Enrolled,
        uses_permission: bool,
    ) -> impl Future<Output = Result<Recorded, Unavailable>> + Send;

    /// Stores a node's report. Completes once the report would survive the end of this replica.
    fn keep(&self, node: &NodeIdentity, report: Report) -> impl Future<Output = Result<(), Unavailable>> + Send;

    /// Decides if the logs of a node are wanted, after a report with a fatal finding was stored.
    fn wants_logs(&self, node: &NodeIdentity, fatal: &Finding) -> impl Future<Output = Wanted> + Send;

    /// Handles the greeting of a node with the CAs that it trusts: none if it cannot accept new ones.
    fn greeted(&self, node: &NodeIdentity, pins: Pins) -> impl Future<Output = ()> + Send;

    /// Handles a notice that the cloud reclaims a node's instance.
    fn notice(&self, node: &NodeIdentity, notice: Notice) -> impl Future<Output = ()> + Send;

    /// Handles a node's log bundle.
    fn bundle(&self, node: &NodeIdentity, bundle: LogBundle) -> impl Future<Output = ()> + Send;
}
