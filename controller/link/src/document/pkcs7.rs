//! Parser of PKCS #7 signed data (RFC 5652), as far as identity documents use it: one signer, RSA with SHA-256, signed
//! attributes, and the content inside. The encoding is BER: EC2 writes indefinite lengths and constructed strings.

use bcder::decode::{Constructed, DecodeError, IntoSource, SliceSource, Source};
use bcder::{Mode, OctetString, Oid, Tag};
use rustls_pki_types::CertificateDer;
use webpki::EndEntityCert;
use webpki::aws_lc_rs::RSA_PKCS1_2048_8192_SHA256;

use super::DocumentFault;
use crate::key::sha256;

/// 1.2.840.113549.1.7.1: content of plain bytes.
const DATA: &[u8] = &[42, 134, 72, 134, 247, 13, 1, 7, 1];
/// 1.2.840.113549.1.7.2
const SIGNED_DATA: &[u8] = &[42, 134, 72, 134, 247, 13, 1, 7, 2];
/// 1.2.840.113549.1.9.3: an attribute.
const CONTENT_TYPE: &[u8] = &[42, 134, 72, 134, 247, 13, 1, 9, 3];
/// 1.2.840.113549.1.9.4: an attribute.
const MESSAGE_DIGEST: &[u8] = &[42, 134, 72, 134, 247, 13, 1, 9, 4];
/// 2.16.840.1.101.3.4.2.1
const SHA_256: &[u8] = &[96, 134, 72, 1, 101, 3, 4, 2, 1];
/// 1.2.840.113549.1.1.1, and with SHA-256 1.2.840.113549.1.1.11: signers write one or the other.
const RSA: [&[u8]; 2] = [&[42, 134, 72, 134, 247, 13, 1, 1, 1], &[42, 134, 72, 134, 247, 13, 1, 1, 11]];
/// Tag of the attributes when they are signed; inside the message it is another (RFC 5652, 5.4).
const SET_OF: u8 = 0x31;

/// Parsed message whose signature is not verified yet.
#[derive(Debug)]
pub(super) struct Signed {
    /// Content, which the signature covers once it is verified.
    pub(super) content: Vec<u8>,
    /// Signed attributes in the encoding that the signature covers.
    attributes: Vec<u8>,
    signature: Vec<u8>,
}

/// Signer's part of a message.
struct Signer {
    attributes: Vec<u8>,
    digest: Vec<u8>,
    signature: Vec<u8>,
}

/// Parses a message.
pub(super) fn read(bytes: &[u8]) -> Result<Signed, DocumentFault> {
    let source: SliceSource<'_> = bytes.into_source();
    let (content, mut signers) =
        Mode::Ber.decode(source, message).map_err(|_| DocumentFault::Syntax("it cannot be taken apart"))?;
    let signer = signers.pop().ok_or(DocumentFault::Syntax("it has no signature"))?;
    if !signers.is_empty() {
        return Err(DocumentFault::Syntax("more than one has signed it"));
    }
    if signer.digest != sha256(&content) {
        return Err(DocumentFault::Syntax("the content is not what was signed"));
    }
    Ok(Signed { content, attributes: signer.attributes, signature: signer.signature })
}

impl Signed {
    /// Returns true if the key of `certificate` made the signature.
    pub(super) fn is_signed_by(&self, certificate: &CertificateDer<'_>) -> bool {
        let Ok(certificate) = EndEntityCert::try_from(certificate) else { return false };
        certificate.verify_signature(RSA_PKCS1_2048_8192_SHA256, &self.attributes, &self.signature).is_ok()
    }
}

type Read<T, S> = Result<T, DecodeError<<S as Source>::Error>>;

fn message<S: Source>(outer: &mut Constructed<'_, S>) -> Read<(Vec<u8>, Vec<Signer>), S> {
    outer.take_sequence(|info| {
        oid(info, SIGNED_DATA)?;
        info.take_constructed_if(Tag::CTX_0, |explicit| explicit.take_sequence(signed_data))
    })
}

