//! Strangers: anybody who reaches the port, with as many keys and connections as they like.

use std::net::IpAddr;
use std::time::Duration;

use muster_gateway::{Limits, Rate};
use muster_link::Nonce;
use muster_proto::muster::ChallengeRequest;
use muster_proto::muster::enrolment_client::EnrolmentClient;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tonic::Code;

use crate::node::Node;
use crate::reports::Talk;
use crate::world::{A, B, World, hasty};

/// Connects from an address and says nothing.
async fn silent(world: &World, from: [u8; 4]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((IpAddr::from(from), 0).into()).unwrap();
    socket.connect(world.address).await.unwrap()
}

/// Waits until the gateway hangs up.
async fn hung_up(mut stream: TcpStream) {
    let _reset = stream.read_to_end(&mut Vec::new()).await;
}

#[tokio::test]
async fn nonces_live_with_their_connections() {
    let world = World::start().await;
    let node = Node::new(A);
    // One key on two connections: each has its own nonce, and neither takes the other's.
    let (one, other) = (node.connect(&world).await, node.connect(&world).await);
    let (of_one, of_other) = (node.challenge(&one).await, node.challenge(&other).await);
    let elsewhere = EnrolmentClient::new(other.clone()).enrol(node.evidence(&of_one)).await.unwrap_err();
    assert_eq!((elsewhere.code(), world.refusals.of("NonceUnknown")), (Code::Unavailable, 1), "of another connection");
    EnrolmentClient::new(one).enrol(node.evidence(&of_one)).await.unwrap();
    let used = EnrolmentClient::new(other).enrol(node.evidence(&of_other)).await.unwrap_err();
    assert_eq!((used.code(), world.refusals.of("NonceUnknown")), (Code::Unavailable, 2), "its attempt is over");
}

#[tokio::test]
async fn an_enrolment_without_a_nonce_is_refused_before_anything_is_read() {
    let world = World::start().await;
    let node = Node::new(A);
    let channel = node.connect(&world).await;
    let refused = EnrolmentClient::new(channel.clone()).enrol(node.evidence(&Nonce::new([1; 32]))).await.unwrap_err();
    assert_eq!((refused.code(), world.refusals.of("NonceUnknown")), (Code::Unavailable, 1));
    node.challenge(&channel).await;
    EnrolmentClient::new(channel).enrol(node.evidence(&Nonce::new([2; 32]))).await.unwrap_err();
    assert_eq!(world.refusals.of("NonceUnknown"), 2, "of somebody else");
    assert_eq!(world.memory.state(|state| (state.looked_up, state.asked)), (0, 0));
}

#[tokio::test]
async fn a_stranger_has_so_many_calls_on_a_connection() {
    let world = World::start().await;
    let node = Node::new(A);
    let channel = node.connect(&world).await;
    for _ in 0..8 {
        node.challenge(&channel).await;
    }
    let refused = EnrolmentClient::new(channel.clone()).challenge(ChallengeRequest {}).await.unwrap_err();
    assert_eq!((refused.code(), world.refusals.of("TooManyCalls")), (Code::ResourceExhausted, 1));
    // The connection ends then; this one does not connect again by itself.
    while EnrolmentClient::new(channel.clone()).challenge(ChallengeRequest {}).await.unwrap_err().code()
        == Code::ResourceExhausted
    {}
    Node::enrolled(A, &world).await;
}

#[tokio::test]
async fn strangers_have_a_rate_by_source_and_others_are_served() {
    let slow = Rate::new(5, Duration::from_secs(3600));
    let world = World::with(Limits { arrivals: slow, connections_of_address: 100, ..hasty() }).await;
    for _ in 0..5 {
        drop(silent(&world, [127, 0, 0, 2]).await);
    }
    hung_up(silent(&world, [127, 0, 0, 2]).await).await;
    assert_eq!(world.refusals.of("TooManyHandshakesOfAddress"), 1);
    Node::enrolled(A, &world).await;
}

