//! Certificate authority (CA) of the cluster: its key, kept in a Secret, signs the certificates of the gateway and of
//! nodes. After a rotation the gateway also presents the new CA's certificate signed by the old CA, so that nodes that
//! trust only the old CA accept it.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use muster_link::{Fingerprint, GATEWAY_NAME, NodeIdentity, Pins, p256_point};
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SignatureAlgorithm,
};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use time::OffsetDateTime;

use crate::client_certificates::{KeyVerifier, Trust};

/// Validity of the CA's own certificate. It is pinned in the user data of instances, so it changes with the launch
/// templates.
pub const AUTHORITY_LIFE: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// Validity of a node's certificate. Nodes need not enrol again if the controller is down for an hour.
pub const NODE_LIFE: SignedDuration = SignedDuration::from_hours(4);
/// Age at which a node renews its certificate.
const RENEW_AFTER: SignedDuration = SignedDuration::from_hours(2);
/// Tolerance for clock skew of nodes: `notBefore` is set this far in the past.
const BACKDATED: SignedDuration = SignedDuration::from_mins(5);

/// CA certificate and its key (PEM; the key is PKCS #8).
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// CA certificate.
    pub certificate: String,
    /// Private key that signs.
    pub key: String,
}

/// Certificates and key that the gateway needs of the cluster's CAs (PEM).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Material {
    /// The CA that signs.
    pub signing: Pair,
    /// Certificate of `signing` issued by the previous CA ([`Pair::vouch`]), for nodes that trust only the previous
    /// one. May be empty.
    pub vouched: String,
    /// Certificates of the other CAs whose node certificates are accepted: the previous and the next one. May be empty.
    pub trusted: String,
    /// CA certificates for agents to trust.
    pub pinned: String,
}

/// Error of a CA's certificate or key.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityFault {
    /// The named part cannot be read.
    #[error("the authority's `{0}` cannot be read")]
    Material(&'static str),
    /// The certificate and the key do not match.
    #[error("the authority's certificate and key do not belong together")]
    Apart,
    /// The certificate library returned an error.
    #[error("the certificate cannot be made")]
    Certificate(#[from] rcgen::Error),
}

/// The cluster's CA: issues node certificates and holds the gateway's TLS configuration.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pinned: Arc<str>,
    trust: Trust,
    config: Arc<ServerConfig>,
}

/// Certificate issued to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Issued {
    pub(crate) chain_pem: String,
    pub(crate) renew_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

/// Public key of a node.
struct NodeKey<'a>(&'a [u8]);

