//! Verification of client certificates.
//!
//! A node always presents a certificate. The handshake proves that it holds the key. If a CA of this cluster has signed
//! the certificate, it also identifies the node; otherwise only its key counts, as for a node that has not enrolled
//! yet. A client without a certificate can only be an operator, by a token.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_link::{NodeIdentity, p256_point};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use webpki::aws_lc_rs::ECDSA_P256_SHA256;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

/// CAs of this cluster: the current one and the other trusted ones.
#[derive(Debug, Clone)]
pub(crate) struct Trust {
    anchors: Arc<[TrustAnchor<'static>]>,
}

/// Accepts any client certificate whose key the client holds.
#[derive(Debug)]
pub(crate) struct KeyVerifier(pub(crate) Arc<CryptoProvider>);

impl Trust {
    pub(crate) fn new(certificates: Vec<CertificateDer<'static>>) -> Option<Self> {
        let anchors: Option<Vec<_>> =
            certificates.iter().map(|it| Some(anchor_from_trusted_cert(it).ok()?.to_owned())).collect();
        anchors.map(|anchors| Self { anchors: anchors.into() })
    }

    /// Returns true if one of the CAs has issued this server certificate.
    pub(crate) fn has_issued(&self, certificate: &CertificateDer<'_>, now: Timestamp) -> bool {
        EndEntityCert::try_from(certificate).is_ok_and(|it| self.verifies(&it, KeyUsage::server_auth(), now))
    }

    /// Returns the node of a certificate, if one of the CAs has issued it, it is valid now, and the connection comes
    /// from one of its addresses.
    pub(crate) fn node(&self, certificate: &EndEntityCert<'_>, from: IpAddr, now: Timestamp) -> Option<NodeIdentity> {
        let is_at_home = certificate.verify_is_valid_for_subject_name(&ServerName::IpAddress(from.into())).is_ok();
        if !is_at_home || !self.verifies(certificate, KeyUsage::client_auth(), now) {
            return None;
        }
        let mut uris = certificate.valid_uri_names();
        let identity = NodeIdentity::parse(uris.next()?).ok()?;
        uris.next().is_none().then_some(identity)
    }

    fn verifies(&self, certificate: &EndEntityCert<'_>, usage: KeyUsage, now: Timestamp) -> bool {
        let since_epoch = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
        let now = UnixTime::since_unix_epoch(since_epoch);
        certificate.verify_for_usage(&[ECDSA_P256_SHA256], &self.anchors, &[], now, usage, None, None).is_ok()
    }
}

impl ClientCertVerifier for KeyVerifier {
    /// Not mandatory: operators send a token with each call. Calls of clients with neither are refused.
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let bad = || Error::InvalidCertificate(CertificateError::BadEncoding);
        let certificate = EndEntityCert::try_from(certificate).map_err(|_| bad())?;
        p256_point(&certificate.subject_public_key_info()).ok_or_else(bad)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not offered".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}
