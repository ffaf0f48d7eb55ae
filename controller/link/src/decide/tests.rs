//! One enrolment that is in order, and each thing that can be wrong with it, alone.

use std::net::Ipv4Addr;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

use super::*;
use crate::launch::SecretHash;
use crate::nonce::{NONCE_LIFE, NonceSlot};
use crate::refusal::Remedy;
use crate::sts::RoleFault;

const INSTANCE: &str = "i-0123456789abcdef0";
const SECRET: &str = "mlt-4f9aQ2";

/// All that a decision looks at, to be changed in one place.
#[derive(Clone)]
struct World {
    policy: Policy,
    key: KeyHash,
    peer: IpAddr,
    given: Option<Given>,
    evidence: Evidence,
    document: Result<Document, DocumentFault>,
    launch: Option<Launch>,
    now: Timestamp,
    answers: Answers,
}

fn world() -> World {
    let text = |text: &str| text.to_owned();
    let now: Timestamp = "2026-11-22T16:05:00Z".parse().unwrap();
    let (key, nonce) = (KeyHash::of(b"new"), Nonce::new([7; 32]));
    let address = IpAddr::from([10, 0, 1, 5]);
    let launch = Launch {
        claim: text("blue-x1"),
        instance: text(INSTANCE),
        token: text("uid-1.1"),
        secrets: vec![SecretHash::of("before"), SecretHash::of(SECRET)],
        instance_type: text("m5.large"),
        image: text("ami-1"),
        zone: text("eu-west-1a"),
        roles: [text("NodeRole")].into(),
        enrolled: None,
        may_enrol_again: false,
        is_ready: false,
        is_ending: false,
    };
    let described = Described {
        instance: text(INSTANCE),
        is_running: true,
        token: Some(text("uid-1.1")),
        instance_type: text("m5.large"),
        image: text("ami-1"),
        zone: text("eu-west-1a"),
        addresses: vec![IpAddr::from([10, 0, 1, 4]), address],
    };
    let caller = Caller {
        partition: text("aws"),
        account: text("123456789012"),
        role: text("NodeRole"),
        session: text(INSTANCE),
    };
    World {
        policy: Policy {
            cluster: text("blue"),
            partition: text("aws"),
            account: text("123456789012"),
            region: text("eu-west-1"),
            enrol_within: SignedDuration::from_hours(1),
        },
        key,
        peer: address,
        given: Some(Given { nonce, key, expires_at: now + SignedDuration::from_secs(30) }),
        evidence: Evidence {
            nonce: Some(nonce),
            launch_token: text(SECRET),
            role_proof: Some(proof()),
            previous_key: None,
        },
        document: Ok(Document {
            account: text("123456789012"),
            region: text("eu-west-1"),
            zone: text("eu-west-1a"),
            instance: text(INSTANCE),
            instance_type: text("m5.large"),
            image: text("ami-1"),
            address: Some(address),
            pending: now - SignedDuration::from_mins(1),
        }),
        launch: Some(launch),
        now,
        answers: Answers { caller: Ok(caller), described: Ok(Some(described)) },
    }
}

fn proof() -> RoleProof {
    let headers =
        "content-type;host;x-amz-date;x-amz-security-token;x-muster-cluster;x-muster-key-sha256;x-muster-nonce";
    RoleProof {
        authorization: format!(
            "AWS4-HMAC-SHA256 Credential=ASIA0123456789ABCDEF/20261122/eu-west-1/sts/aws4_request, \
             SignedHeaders={headers}, Signature={}",
            "0f".repeat(32)
        ),
        date: "20261122T160458Z".to_owned(),
        security_token: "IQoJb3JpZ2luX2VjE+/=".to_owned(),
    }
}

