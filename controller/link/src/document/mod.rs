//! The instance identity document: what EC2 says of an instance, signed.
//!
//! ```text
//!   base64 ─► pkcs7: content, attributes, signature ─► a certificate pinned for the region ─► JSON ─► Document
//! ```
//!
//! Nothing of the message but its content and its signature counts: the certificate that verifies it is the one that is pinned for
//! the region that the controller runs in, whatever certificate or signer the message names.

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

/// The longest text that is read. EC2's is 2 KiB, 3.5 KiB with the certificate inside.
pub const LONGEST: usize = 16 * 1024;

/// What a verified document says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Twelve digits.
    pub account: String,
    /// As `eu-west-1`.
    pub region: String,
    /// As `eu-west-1a`.
    pub zone: String,
    /// As `i-0123456789abcdef0`.
    pub instance: String,
    /// As `m7g.large`.
    pub instance_type: String,
    /// As `ami-0123456789abcdef0`.
    pub image: String,
    /// Its private IPv4 address; instances of networks with IPv6 only have none.
    pub address: Option<IpAddr>,
    /// When it was launched.
    pub pending: Timestamp,
}

/// Why a document does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentFault {
    /// It is longer than [`LONGEST`], or not base64.
    #[error("the identity document is not base64 of at most {LONGEST} bytes")]
    Encoding,
    /// It is not PKCS #7 with its content inside, signed once.
    #[error("the identity document is not signed PKCS #7: {0}")]
    Syntax(&'static str),
    /// No certificate is pinned for the region.
    #[error("no certificate is pinned for identity documents of region `{0}`")]
    Region(String),
    /// The signature is not one of AWS for this content in this region.
    #[error("the signature of the identity document is not AWS's for region `{0}`")]
    Signature(String),
    /// What is signed is not an identity document.
    #[error("the identity document lacks a usable `{0}`")]
    Content(&'static str),
}

/// Reads a document as instance metadata gives it (`dynamic/instance-identity/rsa2048`), and verifies it.
///
/// # Errors
/// It does not count.
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
