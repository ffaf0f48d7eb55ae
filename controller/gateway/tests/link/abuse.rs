//! Those who do not play by the rules: refused, counted, and nobody else notices.

use std::time::Duration;

use muster_gateway::{Limits, Pair};
use muster_proto::muster::follow_request::Message as Say;
use muster_proto::muster::node_reports_client::NodeReportsClient;
use muster_proto::muster::{self as wire, NodeReport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;
use tonic::transport::Endpoint;

use crate::node::Node;
use crate::reports::Talk;
use crate::world::{A, B, World, hasty};

/// Whether somebody who plays by the rules is served.
async fn others_are_served(world: &World) {
    let node = Node::enrolled(B, world).await;
    let talk = Talk::open(&node, world).await;
    talk.report(1).await;
    world.memory.until(|state| state.kept.iter().any(|(instance, _)| instance == B)).await;
}

/// Sends bytes and waits until the gateway hangs up.
async fn hangs_up(world: &World, bytes: &[u8]) {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    // The gateway may hang up while it is written to.
    let _hung_up = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "nothing is answered in plaintext");
}

#[tokio::test]
async fn what_is_no_handshake_is_hung_up_on() {
    let limits = Limits { handshake: Duration::from_millis(300), ..Limits::default() };
    let world = World::with(limits).await;
    let garbage: Vec<u8> = (0..4096_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for bytes in
        [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], b"GET / HTTP/1.1\r\n\r\n", &garbage, &[0x16, 3, 1, 0xff, 0xff], b""]
    {
        hangs_up(&world, bytes).await;
    }
    assert_eq!(world.refusals.of("HandshakeFailed"), 5);
    others_are_served(&world).await;
}

#[tokio::test]
async fn an_older_tls_is_not_spoken() {
    let world = World::start().await;
    let node = Node::new(A);
    assert!(node.handshake(world.address, &world.authority, &[&rustls::version::TLS12]).await.is_err());
    assert!(node.handshake(world.address, &world.authority, &[&rustls::version::TLS13]).await.is_ok());
}

#[tokio::test]
async fn an_agent_speaks_to_no_other_controller() {
    let world = World::start().await;
    let other = Pair::make(jiff::Timestamp::now()).unwrap();
    let versions = [&rustls::version::TLS13];
    assert!(
        Node::new(A).handshake(world.address, &other.certificate, &versions).await.is_err(),
        "the authority is pinned"
    );
    // A node's own certificate makes no gateway: it is for clients, and names none.
    let node = Node::enrolled(A, &world).await;
    let certificate = webpki::EndEntityCert::try_from(&node.certificate).unwrap();
    assert_eq!(certificate.valid_dns_names().count(), 0);
}

#[tokio::test]
async fn an_address_has_so_many_connections() {
    let world = World::with(Limits { connections_of_address: 2, ..Limits::default() }).await;
    let node = Node::new(A);
    let _held = [node.connect(&world).await, node.connect(&world).await];
    let third = node.handshake(world.address, &world.authority, &[&rustls::version::TLS13]).await;
    assert!(third.is_err() && world.refusals.of("TooManyConnectionsOfAddress") == 1);
    others_are_served(&world).await;
}

#[tokio::test]
async fn there_are_so_many_connections_of_nodes() {
    let world = World::with(Limits { connections: 1, ..Limits::default() }).await;
    let (one, other) = (Node::enrolled(A, &world).await, Node::enrolled(B, &world).await);
    let held = Talk::open(&one, &world).await;
    let channel = other.connect(&world).await;
    assert!(NodeReportsClient::new(channel).follow(tokio_stream::empty()).await.is_err());
    assert_eq!(world.refusals.of("TooManyConnections"), 1);
    drop(held);
}

#[tokio::test]
async fn a_stranger_is_shown_out_soon() {
    let world = World::with(Limits { stranger_age: Duration::from_millis(1500), ..Limits::default() }).await;
    let mut stream = Node::new(A).handshake(world.address, &world.authority, &[&rustls::version::TLS13]).await.unwrap();
    // HTTP/2's preface and empty settings: whoever says no more than that.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut answer = Vec::new();
    let _hung_up = stream.read_to_end(&mut answer).await;
    others_are_served(&world).await;
}

