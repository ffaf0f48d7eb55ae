//! Kubernetes versions of the kubelet.

use std::fmt;
use std::str::FromStr;

/// A minor version of Kubernetes: the number after `1.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minor(pub u8);

impl Minor {
    /// Oldest version whose flags, fields and gates are known.
    pub const OLDEST: Self = Self(29);
    /// Newest version whose flags, fields and gates are known.
    pub const NEWEST: Self = Self(37);

    /// Returns true if the tables cover the version. Nothing is known of a newer one.
    #[must_use]
    pub fn is_known(self) -> bool {
        (Self::OLDEST..=Self::NEWEST).contains(&self)
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

/// Error for a text that is not a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a version of Kubernetes")]
pub struct NotAVersion;

impl FromStr for Minor {
    type Err = NotAVersion;

    /// Parses `1.34`, `v1.34.2`, `1.34.2-eks-abc`, `Kubernetes v1.34.2`.
    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let text = text.trim();
        let text = text.strip_prefix("Kubernetes ").unwrap_or(text);
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts = text.splitn(3, '.');
        let (Some("1"), Some(minor)) = (parts.next(), parts.next()) else { return Err(NotAVersion) };
        let digits = minor.trim_end_matches('+');
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(NotAVersion);
        }
        digits.parse().map(Self).map_err(|_| NotAVersion)
    }
}
