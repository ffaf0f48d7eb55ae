//! Encodings of a text, base64 and gzip in any nesting, as decoded by nodeadm and cloud-init.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::MultiGzDecoder;

/// An encoding that was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrapping {
    /// Base64 of the whole text.
    Base64,
    /// gzip of the whole text.
    Gzip,
}

/// An encoding that cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WrappingFault {
    /// The text begins like gzip, but is truncated or corrupt.
    #[error("it begins like gzip and cannot be decompressed")]
    Gzip,
    /// The decompressed text is larger than 1 MiB.
    #[error("it decompresses to more than {} bytes", LARGEST)]
    TooLarge,
}

/// Maximum size after decompression, in bytes. EC2 accepts 16 KiB; such text compresses to a fifth, so a mebibyte is a
/// decompression bomb.
const LARGEST: usize = 1 << 20;

/// Magic bytes of gzip (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Decodes base64 like Go's `StdEncoding`: line ends are ignored, padding is required. `None` if the text is empty or
/// not valid.
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

/// Decodes base64, then gzip: nodeadm's order, for the whole and for each part.
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