#[tokio::test]
async fn a_flood_of_strangers_locks_no_enrolled_node_out() {
    let world = World::with(Limits { strangers: 3, ..hasty() }).await;
    let node = Node::enrolled(A, &world).await;
    let (stranger, versions) = (Node::new(B), [&rustls::version::TLS13]);
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(stranger.handshake(world.address, &world.authority, &versions).await.unwrap());
    }
    // A place is looked for after the handshake: its end tells the client nothing.
    while world.refusals.of("TooManyStrangers") < 3 {
        tokio::task::yield_now().await;
    }
    // It was away while they came.
    let talk = Talk::open(&node, &world).await;
    talk.report(1).await;
    world.memory.until(|state| state.kept.iter().any(|(instance, _)| instance == A)).await;
    drop(held);
}

#[tokio::test]
async fn slow_handshakes_delay_nobody() {
    let world =
        World::with(Limits { hello: Duration::from_secs(60), handshake: Duration::from_secs(60), ..hasty() }).await;
    let mut held = Vec::new();
    for last in 1..=33 {
        for _ in 0..8 {
            held.push(silent(&world, [127, 0, 1, last]).await);
        }
    }
    timeout(Duration::from_secs(30), Node::enrolled(A, &world)).await.unwrap();
    drop(held);
}

#[tokio::test]
async fn a_handshake_begins_soon_or_not_at_all() {
    let hello = Duration::from_millis(100);
    let world = World::with(Limits { hello, handshake: Duration::from_secs(3600), ..hasty() }).await;
    hung_up(silent(&world, [127, 0, 0, 2]).await).await;
    assert_eq!(world.refusals.of("HandshakeFailed"), 1);
}

#[tokio::test]
async fn a_stranger_has_small_windows_and_two_calls_at_once() {
    let world = World::start().await;
    let settings = async |node: &Node| {
        let mut stream = node.handshake(world.address, &world.authority, &[&rustls::version::TLS13]).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            .await
            .unwrap();
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!(head[3], 4, "SETTINGS come first");
        let mut all = vec![0; usize::from(head[2])];
        stream.read_exact(&mut all).await.unwrap();
        let of = |id: u8| {
            let found = all.chunks(6).find(|one| one[1] == id).unwrap();
            u32::from_be_bytes([found[2], found[3], found[4], found[5]])
        };
        // MAX_CONCURRENT_STREAMS and INITIAL_WINDOW_SIZE.
        (of(3), of(4))
    };
    assert_eq!(settings(&Node::new(B)).await, (2, 32 * 1024));
    assert_eq!(settings(&Node::enrolled(A, &world).await).await, (8, 64 * 1024));
}

#[tokio::test]
async fn silent_networks_lock_no_enrolled_node_out() {
    let limits = Limits { handshakes: 4, handshakes_of_network: 2, ..hasty() };
    let world =
        World::with(Limits { hello: Duration::from_secs(60), handshake: Duration::from_secs(60), ..limits }).await;
    let node = Node::enrolled(A, &world).await;
    // From then on the gateway knows where it is.
    drop(Talk::open(&node, &world).await);
    let mut held = Vec::new();
    for network in [1, 2] {
        for host in [1, 2] {
            held.push(silent(&world, [127, 0, network, host]).await);
        }
        hung_up(silent(&world, [127, 0, network, 3]).await).await;
    }
    assert_eq!(world.refusals.of("TooManyUnfinishedOfNetwork"), 2);
    hung_up(silent(&world, [127, 0, 3, 1]).await).await;
    assert_eq!(world.refusals.of("TooManyHandshakes"), 1, "all places of strangers are taken");
    let talk = Talk::open(&node, &world).await;
    talk.report(1).await;
    world.memory.until(|state| state.kept.iter().any(|(instance, _)| instance == A)).await;
    drop(held);
}
