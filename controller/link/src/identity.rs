//! Identity of a node in its certificate: its instance and cluster.

use std::fmt;

/// Instance as the URI of its certificate names it: `spiffe://<cluster>.muster.dev/node/<account>/<region>/<instance>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIdentity {
    /// Name of the cluster, as EKS allows it: letters, digits, `-` and `_`.
    pub cluster: String,
    /// AWS account ID, twelve digits.
    pub account: String,
    /// Region, such as `eu-west-1`.
    pub region: String,
    /// Instance ID, such as `i-0123456789abcdef0`.
    pub instance: String,
}

/// Error: the URI does not name a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the certificate's URI names no node")]
pub struct UnknownIdentity;

const SCHEME: &str = "spiffe://";
const DOMAIN: &str = ".muster.dev";

impl NodeIdentity {
    /// Parses the URI of a certificate.
    ///
    /// # Errors
    /// It differs from the format that [`fmt::Display`] writes.
    pub fn parse(uri: &str) -> Result<Self, UnknownIdentity> {
        Self::read(uri).ok_or(UnknownIdentity)
    }

    fn read(uri: &str) -> Option<Self> {
        let mut parts = uri.strip_prefix(SCHEME)?.split('/');
        let (domain, kind) = (parts.next()?, parts.next()?);
        let (account, region, instance) = (parts.next()?, parts.next()?, parts.next()?);
        let cluster = domain.strip_suffix(DOMAIN)?;
        let is_well_formed = parts.next().is_none()
            && kind == "node"
            && is_cluster(cluster)
            && is_account(account)
            && is_region(region)
            && is_instance(instance);
        is_well_formed.then(|| Self {
            cluster: cluster.to_owned(),
            account: account.to_owned(),
            region: region.to_owned(),
            instance: instance.to_owned(),
        })
    }
}

impl fmt::Display for NodeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, account, region, instance } = self;
        write!(f, "{SCHEME}{cluster}{DOMAIN}/node/{account}/{region}/{instance}")
    }
}

/// Returns true if EKS allows the cluster's name: `^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$` (API reference, CreateCluster).
fn is_cluster(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    text.len() <= 100
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && text.bytes().all(is_inner)
}

pub(crate) fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit())
}

pub(crate) fn is_region(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (4..=32).contains(&text.len()) && text.bytes().all(is_inner)
}

/// Returns true for `i-` and 8 or 17 hexadecimal digits.
pub(crate) fn is_instance(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.strip_prefix("i-").is_some_and(|digits| matches!(digits.len(), 8 | 17) && digits.bytes().all(is_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_is_written_and_in_no_other_way() {
        let identity = NodeIdentity {
            cluster: "Blue_1".to_owned(),
            account: "123456789012".to_owned(),
            region: "eu-west-1".to_owned(),
            instance: "i-0123456789abcdef0".to_owned(),
        };
        let uri = identity.to_string();
        assert_eq!(uri, "spiffe://Blue_1.muster.dev/node/123456789012/eu-west-1/i-0123456789abcdef0");
        assert_eq!(NodeIdentity::parse(&uri), Ok(identity));
        for (from, to) in [
            ("spiffe:", "https:"),
            ("/node/", "/operator/"),
            ("/node/", "/node//"),
            (".muster.dev", ".muster.dev.example.com"),
            ("Blue_1", ""),
            ("Blue_1", "a/b"),
            ("Blue_1", "a%2e"),
            ("123456789012", "12345678901"),
            ("eu-west-1", "EU-WEST-1"),
            ("abcdef0", "abcdef0/"),
            ("abcdef0", "ABCDEF0"),
            ("i-0", "x-0"),
        ] {
            assert_eq!(NodeIdentity::parse(&uri.replacen(from, to, 1)), Err(UnknownIdentity), "{to}");
        }
    }
}
