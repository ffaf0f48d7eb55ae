//! Enrolment: the node signs a nonce with its evidence and receives a certificate.

use jiff::Timestamp;
use muster_bootstrap::agent_config::Controller;
use muster_link::Nonce;
use muster_link::sts::RoleProof;
use muster_proto::muster::enrolment_client::EnrolmentClient;
use muster_proto::muster::{self as wire, ChallengeRequest, EnrolRequest, RenewRequest};
use tonic::transport::Channel;

use super::dial::{CALL, answered};
use super::keys::Keys;
use super::{Fault, Node};
use crate::probes::metadata::Proofs;

/// Certificate of the node, valid for some hours. Kept in memory only: a restarted agent enrols again with the same
/// key.
#[derive(Clone)]
pub(super) struct Credential {
    chain: String,
    renew_at: Timestamp,
    expires_at: Timestamp,
}

impl Credential {
    fn read(credential: Option<wire::Credential>) -> Result<Self, Fault> {
        let wire::Credential { certificate_chain: chain, renew_at, expires_at } =
            credential.ok_or(Fault::NoCertificate)?;
        let moment = |at: Option<prost_types::Timestamp>| at.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok());
        let (Some(renew_at), Some(expires_at)) = (moment(renew_at), moment(expires_at)) else {
            return Err(Fault::NoCertificate);
        };
        Ok(Self { chain, renew_at, expires_at })
    }

    pub(super) fn chain(&self) -> &str {
        &self.chain
    }

    pub(super) fn renew_at(&self) -> Timestamp {
        self.renew_at
    }

    /// Returns true if the certificate has not expired.
    pub(super) fn is_good(&self) -> bool {
        Timestamp::now() < self.expires_at
    }

    /// Renews the certificate, over a connection made with the current one.
    pub(super) async fn renew(&mut self, channel: &Channel) -> Result<(), Fault> {
        let mut client = EnrolmentClient::new(channel.clone());
        *self = Self::read(answered(client.renew(RenewRequest {}), CALL).await?.credential)?;
        Ok(())
    }
}

/// Sources of the evidence.
pub(super) struct Evidence<'a, N> {
    pub(super) controller: &'a Controller,
    pub(super) region: &'a str,
    pub(super) node: &'a N,
    pub(super) keys: &'a Keys,
}

impl<N: Node> Evidence<'_, N> {
    /// Proves the identity of the instance. `channel` must be a connection made with the node's key.
    pub(super) async fn enrol(&self, channel: &Channel, tries: usize) -> Result<Credential, Fault> {
        let mut client = EnrolmentClient::new(channel.clone());
        let answer = answered(client.challenge(ChallengeRequest {}), CALL).await?;
        let nonce = Nonce::read(&answer.nonce).ok_or(Fault::Nonce)?;
        let Proofs { document, credentials } = self.node.proofs().await?;
        let role_proof = credentials.map(|credentials| {
            let now = Timestamp::now();
            let RoleProof { authorization, date, security_token } =
                RoleProof::sign(&credentials, self.region, &answer.cluster, &nonce, &self.keys.hash(), now);
            wire::RoleProof { authorization, date, security_token }
        });
        let request = EnrolRequest {
            nonce: answer.nonce,
            launch_token: self.controller.launch_token.expose().to_owned(),
            identity_document: document,
            role_proof,
            previous_key: self.keys.vouched_for(&nonce, tries),
        };
        Credential::read(answered(client.enrol(request), CALL).await?.credential)
    }
}
