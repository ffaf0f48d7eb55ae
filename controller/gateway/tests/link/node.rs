//! A node as its agent will speak, and as somebody else might.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use muster_link::{GATEWAY_NAME, KeyHash, Nonce};
use muster_proto::muster::enrolment_client::EnrolmentClient;
use muster_proto::muster::node_reports_client::NodeReportsClient;
use muster_proto::muster::{ChallengeRequest, Credential, EnrolRequest, RoleProof};
use rcgen::{CertificateParams, KeyPair, PublicKeyData};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::world::{A, ADDRESSES, B, DOCUMENTS, SECRETS, World, access_key, signature};

/// A key, the certificate that it comes with, and where it comes from.
pub(crate) struct Node {
    pub(crate) instance: &'static str,
    pub(crate) key: KeyPair,
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) from: IpAddr,
    pub(crate) launch_token: &'static str,
    /// Whether it comes with its certificate.
    is_anonymous: bool,
}

impl Node {
    pub(crate) fn new(instance: &'static str) -> Self {
        let index = usize::from(instance != A);
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([]).unwrap().self_signed(&key).unwrap().der().clone();
        let (from, launch_token) = (ADDRESSES[index].into(), SECRETS[index]);
        Self { instance, key, certificate, from, launch_token, is_anonymous: false }
    }

    /// Whoever comes without a certificate.
    pub(crate) fn anonymous() -> Self {
        Self { is_anonymous: true, ..Self::new(A) }
    }

    pub(crate) fn key_hash(&self) -> KeyHash {
        KeyHash::of(&self.key.subject_public_key_info())
    }

    fn config(&self, authority: &str, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let key = PrivatePkcs8KeyDer::from(self.key.serialize_der()).into();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match self.is_anonymous {
            true => config.with_no_client_auth(),
            false => config.with_client_auth_cert(vec![self.certificate.clone()], key).unwrap(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        config
    }

    /// A handshake with a gateway that has this authority.
    pub(crate) async fn handshake(
        &self,
        to: SocketAddr,
        authority: &str,
        versions: &[&'static SupportedProtocolVersion],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let config = self.config(authority, versions);
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(self.from, 0))?;
        let stream = socket.connect(to).await?;
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(GATEWAY_NAME).unwrap(), stream).await
    }

    pub(crate) async fn connect(&self, world: &World) -> Channel {
        self.connect_with(world, Endpoint::from_static("http://gateway")).await
    }

    pub(crate) async fn connect_with(&self, world: &World, endpoint: Endpoint) -> Channel {
        let stream = self.handshake(world.address, &world.authority, &[&rustls::version::TLS13]).await.unwrap();
        let mut stream = Some(stream);
        let connector = service_fn(move |_| {
            // A channel connects again by itself; a test has one connection.
            let stream = stream.take().ok_or_else(|| std::io::Error::other("the connection has ended"));
            async { stream.map(TokioIo::new) }
        });
        endpoint.connect_with_connector(connector).await.unwrap()
    }

    /// Asks for a nonce.
    pub(crate) async fn challenge(&self, channel: &Channel) -> Nonce {
        let answer = EnrolmentClient::new(channel.clone()).challenge(ChallengeRequest {}).await.unwrap().into_inner();
        assert_eq!(answer.cluster, "blue");
        Nonce::read(&answer.nonce).unwrap()
    }

    /// Evidence that is in order.
    pub(crate) fn evidence(&self, nonce: &Nonce) -> EnrolRequest {
        let document = DOCUMENTS.iter().find(|(instance, _)| *instance == self.instance).unwrap().1;
        EnrolRequest {
            nonce: nonce.bytes().to_vec(),
            launch_token: self.launch_token.to_owned(),
            identity_document: document.to_owned(),
            role_proof: Some(self.proof("blue", nonce, &self.key_hash())),
            previous_key: None,
        }
    }

    /// A proof of the role for a cluster, a nonce and a key.
    pub(crate) fn proof(&self, cluster: &str, nonce: &Nonce, key: &KeyHash) -> RoleProof {
        let date = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let host = "sts.eu-west-1.amazonaws.com";
        let signature = signature(self.instance, host, cluster, &nonce.to_string(), &key.to_string());
        let headers =
            "content-type;host;x-amz-date;x-amz-security-token;x-muster-cluster;x-muster-key-sha256;x-muster-nonce";
        RoleProof {
            authorization: format!(
                "AWS4-HMAC-SHA256 Credential={}/{}/eu-west-1/sts/aws4_request, SignedHeaders={headers}, Signature={signature}",
                access_key(self.instance),
                &date[..8],
            ),
            date,
            security_token: "IQoJb3JpZ2luX2Vj7Tq2Mz9k".to_owned(),
        }
    }

    /// The whole way: challenge, evidence, and the certificate taken.
    pub(crate) async fn enrol(&mut self, world: &World) -> Result<Credential, Status> {
        self.enrol_with(world, |_| {}).await
    }

    pub(crate) async fn enrol_with(
        &mut self,
        world: &World,
        change: impl FnOnce(&mut EnrolRequest),
    ) -> Result<Credential, Status> {
        let channel = self.connect(world).await;
        let nonce = self.challenge(&channel).await;
        let mut evidence = self.evidence(&nonce);
        change(&mut evidence);
        let answer = EnrolmentClient::new(channel).enrol(evidence).await?;
        let credential = answer.into_inner().credential.unwrap();
        self.certificate = CertificateDer::from_pem_slice(credential.certificate_chain.as_bytes()).unwrap();
        Ok(credential)
    }

    /// Enrolled, or the test ends here.
    pub(crate) async fn enrolled(instance: &'static str, world: &World) -> Self {
        let mut node = Self::new(instance);
        node.enrol(world).await.unwrap();
        node
    }

    pub(crate) async fn reports(&self, world: &World) -> NodeReportsClient<Channel> {
        NodeReportsClient::new(self.connect(world).await)
    }
}

/// The other of two.
pub(crate) const fn instances() -> [&'static str; 2] {
    [A, B]
}
