//! HTTP/1.1 over TCP or TLS, in separate steps, so that the failed step is known.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::fault::{CertificateFault, ProxyFault, Unanswered, UrlFault};
use crate::preflight::proxy::{Proxy, Route};
use crate::preflight::way::{TlsFault, Way};

/// TCP keepalive for watches, which may be silent for minutes: first probe after 5 s, dead peer detected after 9 s.
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(5)).with_interval(Duration::from_secs(2)).with_retries(2);
/// Maximum size of a response body that is read as a whole.
const LARGEST: usize = 4 << 20;
/// Buffer for response headers and a part of the body.
const BUFFER: usize = 64 << 10;

/// Address of a server, and how to authenticate it.
#[derive(Clone)]
pub struct Server {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// TLS configuration; `None` for plain HTTP.
    pub tls: Option<Arc<ClientConfig>>,
    /// HTTP proxy to connect through.
    pub proxy: Option<Proxy>,
}

/// A connection, closed on drop.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    task: JoinHandle<()>,
    host: String,
}

/// A complete response.
#[derive(Debug)]
pub struct Answer {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Vec<u8>,
}

impl Server {
    /// Parses `http[s]://host[:port]`.
    ///
    /// # Errors
    /// The text is not such a URL.
    pub fn of_url(url: &str, tls: Option<Arc<ClientConfig>>) -> Result<Self, UrlFault> {
        let uri: hyper::Uri = url.parse().map_err(|_| UrlFault::Malformed(url.to_owned()))?;
        let host = uri.host().ok_or_else(|| UrlFault::NoHost(url.to_owned()))?;
        let is_secure = uri.scheme_str() == Some("https");
        let tls = tls.filter(|_| is_secure);
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        Ok(Self { host: host.trim_matches(['[', ']']).to_owned(), port, tls, proxy: None })
    }

    /// Sets the route. An unsupported proxy is not used.
    #[must_use]
    pub fn by(self, route: Route) -> Self {
        let proxy = match route {
            Route::By(proxy) => Some(proxy),
            Route::Straight | Route::Other(_) => None,
        };
        Self { proxy, ..self }
    }

    fn name(&self) -> String {
        place(&self.host, self.port)
    }
}

fn place(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Returns a TLS configuration with these trusted authorities and, optionally, a client certificate with its key (all
/// PEM). Without an authority, the system's CA bundle is trusted, as in client-go.
///
/// # Errors
/// A certificate or key cannot be read.
pub fn tls(authority: &[u8], own: Option<(&[u8], &[u8])>) -> Result<Arc<ClientConfig>, CertificateFault> {
    let roots = roots(authority, bundle_of_machine)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
            let chain = chain.map_err(CertificateFault::Client)?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(CertificateFault::Key)?;
            builder.with_client_auth_cert(chain, key)?
        }
    };
    Ok(Arc::new(config))
}

/// Returns the certificates of these authorities or, without any, those of the system's CA bundle.
fn roots(authority: &[u8], bundle: impl FnOnce() -> Option<Vec<u8>>) -> Result<RootCertStore, CertificateFault> {
    let mut roots = RootCertStore::empty();
    if authority.is_empty() {
        let bundle = bundle().ok_or(CertificateFault::NoBundle)?;
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&bundle).flatten());
    }
    for certificate in CertificateDer::pem_slice_iter(authority) {
        roots.add(certificate.map_err(CertificateFault::Authority)?)?;
    }
    if roots.is_empty() { Err(CertificateFault::Empty) } else { Ok(roots) }
}

fn bundle_of_machine() -> Option<Vec<u8>> {
    // Amazon Linux, then Debian.
    const BUNDLES: [&str; 2] = ["/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/certs/ca-certificates.crt"];
    BUNDLES.iter().find_map(|path| fs_err::read(path).ok())
}

