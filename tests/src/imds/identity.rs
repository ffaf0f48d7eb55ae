//! The identity document of an instance.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::authority::{Authority, Signatures};
use super::instance::Instance;
use super::tree::seconds;
use crate::error::Result;

/// The document with its signatures. All of it stays the same for the life of the instance.
#[derive(Debug)]
pub(super) struct Identity {
    document: String,
    signatures: Signatures,
}

impl Identity {
    pub(super) fn of(instance: &Instance, authority: &Authority) -> Result<Self> {
        let document = document(instance);
        let signatures = authority.sign(&document)?;
        Ok(Self { document, signatures })
    }

    /// What is at `path` below `dynamic/`.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        match path.trim_matches('/') {
            "" => Some("instance-identity/".to_owned()),
            "instance-identity" => Some("document\nrsa2048\nsignature".to_owned()),
            "instance-identity/document" => Some(self.document.clone()),
            "instance-identity/rsa2048" => Some(self.signatures.rsa2048.clone()),
            "instance-identity/signature" => Some(self.signatures.plain.clone()),
            _ => None,
        }
    }
}

/// In the order and with the blanks that EC2 writes: verifiers must take the bytes as they are.
pub(super) fn document(instance: &Instance) -> String {
    let fields: [(&str, Value); 15] = [
        ("accountId", json!(instance.account_id)),
        ("architecture", json!(instance.architecture)),
        ("availabilityZone", json!(instance.zone)),
        ("billingProducts", Value::Null),
        ("devpayProductCodes", Value::Null),
        ("marketplaceProductCodes", Value::Null),
        ("imageId", json!(instance.image_id)),
        ("instanceId", json!(instance.instance_id)),
        ("instanceType", json!(instance.instance_type)),
        ("kernelId", Value::Null),
        ("pendingTime", json!(seconds(instance.pending))),
        ("privateIp", json!(instance.address)),
        ("ramdiskId", Value::Null),
        ("region", json!(instance.region)),
        ("version", json!("2017-09-30")),
    ];
    let mut text = "{".to_owned();
    for (index, (name, value)) in fields.iter().enumerate() {
        let _infallible = write!(text, "{}\n  \"{name}\" : {value}", if index == 0 { "" } else { "," });
    }
    text + "\n}"
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_document_looks_like_one_of_ec2() {
        insta::assert_snapshot!(document(&Instance::new("i-0123456789abcdef0", Ipv4Addr::new(10, 0, 1, 5))));
    }
}
