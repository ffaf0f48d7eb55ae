//! Admission of a peer's calls by the rule of the RPC.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_link::{NodeIdentity, Policy};
use tokio::time::Instant;
use tonic::Status;

use crate::access::{Rule, rule};
use crate::bucket::{Bucket, Rate};
use crate::peer::Peer;
use crate::refusal_counters::Refusals;
use crate::sources::Sources;

/// Message to a caller whose certificate is not valid or was revoked.
const ENROL: &str = "this certificate does not speak for a node: enrol";

/// Rate of warnings about certificates that were revoked; the count has all of them.
const TOLD: Rate = Rate::new(10, Duration::from_secs(10));

/// Admits or refuses calls of nodes.
#[derive(Debug)]
pub(crate) struct Gate<S> {
    pub(crate) sources: Arc<S>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) refusals: Refusals,
    /// Bucket of warnings.
    told: Mutex<Bucket>,
}

impl<S: Sources> Gate<S> {
    pub(crate) fn new(sources: Arc<S>, policy: Arc<Policy>, refusals: Refusals) -> Self {
        Self { sources, policy, refusals, told: Mutex::new(Bucket::full(TOLD, Instant::now())) }
    }

    /// Returns an error if `peer` may not call the RPC at `path`.
    pub(crate) fn admit(&self, path: &str, peer: &Peer) -> Result<(), Status> {
        match rule(path) {
            None => self.unknown(),
            Some(Rule::AnyKey) => Ok(()),
            Some(Rule::Node) => self.is_node(peer),
            // Operators are authorized by the API server before this.
            Some(Rule::Operator(_)) => Err(Status::permission_denied("this is for operators")),
        }
    }

    /// Refuses an RPC that does not exist.
    pub(crate) fn unknown(&self) -> Result<(), Status> {
        self.refusals.count("UnknownRpc");
        Err(Status::unimplemented("there is no such RPC"))
    }

    /// Returns an error if the peer's certificate is not a node's of this cluster, or was revoked. A certificate is
    /// revoked when its launch is forgotten, or when the instance enrols with another key.
    pub(crate) fn is_node(&self, peer: &Peer) -> Result<(), Status> {
        let Some(node) = peer.node.as_ref().filter(|node| self.is_of_this_cluster(node)) else {
            self.refusals.count("NotEnrolled");
            return Err(Status::unauthenticated(ENROL));
        };
        if self.sources.enrolled(&node.instance).is_some_and(|key| key == peer.key) {
            return Ok(());
        }
        self.refusals.count("CertificateTakenBack");
        // The holder of such a certificate can use it all the time.
        if self.told.lock().unwrap_or_else(PoisonError::into_inner).take(TOLD, Instant::now()) {
            tracing::warn!(instance = node.instance, peer = %peer.address, "a certificate that does not count any more was used");
        }
        Err(Status::unauthenticated(ENROL))
    }

    /// Returns true if the node is of this cluster. A copy of the CA's Secret in another cluster must not join the two.
    fn is_of_this_cluster(&self, node: &NodeIdentity) -> bool {
        let Policy { cluster, account, region, .. } = &*self.policy;
        (&node.cluster, &node.account, &node.region) == (cluster, account, region)
    }
}
