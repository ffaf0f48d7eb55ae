//! The wrappings of a text: base64 and gzip, one around the other in any order, as nodeadm and cloud-init take them off.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::MultiGzDecoder;

/// One wrapping that was taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrapping {
    /// Base64 around the whole.
    Base64,
    /// gzip around the whole.
    Gzip,
}

/// A wrapping that cannot be taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WrappingFault {
    /// It begins as gzip does, and breaks off or does not add up.
    #[error("it begins like gzip and cannot be decompressed")]
    Gzip,
    /// It unpacks to more than anybody writes by hand.
    #[error("it decompresses to more than {} bytes", LARGEST)]
    TooLarge,
}

/// EC2 takes 16 KiB; text of this kind shrinks to a fifth, so a mebibyte is a bomb and no user data.
const LARGEST: usize = 1 << 20;

/// The first bytes of gzip (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Decodes base64 as Go's `StdEncoding` does: line ends inside do not count, padding is required.
#[must_use]
pub fn base64(bytes: &[u8]) -> Option<Vec<u8>> {
    let compact: Vec<u8> = bytes.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    if compact.is_empty() { None } else { STANDARD.decode(compact).ok() }
}

/// Encodes as base64.
#[must_use]
pub fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Takes off base64, then gzip: the order in which nodeadm looks, for the whole and for each part.
pub(super) fn unwrap(bytes: &[u8]) -> (Vec<u8>, Vec<Wrapping>, Option<WrappingFault>) {
    let mut wrappings = Vec::new();
    let mut content = bytes.to_vec();
    let trimmed = bytes.trim_ascii();
    if let Some(decoded) = base64(trimmed) {
        wrappings.push(Wrapping::Base64);
        content = decoded;
    }
    if !content.starts_with(&GZIP) {
        return (content, wrappings, None);
    }
    let mut unpacked = Vec::new();
    let limit = u64::try_from(LARGEST).unwrap_or(u64::MAX).saturating_add(1);
    match MultiGzDecoder::new(content.as_slice()).take(limit).read_to_end(&mut unpacked) {
        Ok(_) if unpacked.len() > LARGEST => (Vec::new(), wrappings, Some(WrappingFault::TooLarge)),
        Ok(_) => {
            wrappings.push(Wrapping::Gzip);
            (unpacked, wrappings, None)
        }
        Err(_) => (content, wrappings, Some(WrappingFault::Gzip)),
    }
}
