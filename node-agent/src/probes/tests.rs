//! The way to the API server and the node's standing, against servers on loopback.

use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::api;
use super::kubeconfig::{Kubeconfig, User};
use crate::preflight::credentials::{CredentialCheck, OwnNode};
use crate::preflight::proxy::Environment;
use crate::preflight::way::{TlsFault, Way};

pub(crate) type Issuer = CertifiedIssuer<'static, KeyPair>;

pub(crate) fn authority() -> Issuer {
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

/// What a server answers to a request's first line.
pub(crate) type Answer = fn(&str) -> &'static str;

/// An API server whose certificate is for `name`, until `year`.
pub(crate) async fn server(issuer: &Issuer, name: &str, year: i32, answer: Answer) -> SocketAddr {
    let mut parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
    parameters.not_before = rcgen::date_time_ymd(2000, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = parameters.signed_by(&key, issuer).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = [0; 4096];
            // One read is one request: the agent's are small.
            while let Ok(count) = stream.read(&mut request).await
                && count > 0
            {
                let text = String::from_utf8_lossy(&request[..count]).into_owned();
                let body = answer(text.lines().next().unwrap_or_default());
                let (status, body) = body.split_once(' ').unwrap();
                let head = format!(
                    "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nDate: Sat, 21 Nov 2026 20:00:00 GMT\r\n\r\n",
                    body.len()
                );
                if stream.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
                    break;
                }
            }
        }
    });
    address
}

pub(crate) fn config(address: SocketAddr, issuer: &Issuer) -> Kubeconfig {
    let server = format!("https://localhost:{}", address.port());
    Kubeconfig {
        server,
        authority: issuer.pem().into_bytes(),
        user: User::Token("t".to_owned()),
        environment: Environment::new(),
    }
}

pub(crate) const FAR: i32 = 2999;

#[tokio::test]
async fn the_step_that_fails_is_told() {
    let issuer = authority();
    let refuse: Answer = |_| "401 {}";
    let good = server(&issuer, "localhost", FAR, refuse).await;
    match api::way(&config(good, &issuer)).await {
        Way::Open { clock: Some((theirs, _)), version: None, .. } => {
            assert_eq!(theirs.to_string(), "2026-11-21T20:00:00Z");
        }
        other => panic!("{other:?}"),
    }
    let fault = async |address, issuer: &Issuer| match api::way(&config(address, issuer)).await {
        Way::Tls { fault, .. } => fault,
        other => panic!("{other:?}"),
    };
    assert_eq!(fault(good, &authority()).await, TlsFault::Issuer);
    let other = server(&issuer, "other.example", FAR, refuse).await;
    assert!(matches!(fault(other, &issuer).await, TlsFault::Name(_)));
    let expired = server(&issuer, "localhost", 2001, refuse).await;
    assert!(matches!(fault(expired, &issuer).await, TlsFault::Time(_)));
    let broken = Kubeconfig { authority: b"nothing".to_vec(), ..config(good, &issuer) };
    assert!(matches!(api::way(&broken).await, Way::Tls { fault: TlsFault::Authority(_), .. }));
    let ill = server(&issuer, "localhost", FAR, |_| "503 {}").await;
    assert!(matches!(api::way(&config(ill, &issuer)).await, Way::Odd { .. }));
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert!(matches!(api::way(&config(nobody, &issuer)).await, Way::Refused { .. }));
}

