//! Settings of the cluster that the node joins.

use crate::finding::Findings;
use crate::network::Network;
use crate::parsed::ParsedBootstrap;
use crate::userdata::base64;
use crate::verdicts;

/// Judges name, endpoint, certificate authority and service CIDR.
pub(crate) fn check(bootstrap: &ParsedBootstrap, findings: &mut Findings) {
    if let Some(name) = &bootstrap.cluster_name
        && !is_cluster(&name.text)
    {
        let message = format!("`{}` cannot be the name of a cluster", name.text);
        findings.add(&verdicts::UD36, message, name.place.clone(), &name.text);
    }
    if let Some(endpoint) = &bootstrap.endpoint
        && !is_https(&endpoint.text)
    {
        let message = format!("`{}` is not an https URL", endpoint.text);
        findings.add(&verdicts::UD29, message, endpoint.place.clone(), &endpoint.text);
    }
    if let Some(authority) = &bootstrap.certificate_authority
        && !is_certificate(&authority.text)
    {
        let message = "the certificate authority is not base64 of a PEM certificate";
        findings.add(&verdicts::UD28, message, authority.place.clone(), "");
    }
    if let Some(cidr) = &bootstrap.service_cidr
        && Network::read(&cidr.text).is_none()
    {
        let message = format!("`{}` is not a network", cidr.text);
        findings.add(&verdicts::UD08, message, cidr.place.clone(), &cidr.text);
    }
}

/// Returns true if EKS accepts the cluster name. Source: EKS API reference, CreateCluster.
fn is_cluster(name: &str) -> bool {
    const LONGEST: usize = 100;
    let is_letter = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    name.len() <= LONGEST
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.chars().all(is_letter)
}

fn is_https(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("https://") else { return false };
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let is_host = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_' | ':' | '[' | ']');
    !host.is_empty() && host.chars().all(is_host)
}

fn is_certificate(text: &str) -> bool {
    base64(text.trim().as_bytes()).is_some_and(|pem| is_pem(&pem))
}

/// Returns true if the bytes contain a PEM certificate.
pub(crate) fn is_pem(pem: &[u8]) -> bool {
    const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
    const END: &[u8] = b"-----END CERTIFICATE-----";
    let find = |mark: &[u8]| pem.windows(mark.len()).position(|window| window == mark);
    matches!((find(BEGIN), find(END)), (Some(begin), Some(end)) if begin < end)
}
