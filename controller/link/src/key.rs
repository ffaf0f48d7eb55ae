//! Key of the agent: ECDSA on P-256, identified by the SHA-256 of its SubjectPublicKeyInfo.

use std::fmt;

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

use crate::hex::{from_hex, hex};

/// Prefix of the SubjectPublicKeyInfo (DER) of every uncompressed P-256 key: id-ecPublicKey and secp256r1 (RFC 5480).
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Length of an uncompressed point: `04`, then x and y of 32 bytes.
pub const P256_POINT_BYTES: usize = 65;
/// SHA-256 of a SubjectPublicKeyInfo.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash([u8; SHA256_OUTPUT_LEN]);

impl KeyHash {
    /// Hashes a SubjectPublicKeyInfo (DER).
    #[must_use]
    pub fn of(public_key_info: &[u8]) -> Self {
        Self(sha256(public_key_info))
    }

    /// Parses 64 hexadecimal digits as [`fmt::Display`] writes them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text).map(Self)
    }

    /// Returns the 32 bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

/// Returns the uncompressed point of a P-256 key; `None` for another kind of key or encoding. It does not check that
/// the point is on the curve; verifying a signature does.
#[must_use]
pub fn p256_point(public_key_info: &[u8]) -> Option<&[u8]> {
    let point = public_key_info.strip_prefix(&P256_PREFIX)?;
    (point.len() == P256_POINT_BYTES && point[0] == 4).then_some(point)
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; SHA256_OUTPUT_LEN] {
    let mut hash = [0; SHA256_OUTPUT_LEN];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_read_as_it_is_written_and_in_no_other_way() {
        let hash = KeyHash::of(b"key");
        let text = hash.to_string();
        assert_eq!(KeyHash::parse(&text), Some(hash));
        for other in [&text[1..], &text.to_uppercase(), &format!("{text}0"), &format!("+{}", &text[1..]), "é"] {
            assert_eq!(KeyHash::parse(other), None, "{other}");
        }
    }

    #[test]
    fn only_uncompressed_p256_is_taken() {
        let mut info = [&P256_PREFIX[..], &[4; P256_POINT_BYTES]].concat();
        assert_eq!(p256_point(&info).map(<[u8]>::len), Some(P256_POINT_BYTES));
        info[26] = 2;
        assert_eq!(p256_point(&info), None, "compressed");
        info[26] = 4;
        info.push(0);
        assert_eq!(p256_point(&info), None, "longer");
        assert_eq!(p256_point(b""), None);
    }
}
