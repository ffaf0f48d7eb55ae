//! Broken handshakes, records and certificates. Whatever the bytes are, nothing panics, what is held is bounded, and
//! nothing is held after an error.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};

use jiff::Timestamp;
use muster_link::NodeIdentity;
use rcgen::{CertificateParams, KeyPair, PublicKeyData};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::*;
use crate::certificate_authority::{Authority, Material, Pair};
use crate::client_certificates::KeyVerifier;
use crate::growth::without_growth;
use crate::mutate::{Dice, damage};
use crate::peer::Peer;

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 7));
const URI: &str = "spiffe://blue.muster.dev/node/123456789012/eu-west-1/i-0123456789abcdef0";

/// Counts of the bytes by how far they came.
#[derive(Debug, Default)]
struct Tally {
    /// More is waited for.
    waiting: usize,
    /// They are a complete message.
    done: usize,
    refused: usize,
}

struct Fixture {
    authority: Authority,
    client: Arc<ClientConfig>,
    /// Certificates: one that the client made itself, one that the authority has issued.
    certificates: [CertificateDer<'static>; 2],
    now: Timestamp,
    /// A socket that nobody reads from. `None` while a connection has it.
    socket: Option<TcpStream>,
    _other_end: TcpStream,
}

impl Fixture {
    #[expect(clippy::disallowed_methods, reason = "the client's library looks at the clock, too")]
    async fn new() -> Self {
        let now = Timestamp::now();
        let pair = Pair::make(now).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()).unwrap();
        let authority = Authority::read(&Material::of(pair), now).unwrap();
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::default().self_signed(&key).unwrap().der().clone();
        let identity = NodeIdentity::parse(URI).unwrap();
        let issued = authority.node(&identity, &[ADDRESS], &key.subject_public_key_info(), now).unwrap();
        let issued = CertificateDer::from_pem_slice(issued.chain_pem.as_bytes()).unwrap();
        let private = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let mut client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![issued.clone()], private)
            .unwrap();
        client.alpn_protocols = vec![b"h2".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connect = TcpStream::connect(listener.local_addr().unwrap());
        let (other_end, accepted) = tokio::join!(connect, listener.accept());
        Self {
            authority,
            client: Arc::new(client),
            certificates: [own, issued],
            now,
            socket: Some(accepted.unwrap().0),
            _other_end: other_end.unwrap(),
        }
    }

    fn client(&self) -> ClientConnection {
        let name = ServerName::try_from(muster_link::GATEWAY_NAME).unwrap();
        ClientConnection::new(Arc::clone(&self.client), name).unwrap()
    }

    fn server(&mut self) -> Secured {
        Secured {
            stream: self.socket.take().unwrap(),
            session: UnbufferedServerConnection::new(Arc::clone(self.authority.config())).unwrap(),
            incoming: Vec::new(),
            plain: Vec::new(),
            read: 0,
            outgoing: Vec::new(),
            sent: 0,
            has_ended: false,
            has_closed: false,
        }
    }

    /// A handshake that is begun, or one that is finished and after it a message: both ends, and what the client sends
    /// next.
    fn begun(&mut self, is_finished: bool) -> (Secured, Vec<u8>) {
        let (mut client, mut server) = (self.client(), self.server());
        server.incoming = said(&mut client);
        server.advance(Wish::Nothing).unwrap();
        let mut answer = std::mem::take(&mut server.outgoing);
        let mut next = answer_to(&mut client, &answer);
        if is_finished {
            server.incoming = std::mem::take(&mut next);
            assert_eq!(server.advance(Wish::Nothing).unwrap(), Stand::Done);
            answer = std::mem::take(&mut server.outgoing);
            answer_to(&mut client, &answer);
            client.writer().write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nand a message").unwrap();
            next = said(&mut client);
        }
        (server, next)
    }