#[tokio::test]
async fn a_message_has_its_limits() {
    let world = World::start().await;
    let node = Node::enrolled(A, &world).await;
    let finding = |text: String| wire::Finding { code: "KA07".to_owned(), message: text, ..wire::Finding::default() };
    let with = |findings: Vec<wire::Finding>| NodeReport { sequence: 1, findings, ..NodeReport::default() };
    for (report, code) in [
        (with(vec![finding("x".repeat(300 * 1024))]), Code::OutOfRange),
        (with(vec![finding("x".repeat(3 * 1024))]), Code::InvalidArgument),
        (with(vec![finding(String::new()); 201]), Code::InvalidArgument),
        (NodeReport { verdict: "KA 07".to_owned(), ..with(Vec::new()) }, Code::InvalidArgument),
        (NodeReport { verdict: "KA07".to_owned(), ..with(Vec::new()) }, Code::InvalidArgument),
    ] {
        let mut talk = Talk::open(&node, &world).await;
        talk.say(Say::Report(report)).await;
        assert_eq!(talk.end().await.code(), code);
    }
    let mut talk = Talk::open(&node, &world).await;
    let bundle = wire::LogBundle { verdict: String::new(), content: vec![0; 200 * 1024] };
    talk.say(Say::Bundle(bundle)).await;
    assert_eq!(talk.end().await.code(), Code::InvalidArgument);
    assert!(world.memory.state(|state| state.kept.is_empty() && state.bundles.is_empty()));
    assert_eq!(world.refusals.of("MessageMalformed"), 5);
}

#[tokio::test]
async fn a_node_may_say_so_much_at_once() {
    let world = World::start().await;
    let node = Node::enrolled(A, &world).await;
    let mut talk = Talk::open(&node, &world).await;
    for sequence in 0..200 {
        talk.report(sequence).await;
    }
    assert_eq!(talk.end().await.code(), Code::ResourceExhausted);
    assert_eq!(world.refusals.of("TooManyMessages"), 1);
    others_are_served(&world).await;
}

#[tokio::test]
async fn a_stream_begins_with_hello() {
    let world = World::start().await;
    let node = Node::enrolled(A, &world).await;
    let (say, said) = tokio::sync::mpsc::channel(1);
    let report = wire::FollowRequest { message: Some(Say::Report(NodeReport::default())) };
    say.send(report).await.unwrap();
    let said = tokio_stream::wrappers::ReceiverStream::new(said);
    let hear = node.reports(&world).await.follow(said).await.unwrap().into_inner();
    assert_eq!(Talk { say, hear }.end().await.code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn who_does_not_read_is_cut_and_holds_nobody_up() {
    let limits = Limits { grace: Duration::from_millis(200), report_interval: Duration::ZERO, ..Limits::default() };
    let world = World::with(limits).await;
    let node = Node::enrolled(A, &world).await;
    // A window of one byte: the first answer cannot be sent.
    let endpoint = Endpoint::from_static("http://gateway").initial_stream_window_size(1);
    let channel = node.connect_with(&world, endpoint).await;
    let (say, said) = tokio::sync::mpsc::channel(256);
    let said = tokio_stream::wrappers::ReceiverStream::new(said);
    for message in
        [Say::Hello(wire::Hello::default()), Say::Report(NodeReport { sequence: 1, ..NodeReport::default() })]
    {
        say.send(wire::FollowRequest { message: Some(message) }).await.unwrap();
    }
    let _stream_that_nobody_reads = NodeReportsClient::new(channel).follow(said).await.unwrap();
    others_are_served(&world).await;
    world.stop().await;
}

#[tokio::test]
async fn a_connection_ends_with_its_age() {
    let world = World::start().await;
    let node = Node::enrolled(A, &world).await;
    let (material, memory) = (world.material.clone(), world.stop().await);
    let world = World::again(Limits { age: Duration::from_millis(100), ..hasty() }, memory, material).await;
    // Where the machine is busy a connection may be old before anything is said on it; the next one is as good.
    let mut talk = loop {
        if let Ok(talk) = Talk::try_open(&node, &world).await {
            break talk;
        }
    };
    assert_eq!(talk.end().await.code(), Code::Unavailable);
}
