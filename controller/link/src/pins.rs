//! CAs that a node trusts, by the SHA-256 of their certificates.

use std::collections::BTreeSet;
use std::fmt;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::hex::{from_hex, hex};
use crate::key::sha256;

/// Maximum number of CAs that a node trusts: the current and the next one, and two more.
pub const MOST_PINS: usize = 4;

/// SHA-256 of a certificate (DER).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

/// CAs that a node trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins(BTreeSet<Fingerprint>);

impl Fingerprint {
    /// Hashes a certificate (DER).
    #[must_use]
    pub fn of(certificate: &[u8]) -> Self {
        Self(sha256(certificate))
    }

    /// Returns the 32 bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl Pins {
    /// Hashes certificates (PEM). `None` if one of them cannot be read, or if there are none or more than
    /// [`MOST_PINS`].
    #[must_use]
    pub fn of_pem(pem: &str) -> Option<Self> {
        let read: Result<BTreeSet<_>, _> =
            CertificateDer::pem_slice_iter(pem.as_bytes()).map(|it| it.map(|it| Fingerprint::of(&it))).collect();
        read.ok().filter(|all| (1..=MOST_PINS).contains(&all.len())).map(Self)
    }

    /// Reads fingerprints of 32 bytes each, as a node sends them. Invalid ones and those after the first [`MOST_PINS`]
    /// are skipped.
    #[must_use]
    pub fn of_bytes<'b>(all: impl IntoIterator<Item = &'b [u8]>) -> Self {
        Self(all.into_iter().filter_map(|one| one.try_into().ok().map(Fingerprint)).take(MOST_PINS).collect())
    }

    /// Parses the text that [`fmt::Display`] writes. Invalid fingerprints are skipped.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self(text.split(' ').filter_map(|one| from_hex(one).map(Fingerprint)).collect())
    }

    /// Returns true if this CA is trusted.
    #[must_use]
    pub fn holds(&self, authority: &Fingerprint) -> bool {
        self.0.contains(authority)
    }

    /// Iterates over the fingerprints, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &Fingerprint> {
        self.0.iter()
    }

    /// Returns true if no CA is trusted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Pins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, one) in self.0.iter().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            write!(f, "{gap}{one}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_as_they_are_written_and_said() {
        let (one, other) = (Fingerprint::of(b"one"), Fingerprint::of(b"other"));
        let both = Pins::of_bytes([one.bytes(), other.bytes(), &b"short"[..]]);
        assert!(both.holds(&one) && both.holds(&other) && both.iter().count() == 2);
        assert_eq!(Pins::parse(&both.to_string()), both);
        assert_eq!(Pins::parse(&format!("x {one}")).to_string(), one.to_string());
        let many: Vec<_> = (0..9_u8).map(|at| Fingerprint::of(&[at])).collect();
        assert_eq!(Pins::of_bytes(many.iter().map(Fingerprint::bytes)).iter().count(), MOST_PINS);
        assert!(Pins::parse("").is_empty());
    }

    #[test]
    fn what_is_no_certificate_is_believed_by_nobody() {
        let pem = |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
        assert_eq!(Pins::of_pem(&pem("AAAA")), Some(Pins([Fingerprint::of(&[0, 0, 0])].into())));
        assert_eq!(Pins::of_pem(&(pem("AAAA") + &pem("?"))), None);
        assert_eq!(Pins::of_pem(""), None);
        let many: String = ["AAAA", "AAAB", "AAAC", "AAAD", "AAAE"].map(pem).concat();
        assert_eq!(Pins::of_pem(&many), None);
    }
}
