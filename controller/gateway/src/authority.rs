//! Who certifies: a key of the cluster, kept in a Secret, that signs the gateway's certificate and those of nodes. When it is replaced
//! by another, the gateway comes with a certificate of the new one by the old one, so that nodes believe it that know only the old one.

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

use crate::trust::{KeyVerifier, Trust};

/// How long the authority's own certificate holds. It is pinned in the user data of machines, so it changes with the launch templates.
pub const AUTHORITY_LIFE: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// How long a node's certificate holds: long enough that a controller may be down for an hour without a node having to enrol anew.
pub const NODE_LIFE: SignedDuration = SignedDuration::from_hours(4);
/// When a node asks for the next one.
const RENEW_AFTER: SignedDuration = SignedDuration::from_hours(2);
/// Clocks of nodes differ.
const BACKDATED: SignedDuration = SignedDuration::from_mins(5);

/// An authority: its certificate and its key (PEM; the key is PKCS #8).
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// What is believed.
    pub certificate: String,
    /// What it signs with.
    pub key: String,
}

/// What the gateway needs of the authorities of a cluster (PEM).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Material {
    /// The one that signs.
    pub signing: Pair,
    /// Its certificate by the one before it ([`Pair::vouch`]), for nodes that believe only that one. May be empty.
    pub vouched: String,
    /// Certificates of the others whose nodes are known: of the one before it, and of the next. May be empty.
    pub trusted: String,
    /// Certificates that agents are told to believe.
    pub pinned: String,
}

/// What is wrong with an authority.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityFault {
    /// Something of it is not what it has to be.
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
    pinned: Arc<str>,
    trust: Trust,
    config: Arc<ServerConfig>,
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
    /// A new authority.
    ///
    /// # Errors
    /// The library refuses.
    pub fn make(now: Timestamp) -> Result<Self, AuthorityFault> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate = authority_params(now).self_signed(&key)?;
        Ok(Self { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// A certificate of `next` by this one (PEM): whoever believes this one believes what `next` has certified, if it comes with that.
    ///
    /// # Errors
    /// A key cannot be read.
    pub fn vouch(&self, next: &Self, now: Timestamp) -> Result<String, AuthorityFault> {
        let issuer = Issuer::new(authority_params(now), key_pair(&self.key)?);
        Ok(authority_params(now).signed_by(&key_pair(&next.key)?, &issuer)?.pem())
    }

    /// By what agents know it.
    ///
    /// # Errors
    /// Its certificate cannot be read, or is more than one.
    pub fn fingerprint(&self) -> Result<Fingerprint, AuthorityFault> {
        match certificates(&self.certificate, "certificate")?.as_slice() {
            [one] => Ok(Fingerprint::of(one)),
            _ => Err(AuthorityFault::Material("certificate")),
        }
    }
}

impl Material {
    /// Of one authority that was never another.
    #[must_use]
    pub fn of(signing: Pair) -> Self {
        let pinned = signing.certificate.clone();
        Self { signing, vouched: String::new(), trusted: String::new(), pinned }
    }
}

impl Authority {
    /// Reads what is kept of it, and makes the certificate of the gateway, with a key that never leaves the process.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn read(material: &Material, now: Timestamp) -> Result<Self, AuthorityFault> {
        let Material { signing, vouched, trusted, pinned } = material;
        signing.fingerprint()?;
        let own = certificates(&signing.certificate, "certificate")?;
        let vouched = certificates(vouched, "certificate by the one before it")?;
        Pins::of_pem(pinned).ok_or(AuthorityFault::Material("certificate that agents are told"))?;
        let others = certificates(trusted, "certificate of another")?;
        let trust = |of: Vec<_>| Trust::new(of).ok_or(AuthorityFault::Material("certificate"));
        // What is certified has the issuer's name and key from here, not from the certificate: a test of both is one certificate.
        let issuer = Issuer::new(authority_params(now), key_pair(&signing.key)?);
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

    /// What agents are told to believe (PEM).
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

fn key_pair(pem: &str) -> Result<KeyPair, AuthorityFault> {
    KeyPair::from_pem(pem).map_err(|_| AuthorityFault::Material("key"))
}

fn certificates(pem: &str, name: &'static str) -> Result<Vec<CertificateDer<'static>>, AuthorityFault> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    read.map_err(|_| AuthorityFault::Material(name))
}

/// A certificate for this process: it holds as long as the authority's.
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
    // What a connection has proved counts for that connection: none is resumed.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(Arc::new(config))
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
