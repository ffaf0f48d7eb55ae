//! Enrolment over the wire: who gets a certificate, and who does not.

use muster_link::{KeyHash, Nonce, again_message};
use muster_proto::muster::enrolment_client::EnrolmentClient;
use muster_proto::muster::{PreviousKey, RenewRequest};
use rcgen::{PublicKeyData, SigningKey};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tonic::Code;

use crate::node::Node;
use crate::world::{A, B, FORGED, SECRETS, World};

#[tokio::test]
async fn a_node_enrols_and_renews() {
    let world = World::start().await;
    let mut node = Node::new(A);
    let credential = node.enrol(&world).await.unwrap();
    assert_eq!(world.memory.state(|state| state.launches[A].enrolled.unwrap().key), node.key_hash());
    assert!(credential.renew_at.unwrap().seconds < credential.expires_at.unwrap().seconds);
    assert_eq!(world.memory.state(|state| state.launches[B].enrolled), None);

    let renewed = EnrolmentClient::new(node.connect(&world).await).renew(RenewRequest {}).await.unwrap().into_inner();
    let renewed = renewed.credential.unwrap().certificate_chain;
    assert_ne!(renewed, credential.certificate_chain);
    node.certificate = CertificateDer::from_pem_slice(renewed.as_bytes()).unwrap();
    EnrolmentClient::new(node.connect(&world).await).renew(RenewRequest {}).await.unwrap();
    assert!(world.refusals.counted().is_empty(), "{:?}", world.refusals);
}

/// Refused, counted under this code, with no more said to the caller than whether to try again; nothing is written.
async fn refused(code: &str, status: Code, change: impl FnOnce(&mut Node, &World)) {
    refused_of(code, status, change, |_, _| {}).await;
}

async fn refused_of(
    code: &str,
    status: Code,
    change: impl FnOnce(&mut Node, &World),
    evidence: impl FnOnce(&Node, &mut muster_proto::muster::EnrolRequest),
) {
    let world = World::start().await;
    let mut node = Node::new(A);
    change(&mut node, &world);
    let channel = node.connect(&world).await;
    let nonce = node.challenge(&channel).await;
    let mut request = node.evidence(&nonce);
    evidence(&node, &mut request);
    let answer = EnrolmentClient::new(channel).enrol(request).await.unwrap_err();
    assert_eq!((answer.code(), world.refusals.of(code)), (status, 1), "{code}: {answer:?} {:?}", world.refusals);
    for word in ["token", "nonce", "address", "role", "document"] {
        assert!(!answer.message().contains(word), "{code} tells the caller: {}", answer.message());
    }
    assert!(world.memory.state(|state| state.launches.values().all(|launch| launch.enrolled.is_none())), "{code}");
}

#[tokio::test]
async fn what_is_not_in_order_is_refused_and_counted() {
    let denied = Code::PermissionDenied;
    let as_it_is = |_: &mut Node, _: &World| {};
    refused("LaunchTokenWrong", denied, |node, _| node.launch_token = SECRETS[1]).await;
    refused("AddressDiffers", denied, |node, _| node.from = [127, 0, 0, 3].into()).await;
    refused_of("DocumentForged", denied, as_it_is, |_, it| it.identity_document = FORGED.to_owned()).await;
    refused_of("DocumentMalformed", denied, as_it_is, |_, it| it.identity_document.clear()).await;
    refused_of("RoleProofMissing", denied, as_it_is, |_, it| it.role_proof = None).await;
    let changed = |by: fn(&Node, &Nonce) -> muster_proto::muster::RoleProof| {
        move |node: &Node, it: &mut muster_proto::muster::EnrolRequest| {
            it.role_proof = Some(by(node, &Nonce::read(&it.nonce).unwrap()));
        }
    };
    let mismatch = "RoleProofRefused";
    let other_cluster = changed(|node, nonce| node.proof("green", nonce, &node.key_hash()));
    refused_of(mismatch, denied, as_it_is, other_cluster).await;
    let other_key = changed(|node, nonce| node.proof("blue", nonce, &KeyHash::of(b"other")));
    refused_of(mismatch, denied, as_it_is, other_key).await;
    let other_nonce = changed(|node, _| node.proof("blue", &Nonce::new([1; 32]), &node.key_hash()));
    refused_of(mismatch, denied, as_it_is, other_nonce).await;
    let other_instance = changed(|node, nonce| Node::new(B).proof("blue", nonce, &node.key_hash()));
    refused_of("CallerIsAnotherInstance", denied, as_it_is, other_instance).await;
    let unknown = |_: &mut Node, world: &World| world.memory.state(|state| drop(state.launches.remove(A)));
    refused("NotLaunchedHere", Code::Unavailable, unknown).await;
    let not_written = |_: &mut Node, world: &World| world.memory.state(|state| state.is_down = true);
    refused("RecordUnavailable", Code::Unavailable, not_written).await;
}