    /// Has a connection read what it is sent in a few pieces.
    fn read(&mut self, mut server: Secured, bytes: &[u8], dice: &mut Dice, tally: &mut Tally) {
        let pieces = 1 + dice.roll(3);
        let held = |server: &Secured| server.incoming.len() + server.plain.len() + server.outgoing.len();
        let mut result = Ok(Stand::Waits);
        for piece in bytes.chunks(bytes.len().div_ceil(pieces).max(1)) {
            server.incoming.extend_from_slice(piece);
            result = server.advance(Wish::Nothing);
            assert!(held(&server) <= MOST + bytes.len() + RECORD, "{} bytes are held", held(&server));
            if result.is_err() {
                break;
            }
        }
        match result {
            Ok(Stand::Done) => tally.done += 1,
            Ok(Stand::Waits | Stand::Closed) => tally.waiting += 1,
            Err(_) => {
                assert_eq!(
                    server.incoming.capacity() + server.outgoing.capacity(),
                    0,
                    "nothing is held after an error"
                );
                assert!(server.has_closed && server.has_ended);
                tally.refused += 1;
            }
        }
        self.socket = Some(server.stream);
    }
}

/// Bytes that a client has to send.
fn said(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

/// Bytes that a client sends after these.
fn answer_to(client: &mut ClientConnection, mut bytes: &[u8]) -> Vec<u8> {
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).unwrap();
        client.process_new_packets().unwrap();
    }
    said(client)
}

fn broken(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=dice.roll(3) {
        damage(&mut bytes, dice);
    }
    // One in eight is longer than what is heard of anybody.
    if dice.roll(8) == 0 {
        bytes.extend(std::iter::repeat_n(22, dice.roll(2 * MOST)));
    }
    bytes
}

/// Most inputs are first messages, as most clients have no other: some are second ones, and records after a handshake.
fn handshakes(fixture: &mut Fixture, count: usize) -> Tally {
    let (mut dice, mut tally) = (Dice::new(0x746c_7331), Tally::default());
    let hellos: Vec<Vec<u8>> = (0..8).map(|_| said(&mut fixture.client())).collect();
    for _ in 0..count {
        let (server, bytes) = match dice.roll(40) {
            0 => fixture.begun(false),
            1 => fixture.begun(true),
            _ => (fixture.server(), dice.pick(&hellos).clone()),
        };
        let bytes = broken(&bytes, &mut dice);
        fixture.read(server, &bytes, &mut dice, &mut tally);
    }
    tally
}

/// Returns the number of broken certificates that are taken as one of the client's own, and as the node's.
fn certificates(fixture: &Fixture, count: usize) -> (usize, usize) {
    let mut dice = Dice::new(0x6365_7274);
    let verifier = KeyVerifier(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    let identity = NodeIdentity::parse(URI).unwrap();
    let (_ending, ended) = watch::channel(false);
    let (mut own, mut of_node) = (0, 0);
    for _ in 0..count {
        let bytes = CertificateDer::from(broken(dice.pick(&fixture.certificates).as_ref(), &mut dice));
        let is_taken = verifier.verify_client_cert(&bytes, &[], UnixTime::now()).is_ok();
        let peer = Peer::new(&bytes, ADDRESS, fixture.authority.trust(), fixture.now, ended.clone());
        let Some(peer) = peer.filter(|_| is_taken) else { continue };
        own += 1;
        if let Some(node) = &peer.node {
            assert_eq!(**node, identity, "what was not signed counted");
            of_node += 1;
        }
    }
    (own, of_node)
}

#[tokio::test]
async fn broken_handshakes_are_refused_and_hold_nothing() {
    let mut fixture = Fixture::new().await;
    let Tally { waiting, done, refused } = handshakes(&mut fixture, 2_000);
    assert!(waiting > 0 && done > 0 && refused > 0, "{waiting} {done} {refused}");
    let (own, of_node) = certificates(&fixture, 2_000);
    assert!(own > 0 && own < 2_000 && of_node < own, "{own} {of_node}");
}

#[tokio::test]
#[ignore = "minutes: the release tier runs it"]
async fn a_million_broken_handshakes() {
    let mut fixture = Fixture::new().await;
    let mut tally = Tally::default();
    let figures = without_growth(1_000_000, |count| tally = handshakes(&mut fixture, count));
    eprintln!("TLS: {figures}; {tally:?}");
}

#[tokio::test]
#[ignore = "minutes: the release tier runs it"]
async fn a_million_broken_certificates() {
    let fixture = Fixture::new().await;
    let mut taken = (0, 0);
    let figures = without_growth(1_000_000, |count| taken = certificates(&fixture, count));
    eprintln!("client certificates: {figures}; {taken:?} taken as a client's own and as the node's");
}
