//! Idempotency tokens of launches.

use std::fmt;

/// Idempotency token of a launch: the NodeClaim's UID and the number of the attempt.
///
/// Once the outcome of an attempt is known, the next attempt needs a new token. An attempt with an unknown outcome is
/// repeated with the same token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaunchToken {
    /// UID of the NodeClaim.
    pub claim_uid: String,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}

// === impl LaunchToken ===

impl LaunchToken {
    /// Parses the output of the `Display` implementation. Returns `None` for any other format.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (claim_uid, attempt) = text.rsplit_once('.')?;
        let attempt = attempt.parse().ok().filter(|attempt| *attempt > 0)?;
        (!claim_uid.is_empty()).then(|| Self { claim_uid: claim_uid.to_owned(), attempt })
    }
}

impl fmt::Display for LaunchToken {
    /// Formats as `4b0d5b5e-7a64-4f0a-9d4e-6f1f3c1c2b11.1`: at most 64 ASCII characters, the limit of EC2.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.claim_uid, self.attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back() {
        let token = LaunchToken { claim_uid: "4b0d5b5e-7a64-4f0a-9d4e-6f1f3c1c2b11".to_owned(), attempt: 12 };
        assert!(token.to_string().len() <= 64);
        assert_eq!(LaunchToken::parse(&token.to_string()), Some(token));
        for foreign in ["", "x", "x.", ".1", "x.0", "x.-1"] {
            assert_eq!(LaunchToken::parse(foreign), None, "{foreign}");
        }
    }
}