#[tokio::test]
async fn nobody_is_asked_about_what_can_be_refused_without() {
    let world = World::start().await;
    let mut node = Node::new(A);
    node.launch_token = "guessed";
    node.enrol(&world).await.unwrap_err();
    assert_eq!(world.memory.state(|state| state.asked), 0);
}

#[tokio::test]
async fn a_nonce_is_good_once_and_for_its_own_connection() {
    let world = World::start().await;
    let (node, other) = (Node::new(A), Node::new(A));
    let (channel, elsewhere) = (node.connect(&world).await, other.connect(&world).await);
    let nonce = node.challenge(&channel).await;
    let evidence = node.evidence(&nonce);
    let answer = EnrolmentClient::new(elsewhere).enrol(evidence.clone()).await.unwrap_err();
    assert_eq!(
        (answer.code(), world.refusals.of("NonceUnknown")),
        (Code::Unavailable, 1),
        "all of it, on another connection"
    );
    EnrolmentClient::new(channel.clone()).enrol(evidence.clone()).await.unwrap();
    let answer = EnrolmentClient::new(channel).enrol(evidence).await.unwrap_err();
    assert_eq!((answer.code(), world.refusals.of("NonceUnknown")), (Code::Unavailable, 2), "replayed");
}

#[tokio::test]
async fn an_instance_enrols_once_and_again_only_as_itself() {
    let world = World::start().await;
    let mut node = Node::enrolled(A, &world).await;
    node.enrol(&world).await.unwrap();
    assert!(world.refusals.counted().is_empty(), "the answer was lost, or the replica has ended");

    let mut thief = Node::new(A);
    let answer = thief.enrol(&world).await.unwrap_err();
    assert_eq!((answer.code(), world.refusals.of("EnrolledBefore")), (Code::PermissionDenied, 1));

    let mut rebooted = Node::new(A);
    let new = rebooted.key_hash();
    let previous = |nonce: &[u8]| PreviousKey {
        public_key: node.key.subject_public_key_info(),
        signature: node.key.sign(&again_message(&Nonce::read(nonce).unwrap(), &new)).unwrap(),
    };
    rebooted.enrol_with(&world, |it| it.previous_key = Some(previous(&it.nonce))).await.unwrap();
    assert_eq!(world.memory.state(|state| state.launches[A].enrolled.unwrap().key), new);

    let answer = EnrolmentClient::new(node.connect(&world).await).renew(RenewRequest {}).await.unwrap_err();
    assert_eq!((answer.code(), world.refusals.of("CertificateTakenBack")), (Code::Unauthenticated, 1), "the old key");

    let mut permitted = Node::new(A);
    world.memory.state(|state| state.launches.get_mut(A).unwrap().may_enrol_again = true);
    permitted.enrol(&world).await.unwrap();
    assert!(!world.memory.state(|state| state.launches[A].may_enrol_again), "the permission is used up");
}
