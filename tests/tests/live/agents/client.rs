//! A client of the agents' port that is no agent: it says and asks what it likes.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use muster_link::GATEWAY_NAME;
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// Certificate of a key that nobody knows.
pub(crate) fn unknown(key: &KeyPair) -> Vec<CertificateDer<'static>> {
    vec![CertificateParams::default().self_signed(key).unwrap().der().clone()]
}

/// TLS settings of a client with this key and certificate, which believes these authorities (PEM).
pub(crate) fn config(authority: &str, key: &KeyPair, chain: Vec<CertificateDer<'static>>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let private = PrivatePkcs8KeyDer::from(key.serialize_der());
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, private.into())
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

/// Opens a connection from `from`, without a word.
pub(crate) async fn open(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(to).await
}

/// Performs the handshake.
pub(crate) async fn shake(config: &Arc<ClientConfig>, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(GATEWAY_NAME).map_err(io::Error::other)?;
    TlsConnector::from(Arc::clone(config)).connect(name, stream).await
}

/// Opens a connection for calls. It does not connect again by itself.
pub(crate) async fn channel(config: &Arc<ClientConfig>, from: Ipv4Addr, to: SocketAddr) -> io::Result<Channel> {
    let mut stream = Some(shake(config, open(from, to).await?).await?);
    let once = service_fn(move |_| {
        let stream = stream.take().ok_or_else(|| io::Error::other("the connection has ended"));
        async { stream.map(TokioIo::new) }
    });
    Endpoint::from_static("http://gateway").connect_with_connector(once).await.map_err(io::Error::other)
}