/// Returns a TLS configuration that trusts the system's CA bundle; `None` without a bundle.
#[must_use]
pub fn tls_of_machine() -> Option<Arc<ClientConfig>> {
    let roots = roots(&[], bundle_of_machine).ok()?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().ok()?;
    Some(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// Connects to a server. `step` is the timeout of each step.
///
/// # Errors
/// The failed step.
pub async fn dial(server: &Server, step: Duration) -> Result<Connection, Way> {
    let stream = match &server.proxy {
        None => connect(&server.host, server.port, step).await?,
        Some(proxy) => by_proxy(server, proxy, step).await?,
    };
    let to = server.name();
    let Some(config) = &server.tls else { return hand_over(stream, to, &server.host, step).await };
    let fault = |fault| Way::Tls { to: to.clone(), fault };
    let name = ServerName::try_from(server.host.clone()).map_err(|error| fault(TlsFault::Name(error.to_string())))?;
    match timeout(step, TlsConnector::from(Arc::clone(config)).connect(name, stream)).await {
        Ok(Ok(stream)) => hand_over(stream, to, &server.host, step).await,
        Ok(Err(error)) => Err(fault(tls_fault(&error))),
        Err(_) => Err(Way::Silent { to: to.clone(), after: step }),
    }
}

/// Connects to the first address of a host that answers.
async fn connect(host: &str, port: u16, step: Duration) -> Result<TcpStream, Way> {
    let to = place(host, port);
    let unknown = |error: String| Way::Unknown { host: host.to_owned(), error };
    let addresses: Vec<SocketAddr> = match timeout(step, lookup_host((host, port))).await {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) => return Err(unknown(error.to_string())),
        Err(_) => return Err(unknown(format!("no answer from the name servers for {} ms", step.as_millis()))),
    };
    let started = Instant::now();
    let silent = || Way::Silent { to: to.clone(), after: started.elapsed() };
    let stream = match timeout(step, reach(addresses)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) if error.kind() == io::ErrorKind::TimedOut => return Err(silent()),
        Ok(Err(error)) => return Err(Way::Refused { to, error: error.to_string() }),
        Err(_) => return Err(silent()),
    };
    // Without keepalive, a lost peer is only noticed later.
    let _as_it_was = SockRef::from(&stream).set_tcp_keepalive(&KEEPALIVE);
    Ok(stream)
}

/// Connects to the addresses in parallel, starting each 250 ms after the previous one or as soon as that one has
/// failed. An address that drops packets does not use up the time of the others.
///
/// Source: RFC 8305, section 5, and its Connection Attempt Delay.
pub(super) async fn reach(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    const HEAD_START: Duration = Duration::from_millis(250);
    let mut rest = addresses.into_iter();
    let mut tries = JoinSet::new();
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "the name has no address");
    loop {
        if let Some(address) = rest.next() {
            tries.spawn(TcpStream::connect(address));
        }
        let ended = if rest.len() == 0 {
            tries.join_next().await
        } else {
            let Ok(ended) = timeout(HEAD_START, tries.join_next()).await else { continue };
            ended
        };
        match ended {
            Some(Ok(Ok(stream))) => return Ok(stream),
            Some(Ok(Err(error))) => last = error,
            Some(Err(error)) => last = io::Error::other(error),
            None => return Err(last),
        }
    }
}

/// Connects to the server through its proxy. Failures up to there are the proxy's.
async fn by_proxy(server: &Server, proxy: &Proxy, step: Duration) -> Result<TcpStream, Way> {
    let fault = |error: String| Way::Proxy { by: place(&proxy.host, proxy.port), to: server.name(), error };
    let mut stream = connect(&proxy.host, proxy.port, step).await.map_err(|way| fault(way.to_string()))?;
    match timeout(step, ask_to_connect(&mut stream, &server.name(), proxy)).await {
        Ok(Ok(())) => Ok(stream),
        Ok(Err(error)) => Err(fault(error.to_string())),
        Err(_) => Err(fault(format!("no answer to CONNECT for {} ms", step.as_millis()))),
    }
}

