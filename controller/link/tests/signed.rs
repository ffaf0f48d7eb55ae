//! What AWS's own signer signs is what the controller sends: the proof of a role is taken apart and made again.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::SystemTime;

use aws_credential_types::Credentials as Keys;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use jiff::Timestamp;
use muster_link::sts::{Credentials, RoleProof, host};
use muster_link::{KeyHash, Nonce};

const REGION: &str = "eu-west-1";
const BODY: &str = "Action=GetCallerIdentity&Version=2011-06-15";

/// The headers that the signer adds to a request with these.
fn signed(headers: &[(&'static str, String)], body: &str, now: Timestamp) -> Vec<(String, String)> {
    let credentials = Keys::new("ASIA0123456789ABCDEF", "secret", Some("IQoJb3Jp/+=".to_owned()), None, "test").into();
    let parameters = v4::SigningParams::builder().identity(&credentials).region(REGION).name("sts");
    let parameters =
        parameters.time(SystemTime::from(now)).settings(SigningSettings::default()).build().unwrap().into();
    let url = format!("https://{}/", host(REGION));
    let headers = headers.iter().map(|(name, value)| (*name, value.as_str()));
    let request = SignableRequest::new("POST", &url, headers, SignableBody::Bytes(body.as_bytes())).unwrap();
    let (instructions, _) = sign(request, &parameters).unwrap().into_parts();
    instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn of<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
    headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str()).unwrap()
}

#[test]
fn the_request_that_is_sent_is_the_one_that_was_signed() {
    let now: Timestamp = "2026-11-22T16:05:00Z".parse().unwrap();
    let (nonce, key) = (Nonce::new([7; 32]), KeyHash::of(b"key"));
    let by_hand = [
        ("content-type", "application/x-www-form-urlencoded; charset=utf-8".to_owned()),
        ("host", host(REGION)),
        ("x-muster-cluster", "blue".to_owned()),
        ("x-muster-key-sha256", key.to_string()),
        ("x-muster-nonce", nonce.to_string()),
    ];
    let added = signed(&by_hand, BODY, now);
    let proof = RoleProof {
        authorization: of(&added, "authorization").to_owned(),
        date: of(&added, "x-amz-date").to_owned(),
        security_token: of(&added, "x-amz-security-token").to_owned(),
    };
    let credentials = Credentials {
        access_key_id: "ASIA0123456789ABCDEF".to_owned(),
        secret_access_key: "secret".to_owned(),
        session_token: "IQoJb3Jp/+=".to_owned(),
    };
    let ours = RoleProof::sign(&credentials, REGION, "blue", &nonce, &key, now);
    assert_eq!(ours.authorization, proof.authorization, "our signer's is AWS's");
    assert_eq!((&ours.date, &ours.security_token), (&proof.date, &proof.security_token));
    assert!(!format!("{credentials:?}").contains("secret"));
    let request = proof.request(REGION, "blue", &nonce, &key, now).unwrap();

    // STS signs what it gets, and compares.
    let again = |request: &muster_link::sts::SignedRequest| {
        let signed_by_agent = ["authorization", "x-amz-date", "x-amz-security-token"];
        let mut headers: Vec<_> =
            request.headers.iter().filter(|(name, _)| !signed_by_agent.contains(name)).cloned().collect();
        headers.push(("host", request.host.clone()));
        of(&signed(&headers, request.body, now), "authorization").to_owned()
    };
    assert_eq!(again(&request), proof.authorization);
    for (cluster, nonce, key) in
        [("green", nonce, key), ("blue", Nonce::new([8; 32]), key), ("blue", nonce, KeyHash::of(b"other"))]
    {
        let other = proof.request(REGION, cluster, &nonce, &key, now).unwrap();
        assert_ne!(again(&other), proof.authorization, "what was signed for another is not what is sent");
    }
}
