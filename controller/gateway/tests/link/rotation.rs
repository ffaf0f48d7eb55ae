//! Another authority, while nodes are connected and while they are away.

use jiff::Timestamp;
use muster_gateway::{Limits, Material, Pair};
use muster_link::Pins;
use muster_proto::muster::enrolment_client::EnrolmentClient;
use muster_proto::muster::follow_request::Message as Say;
use muster_proto::muster::follow_response::Message as Hear;
use muster_proto::muster::{Hello, RenewRequest};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tonic::Code;

use crate::node::Node;
use crate::reports::Talk;
use crate::world::{A, B, World};

/// The stages of a rotation, from the authority of `first`.
struct Stages {
    introduced: Material,
    replaced: Material,
    retired: Material,
}

impl Stages {
    fn after(first: &Material) -> Self {
        let (old, now) = (first.signing.clone(), Timestamp::now());
        let next = Pair::make(now).unwrap();
        let both = format!("{}{}", old.certificate, next.certificate);
        let trusted = next.certificate.clone();
        let introduced = Material { signing: old.clone(), vouched: String::new(), trusted, pinned: both };
        let retired = Material::of(next.clone());
        let vouched = old.vouch(&next, now).unwrap();
        let replaced = Material { vouched, trusted: old.certificate, ..retired.clone() };
        Self { introduced, replaced, retired }
    }
}

impl Talk {
    /// Waits until it is told whom to believe.
    async fn told(&mut self) -> String {
        loop {
            if let Some(Hear::Configuration(wanted)) = self.hear.message().await.unwrap().unwrap().message {
                return wanted.authorities;
            }
        }
    }

    /// Says whom it believes.
    async fn believes(&self, pem: &str) {
        let authorities = Pins::of_pem(pem).unwrap().iter().map(|pin| pin.bytes().to_vec()).collect();
        self.say(Say::Hello(Hello { authorities, ..Hello::default() })).await;
    }
}

async fn renew(node: &mut Node, world: &World) -> Result<(), Code> {
    let mut client = EnrolmentClient::new(node.connect(world).await);
    let renewed = client.renew(RenewRequest {}).await.map_err(|status| status.code())?.into_inner();
    let chain = renewed.credential.unwrap().certificate_chain;
    node.certificate = CertificateDer::from_pem_slice(chain.as_bytes()).unwrap();
    Ok(())
}

#[tokio::test]
async fn who_is_connected_is_told_and_goes_on() {
    let mut world = World::start().await;
    let stages = Stages::after(&world.material);
    let node = Node::enrolled(A, &world).await;
    let mut talk = Talk::open(&node, &world).await;
    assert_eq!(talk.told().await, world.material.pinned);
    for material in [stages.introduced, stages.replaced, stages.retired] {
        let pinned = material.pinned.clone();
        world.rotate(material);
        assert_eq!(talk.told().await, pinned, "over the stream that is open");
        talk.believes(&pinned).await;
        let pins = Pins::of_pem(&pinned).unwrap();
        world.memory.until(|state| state.pins.get(A) == Some(&pins)).await;
    }
    talk.report(1).await;
    world.memory.until(|state| state.kept.len() == 1).await;
    assert!(world.refusals.counted().is_empty(), "{:?}", world.refusals);
}

#[tokio::test]
async fn who_was_away_finds_its_way_as_long_as_it_is_waited_for() {
    let mut world = World::start().await;
    let stages = Stages::after(&world.material);
    let first = world.authority.clone();
    let mut node = Node::enrolled(A, &world).await;
    world.rotate(stages.replaced);
    let next = world.authority.clone();
    assert_ne!(first, next);
    // It believes what it always has, and its certificate is by who signs no more.
    world.authority.clone_from(&first);
    renew(&mut node, &world).await.unwrap();
    let mut talk = Talk::open(&node, &world).await;
    assert_eq!(talk.told().await, next);
    // A new node is told of the next one alone.
    world.authority.clone_from(&next);
    Node::enrolled(B, &world).await;
    renew(&mut node, &world).await.unwrap();

    world.rotate(stages.retired);
    renew(&mut node, &world).await.unwrap();
    let versions = [&rustls::version::TLS13];
    assert!(node.handshake(world.address, &first, &versions).await.is_err(), "nobody is waited for any more");
}

#[tokio::test]
async fn what_was_certified_counts_as_long_as_its_authority() {
    let mut world = World::start().await;
    let stages = Stages::after(&world.material);
    let mut node = Node::enrolled(A, &world).await;
    world.rotate(stages.replaced.clone());
    assert_eq!(Talk::try_open(&node, &world).await.err().map(|it| it.code()), None);
    world.rotate(stages.retired);
    assert_eq!(Talk::try_open(&node, &world).await.unwrap_err().code(), Code::Unauthenticated);
    // It has the key that is known, and so enrols again.
    node.enrol(&world).await.unwrap();
    renew(&mut node, &world).await.unwrap();
    // Another replica that has not looked yet: what the next authority has certified counts there from its introduction on.
    let memory = world.stop().await;
    let mut behind = World::again(Limits::default(), memory, stages.introduced).await;
    renew(&mut node, &behind).await.unwrap();
    behind.rotate(stages.replaced);
    renew(&mut node, &behind).await.unwrap();
}
