//! Who certifies: one key of the cluster, kept in a Secret, that signs the gateway's certificate and those of nodes.

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use muster_link::{GATEWAY_NAME, NodeIdentity, p256_point};
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SignatureAlgorithm,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use time::OffsetDateTime;

use crate::trust::Trust;

/// How long the authority's own certificate holds. It is pinned in the user data of machines, so it changes with the launch templates.
const AUTHORITY_LIFE: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// How long a node's certificate holds: long enough that a controller may be down for an hour without a node having to enrol anew.
const NODE_LIFE: SignedDuration = SignedDuration::from_hours(4);
/// When a node asks for the next one.
const RENEW_AFTER: SignedDuration = SignedDuration::from_hours(2);
/// Clocks of nodes differ.
const BACKDATED: SignedDuration = SignedDuration::from_mins(5);

/// What is kept of an authority (PEM).
#[derive(Clone, PartialEq, Eq)]
pub struct Material {
    /// Its certificate.
    pub certificate: String,
    /// Its key (PKCS #8).
    pub key: String,
    /// Certificates of authorities before it, whose nodes are still known. May be empty.
    pub trusted: String,
}

/// What is wrong with an authority.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityFault {
    /// Something in the Secret is not what it has to be.
    #[error("the authority's `{0}` cannot be read")]
    Material(&'static str),
    /// Its certificate is another key's.
    #[error("the authority's certificate and key do not belong together")]
    Apart,
    /// The library that makes certificates refuses.
    #[error("the certificate cannot be made")]
    Certificate(#[from] rcgen::Error),
}

/// Who certifies.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate_pem: String,
    trust: Trust,
}

/// A certificate that was made for a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Issued {
    pub(crate) chain_pem: String,
    pub(crate) renew_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

/// The public key of a node.
struct NodeKey<'a>(&'a [u8]);

impl PublicKeyData for NodeKey<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl std::fmt::Debug for Material {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Material").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Material {
    /// A new authority.
    ///
    /// # Errors
    /// The library refuses.
    pub fn make(now: Timestamp) -> Result<Self, AuthorityFault> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate = authority_params(now).self_signed(&key)?;
        Ok(Self { certificate: certificate.pem(), key: key.serialize_pem(), trusted: String::new() })
    }
}

impl Authority {
    /// Reads what is kept of it.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn read(material: &Material, now: Timestamp) -> Result<Self, AuthorityFault> {
        let key = KeyPair::from_pem(&material.key).map_err(|_| AuthorityFault::Material("key"))?;
        let certificates = |pem: &str, name: &'static str| {
            let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
            read.map_err(|_| AuthorityFault::Material(name))
        };
        let mut trusted = certificates(&material.certificate, "certificate")?;
        if trusted.len() != 1 {
            return Err(AuthorityFault::Material("certificate"));
        }
        trusted.extend(certificates(&material.trusted, "trusted")?);
        let trust = Trust::new(trusted).ok_or(AuthorityFault::Material("certificate"))?;
        // What is certified has the issuer's name and key from here, not from the certificate: a test of both is one certificate.
        let authority = Self {
            issuer: Issuer::new(authority_params(now), key),
            certificate_pem: material.certificate.clone(),
            trust,
        };
        let (certificate, _) = authority.server(now)?;
        if !authority.trust.has_issued(&certificate, now) {
            return Err(AuthorityFault::Apart);
        }
        Ok(authority)
    }

    /// What agents pin.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    pub(crate) fn trust(&self) -> &Trust {
        &self.trust
    }

    /// A certificate for this process, with a key that never leaves it: it holds as long as the authority's.
    pub(crate) fn server(
        &self,
        now: Timestamp,
    ) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), AuthorityFault> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::new([GATEWAY_NAME.to_owned()])?;
        named(&mut params, GATEWAY_NAME);
        valid(&mut params, now, AUTHORITY_LIFE);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok((certificate.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
    }

    /// A certificate for a node's key, of use at these addresses only.
    pub(crate) fn node(
        &self,
        identity: &NodeIdentity,
        addresses: &[IpAddr],
        public_key_info: &[u8],
        now: Timestamp,
    ) -> Result<Issued, AuthorityFault> {
        let point = p256_point(public_key_info).ok_or(AuthorityFault::Material("node's key"))?;
        let mut params = CertificateParams::default();
        named(&mut params, &identity.instance);
        valid(&mut params, now, NODE_LIFE);
        let uri = Ia5String::try_from(identity.to_string())?;
        params.subject_alt_names = addresses.iter().map(|address| SanType::IpAddress(*address)).collect();
        params.subject_alt_names.push(SanType::URI(uri));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&NodeKey(point), &self.issuer)?;
        let at = |after| now.saturating_add(after).unwrap_or(Timestamp::MAX);
        Ok(Issued { chain_pem: certificate.pem(), renew_at: at(RENEW_AFTER), expires_at: at(NODE_LIFE) })
    }
}

fn authority_params(now: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    named(&mut params, "muster");
    valid(&mut params, now, AUTHORITY_LIFE);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

fn named(params: &mut CertificateParams, name: &str) {
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
}

fn valid(params: &mut CertificateParams, now: Timestamp, life: SignedDuration) {
    let at = |by: SignedDuration| {
        let moment = now.saturating_add(by).unwrap_or(now).as_second();
        OffsetDateTime::from_unix_timestamp(moment).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    };
    (params.not_before, params.not_after) = (at(-BACKDATED), at(life));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_read_as_it_was_made() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let (one, other) = (Material::make(now).unwrap(), Material::make(now).unwrap());
        assert!(Authority::read(&one, now).is_ok());
        let apart = Material { key: other.key.clone(), ..one.clone() };
        assert!(matches!(Authority::read(&apart, now), Err(AuthorityFault::Apart)));
        for broken in [
            Material { key: String::new(), ..one.clone() },
            Material { certificate: String::new(), ..one.clone() },
            Material { certificate: format!("{}{}", one.certificate, other.certificate), ..one.clone() },
            Material {
                trusted: "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n".to_owned(),
                ..one.clone()
            },
        ] {
            assert!(matches!(Authority::read(&broken, now), Err(AuthorityFault::Material(_))));
        }
        assert!(!format!("{one:?} {:?}", Authority::read(&one, now)).contains("PRIVATE"));
    }
}