impl PublicKeyData for NodeKey<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Pair {
    /// Makes a new CA.
    ///
    /// # Errors
    /// The certificate library fails.
    pub fn make(now: Timestamp) -> Result<Self, AuthorityFault> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate = authority_params(now, BELOW_ROOT).self_signed(&key)?;
        Ok(Self { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Issues a certificate of `next` signed by this CA (PEM). A client that trusts only this CA then accepts
    /// certificates of `next`, if they are presented with it.
    ///
    /// # Errors
    /// A key cannot be read.
    pub fn vouch(&self, next: &Self, now: Timestamp) -> Result<String, AuthorityFault> {
        let issuer = Issuer::new(authority_params(now, BELOW_ROOT), key_pair(&self.key)?);
        Ok(authority_params(now, 0).signed_by(&key_pair(&next.key)?, &issuer)?.pem())
    }

    /// Returns the fingerprint by which agents pin this CA.
    ///
    /// # Errors
    /// The certificate cannot be read, or the PEM does not hold exactly one.
    pub fn fingerprint(&self) -> Result<Fingerprint, AuthorityFault> {
        match certificates(&self.certificate, "certificate")?.as_slice() {
            [one] => Ok(Fingerprint::of(one)),
            _ => Err(AuthorityFault::Material("certificate")),
        }
    }
}

impl Material {
    /// Returns the material of a single CA that was never rotated.
    #[must_use]
    pub fn of(signing: Pair) -> Self {
        let pinned = signing.certificate.clone();
        Self { signing, vouched: String::new(), trusted: String::new(), pinned }
    }
}

impl Authority {
    /// Reads the CA and issues a certificate for the gateway, whose key never leaves the process.
    ///
    /// # Errors
    /// A certificate or key cannot be read, or the CA's certificate and key do not match.
    pub fn read(material: &Material, now: Timestamp) -> Result<Self, AuthorityFault> {
        let Material { signing, vouched, trusted, pinned } = material;
        signing.fingerprint()?;
        let own = certificates(&signing.certificate, "certificate")?;
        let vouched = certificates(vouched, "certificate by the one before it")?;
        Pins::of_pem(pinned).ok_or(AuthorityFault::Material("certificate that agents are told"))?;
        let others = certificates(trusted, "certificate of another")?;
        let trust = |of: Vec<_>| Trust::new(of).ok_or(AuthorityFault::Material("certificate"));
        // The issuer's name and key come from here, not from the CA certificate: verifying one issued certificate
        // checks that both match.
        let issuer = Issuer::new(authority_params(now, BELOW_ROOT), key_pair(&signing.key)?);
        let (certificate, key) = server(&issuer, now)?;
        if !trust(own.clone())?.has_issued(&certificate, now) {
            return Err(AuthorityFault::Apart);
        }
        let chain = std::iter::once(certificate).chain(vouched).collect();
        Ok(Self {
            issuer,
            pinned: pinned.as_str().into(),
            trust: trust(own.into_iter().chain(others).collect())?,
            config: config(chain, key)?,
        })
    }

    /// Returns the CA certificates for agents to trust (PEM).
    #[must_use]
    pub fn pinned(&self) -> &Arc<str> {
        &self.pinned
    }

    pub(crate) fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    pub(crate) fn trust(&self) -> &Trust {
        &self.trust
    }

    /// Issues a certificate for a node's key that is valid only from these addresses.
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

fn key_pair(pem: &str) -> Result<KeyPair, AuthorityFault> {
    KeyPair::from_pem(pem).map_err(|_| AuthorityFault::Material("key"))
}

fn certificates(pem: &str, name: &'static str) -> Result<Vec<CertificateDer<'static>>, AuthorityFault> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    read.map_err(|_| AuthorityFault::Material(name))
}

/// Issues a server certificate for this process, valid as long as the CA's.
fn server(
    issuer: &Issuer<'static, KeyPair>,
    now: Timestamp,
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), AuthorityFault> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::new([GATEWAY_NAME.to_owned()])?;
    named(&mut params, GATEWAY_NAME);
    valid(&mut params, now, AUTHORITY_LIFE);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&key, issuer)?;
    Ok((certificate.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, AuthorityFault> {
    let provider = Arc::new(default_provider());
    let broken = |_| AuthorityFault::Material("key");
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(broken)?
        .with_client_cert_verifier(Arc::new(KeyVerifier(provider)))
        .with_single_cert(chain, key)
        .map_err(broken)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Client authentication counts for one connection only: sessions are not resumed.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(Arc::new(config))
}

/// Number of CAs that may stand between a root and a certificate: the next one, which the root certifies.
const BELOW_ROOT: u8 = 1;

/// Returns the parameters of a CA with at most `below` CAs below it.
fn authority_params(now: Timestamp, below: u8) -> CertificateParams {
    let mut params = CertificateParams::default();
    named(&mut params, "muster");
    valid(&mut params, now, AUTHORITY_LIFE);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(below));
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
    fn a_root_may_certify_the_next_authority_and_that_one_no_other() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let [one, next] = [(); 2].map(|()| Pair::make(now).unwrap());
        // BasicConstraints in DER: a CA, and the length of the path below it.
        let has_path = |pem: &str, length: u8| {
            let der = certificates(pem, "certificate").unwrap().remove(0);
            der.windows(8).any(|bytes| bytes == [0x30, 6, 1, 1, 0xff, 2, 1, length])
        };
        assert!(has_path(&one.certificate, 1));
        assert!(has_path(&one.vouch(&next, now).unwrap(), 0));
    }

    #[test]
    fn an_authority_is_read_as_it_was_made() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let [one, other] = [(); 2].map(|()| Material::of(Pair::make(now).unwrap()));
        assert!(Authority::read(&one, now).is_ok());
        type Change<'a> = &'a dyn Fn(&mut Material);
        let with = |change: Change<'_>| {
            let mut material = one.clone();
            change(&mut material);
            Authority::read(&material, now).err().map(|fault| fault.to_string())
        };
        let apart = with(&|it| it.signing.key.clone_from(&other.signing.key));
        assert_eq!(apart.as_deref(), Some("the authority's certificate and key do not belong together"));
        let no_certificate = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";
        let broken: [(&str, Change<'_>); 6] = [
            ("key", &|it| it.signing.key.clear()),
            ("certificate", &|it| it.signing.certificate.clear()),
            ("certificate", &|it| it.signing.certificate += &other.signing.certificate),
            ("certificate of another", &|it| it.trusted = no_certificate.to_owned()),
            ("certificate by the one before it", &|it| it.vouched = no_certificate.to_owned()),
            ("certificate that agents are told", &|it| it.pinned.clear()),
        ];
        for (name, change) in broken {
            assert_eq!(with(change), Some(format!("the authority's `{name}` cannot be read")));
        }
        assert!(!format!("{one:?} {:?}", Authority::read(&one, now)).contains("PRIVATE"));
    }
}
