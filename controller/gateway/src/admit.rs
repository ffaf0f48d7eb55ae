//! Whether a peer may make a call, by the rule of its RPC.

use std::sync::Arc;

use muster_link::{NodeIdentity, Policy};
use tonic::Status;

use crate::peer::Peer;
use crate::refusals::Refusals;
use crate::rules::{Rule, rule};
use crate::sources::Sources;

/// What a caller is told whose certificate does not count (any more).
const ENROL: &str = "this certificate does not speak for a node: enrol";

/// Decides about calls.
#[derive(Debug)]
pub(crate) struct Gate<S> {
    pub(crate) sources: Arc<S>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) refusals: Refusals,
}

impl<S: Sources> Gate<S> {
    /// Whether `peer` may call the RPC at `path`.
    pub(crate) fn admit(&self, path: &str, peer: &Peer) -> Result<(), Status> {
        match rule(path) {
            None => self.unknown(),
            Some(Rule::AnyKey) => Ok(()),
            Some(Rule::Node) => self.is_node(peer),
            // Whose they are is asked of the API server, before this.
            Some(Rule::Operator(_)) => Err(Status::permission_denied("this is for operators")),
        }
    }

    /// Nobody may call what there is not.
    pub(crate) fn unknown(&self) -> Result<(), Status> {
        self.refusals.count("UnknownRpc");
        Err(Status::unimplemented("there is no such RPC"))
    }

    /// A certificate is taken back by forgetting the launch, or by an enrolment with another key.
    pub(crate) fn is_node(&self, peer: &Peer) -> Result<(), Status> {
        let Some(node) = peer.node.as_ref().filter(|node| self.is_of_this_cluster(node)) else {
            self.refusals.count("NotEnrolled");
            return Err(Status::unauthenticated(ENROL));
        };
        if self.sources.enrolled(&node.instance).is_some_and(|key| key == peer.key) {
            return Ok(());
        }
        self.refusals.count("CertificateTakenBack");
        tracing::warn!(instance = node.instance, peer = %peer.address, "a certificate that does not count any more was used");
        Err(Status::unauthenticated(ENROL))
    }

    /// Whoever has copied the authority's Secret into another cluster has not made one cluster of two.
    fn is_of_this_cluster(&self, node: &NodeIdentity) -> bool {
        let Policy { cluster, account, region, .. } = &*self.policy;
        (&node.cluster, &node.account, &node.region) == (cluster, account, region)
    }
}
