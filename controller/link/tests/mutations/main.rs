//! Broken evidence goes through every reader. Whatever the bytes are, nothing panics, and nothing counts that does not say what
//! was signed.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on has failed, and says on what")]

#[path = "../../../../bootstrap/tests/mutations/growth.rs"]
mod growth;
#[path = "../../../../bootstrap/tests/mutations/mutate.rs"]
mod mutate;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use growth::without_growth;
use jiff::Timestamp;
use muster_link::document::{Certificates, Document, verify};
use muster_link::sts::{self, RoleProof};
use muster_link::{KeyHash, NodeIdentity, Nonce, SecretHash, p256_point};
use mutate::{Dice, damage};

const REGION: &str = "eu-west-1";
const PINNED: &str = include_str!("../documents/pinned.pem");
const DOCUMENTS: [&str; 5] = [
    include_str!("../documents/ec2.b64"),
    include_str!("../documents/definite.b64"),
    include_str!("../documents/twice.b64"),
    include_str!("../documents/without-attributes.b64"),
    include_str!("../documents/by-another.b64"),
];
const ANSWER: &str = "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n<GetCallerIdentityResult>\n\
<Arn>arn:aws:sts::123456789012:assumed-role/NodeRole/i-0123456789abcdef0</Arn>\n<UserId>AROA:i-0</UserId>\n\
<Account>123456789012</Account>\n</GetCallerIdentityResult>\n</GetCallerIdentityResponse>";
const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 Credential=ASIA0123456789ABCDEF/20261122/eu-west-1/sts/aws4_request, \
SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-muster-cluster;x-muster-key-sha256;x-muster-nonce, \
Signature=0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f";
const URI: &str = "spiffe://blue.muster.dev/node/123456789012/eu-west-1/i-0123456789abcdef0";

/// How often something broken counted all the same, because what was broken does not matter.
#[derive(Debug, Default)]
struct Tally {
    documents: usize,
    answers: usize,
    proofs: usize,
}

/// Shows the input if what is done with it panics.
struct Witness<'i>(usize, &'i [u8]);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("mutation {}:\n{}", self.0, STANDARD.encode(self.1));
        }
    }
}

fn broken(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=dice.roll(3) {
        damage(&mut bytes, dice);
    }
    bytes
}

struct Fixture {
    certificates: Certificates,
    expected: Document,
    messages: Vec<Vec<u8>>,
}

impl Fixture {
    fn new() -> Self {
        let certificates = Certificates::read(PINNED).unwrap();
        let decode = |text: &&str| STANDARD.decode(text.split_ascii_whitespace().collect::<String>()).unwrap();
        let messages = DOCUMENTS.iter().map(decode).collect();
        let expected = verify(DOCUMENTS[0], &certificates, REGION).unwrap();
        Self { certificates, expected, messages }
    }

    fn document(&self, number: usize, dice: &mut Dice, tally: &mut Tally) {
        let is_text = dice.roll(4) == 0;
        let bytes = if is_text {
            broken(dice.pick(&DOCUMENTS).as_bytes(), dice)
        } else {
            broken(&self.messages[dice.roll(self.messages.len())], dice)
        };
        let _witness = Witness(number, &bytes);
        let text = if is_text { String::from_utf8_lossy(&bytes).into_owned() } else { STANDARD.encode(&bytes) };
        if let Ok(document) = verify(&text, &self.certificates, REGION) {
            assert_eq!(document, self.expected, "what was not signed counted");
            tally.documents += 1;
        }
    }
}

fn words(number: usize, dice: &mut Dice, tally: &mut Tally) {
    let now: Timestamp = "2026-11-22T16:05:00Z".parse().unwrap();
    let bytes = broken(dice.pick(&[ANSWER, AUTHORIZATION, URI, PINNED]).as_bytes(), dice);
    let _witness = Witness(number, &bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = *dice.pick(&[200, 302, 400, 403, 429, 500]);
    match sts::read(status, &bytes) {
        Ok(caller) => {
            // Nothing is read that does not stand there.
            assert!(status == 200 && text.contains(&format!(":assumed-role/{}/{}", caller.role, caller.session)));
            tally.answers += 1;
        }
        Err(fault) => assert!(fault.to_string().len() < 200),
    }
    let proof = RoleProof {
        authorization: text.clone(),
        date: if dice.roll(4) == 0 { text.clone() } else { "20261122T160500Z".to_owned() },
        security_token: if dice.roll(4) == 0 { text.clone() } else { "token".to_owned() },
    };
    if let Ok(request) = proof.request(REGION, "blue", &Nonce::new([7; 32]), &KeyHash::of(b"key"), now) {
        for (name, value) in &request.headers {
            assert!(value.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{name} would be no header");
        }
        tally.proofs += 1;
    }
    if let Ok(identity) = NodeIdentity::parse(&text) {
        assert_eq!(identity.to_string(), text);
    }
    if let Some(hash) = KeyHash::parse(&text) {
        assert_eq!(hash.to_string(), text);
    }
    if let Some(hash) = SecretHash::parse(&text) {
        assert_eq!(hash.to_string(), text);
    }
    let _nonce = (Nonce::read(&bytes), Nonce::parse(&text));
    assert!(p256_point(&bytes).is_none_or(|point| point.len() == 65));
    if let Err(fault) = Certificates::read(&text) {
        assert!(fault.to_string().contains("hint: "));
    }
}

fn documents(count: usize) -> Tally {
    let (fixture, mut dice, mut tally) = (Fixture::new(), Dice::new(0x6d75_7374_6572), Tally::default());
    for number in 0..count {
        fixture.document(number, &mut dice, &mut tally);
    }
    tally
}

fn texts(count: usize) -> Tally {
    let (mut dice, mut tally) = (Dice::new(0x7465_7874), Tally::default());
    for number in 0..count {
        words(number, &mut dice, &mut tally);
    }
    tally
}

#[test]
fn thousands_of_pieces_of_broken_evidence() {
    let (of_documents, of_texts) = (documents(1_000), texts(20_000));
    // The readers were reached: not all that is broken breaks.
    assert!(of_documents.documents > 0, "{of_documents:?}");
    assert!(of_texts.answers > 0 && of_texts.proofs > 0, "{of_texts:?}");
}

#[test]
#[ignore = "optimised only: `cargo test --release --test mutations -- --ignored`"]
fn a_million_broken_documents() {
    let mut tally = Tally::default();
    let figures = without_growth(1_000_000, |count| tally = documents(count));
    eprintln!("identity documents: {figures}; {} are what was signed", tally.documents);
}

#[test]
#[ignore = "optimised only: `cargo test --release --test mutations -- --ignored`"]
fn a_million_broken_texts() {
    let mut tally = Tally::default();
    let figures = without_growth(1_000_000, |count| tally = texts(count));
    eprintln!("proofs of the role, names, keys and hashes: {figures}; {tally:?}");
}
