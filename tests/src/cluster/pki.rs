//! The certificates and keys of one control plane.

use std::fs::Permissions;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fs_err as fs;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

use crate::error::Result;

/// Names under which pods and people reach an API server.
const NAMES: [&str; 5] =
    ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];

/// The name by which clients of the world ask for the API server's certificate, whatever address they call.
pub(crate) const NAME: &str = "kubernetes";

/// How long a certificate with dates holds, as EKS's do.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The folder with the files of a control plane. The servers read them from there; the key of the authority is among
/// them because kube-controller-manager signs the kubelets' certificates with it.
#[derive(Debug, Clone)]
pub(crate) struct Pki {
    folder: PathBuf,
}

/// A certificate with its key, as files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Pki {
    /// Makes the authority, the API server's certificate for `addresses`, and the key of service account tokens.
    pub(crate) fn create(folder: &Path, addresses: &[IpAddr]) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let pki = Self::at(folder);
        let key = KeyPair::generate()?;
        write(&pki.ca(), &authority().self_signed(&key)?.pem())?;
        write(&pki.ca_key(), &key.serialize_pem())?;

        let tokens = KeyPair::generate()?;
        write(&pki.tokens_key(), &tokens.serialize_pem())?;
        write(&pki.tokens_public(), &tokens.public_key_pem())?;

        pki.issue("apiserver", server(addresses)?)?;
        Ok(pki)
    }

    /// The API server's certificate again, as one would look that was made at `made` and holds for a year.
    pub(crate) fn dated(&self, addresses: &[IpAddr], made: Timestamp) -> Result<Pair> {
        let mut server = server(addresses)?;
        server.not_before = SystemTime::from(made).into();
        server.not_after = (SystemTime::from(made) + YEAR).into();
        self.issue("apiserver-dated", server)
    }

    /// What [`Self::create`] has made there, in this process or in another one.
    pub(crate) fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The authority's certificate.
    pub(crate) fn ca(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// The authority's key.
    pub(crate) fn ca_key(&self) -> PathBuf {
        self.folder.join("ca.key")
    }

    /// What service account tokens are signed with.
    pub(crate) fn tokens_key(&self) -> PathBuf {
        self.folder.join("tokens.key")
    }

    /// What service account tokens are checked with.
    pub(crate) fn tokens_public(&self) -> PathBuf {
        self.folder.join("tokens.pub")
    }

    /// The API server's certificate.
    pub(crate) fn server(&self) -> Pair {
        self.pair("apiserver")
    }

    /// A client certificate for `user` in `group`, in files called `file`.
    pub(crate) fn client(&self, file: &str, user: &str, group: Option<&str>) -> Result<Pair> {
        let mut client = CertificateParams::default();
        client.distinguished_name = name(user, group);
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(file, client)
    }

    fn issue(&self, file: &str, mut params: CertificateParams) -> Result<Pair> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let issuer = Issuer::new(authority(), KeyPair::from_pem(&fs::read_to_string(self.ca_key())?)?);
        let own = KeyPair::generate()?;
        let certificate = params.signed_by(&own, &issuer)?;
        let pair = self.pair(file);
        write(&pair.key, &own.serialize_pem())?;
        write(&pair.certificate, &certificate.pem())?;
        Ok(pair)
    }

    fn pair(&self, file: &str) -> Pair {
        Pair { certificate: self.folder.join(format!("{file}.crt")), key: self.folder.join(format!("{file}.key")) }
    }
}

/// What the API server's certificate says. rcgen's own dates are those of no clock: from 1975 to 4096.
fn server(addresses: &[IpAddr]) -> Result<CertificateParams> {
    let mut server = CertificateParams::new(NAMES.map(String::from))?;
    server.subject_alt_names.extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
    server.distinguished_name = name("kube-apiserver", None);
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(server)
}

/// What the authority's certificate says. The same each time, so that its key is all that has to be kept.
fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name("muster-world", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

/// Kubernetes reads the user from the common name and its group from the organization.
fn name(user: &str, group: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(group) = group {
        name.push(DnType::OrganizationName, group);
    }
    name.push(DnType::CommonName, user);
    name
}

/// Only the user that runs the world may read a key.
fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(())
}