#[tokio::test]
async fn the_node_hears_who_it_is() {
    let issuer = authority();
    let standing = async |answer: Answer| {
        let address = server(&issuer, "localhost", FAR, answer).await;
        api::standing(&config(address, &issuer), Some("n"), &mut None).await
    };
    assert_eq!(standing(|_| "401 {}").await, Some(CredentialCheck::Unauthorized(None)));
    assert_eq!(standing(|_| "404 {}").await, None, "an API server before 1.28");
    assert!(
        matches!(standing(|_| "500 {\"message\":\"etcd\"}").await, Some(CredentialCheck::Busy(why)) if why.ends_with("etcd"))
    );
    let known = standing(|line| match line.split(' ').nth(1).unwrap_or_default() {
        "/version" => r#"200 {"gitVersion":"v1.37.1"}"#,
        "/api/v1/nodes/n" => r#"404 {}"#,
        _ => r#"201 {"status":{"userInfo":{"username":"system:node:n","groups":["system:nodes"]}}}"#,
    });
    let expected = CredentialCheck::Known {
        user: "system:node:n".to_owned(),
        groups: vec!["system:nodes".to_owned()],
        version: Some("v1.37.1".to_owned()),
        node: OwnNode::Absent,
    };
    assert_eq!(known.await, Some(expected));
}

/// A proxy that connects to `target` whatever it is asked for, or refuses; what it was asked.
async fn proxy(target: SocketAddr, status: &'static str) -> (SocketAddr, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (asked_tx, asked_rx) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut question = [0; 1024];
            let count = stream.read(&mut question).await.unwrap();
            asked_tx.send(String::from_utf8_lossy(&question[..count]).into_owned()).unwrap();
            stream.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).await.unwrap();
            if status.starts_with('2') {
                let mut other = tokio::net::TcpStream::connect(target).await.unwrap();
                let _one_has_closed = tokio::io::copy_bidirectional(&mut stream, &mut other).await;
            }
        }
    });
    (address, asked_rx)
}

#[tokio::test]
async fn the_way_is_the_one_that_the_kubelet_goes() {
    let issuer = authority();
    let server = server(&issuer, "a.example", FAR, |_| "401 {}").await;
    // A name that nobody here can look up: only the proxy can.
    let through = |proxy: SocketAddr| {
        let url = format!("http://user:secret@{proxy}");
        Kubeconfig {
            server: "https://a.example:6443".to_owned(),
            environment: Environment::from([("HTTPS_PROXY".to_owned(), url)]),
            ..config(server, &issuer)
        }
    };
    let (good, mut asked) = proxy(server, "200 Connection established").await;
    assert!(matches!(api::way(&through(good)).await, Way::Open { to, .. } if to == "a.example:6443"));
    let asked = asked.recv().await.unwrap();
    assert!(asked.starts_with("CONNECT a.example:6443 HTTP/1.1\r\nHost: a.example:6443\r\n"), "{asked}");
    assert!(asked.contains("Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n"), "{asked}");
    let (bad, _asked) = proxy(server, "403 Forbidden").await;
    match api::way(&through(bad)).await {
        Way::Proxy { by, to, error } => {
            assert_eq!((by, to.as_str()), (bad.to_string(), "a.example:6443"));
            assert_eq!(error, "HTTP/1.1 403 Forbidden");
        }
        other => panic!("{other:?}"),
    }
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert!(matches!(api::way(&through(nobody)).await, Way::Proxy { by, .. } if by == nobody.to_string()));
}

/// An address that swallows what it gets: somebody listens, takes nobody in, and has as many waiting as there is room for.
/// It lasts as long as what is returned beside it.
#[cfg(target_os = "linux")]
async fn black_hole() -> (SocketAddr, impl Sized) {
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let mut waiting = Vec::new();
    let within = std::time::Duration::from_millis(100);
    while let Ok(stream) = tokio::time::timeout(within, tokio::net::TcpStream::connect(address)).await {
        waiting.push(stream.unwrap());
    }
    (address, (listener, waiting))
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_address_that_swallows_everything_does_not_use_up_the_time_of_the_next() {
    let (hole, _kept) = black_hole().await;
    let good = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let addresses = vec![hole, nobody, good.local_addr().unwrap()];
    let stream = tokio::time::timeout(super::STEP, super::http::reach(addresses)).await.unwrap().unwrap();
    assert_eq!(stream.peer_addr().unwrap(), good.local_addr().unwrap());
    let refused = super::http::reach(vec![nobody, nobody]).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert!(super::http::reach(Vec::new()).await.is_err());
}
