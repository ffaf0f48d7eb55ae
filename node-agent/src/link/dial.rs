//! Connection to the controller. Its certificate authority is pinned by the user data, or by the controller itself
//! later; no other authority is trusted.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use muster_link::GATEWAY_NAME;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};
use tower::service_fn;

use super::{Fault, WayFault};

/// Timeout of name resolution, connection and TLS handshake together.
const WITHIN: Duration = Duration::from_secs(10);
/// Timeout of a call.
pub(super) const CALL: Duration = Duration::from_secs(30);
/// Interval and timeout of HTTP/2 keep-alive pings.
const ALIVE: Duration = Duration::from_secs(20);

/// Client certificate chain, leaf first, and its private key.
pub(super) type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Connects to `address`, from the local address `from` if given. `believed` has the PEM certificates of the trusted
/// authorities.
pub(super) async fn dial(
    address: &str,
    believed: &str,
    from: Option<IpAddr>,
    identity: Identity,
) -> Result<Channel, Fault> {
    let connected = connect(address, believed, from, identity).await;
    connected.map_err(|cause| Fault::Way { address: address.to_owned(), cause })
}

async fn connect(address: &str, believed: &str, from: Option<IpAddr>, identity: Identity) -> Result<Channel, WayFault> {
    let config = config(believed, identity)?;
    let name = ServerName::try_from(GATEWAY_NAME)?;
    let connect = async {
        let stream = match from {
            None => TcpStream::connect(address).await?,
            Some(from) => connect_from(from, address).await?,
        };
        stream.set_nodelay(true)?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    };
    let mut stream = Some(timeout(WITHIN, connect).await.map_err(|_| WayFault::Silent)??);
    // A channel that reconnects would use another connection than the one that was enrolled on.
    let once = service_fn(move |_| {
        let stream = stream.take().ok_or_else(|| io::Error::other("the connection has ended"));
        async { stream.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://controller")
        .http2_keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE)
        .keep_alive_while_idle(true);
    Ok(endpoint.connect_with_connector(once).await?)
}

/// Returns the response to a call. The keep-alive pings notice a lost controller, but not one that never answers.
pub(super) async fn answered<T>(
    call: impl Future<Output = Result<Response<T>, Status>>,
    within: Duration,
) -> Result<T, Fault> {
    match timeout(within, call).await {
        Ok(answer) => Ok(answer?.into_inner()),
        Err(_) => Err(Fault::Silent(within)),
    }
}

/// Connects from a local address to the first resolved address of the same family.
async fn connect_from(from: IpAddr, address: &str) -> io::Result<TcpStream> {
    let to = lookup_host(address).await?.find(|it| it.is_ipv4() == from.is_ipv4());
    let to = to.ok_or_else(|| io::Error::other("it has no address of the kind that this node comes from"))?;
    let socket = if from.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.bind(SocketAddr::new(from, 0))?;
    socket.connect(to).await
}

fn config(authority: &str, (chain, key): Identity) -> Result<ClientConfig, WayFault> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(certificate.map_err(WayFault::Authority)?).map_err(WayFault::Unusable)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .and_then(|builder| builder.with_root_certificates(roots).with_client_auth_cert(chain, key))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Each connection must prove possession of the key.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn a_call_without_an_answer_ends() {
        assert_eq!(answered(ready(Ok(Response::new(7))), CALL).await.unwrap(), 7);
        let fault = answered(pending::<Result<Response<()>, _>>(), Duration::ZERO).await.unwrap_err();
        assert_eq!(fault.to_string(), "the controller has not answered after 0 s");
    }
}