impl World {
    fn case(&self) -> Case<'_> {
        Case {
            policy: &self.policy,
            key: self.key,
            peer: self.peer,
            given: self.given.as_ref(),
            evidence: &self.evidence,
            document: &self.document,
            launch: self.launch.as_ref(),
            now: self.now,
        }
    }

    fn launch(&mut self) -> &mut Launch {
        self.launch.as_mut().unwrap()
    }

    fn document(&mut self) -> &mut Document {
        self.document.as_mut().unwrap()
    }

    fn caller(&mut self) -> &mut Caller {
        self.answers.caller.as_mut().unwrap()
    }

    fn described(&mut self) -> &mut Described {
        self.answers.described.as_mut().unwrap().as_mut().unwrap()
    }

    fn proof(&mut self) -> &mut RoleProof {
        self.evidence.role_proof.as_mut().unwrap()
    }

    fn decide(&self) -> Result<Admission, Refusal> {
        let decided = decide(&self.case(), &self.answers);
        assert_eq!(decided, decide(&self.case(), &self.answers), "the same every time");
        decided
    }
}

/// What is refused of a world with one thing wrong, and whether it is refused before anybody is asked.
fn refused(change: impl FnOnce(&mut World)) -> (&'static str, bool) {
    let mut world = world();
    change(&mut world);
    let early = examine(&world.case());
    let refusal = world.decide().unwrap_err();
    if let Err(early) = &early {
        assert_eq!(*early, refusal);
    }
    (refusal.code(), early.is_err())
}

const BEFORE: bool = true;
const AFTER: bool = false;

#[test]
fn a_node_that_is_who_it_says_is_admitted() {
    let world = world();
    let question = examine(&world.case()).unwrap();
    assert_eq!(question.instance, INSTANCE);
    let request = question.request;
    assert_eq!(request.host, "sts.eu-west-1.amazonaws.com");
    let header =
        |name: &str| request.headers.iter().find(|(it, _)| *it == name).map(|(_, value)| value.clone()).unwrap();
    assert_eq!(header("x-muster-cluster"), "blue");
    assert_eq!(header("x-muster-nonce"), "07".repeat(32));
    assert_eq!(header("x-muster-key-sha256"), KeyHash::of(b"new").to_string());
    let admission = world.decide().unwrap();
    let uri = "spiffe://blue.muster.dev/node/123456789012/eu-west-1/i-0123456789abcdef0";
    assert_eq!(admission.identity.to_string(), uri);
    assert_eq!(admission.record, Some(Enrolled { key: world.key, at: world.now }));
    assert_eq!((admission.claim.as_str(), admission.is_again, admission.uses_permission), ("blue-x1", false, false));
}

#[test]
fn the_nonce_is_this_keys_and_fresh() {
    assert_eq!(refused(|world| world.given = None), ("NonceUnknown", BEFORE));
    assert_eq!(refused(|world| world.evidence.nonce = None), ("NonceUnknown", BEFORE));
    assert_eq!(refused(|world| world.evidence.nonce = Some(Nonce::new([8; 32]))), ("NonceUnknown", BEFORE));
    assert_eq!(refused(|world| world.key = KeyHash::of(b"stolen")), ("NonceUnknown", BEFORE), "another connection");
    assert_eq!(refused(|world| world.given.as_mut().unwrap().expires_at = world.now), ("NonceExpired", BEFORE));
    let mut slot = NonceSlot::default();
    let World { key, now, .. } = world();
    slot.give(Nonce::new([7; 32]), key, now);
    let taken = slot.take();
    assert_eq!(refused(|world| world.given = slot.take()), ("NonceUnknown", BEFORE), "replayed");
    assert_eq!(taken.unwrap().expires_at, now + NONCE_LIFE);
}

