//! Instance identity document: EC2's signed description of an instance.
//!
//! ```text
//!   base64 ─► pkcs7: content, attributes, signature ─► a certificate pinned for the region ─► JSON ─► Document
//! ```
//!
//! Only the content and the signature of the message count: it is verified by the certificate pinned for the
//! controller's region, whatever certificate or signer the message names.

mod certificates;
mod pkcs7;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

pub use self::certificates::{CertificateFault, Certificates};

/// Maximum length of the text in bytes. EC2's has 2 KiB, 3.5 KiB with the certificate inside.
pub const LONGEST: usize = 16 * 1024;

/// Content of a verified document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// AWS account ID, twelve digits.
    pub account: String,
    /// Region, such as `eu-west-1`.
    pub region: String,
    /// Availability zone, such as `eu-west-1a`.
    pub zone: String,
    /// Instance ID, such as `i-0123456789abcdef0`.
    pub instance: String,
    /// Instance type, such as `m7g.large`.
    pub instance_type: String,
    /// AMI ID, such as `ami-0123456789abcdef0`.
    pub image: String,
    /// Private IPv4 address; instances in IPv6-only subnets have none.
    pub address: Option<IpAddr>,
    /// Launch time.
    pub pending: Timestamp,
}

/// Reason why a document is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentFault {
    /// Longer than [`LONGEST`], or not base64.
    #[error("the identity document is not base64 of at most {LONGEST} bytes")]
    Encoding,
    /// Not PKCS #7 with its content inside, signed once.
    #[error("the identity document is not signed PKCS #7: {0}")]
    Syntax(&'static str),
    /// The region has no pinned certificate.
    #[error("no certificate is pinned for identity documents of region `{0}`")]
    Region(String),
    /// The signature is not AWS's for this content in this region.
    #[error("the signature of the identity document is not AWS's for region `{0}`")]
    Signature(String),
    /// The signed content is not an identity document; the field names what is missing or invalid.
    #[error("the identity document lacks a usable `{0}`")]
    Content(&'static str),
}

/// Reads and verifies a document as instance metadata returns it (`dynamic/instance-identity/rsa2048`).
///
/// # Errors
/// The document is rejected.
pub fn verify(text: &str, certificates: &Certificates, region: &str) -> Result<Document, DocumentFault> {
    if text.len() > LONGEST {
        return Err(DocumentFault::Encoding);
    }
    let joined: String = text.split_ascii_whitespace().collect();
    let bytes = STANDARD.decode(joined).map_err(|_| DocumentFault::Encoding)?;
    let signed = pkcs7::read(&bytes)?;
    let mut pinned = certificates.of(region).peekable();
    if pinned.peek().is_none() {
        return Err(DocumentFault::Region(region.to_owned()));
    }
    if !pinned.any(|certificate| signed.is_signed_by(certificate)) {
        return Err(DocumentFault::Signature(region.to_owned()));
    }
    Document::read(&signed.content)
}

impl Document {
    fn read(content: &[u8]) -> Result<Self, DocumentFault> {
        let json: Value = serde_json::from_slice(content).map_err(|_| DocumentFault::Content("JSON"))?;
        let text = |name: &'static str| {
            let value = json.get(name).and_then(Value::as_str).filter(|value| !value.is_empty());
            value.map(ToOwned::to_owned).ok_or(DocumentFault::Content(name))
        };
        let address = match json.get("privateIp") {
            None | Some(Value::Null) => None,
            Some(_) => Some(text("privateIp")?.parse().map_err(|_| DocumentFault::Content("privateIp"))?),
        };
        Ok(Self {
            account: text("accountId")?,
            region: text("region")?,
            zone: text("availabilityZone")?,
            instance: text("instanceId")?,
            instance_type: text("instanceType")?,
            image: text("imageId")?,
            address,
            pending: text("pendingTime")?.parse().map_err(|_| DocumentFault::Content("pendingTime"))?,
        })
    }
}
