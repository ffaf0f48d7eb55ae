//! Broken messages go through the readers of the wire. Whatever the bytes are, nothing panics, and what is read is bounded and can
//! be shown.

#![expect(clippy::print_stderr, reason = "a test that fails says on what")]

#[path = "../../../../bootstrap/tests/mutations/growth.rs"]
mod growth;
#[path = "../../../../bootstrap/tests/mutations/mutate.rs"]
mod mutate;

use growth::without_growth;
use muster_gateway::{Message as Read, Report};
use muster_link::MOST_PINS;
use muster_proto::muster::follow_request::Message as Say;
use muster_proto::muster::{self as wire, ChallengeRequest, EnrolRequest, FollowRequest, Hello, NodeReport};
use mutate::{Dice, damage};
use prost::Message;
use prost_types::Timestamp;

/// What is longer is no message of an agent: the transport refuses it before it is read.
const LONGEST: usize = 256 * 1024;

/// How far the mutations came.
#[derive(Debug, Default)]
struct Tally {
    hellos: usize,
    reports: usize,
    others: usize,
    refused: usize,
    enrolments: usize,
}

/// Shows the input if what is done with it panics.
struct Witness<'i>(usize, &'i [u8]);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("mutation {}: {:?}", self.0, self.1);
        }
    }
}

/// Messages that are right, as bytes.
fn messages() -> Vec<Vec<u8>> {
    let at = || Some(Timestamp { seconds: 1_800_000_000, nanos: 5 });
    let report = NodeReport {
        sequence: 3,
        node_name: "ip-10-0-1-5.eu-west-1.compute.internal".to_owned(),
        phases: vec![wire::PhaseState { phase: 1, progress: 4, began_at: at(), ended_at: None }],
        findings: vec![wire::Finding {
            code: "KA07".to_owned(),
            severity: 1,
            phase: 1,
            message: "the startup taint is not in effect".to_owned(),
            evidence_source: "/etc/kubernetes/kubelet/config.json".to_owned(),
            evidence: "registerWithTaints: []".to_owned(),
            since: at(),
        }],
        verdict: "KA07".to_owned(),
        waiting_for: "the kubelet".to_owned(),
        resources: vec![wire::Resource {
            name: "nvidia.com/gpu".to_owned(),
            wanted: 1,
            allocatable: Some(0),
            broken: "driver".to_owned(),
        }],
        changed_at: at(),
    };
    let hello = Hello { agent_version: "0.1.0".to_owned(), boot_id: "b7f5".to_owned(), authorities: vec![vec![7; 32]] };
    let notice = wire::Notice { kind: 1, text: "{\"action\":\"terminate\"}".to_owned() };
    let bundle = wire::LogBundle { verdict: "KA07".to_owned(), content: b"a line\nand another\n".to_vec() };
    let enrolment = EnrolRequest {
        nonce: vec![7; 32],
        launch_token: "token".to_owned(),
        identity_document: "MIAGCSqGSIb3DQEHAqCAMIACAQExDzANBglghkgBZQMEAgEFADCA".to_owned(),
        role_proof: Some(wire::RoleProof {
            authorization: "AWS4-HMAC-SHA256 Credential=ASIA".to_owned(),
            date: "20261122T160500Z".to_owned(),
            security_token: "token".to_owned(),
        }),
        previous_key: Some(wire::PreviousKey { public_key: vec![4; 91], signature: vec![5; 70] }),
    };
    let said = [Say::Hello(hello), Say::Report(report), Say::Notice(notice), Say::Bundle(bundle)]
        .map(|message| FollowRequest { message: Some(message) }.encode_to_vec());
    said.into_iter().chain([enrolment.encode_to_vec()]).collect()
}

fn is_shown(text: &str, most: usize) {
    assert!(text.len() <= most && !text.contains(char::is_control), "{text:?}");
}

fn judge(report: &Report) {
    assert!(report.findings.len() <= 200 && report.phases.len() <= 64 && report.resources.len() <= 64);
    for finding in &report.findings {
        assert!(finding.code.len() <= 32 && finding.code.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        [&finding.message, &finding.evidence, &finding.evidence_source].iter().for_each(|text| is_shown(text, 2048));
    }
    for text in [&report.node_name, &report.waiting_for].into_iter().flatten() {
        is_shown(text, 2048);
    }
    if let Some(verdict) = &report.verdict {
        assert!(report.findings.iter().any(|finding| finding.code == *verdict));
    }
}

fn go_through(count: usize) -> Tally {
    let (messages, mut dice, mut tally) = (messages(), Dice::new(0x6761_7465), Tally::default());
    for number in 0..count {
        let mut bytes = messages[dice.roll(messages.len())].clone();
        for _ in 0..=dice.roll(3) {
            damage(&mut bytes, &mut dice);
        }
        bytes.truncate(LONGEST);
        let _witness = Witness(number, &bytes);
        if let Ok(request) = EnrolRequest::decode(bytes.as_slice()) {
            assert_eq!(format!("{request:?}"), "EnrolRequest { .. }");
            tally.enrolments += 1;
        }
        let _nothing_is_in_it = ChallengeRequest::decode(bytes.as_slice());
        match FollowRequest::decode(bytes.as_slice()).map(Read::read) {
            Err(_) | Ok(Err(_)) => tally.refused += 1,
            Ok(Ok(None)) => tally.others += 1,
            Ok(Ok(Some(Read::Hello { agent_version, boot_id, pins }))) => {
                assert!(pins.iter().count() <= MOST_PINS);
                [agent_version, boot_id].iter().for_each(|text| is_shown(text, 253));
                tally.hellos += 1;
            }
            Ok(Ok(Some(Read::Report(report)))) => {
                judge(&report);
                tally.reports += 1;
            }
            Ok(Ok(Some(Read::Notice(notice)))) => is_shown(&notice.text, 2048),
            Ok(Ok(Some(Read::Bundle(bundle)))) => assert!(bundle.content.len() <= 192 * 1024),
        }
    }
    tally
}

#[test]
fn two_thousand_broken_messages() {
    let tally = go_through(2_000);
    let Tally { hellos, reports, others, refused, enrolments } = tally;
    assert!(hellos > 0 && reports > 0 && others > 0 && refused > 0, "{hellos} {reports} {others} {refused}");
    assert!(enrolments > 0);
}

#[test]
#[ignore = "optimised only: `cargo test --release --test mutations -- --ignored`"]
fn a_million_broken_messages() {
    let mut tally = Tally::default();
    let figures = without_growth(1_000_000, |count| tally = go_through(count));
    eprintln!("messages: {figures}; {tally:?}");
}