#[test]
fn the_document_is_awss_and_of_this_launch() {
    let forged = || Err(DocumentFault::Signature("eu-west-1".to_owned()));
    assert_eq!(refused(|world| world.document = forged()), ("DocumentForged", BEFORE));
    assert_eq!(refused(|world| world.document = Err(DocumentFault::Encoding)), ("DocumentMalformed", BEFORE));
    let unpinned = || Err(DocumentFault::Region("eu-west-1".to_owned()));
    assert_eq!(refused(|world| world.document = unpinned()), ("DocumentRegionNotPinned", BEFORE));
    assert_eq!(refused(|world| world.document().account = "210987654321".to_owned()), ("DocumentForeign", BEFORE));
    assert_eq!(refused(|world| world.document().region = "us-east-1".to_owned()), ("DocumentForeign", BEFORE));
    assert_eq!(refused(|world| world.document().instance = "i-x/../y".to_owned()), ("DocumentMalformed", BEFORE));
    assert_eq!(refused(|world| world.document().instance_type = "m5.xlarge".to_owned()), ("InstanceDiffers", BEFORE));
    assert_eq!(refused(|world| world.document().image = "ami-2".to_owned()), ("InstanceDiffers", BEFORE));
    assert_eq!(refused(|world| world.document().zone = "eu-west-1b".to_owned()), ("InstanceDiffers", BEFORE));
    let old = |world: &mut World| world.document().pending = world.now - SignedDuration::from_mins(61);
    assert_eq!(refused(old), ("DocumentOld", BEFORE));
    let future = |world: &mut World| world.document().pending = world.now + SignedDuration::from_mins(2);
    assert_eq!(refused(future), ("DocumentOld", BEFORE));
}

#[test]
fn the_instance_is_one_that_createfleet_named() {
    assert_eq!(refused(|world| world.launch = None), ("NotLaunchedHere", BEFORE));
    let other = "i-0fedcba9876543210".to_owned();
    assert_eq!(refused(|world| world.launch().instance = other), ("NotLaunchedHere", BEFORE));
    assert_eq!(refused(|world| world.launch().is_ending = true), ("ClaimEnding", BEFORE));
}

#[test]
fn the_launch_token_is_that_of_its_template() {
    assert_eq!(refused(|world| world.evidence.launch_token.clear()), ("LaunchTokenWrong", BEFORE));
    assert_eq!(refused(|world| world.evidence.launch_token.push('x')), ("LaunchTokenWrong", BEFORE));
    let other_template = |world: &mut World| world.launch().secrets = vec![SecretHash::of("another")];
    assert_eq!(refused(other_template), ("LaunchTokenWrong", BEFORE));
    assert_eq!(refused(|world| world.launch().secrets.clear()), ("LaunchTokenWrong", BEFORE));
    let mut rotated = world();
    rotated.evidence.launch_token = "before".to_owned();
    assert!(rotated.decide().is_ok(), "the secret before its rotation");
}

#[test]
fn the_role_is_proved_for_this_cluster_nonce_and_key() {
    assert_eq!(refused(|world| world.evidence.role_proof = None), ("RoleProofMissing", BEFORE));
    for (fault, change) in [
        (RoleFault::Malformed, ("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1")),
        (RoleFault::Malformed, ("Signature=0f", "Signature=")),
        (RoleFault::Malformed, ("Signature=0f", "Signature=0F")),
        (RoleFault::Malformed, ("ASIA0123456789ABCDEF", "ASIA%0d%0a9ABCDEF")),
        (RoleFault::Malformed, ("SignedHeaders", "signedheaders")),
        (RoleFault::Scope, ("/eu-west-1/", "/us-east-1/")),
        (RoleFault::Scope, ("/sts/", "/iam/")),
        (RoleFault::Scope, ("/20261122/", "/20261121/")),
        (RoleFault::Headers, (";x-muster-nonce", "")),
        (RoleFault::Headers, (";x-muster-key-sha256", "")),
        (RoleFault::Headers, (";x-muster-cluster", "")),
        (RoleFault::Headers, (";host", "")),
        (RoleFault::Headers, ("x-muster-nonce", "x-muster-nonce;x-other")),
    ] {
        let mut world = world();
        let (from, to) = change;
        let changed = world.proof().authorization.replacen(from, to, 1);
        assert_ne!(changed, world.proof().authorization, "{from}");
        world.proof().authorization = changed;
        assert_eq!(examine(&world.case()), Err(Refusal::RoleProof(fault)), "{from} → {to}");
    }
    for (fault, date) in [
        (RoleFault::Time, "20261122T155959Z"),
        (RoleFault::Time, "20261122T161001Z"),
        (RoleFault::Malformed, "2026-11-22T16:05"),
        (RoleFault::Malformed, "20261122T160500z"),
        (RoleFault::Malformed, "20261322T160500Z"),
        (RoleFault::Malformed, ""),
    ] {
        let mut world = world();
        world.proof().date = date.to_owned();
        assert_eq!(examine(&world.case()), Err(Refusal::RoleProof(fault)), "{date}");
    }
    for token in [String::new(), "a\r\nhost: b".to_owned(), "a".repeat(8 * 1024 + 1)] {
        let mut world = world();
        world.proof().security_token = token;
        assert_eq!(examine(&world.case()), Err(Refusal::RoleProof(RoleFault::Token)));
    }
}

