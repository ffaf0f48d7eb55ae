//! Identity documents by the thousand. `openssl` takes 10 ms for one; here it writes the first, and what differs in the others is put
//! into its place: the document itself, and its signature.

use std::ops::Range;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;

use super::authority::{Authority, in_lines};
use super::identity::document;
use super::instance::Instance;
use crate::error::{Error, Result};

impl Authority {
    /// What the metadata of each instance has at `dynamic/instance-identity/rsa2048`. Their documents must be of one length: ids,
    /// zones, addresses and so on of as many letters. They are signed without attributes, which `openssl` would date.
    ///
    /// # Errors
    /// `openssl` cannot be started; the documents are of different lengths.
    pub fn vouch_for(&self, instances: &[Instance]) -> Result<Vec<String>> {
        let Some(first) = instances.first().map(document) else { return Ok(Vec::new()) };
        let broken = |what: &str| Error::Command { command: "openssl cms".to_owned(), answer: what.to_owned() };
        let pem = PrivatePkcs8KeyDer::from_pem_file(self.key()).map_err(|error| broken(&error.to_string()))?;
        let key = RsaKeyPair::from_pkcs8(pem.secret_pkcs8_der()).map_err(|error| broken(&error.to_string()))?;
        let sign = |text: &str| {
            let mut signature = vec![0; key.public_modulus_len()];
            let signed = key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature);
            signed.map(|()| signature).map_err(|_| broken("no signature"))
        };
        let form = self.pkcs7(&first, &["-noattr"])?;
        let place = |part: &[u8]| find(&form, part).ok_or_else(|| broken("its form is not known"));
        let (content, signature) = (place(first.as_bytes())?, place(&sign(&first)?)?);
        let of = |instance: &Instance| {
            let text = document(instance);
            if text.len() != first.len() {
                return Err(broken("documents of different lengths"));
            }
            let mut filled = form.clone();
            filled[content.clone()].copy_from_slice(text.as_bytes());
            filled[signature.clone()].copy_from_slice(&sign(&text)?);
            Ok(in_lines(&filled, 76))
        };
        instances.iter().map(of).collect()
    }
}

fn find(all: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let at = all.windows(part.len()).position(|window| window == part)?;
    Some(at..at + part.len())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::authority::verify;
    use super::*;

    #[test]
    fn each_is_signed_as_if_it_were_the_only_one() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::create(folder.path()).unwrap();
        let one = |last: u8| Instance::new(format!("i-0123456789abcde{last}"), Ipv4Addr::new(10, 0, 1, last));
        let all = [one(11), one(12)];
        let signed = authority.vouch_for(&all).unwrap();
        for (instance, signed) in all.iter().zip(&signed) {
            assert_eq!(verify(signed, &authority.certificate()).unwrap(), document(instance));
        }
        assert!(authority.vouch_for(&[one(9), one(10)]).is_err(), "of different lengths");
    }
}
