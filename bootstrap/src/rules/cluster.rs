//! The cluster that the node is to join.

use std::net::IpAddr;

use crate::facts::Facts;
use crate::finding::Findings;
use crate::userdata::base64;
use crate::verdicts;

/// An address and the length of its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= longest)?;
        Some(Self { address, prefix })
    }

    pub(crate) fn contains(self, other: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        let ((own, own_size), (other, other_size)) = (bits(self.address), bits(other));
        let differs = own ^ other;
        own_size == other_size && (self.prefix == 0 || differs >> (128 - u32::from(self.prefix)) == 0)
    }
}

/// Judges endpoint, certificate authority and service network.
pub(crate) fn check(facts: &Facts, findings: &mut Findings) {
    if let Some(endpoint) = &facts.endpoint
        && !is_https(&endpoint.text)
    {
        let message = format!("`{}` is not an https URL", endpoint.text);
        findings.add(&verdicts::UD29, message, endpoint.place.clone(), &endpoint.text);
    }
    if let Some(authority) = &facts.certificate_authority
        && !is_certificate(&authority.text)
    {
        let message = "the certificate authority is not base64 of a PEM certificate";
        findings.add(&verdicts::UD28, message, authority.place.clone(), "");
    }
    if let Some(cidr) = &facts.service_cidr
        && Network::read(&cidr.text).is_none()
    {
        let message = format!("`{}` is not a network", cidr.text);
        findings.add(&verdicts::UD08, message, cidr.place.clone(), &cidr.text);
    }
}

fn is_https(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("https://") else { return false };
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let is_host = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_' | ':' | '[' | ']');
    !host.is_empty() && host.chars().all(is_host)
}

fn is_certificate(text: &str) -> bool {
    const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
    const END: &[u8] = b"-----END CERTIFICATE-----";
    let Some(pem) = base64(text.trim().as_bytes()) else { return false };
    let find = |mark: &[u8]| pem.windows(mark.len()).position(|window| window == mark);
    matches!((find(BEGIN), find(END)), (Some(begin), Some(end)) if begin < end)
}