/// Sends a CONNECT request. Afterwards the stream carries the connection to the server.
async fn ask_to_connect(stream: &mut TcpStream, to: &str, proxy: &Proxy) -> Result<(), ProxyFault> {
    /// Maximum size of a proxy's response head.
    const LONGEST: usize = 16 << 10;
    let authorization = proxy.authorization.as_ref();
    let authorization = authorization.map(|it| format!("Proxy-Authorization: {it}\r\n")).unwrap_or_default();
    let question = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{authorization}\r\n");
    stream.write_all(question.as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() == LONGEST {
            return Err(ProxyFault::TooLong);
        }
        // Read no further than the head: the following bytes are the server's.
        answer.push(stream.read_u8().await?);
    }
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.lines().next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some(code) if code.len() == 3 && code.starts_with('2') => Ok(()),
        _ => Err(ProxyFault::Refused(status.to_owned())),
    }
}

async fn hand_over<S>(stream: S, to: String, host: &str, step: Duration) -> Result<Connection, Way>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let odd = |error: String| Way::Odd { to, error };
    // Incoming data is consumed at once, so this bounds the buffered data.
    let hands = http1::Builder::new().max_buf_size(BUFFER).handshake(TokioIo::new(stream));
    let hands = timeout(step, hands).await;
    let (sender, connection) = match hands {
        Ok(Ok(hands)) => hands,
        Ok(Err(error)) => return Err(odd(error.to_string())),
        Err(_) => return Err(odd("no answer".to_owned())),
    };
    let task = tokio::spawn(async move {
        // Errors of the connection surface in its requests.
        let _shows_in_requests = connection.await;
    });
    Ok(Connection { sender, task, host: host.to_owned() })
}

fn tls_fault(error: &io::Error) -> TlsFault {
    let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
        return TlsFault::Other(error.to_string());
    };
    match error {
        rustls::Error::InvalidCertificate(fault) => match fault {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => TlsFault::Issuer,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                TlsFault::Name(error.to_string())
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => TlsFault::Time(error.to_string()),
            _ => TlsFault::Other(error.to_string()),
        },
        _ => TlsFault::Other(error.to_string()),
    }
}

impl Connection {
    /// Sends a request and returns the response as soon as its head has arrived.
    ///
    /// # Errors
    /// The connection broke, or timed out.
    pub async fn open(
        &mut self,
        mut request: Request<Full<Bytes>>,
        within: Duration,
    ) -> Result<Response<Incoming>, Unanswered> {
        if let Ok(host) = self.host.parse() {
            request.headers_mut().insert(hyper::header::HOST, host);
        }
        match timeout(within, self.sender.send_request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Unanswered::Silent(within)),
        }
    }

    /// Sends a request and reads the response.
    ///
    /// # Errors
    /// The connection broke or timed out, or the response is too large.
    pub async fn ask(&mut self, request: Request<Full<Bytes>>, within: Duration) -> Result<Answer, Unanswered> {
        let response = self.open(request, within).await?;
        let (head, body) = response.into_parts();
        match timeout(within, whole(body)).await {
            Ok(Ok(body)) => Ok(Answer { status: head.status, headers: head.headers, body }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Unanswered::Cut(within)),
        }
    }
}

/// Reads a body into memory, at most [`LARGEST`] bytes.
async fn whole(body: Incoming) -> Result<Vec<u8>, Unanswered> {
    let expected = usize::try_from(body.size_hint().lower()).unwrap_or(LARGEST).min(LARGEST);
    let mut bytes = Vec::with_capacity(expected);
    let mut body = Limited::new(body, LARGEST);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(Unanswered::Body)?;
        bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    Ok(bytes)
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::tests::authority;

    #[test]
    fn without_an_authority_the_bundle_of_the_system_is_trusted() {
        let (own, bundle) = (authority().pem(), authority().pem() + &authority().pem());
        let count = |authority: &str, bundle: Option<&str>| {
            roots(authority.as_bytes(), || bundle.map(|it| it.as_bytes().to_vec())).map(|roots| roots.len())
        };
        assert_eq!(count("", Some(&bundle)).unwrap(), 2);
        assert_eq!(count(&own, Some(&bundle)).unwrap(), 1);
        assert_eq!(count("", None).unwrap_err().to_string(), "there is none, and the system has no CA bundle");
        assert_eq!(count("nothing", Some(&bundle)).unwrap_err().to_string(), "there is no certificate in it");
    }
}
