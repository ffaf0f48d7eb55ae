//! Documents that OpenSSL signed: as EC2 does, and in the ways in which it does not.

use super::*;

macro_rules! text {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/documents/", $name))
    };
}

fn pinned() -> Certificates {
    Certificates::read(text!("pinned.pem")).unwrap()
}

fn fault(text: &str) -> DocumentFault {
    verify(text, &pinned(), "eu-west-1").unwrap_err()
}

#[test]
fn a_document_of_ec2_is_read() {
    let document = verify(text!("ec2.b64"), &pinned(), "eu-west-1").unwrap();
    assert_eq!(
        document,
        Document {
            account: "123456789012".to_owned(),
            region: "eu-west-1".to_owned(),
            zone: "eu-west-1a".to_owned(),
            instance: "i-0123456789abcdef0".to_owned(),
            instance_type: "m5.large".to_owned(),
            image: "ami-0123456789abcdef0".to_owned(),
            address: Some(IpAddr::from([10, 0, 1, 5])),
            pending: "2024-01-01T00:00:00Z".parse().unwrap(),
        }
    );
    assert_eq!(verify(text!("definite.b64"), &pinned(), "eu-west-1"), Ok(document), "with its certificate, in DER");
}

#[test]
fn only_the_certificate_that_is_pinned_counts() {
    let forged = DocumentFault::Signature("eu-west-1".to_owned());
    assert_eq!(fault(text!("by-another.b64")), forged, "it brings a certificate of the same name");
    let weak = Certificates::read(text!("weak.pem")).unwrap();
    assert_eq!(verify(text!("by-a-weak-key.b64"), &weak, "eu-west-1"), Err(forged.clone()), "1024 bits, and pinned");
    let aws = Certificates::of_aws().unwrap();
    assert_eq!(verify(text!("ec2.b64"), &aws, "eu-west-1"), Err(forged));
    assert_eq!(verify(text!("ec2.b64"), &pinned(), "eu-west-2"), Err(DocumentFault::Region("eu-west-2".to_owned())));
    let both = aws.and(pinned());
    assert!(verify(text!("ec2.b64"), &both, "eu-west-1").is_ok(), "one of two is enough");
}

#[test]
fn other_ways_to_sign_are_refused() {
    let syntax = |why| DocumentFault::Syntax(why);
    assert_eq!(fault(text!("twice.b64")), syntax("more than one has signed it"));
    let unreadable = [text!("without-attributes.b64"), text!("sha1.b64"), text!("detached.b64"), "", "MIA=", "AAAA"];
    for text in unreadable {
        assert_eq!(fault(text), syntax("it cannot be taken apart"), "{text}");
    }
    assert_eq!(fault("%"), DocumentFault::Encoding);
    assert_eq!(fault(&" ".repeat(LONGEST + 1)), DocumentFault::Encoding);
}

#[test]
fn no_byte_of_it_can_be_changed() {
    let joined: String = text!("ec2.b64").split_ascii_whitespace().collect();
    let good = STANDARD.decode(joined).unwrap();
    let expected = verify(text!("ec2.b64"), &pinned(), "eu-west-1").unwrap();
    let mut changed_signed = 0;
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        match verify(&STANDARD.encode(bytes), &pinned(), "eu-west-1") {
            // What is not signed (versions, who claims to have signed) may differ; what is said may not.
            Ok(document) => assert_eq!(document, expected, "byte {at}"),
            Err(_) => changed_signed += 1,
        }
    }
    assert!(changed_signed > 700, "content, attributes and signature: {changed_signed} of {}", good.len());
}

#[test]
fn what_is_signed_must_be_an_identity_document() {
    let read = |text: &str| Document::read(text.as_bytes()).unwrap_err();
    let good = text!("document.json");
    assert_eq!(read("[]"), DocumentFault::Content("accountId"));
    assert_eq!(read(&good[1..]), DocumentFault::Content("JSON"));
    for (from, to, field) in [
        ("\"i-0123456789abcdef0\"", "null", "instanceId"),
        ("\"i-0123456789abcdef0\"", "\"\"", "instanceId"),
        ("\"123456789012\"", "123456789012", "accountId"),
        ("2024-01-01T00:00:00Z", "lately", "pendingTime"),
        ("10.0.1.5", "10.0.1", "privateIp"),
    ] {
        assert_eq!(read(&good.replacen(from, to, 1)), DocumentFault::Content(field), "{to}");
    }
    let without = good.replacen("\"10.0.1.5\"", "null", 1);
    assert_eq!(Document::read(without.as_bytes()).unwrap().address, None, "IPv6 only");
}
