//! The cluster that the node is to join.

use crate::facts::Facts;
use crate::finding::Findings;
use crate::network::Network;
use crate::userdata::base64;
use crate::verdicts;

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
