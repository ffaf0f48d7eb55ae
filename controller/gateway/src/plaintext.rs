//! Plaintext ports: a limited number of connections, of which the oldest gives way to the next.
//!
//! Probes and scrapes come on new connections and take milliseconds. So a client that opens connections and holds them
//! loses them again, and keeps no other out.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tower::Service;

/// Maximum number of connections of a port: probes of the kubelet, scrapes, and some people.
pub(crate) const CONNECTIONS: usize = 128;
/// Timeout of a request's headers, and of the next request on a connection.
pub(crate) const HEADERS: Duration = Duration::from_secs(10);
/// Lifetime of an HTTP/1 connection.
const AGE: Duration = Duration::from_secs(60);
/// Pause after an error of `accept`, which means that this process lacks file descriptors or memory.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections for ever.
pub(crate) async fn accept<F>(listener: TcpListener, most: usize, connection: impl Fn(TcpStream) -> F) -> Infallible
where
    F: Future<Output = ()> + Send + 'static,
{
    let (mut tasks, mut order) = (JoinSet::new(), VecDeque::<AbortHandle>::new());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {
                order.retain(|task| !task.is_finished());
                continue;
            }
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted");
                sleep(PAUSE).await;
                continue;
            }
        };
        while order.len() >= most {
            if let Some(oldest) = order.pop_front() {
                oldest.abort();
            }
        }
        order.push_back(tasks.spawn(connection(stream)));
    }
}

/// Serves HTTP/1 for ever.
pub async fn http<S, B>(listener: TcpListener, service: S) -> Infallible
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    accept(listener, CONNECTIONS, |stream| one(stream, service.clone(), HEADERS)).await
}

/// Serves a connection, whose requests have to come within `headers`.
pub(crate) async fn one<T, S, B>(stream: T, service: S, headers: Duration)
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(headers)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut served = std::pin::pin!(served);
    if timeout(AGE, served.as_mut()).await.is_err() {
        // An answer under way is finished.
        served.as_mut().graceful_shutdown();
        let _it_has_ended = timeout(headers, served).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tower::service_fn;

    use super::*;

    async fn asked(stream: &mut TcpStream) -> String {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_plaintext_port_has_so_many_connections_and_the_oldest_gives_way() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = |_: Request<Incoming>| async { Ok::<_, Infallible>(Response::new("served".to_owned())) };
        let _served = tokio::spawn(http(listener, service_fn(answer)));
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS {
            held.push(TcpStream::connect(address).await.unwrap());
        }
        let mut next = TcpStream::connect(address).await.unwrap();
        assert!(asked(&mut next).await.ends_with("served"), "whoever holds connections keeps out nobody");
        // The oldest was cut, and says so at once.
        let mut oldest = held.swap_remove(0);
        assert_eq!(oldest.read(&mut [0; 8]).await.unwrap_or(0), 0);
    }

    #[tokio::test]
    async fn headers_that_do_not_come_end_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let answer = |_: Request<Incoming>| async { Ok::<_, Infallible>(Response::new(String::new())) };
        let served =
            tokio::spawn(one(listener.accept().await.unwrap().0, service_fn(answer), Duration::from_millis(50)));
        client.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        timeout(AGE / 2, served).await.unwrap().unwrap();
    }
}
