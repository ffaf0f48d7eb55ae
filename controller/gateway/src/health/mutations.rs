//! Broken requests on the plaintext ports, in HTTP/2 and HTTP/1. Whatever the bytes are, nothing panics, a connection
//! ends with its client, and nothing is kept of it. What strangers say behind TLS is read by the same readers.

use std::convert::Infallible;
use std::time::Duration;

use http::Response;
use http_body_util::Empty;
use muster_proto::health::HealthCheckRequest;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tower::service_fn;

use super::*;
use crate::growth::without_growth;
use crate::mutate::{Dice, damage};
use crate::plaintext::one;

/// The first bytes of a client of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SCRAPE: &[u8] =
    b"GET /metrics HTTP/1.1\r\nHost: muster:8080\r\nAccept: text/plain\r\nContent-Length: 2\r\n\r\nxx";
/// Size of a pipe: more than any input.
const PIPE: usize = 1 << 20;
/// A connection whose client has gone ends long before.
const MOST: Duration = Duration::from_secs(60);

/// A frame of HTTP/2 (RFC 9113, 4.1).
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags, 0, 0, 0, stream]);
    frame.extend_from_slice(payload);
    frame
}

/// A header as a literal without indexing (RFC 7541, 6.2.2).
fn header(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

/// Calls, each as the bytes after the preface.
fn calls() -> Vec<Vec<u8>> {
    let message = HealthCheckRequest { service: "muster.v1.NodeReports".to_owned() }.encode_to_vec();
    let body = [&[0, 0, 0, 0, u8::try_from(message.len()).unwrap()][..], &message].concat();
    let of = |path: &str| {
        let headers = [
            header(":method", "POST"),
            header(":scheme", "http"),
            header(":path", path),
            header(":authority", "muster:8082"),
            header("te", "trailers"),
            header("content-type", "application/grpc"),
            header("grpc-timeout", "1S"),
        ];
        let settings = frame(4, 0, 0, &[0, 4, 0, 1, 0, 0]);
        let ping = frame(6, 0, 0, &[1, 2, 3, 4, 5, 6, 7, 8]);
        [settings, frame(1, 4, 1, &headers.concat()), ping, frame(0, 1, 1, &body), frame(3, 0, 1, &[0, 0, 0, 8])]
            .concat()
    };
    ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/List", "/grpc.health.v1.Health/Watch"].map(of).to_vec()
}

fn broken(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=dice.roll(3) {
        damage(&mut bytes, dice);
    }
    bytes.truncate(PIPE / 2);
    bytes
}

/// Has a server answer a client that says this and leaves. The answer.
async fn answer<F: Future<Output = ()>>(bytes: &[u8], serve: impl FnOnce(DuplexStream) -> F) -> Vec<u8> {
    let (mut client, server) = duplex(PIPE);
    client.write_all(bytes).await.unwrap();
    client.shutdown().await.unwrap();
    timeout(MOST, serve(server)).await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    answer
}

/// Returns the number of broken calls that were answered with a status of gRPC all the same.
fn http2(runtime: &Runtime, count: usize) -> usize {
    let (calls, mut dice, mut answered) = (calls(), Dice::new(0x6832), 0);
    let (_statuses_tx, statuses) = watch::channel(Statuses::default());
    let (v1, v1alpha) = reflection().unwrap();
    let routes = Routes::new(HealthServer::new(HealthOf(statuses))).add_service(v1).add_service(v1alpha).prepare();
    for _ in 0..count {
        let bytes = [PREFACE, &broken(dice.pick(&calls).as_slice(), &mut dice)].concat();
        let heard = runtime.block_on(answer(&bytes, |stream| connection(routes.clone(), stream)));
        answered += usize::from(heard.windows(11).any(|part| part == b"grpc-status"));
    }
    answered
}

/// Returns the number of broken requests that were served all the same.
fn http1(runtime: &Runtime, count: usize) -> usize {
    let (mut dice, mut served) = (Dice::new(0x6831), 0);
    let service = service_fn(async |_: Request<Incoming>| Ok::<_, Infallible>(Response::new(Empty::<&[u8]>::new())));
    for _ in 0..count {
        let bytes = broken(SCRAPE, &mut dice);
        let heard = runtime.block_on(answer(&bytes, |stream| one(stream, service, HEADERS)));
        served += usize::from(heard.starts_with(b"HTTP/1.1 200"));
    }
    served
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

#[test]
fn broken_requests_end_with_their_clients() {
    let runtime = runtime();
    let (calls, requests) = (http2(&runtime, 500), http1(&runtime, 500));
    assert!(calls < 500 && requests > 0 && requests < 500, "{calls} {requests}");
}

#[test]
#[ignore = "minutes: the release tier runs it"]
fn a_million_broken_requests() {
    let runtime = runtime();
    let mut answered = 0;
    let figures = without_growth(1_000_000, |count| answered = http2(&runtime, count));
    eprintln!("HTTP/2: {figures}; {answered} answered");
    let figures = without_growth(1_000_000, |count| answered = http1(&runtime, count));
    eprintln!("HTTP/1: {figures}; {answered} served");
}
