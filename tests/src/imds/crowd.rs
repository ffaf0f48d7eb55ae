//! Identity documents by the thousand. `openssl` takes 10 ms for one; here it writes the first, and what differs in the others is put
//! into its place: the document itself, its digest among the signed attributes, and the signature of these.

use std::ops::Range;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};

use super::authority::{Authority, in_lines};
use super::identity::document;
use super::instance::Instance;
use crate::error::{Error, Result};

/// Tags: what the attributes begin with inside of the message, and what when they are signed.
const SIGNED_ATTRIBUTES: u8 = 0xa0;
const SET_OF: u8 = 0x31;

impl Authority {
    /// What the metadata of each instance has at `dynamic/instance-identity/rsa2048`. Their documents must be of one length: ids,
    /// zones, addresses and so on of as many letters.
    ///
    /// # Errors
    /// `openssl` cannot be started; the documents are of different lengths.
    pub fn vouch_for(&self, instances: &[Instance]) -> Result<Vec<String>> {
        let Some(first) = instances.first().map(document) else { return Ok(Vec::new()) };
        let broken = |what: &str| Error::Command { command: "openssl cms".to_owned(), answer: what.to_owned() };
        let pem = PrivatePkcs8KeyDer::from_pem_file(self.key()).map_err(|error| broken(&error.to_string()))?;
        let key = RsaKeyPair::from_pkcs8(pem.secret_pkcs8_der()).map_err(|error| broken(&error.to_string()))?;
        let sign = |attributes: &[u8]| {
            // What is signed is the set of them, whatever it is called inside of the message: RFC 5652, 5.4.
            let mut attributes = attributes.to_vec();
            attributes[0] = SET_OF;
            let mut signature = vec![0; key.public_modulus_len()];
            let signed = key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), &attributes, &mut signature);
            signed.map(|()| signature).map_err(|_| broken("no signature"))
        };
        let form = self.pkcs7(&first)?;
        let unknown = || broken("its form is not known");
        let content = find(&form, first.as_bytes()).ok_or_else(unknown)?;
        let digest = find(&form, &Sha256::digest(&first)).ok_or_else(unknown)?;
        let mut around = (0..digest.start).rev().filter_map(|at| element(&form, at)).filter(|it| digest.end <= it.end);
        let found = around.find_map(|it| Some((it.clone(), find(&form, &sign(&form[it]).ok()?)?)));
        let (attributes, signature) = found.ok_or_else(unknown)?;
        let of = |instance: &Instance| {
            let text = document(instance);
            if text.len() != first.len() {
                return Err(broken("documents of different lengths"));
            }
            let mut filled = form.clone();
            filled[content.clone()].copy_from_slice(text.as_bytes());
            filled[digest.clone()].copy_from_slice(&Sha256::digest(&text));
            let signed = sign(&filled[attributes.clone()])?;
            filled[signature.clone()].copy_from_slice(&signed);
            Ok(in_lines(&filled, 76))
        };
        instances.iter().map(of).collect()
    }
}

/// The attributes that may begin there: `[0]`, and a length in DER.
fn element(form: &[u8], at: usize) -> Option<Range<usize>> {
    let header = form.get(at..at + 4)?;
    let (before, length) = match *header {
        [SIGNED_ATTRIBUTES, length @ 0..=0x7f, ..] => (2, usize::from(length)),
        [SIGNED_ATTRIBUTES, 0x81, length, _] => (3, usize::from(length)),
        [SIGNED_ATTRIBUTES, 0x82, high, low] => (4, usize::from(u16::from_be_bytes([high, low]))),
        _ => return None,
    };
    let all = at..at + before + length;
    (all.end <= form.len()).then_some(all)
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