#[test]
fn who_signed_is_this_instance_in_its_role() {
    let fault = |fault: CallerFault| move |world: &mut World| world.answers.caller = Err(fault);
    let mismatch = CallerFault::Refused("SignatureDoesNotMatch".to_owned());
    assert_eq!(refused(fault(mismatch)), ("RoleProofRefused", AFTER), "another cluster, nonce, key or host was signed");
    assert_eq!(refused(fault(CallerFault::Unavailable("Throttling".to_owned()))), ("StsUnavailable", AFTER));
    assert_eq!(refused(fault(CallerFault::Unreadable)), ("StsUnreadable", AFTER));
    assert_eq!(refused(|world| world.caller().partition = "aws-cn".to_owned()), ("CallerForeign", AFTER));
    assert_eq!(refused(|world| world.caller().account = "210987654321".to_owned()), ("CallerForeign", AFTER));
    assert_eq!(refused(|world| world.caller().role = "Admin".to_owned()), ("RoleUnexpected", AFTER));
    let session = "i-0fedcba9876543210".to_owned();
    assert_eq!(refused(|world| world.caller().session = session), ("CallerIsAnotherInstance", AFTER));
}

#[test]
fn ec2_says_the_same() {
    assert_eq!(refused(|world| world.answers.described = Err(Unasked)), ("Ec2Unavailable", AFTER));
    assert_eq!(refused(|world| world.answers.described = Ok(None)), ("NotDescribed", AFTER));
    let other = "i-0fedcba9876543210".to_owned();
    assert_eq!(refused(|world| world.described().instance = other), ("NotDescribed", AFTER));
    assert_eq!(refused(|world| world.described().is_running = false), ("NotRunning", AFTER));
    assert_eq!(refused(|world| world.described().token = None), ("InstanceDiffers", AFTER));
    assert_eq!(refused(|world| world.described().token = Some("uid-2.1".to_owned())), ("InstanceDiffers", AFTER));
    assert_eq!(refused(|world| world.described().instance_type = "m5.xlarge".to_owned()), ("InstanceDiffers", AFTER));
    assert_eq!(refused(|world| world.described().image = "ami-2".to_owned()), ("InstanceDiffers", AFTER));
    assert_eq!(refused(|world| world.described().zone = "eu-west-1b".to_owned()), ("InstanceDiffers", AFTER));
}

#[test]
fn the_connection_comes_from_the_instance() {
    assert_eq!(refused(|world| world.peer = IpAddr::from([10, 0, 1, 6])), ("AddressDiffers", AFTER));
    assert_eq!(refused(|world| world.described().addresses.clear()), ("AddressDiffers", AFTER));
    let mut mapped = world();
    mapped.peer = Ipv4Addr::new(10, 0, 1, 5).to_ipv6_mapped().into();
    assert!(mapped.decide().is_ok(), "as a socket for both shows it");
}

