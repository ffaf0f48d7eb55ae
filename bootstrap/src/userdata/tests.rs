//! Documents as nodes receive them, and what their readers make of them.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{PartKind, UserData, to_base64};
use crate::{BootstrapInput, Family, validate};

const CLUSTER: &str = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n    name: shop\n    \
                       apiServerEndpoint: https://a.gr7.eu-west-1.eks.amazonaws.com\n    cidr: 10.100.0.0/16\n";

fn packed(text: &str) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    to_base64(&encoder.finish().unwrap())
}

fn codes(family: Family, document: &[u8]) -> Vec<String> {
    let report = validate(&BootstrapInput {
        user_data: Some(UserData::read(document, "user-data")),
        family: Some(family),
        ..BootstrapInput::default()
    });
    report.findings.iter().map(|finding| format!("{}: {}", finding.verdict.code, finding.message)).collect()
}

fn mime(parts: &[(&str, &str)], end: &str) -> String {
    let mut document = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n".to_owned();
    for (headers, body) in parts {
        document += &format!("--//\n{headers}\n\n{body}\n");
    }
    document + end
}

#[test]
fn one_part_may_be_packed() {
    let script = "#!/bin/bash\necho hello\n";
    let headers = "Content-Type: text/x-shellscript; charset=\"us-ascii\"\nContent-Transfer-Encoding: base64";
    let config = "Content-Type: application/node.eks.aws";
    let document = mime(&[(config, CLUSTER), (headers, &packed(script))], "--//--\n");
    let read = UserData::read(document.as_bytes(), "user-data");
    let [config, part] = &read.parts[..] else { panic!("{:?}", read.parts) };
    assert_eq!((config.kind, part.kind, part.text.as_str()), (PartKind::NodeConfig, PartKind::Shell, script));
}

#[test]
fn a_document_that_does_not_end_is_not_read() {
    let config = [("Content-Type: application/node.eks.aws", CLUSTER)];
    let is_told = |codes: &[String]| codes.iter().any(|code| code.starts_with("UD02: the document ends without"));
    assert!(is_told(&codes(Family::Al2023, mime(&config, "").as_bytes())));
    assert!(!is_told(&codes(Family::Al2023, mime(&config, "--//--\n").as_bytes())));
    let script = [("Content-Type: text/x-shellscript", "#!/bin/bash\n/etc/eks/bootstrap.sh shop")];
    assert!(!is_told(&codes(Family::Al2, mime(&script, "").as_bytes())), "cloud-init takes what is there");
}

#[test]
fn bytes_that_are_no_text_are_named_with_their_line() {
    let document = CLUSTER.replace("shop", "sh?p").into_bytes();
    let document: Vec<u8> = document.into_iter().map(|byte| if byte == b'?' { 0xff } else { byte }).collect();
    let codes = codes(Family::Al2023, &document);
    assert_eq!(codes, ["UD04: the NodeConfig is not valid YAML: it has bytes that are not UTF-8"]);
    assert_eq!(UserData::read(&document, "user-data").parts[0].not_utf8, Some(5));
    // The character itself is text.
    let legal = CLUSTER.replace("shop", "sh\u{fffd}p");
    assert_eq!(UserData::read(legal.as_bytes(), "user-data").parts[0].not_utf8, None);
}

#[test]
fn booleans_are_those_of_yaml_1_1() {
    let with = |value: &str| format!("{CLUSTER}  kubelet:\n    config:\n      cpuCFSQuota: {value}\n");
    let is_refused = |value: &str| {
        let codes = codes(Family::Al2023, with(value).as_bytes());
        codes.iter().any(|code| code.starts_with("KA11: field `cpuCFSQuota` must be true or false"))
    };
    for value in ["yes", "no", "on", "Off", "true"] {
        assert!(!is_refused(value), "{value}");
    }
    for value in ["'yes'", "1", "maybe"] {
        assert!(is_refused(value), "{value}");
    }
}

#[test]
fn an_option_needs_its_value() {
    let codes = codes(Family::Al2, b"#!/bin/bash\n/etc/eks/bootstrap.sh shop --kubelet-extra-args\n");
    let expected = "UD38: `--kubelet-extra-args` has no value, so bootstrap.sh exits";
    assert!(codes.iter().any(|code| code == expected), "{codes:?}");
}
