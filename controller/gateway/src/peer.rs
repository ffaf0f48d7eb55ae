//! Identity of the client of a connection.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use muster_link::{KeyHash, NodeIdentity, NonceSlot};
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;
use webpki::EndEntityCert;

use crate::client_certificates::Trust;

/// Client of a connection, kept in the extensions of each of its requests.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Source address.
    pub address: IpAddr,
    /// Hash of the client certificate's public key.
    pub key: KeyHash,
    /// Node that the certificate names, if a CA of this cluster issued it.
    pub node: Option<Arc<NodeIdentity>>,
    /// SubjectPublicKeyInfo (DER) of its key.
    pub(crate) public_key_info: Arc<[u8]>,
    /// Outstanding nonce of the connection. Held briefly, never across an await.
    pub(crate) nonce: Arc<Mutex<NonceSlot>>,
    /// Becomes true when the connection is to end.
    pub(crate) ending: watch::Receiver<bool>,
}

impl Peer {
    pub(crate) fn new(
        certificate: &CertificateDer<'_>,
        address: IpAddr,
        trust: &Trust,
        now: Timestamp,
        ending: watch::Receiver<bool>,
    ) -> Option<Self> {
        let certificate = EndEntityCert::try_from(certificate).ok()?;
        let address = address.to_canonical();
        let info = certificate.subject_public_key_info();
        let node = trust.node(&certificate, address, now).map(Arc::new);
        let (key, public_key_info) = (KeyHash::of(&info), info.as_ref().into());
        Some(Self { address, key, node, public_key_info, nonce: Arc::default(), ending })
    }
}