#[test]
fn an_instance_enrols_once() {
    let enrolled = |key: &[u8]| Some(Enrolled { key: KeyHash::of(key), at: world().now });
    assert_eq!(refused(|world| world.launch().enrolled = enrolled(b"old")), ("EnrolledBefore", BEFORE));
    assert_eq!(refused(|world| world.launch().is_ready = true), ("ReadyBefore", BEFORE));

    let mut lost = world();
    lost.launch().enrolled = enrolled(b"new");
    lost.launch().is_ready = true;
    lost.document().pending = Timestamp::UNIX_EPOCH;
    let admission = lost.decide().unwrap();
    assert_eq!((admission.record, admission.is_again), (None, false), "the same key again: nothing new to write");

    for is_enrolled in [true, false] {
        let mut permitted = world();
        permitted.launch().enrolled = enrolled(b"old").filter(|_| is_enrolled);
        permitted.launch().is_ready = true;
        permitted.launch().may_enrol_again = true;
        let admission = permitted.decide().unwrap();
        assert_eq!((admission.is_again, admission.uses_permission), (is_enrolled, true));
    }
}

#[test]
fn a_new_key_after_a_reboot_needs_the_word_of_the_old_one() {
    let old = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
    let info = AsDer::<aws_lc_rs::encoding::PublicKeyX509Der<'_>>::as_der(old.public_key()).unwrap().as_ref().to_vec();
    let mut world = world();
    world.launch().enrolled = Some(Enrolled { key: KeyHash::of(&info), at: Timestamp::UNIX_EPOCH });
    world.document().pending = Timestamp::UNIX_EPOCH;
    let sign = |message: &[u8]| old.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec();
    let signature = sign(&again_message(&Nonce::new([7; 32]), &world.key));
    world.evidence.previous_key = Some(PreviousKey { public_key_info: info.clone(), signature });
    let admission = world.decide().unwrap();
    assert_eq!((admission.is_again, admission.record.map(|it| it.key)), (true, Some(world.key)));

    for (name, info, signature) in [
        ("another nonce", info.clone(), sign(&again_message(&Nonce::new([8; 32]), &world.key))),
        ("another new key", info.clone(), sign(&again_message(&Nonce::new([7; 32]), &KeyHash::of(b"other")))),
        ("another purpose", info.clone(), sign(&[&[7; 32][..], world.key.bytes()].concat())),
        ("no signature", info.clone(), Vec::new()),
        ("another key", vec![0; 91], sign(&again_message(&Nonce::new([7; 32]), &world.key))),
    ] {
        let mut world = world.clone();
        world.evidence.previous_key = Some(PreviousKey { public_key_info: info, signature });
        assert_eq!(world.decide(), Err(Refusal::EnrolledBefore), "{name}");
    }
}

#[test]
fn only_what_may_change_by_itself_is_tried_again() {
    let by_sts = |code: &str| Refusal::Caller(CallerFault::Refused(code.to_owned()));
    for refusal in [
        Refusal::NotLaunchedHere,
        Refusal::NotDescribed,
        Refusal::Nonce,
        Refusal::DescribeUnavailable,
        Refusal::RoleProof(RoleFault::Time),
        by_sts("ExpiredToken"),
        by_sts("RequestExpired"),
    ] {
        assert_eq!(refusal.remedy(), Remedy::TryAgain, "{refusal}");
    }
    for refusal in [
        Refusal::LaunchToken,
        Refusal::Address,
        Refusal::EnrolledBefore,
        Refusal::Session,
        Refusal::RoleProof(RoleFault::Scope),
        by_sts("SignatureDoesNotMatch"),
    ] {
        assert_eq!(refusal.remedy(), Remedy::None, "{refusal}");
    }
}

#[test]
fn no_secret_is_printed() {
    let world = world();
    let question = examine(&world.case()).unwrap();
    let printed = format!("{:?} {question:?} {:?}", world.case(), world.evidence.role_proof);
    for secret in [SECRET, "IQoJb3Jp", "0f0f0f", "ASIA0123"] {
        assert!(!printed.contains(secret), "{secret}: {printed}");
    }
}
