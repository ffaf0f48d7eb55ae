//! Checks of instance metadata.

use muster_bootstrap::Family;
use muster_bootstrap::finding::Finding;
use muster_bootstrap::place::{Place, Source};
use muster_bootstrap::verdicts;

/// Result of reading instance metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Metadata {
    /// No response, or an error: the description.
    Silent(String),
    /// Every request returns 403.
    Off,
    /// Metadata is available.
    Answers(Box<Instance>),
}

/// The instance, as described by its metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instance {
    /// Instance ID, such as `i-0123456789abcdef0`.
    pub id: String,
    /// Instance type, such as `m5.large`.
    pub instance_type: String,
    /// Availability zone, such as `us-west-2a`.
    pub zone: String,
    /// Region, such as `us-west-2`.
    pub region: String,
    /// Private IP address.
    pub address: String,
    /// Private DNS name; empty if it has none.
    pub host_name: String,
    /// True if the instance has role credentials; `None` if unknown.
    pub has_role: Option<bool>,
    /// User data, unmodified.
    pub user_data: Option<Vec<u8>>,
    /// Number of network interfaces.
    pub interfaces: usize,
    /// ARN of the instance profile.
    pub profile: Option<String>,
    /// Cluster name from the instance tags, which are rarely available in metadata.
    pub cluster_of_tags: Option<String>,
    /// True if the primary interface has an IPv6 address; `None` if unknown.
    pub has_ipv6: Option<bool>,
    /// IPv4 CIDR blocks of the VPC, such as `10.0.0.0/16`.
    pub vpc_networks: Vec<String>,
}

impl Metadata {
    /// Returns the user data, if any.
    #[must_use]
    pub fn user_data(&self) -> Option<&[u8]> {
        self.instance().and_then(|it| it.user_data.as_deref())
    }

    /// Returns the instance, if metadata is available.
    #[must_use]
    pub fn instance(&self) -> Option<&Instance> {
        match self {
            Self::Answers(instance) => Some(instance),
            Self::Silent(_) | Self::Off => None,
        }
    }
}

fn at(text: &str) -> Option<(Place, &str)> {
    Some((Source::whole("instance metadata").anywhere(), text))
}

/// Checks instance metadata. `is_configured` is true if the kubelet's files exist, whatever wrote them.
pub(super) fn check(metadata: &Metadata, family: Option<Family>, is_configured: bool) -> Vec<Finding> {
    let instance = match metadata {
        Metadata::Silent(why) => {
            return vec![Finding::new(&verdicts::ID01, "instance metadata does not answer", at(why))];
        }
        Metadata::Off => return vec![Finding::new(&verdicts::ID02, "instance metadata is turned off", at("403"))],
        Metadata::Answers(instance) => instance,
    };
    let mut found = Vec::new();
    if instance.has_role == Some(false) {
        found.push(Finding::new(&verdicts::ID04, "the instance has no role", at("iam/info: 404")));
    }
    let is_empty = instance.user_data.as_ref().is_none_or(Vec::is_empty);
    if is_empty && !is_configured {
        let message = "the instance has no user data";
        match family {
            Some(Family::Al2) => found.push(Finding::new(&verdicts::UD19, message, at("user-data: 404"))),
            Some(Family::Al2023) => found.push(Finding::new(&verdicts::UD03, message, at("user-data: 404"))),
            Some(family) if family.is_windows() => {
                found.push(Finding::new(&verdicts::WN09, message, at("user-data: 404")));
            }
            _ => {}
        }
    }
    found
}