fn signed_data<S: Source>(data: &mut Constructed<'_, S>) -> Read<(Vec<u8>, Vec<Signer>), S> {
    data.take_u8()?;
    data.take_set(skip)?;
    let content = data.take_sequence(|content| {
        oid(content, DATA)?;
        content.take_constructed_if(Tag::CTX_0, octets)
    })?;
    // Certificates and revocation lists are ignored.
    data.take_opt_constructed_if(Tag::CTX_0, skip)?;
    data.take_opt_constructed_if(Tag::CTX_1, skip)?;
    let signers = data.take_set(|set| {
        let mut signers = Vec::new();
        while let Some(signer) = set.take_opt_sequence(signer)? {
            signers.push(signer);
        }
        Ok(signers)
    })?;
    Ok((content, signers))
}

fn signer<S: Source>(signer: &mut Constructed<'_, S>) -> Read<Signer, S> {
    signer.take_u8()?;
    // The signer's identifier, which is the message's own claim.
    signer.take_sequence(skip)?;
    algorithm(signer, &[SHA_256])?;
    let mut digest = None;
    let attributes = signer.capture(|captured| {
        captured.take_constructed_if(Tag::CTX_0, |attributes| {
            digest = Some(attributes_of(attributes)?);
            Ok(())
        })
    })?;
    let Some(digest) = digest else { return Err(signer.content_err("no digest is signed")) };
    let mut attributes = attributes.into_bytes().to_vec();
    match attributes.as_mut_slice() {
        // The signature covers the DER of the set. An indefinite length is not DER, and EC2 does not write it here.
        [tag, length, ..] if *length != 0x80 => *tag = SET_OF,
        _ => return Err(signer.content_err("the attributes are not in DER")),
    }
    algorithm(signer, &RSA)?;
    let signature = octets(signer)?;
    signer.take_opt_constructed_if(Tag::CTX_1, skip)?;
    Ok(Signer { attributes, digest, signature })
}

/// Returns the digest of the attributes; type and digest must each occur once with one value.
fn attributes_of<S: Source>(attributes: &mut Constructed<'_, S>) -> Read<Vec<u8>, S> {
    let (mut digest, mut has_type) = (None, false);
    while let Some(()) = attributes.take_opt_sequence(|attribute| {
        let name = Oid::take_from(attribute)?;
        attribute.take_set(|values| {
            if name.as_ref() == CONTENT_TYPE && !has_type {
                has_type = true;
                oid(values, DATA)
            } else if name.as_ref() == MESSAGE_DIGEST && digest.is_none() {
                digest = Some(octets(values)?);
                Ok(())
            } else if name.as_ref() == CONTENT_TYPE || name.as_ref() == MESSAGE_DIGEST {
                Err(values.content_err("an attribute occurs twice"))
            } else {
                values.skip_all()
            }
        })
    })? {}
    digest.filter(|_| has_type).ok_or_else(|| attributes.content_err("type and digest are not both signed"))
}

fn algorithm<S: Source>(outer: &mut Constructed<'_, S>, allowed: &[&[u8]]) -> Read<(), S> {
    outer.take_sequence(|algorithm| {
        let name = Oid::take_from(algorithm)?;
        if !allowed.contains(&name.as_ref()) {
            return Err(algorithm.content_err("another algorithm"));
        }
        algorithm.skip_all()
    })
}

/// Skips content that is ignored.
fn skip<S: Source>(content: &mut Constructed<'_, S>) -> Read<(), S> {
    content.skip_all()
}

fn oid<S: Source>(outer: &mut Constructed<'_, S>, expected: &[u8]) -> Read<(), S> {
    if Oid::take_from(outer)?.as_ref() == expected { Ok(()) } else { Err(outer.content_err("another object")) }
}

fn octets<S: Source>(outer: &mut Constructed<'_, S>) -> Read<Vec<u8>, S> {
    Ok(OctetString::take_from(outer)?.to_bytes().to_vec())
}
