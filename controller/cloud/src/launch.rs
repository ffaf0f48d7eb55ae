//! What a launch asks for, and what comes of it.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Taint;
use muster_api::NodeClassReference;

use crate::instance::{Instance, Offering};

/// Makes a launch idempotent: the NodeClaim's UID, and which of its attempts this is.
///
/// An attempt whose outcome is known is over, so the next one needs another token; one whose outcome is not known is
/// repeated with the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaunchToken {
    /// UID of the NodeClaim.
    pub claim_uid: String,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}

/// An offering that a NodeClaim may be launched as.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// What would be bought.
    pub offering: Offering,
    /// USD per hour.
    pub price: f64,
}

/// One instance that is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchRequest {
    /// Makes it idempotent.
    pub token: LaunchToken,
    /// Name of the NodeClaim.
    pub claim: String,
    /// NodePool of the claim, if it has one.
    pub pool: Option<String>,
    /// Where the cloud's own settings stand.
    pub class: NodeClassReference,
    /// What it may be launched as, cheapest first, all of one capacity type; never empty.
    pub alternatives: Vec<Alternative>,
    /// Whether the claim asks for a choice of its own (`minValues`), so that a cloud may not leave alternatives out.
    pub keeps_choice: bool,
    /// Labels that the node registers with.
    pub labels: BTreeMap<String, String>,
    /// Taints that the node registers with: those of the claim, then its startup taints.
    pub taints: Vec<Taint>,
    /// What the pods that are meant for the node request together, by resource.
    pub requests: BTreeMap<String, String>,
    /// Tags of the instance, beside those that the class asks for.
    pub tags: BTreeMap<String, String>,
}

/// Why an offering could not be had.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// There is none left of the type in the zone.
    Capacity,
    /// The subnet has no free addresses.
    Addresses {
        /// The subnet.
        subnet: String,
    },
    /// The account may not have more of them: a quota of vCPUs or of spot requests.
    Quota {
        /// The cloud's code, such as `VcpuLimitExceeded`.
        code: String,
    },
    /// The type does not exist in the zone, or not in this form.
    Unsupported,
    /// Nothing is left in the reservation.
    Reservation,
    /// The placement group takes no more in this zone.
    PlacementGroup,
    /// The account lacks the role without which no spot instance is launched.
    SpotRole,
}

/// An offering that was tried and could not be had.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refused {
    /// What was tried.
    pub offering: Offering,
    /// Why it could not be had.
    pub refusal: Refusal,
}

/// An instance that was launched.
#[derive(Debug, Clone, PartialEq)]
pub struct Launched {
    /// The instance.
    pub instance: Instance,
    /// What was tried before it, and could not be had.
    pub refused: Vec<Refused>,
}

// === impl LaunchToken ===

impl LaunchToken {
    /// The token that [`LaunchToken`]'s `Display` wrote; nothing if it is of another make.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (claim_uid, attempt) = text.rsplit_once('.')?;
        let attempt = attempt.parse().ok().filter(|attempt| *attempt > 0)?;
        (!claim_uid.is_empty()).then(|| Self { claim_uid: claim_uid.to_owned(), attempt })
    }
}

impl fmt::Display for LaunchToken {
    /// `4b0d5b5e-7a64-4f0a-9d4e-6f1f3c1c2b11.1`: at most 64 ASCII characters, as EC2 wants it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.claim_uid, self.attempt)
    }
}

// === impl Refusal ===

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capacity => f.write_str("no capacity"),
            Self::Addresses { subnet } => write!(f, "no free addresses in {subnet}"),
            Self::Quota { code } => write!(f, "quota reached ({code})"),
            Self::Unsupported => f.write_str("not supported there"),
            Self::Reservation => f.write_str("reservation used up"),
            Self::PlacementGroup => f.write_str("placement group full"),
            Self::SpotRole => f.write_str("the service-linked role of spot is missing"),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.offering, self.refusal)
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
