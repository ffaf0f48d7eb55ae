//! Pinned certificates that verify identity documents, one or more per region.

use std::collections::BTreeMap;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use webpki::EndEntityCert;

use crate::identity::is_region;

/// Certificates by region.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Certificates {
    by_region: BTreeMap<String, Vec<CertificateDer<'static>>>,
}

/// Error in a table of certificates.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateFault {
    /// A certificate precedes any region.
    #[error("line {line}: a certificate without a region\n\nhint: put a line `# <region>` before it, as `# eu-west-1`")]
    NoRegion {
        /// Line on which it begins, from 1.
        line: usize,
    },
    /// The text is not a certificate.
    #[error("line {line}: this is no X.509 certificate in PEM\n\nhint: copy it anew from the EC2 User Guide")]
    Broken {
        /// Line on which it begins, from 1.
        line: usize,
    },
}

impl Certificates {
    /// Returns the certificates that AWS has published for every region known at build time.
    ///
    /// # Errors
    /// Never for the table that is checked in; a test reads it.
    pub fn of_aws() -> Result<Self, CertificateFault> {
        Self::read(include_str!("../../data/identity-certificates.pem"))
    }

    /// Reads certificates in PEM, each for the region of the last line `# <region>` before it. Other comments are
    /// ignored.
    ///
    /// # Errors
    /// A certificate cannot be used.
    pub fn read(text: &str) -> Result<Self, CertificateFault> {
        let mut read = Self::default();
        let (mut region, mut begun) = (None, None::<(usize, String)>);
        for (index, line) in text.lines().enumerate() {
            let named = line.strip_prefix('#').map(str::trim);
            if let Some(named) = named.filter(|named| is_region(named) && named.contains('-')) {
                region = Some(named.to_owned());
            }
            if line.starts_with("-----BEGIN ") {
                begun = Some((index + 1, String::new()));
            }
            let Some((first, pem)) = &mut begun else { continue };
            pem.push_str(line);
            pem.push('\n');
            if line.starts_with("-----END ") {
                let region = region.clone().ok_or(CertificateFault::NoRegion { line: *first })?;
                let certificate = certificate(pem).ok_or(CertificateFault::Broken { line: *first })?;
                read.by_region.entry(region).or_default().push(certificate);
                begun = None;
            }
        }
        begun.map_or(Ok(read), |(line, _)| Err(CertificateFault::Broken { line }))
    }

    /// Adds the certificates of `more` to those of each region.
    #[must_use]
    pub fn and(mut self, more: Self) -> Self {
        for (region, certificates) in more.by_region {
            self.by_region.entry(region).or_default().extend(certificates);
        }
        self
    }

    /// Returns the certificates of a region.
    pub(super) fn of(&self, region: &str) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.by_region.get(region).into_iter().flatten()
    }

    /// Returns the regions that have certificates.
    pub fn regions(&self) -> impl Iterator<Item = &str> {
        self.by_region.keys().map(String::as_str)
    }
}

fn certificate(pem: &str) -> Option<CertificateDer<'static>> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    EndEntityCert::try_from(&der).is_ok().then_some(der)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_region_has_its_own() {
        let all = Certificates::of_aws().unwrap();
        assert_eq!(all.regions().count(), 39);
        assert!(all.by_region.values().all(|of_region| of_region.len() == 1));
        let mut certificates: Vec<_> = all.by_region.values().flatten().map(AsRef::as_ref).collect();
        certificates.sort_unstable();
        certificates.dedup();
        assert_eq!(certificates.len(), 39);
    }

    #[test]
    fn what_cannot_be_used_is_named_by_its_line() {
        let good = include_str!("../../data/identity-certificates.pem");
        let alone = &good[good.find("-----BEGIN").unwrap()..];
        assert_eq!(Certificates::read(alone), Err(CertificateFault::NoRegion { line: 1 }));
        let cut = good.split_inclusive('\n').take(12).collect::<String>();
        assert_eq!(Certificates::read(&cut), Err(CertificateFault::Broken { line: 6 }));
        let bent = good.replacen("MII", "MIJ", 1);
        assert_eq!(Certificates::read(&bent), Err(CertificateFault::Broken { line: 6 }));
        assert_eq!(Certificates::read(""), Ok(Certificates::default()));
    }

    #[test]
    fn a_region_may_have_two_while_one_replaces_the_other() {
        let all = Certificates::of_aws().unwrap();
        assert_eq!(all.clone().and(all.clone()).of("eu-west-1").count(), 2);
        assert_eq!(all.of("xx-nowhere-1").count(), 0);
    }
}
