//! Instance metadata: is it there, and what does the instance have.

use muster_bootstrap::Family;
use muster_bootstrap::finding::Finding;
use muster_bootstrap::place::{Place, Source};
use muster_bootstrap::verdicts;

/// What instance metadata says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Metadata {
    /// Nothing answers, or with an error: what was seen.
    Silent(String),
    /// Everything is answered with 403.
    Off,
    /// It answers.
    Answers(Box<Instance>),
}

/// The instance as its metadata describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instance {
    /// As `i-0123456789abcdef0`.
    pub id: String,
    /// As `m5.large`.
    pub instance_type: String,
    /// As `us-west-2a`.
    pub zone: String,
    /// As `us-west-2`.
    pub region: String,
    /// Its private address.
    pub address: String,
    /// Its private DNS name; empty if it has none.
    pub host_name: String,
    /// Whether it has credentials of a role; `None` if that could not be asked.
    pub has_role: Option<bool>,
    /// User data as it was given.
    pub user_data: Option<Vec<u8>>,
    /// How many network interfaces it has.
    pub interfaces: usize,
    /// ARN of its instance profile.
    pub profile: Option<String>,
    /// The cluster that it was launched for, by its tags; they are seldom shown to the instance.
    pub cluster_of_tags: Option<String>,
    /// Whether its first interface has an IPv6 address; `None` if that could not be asked.
    pub has_ipv6: Option<bool>,
    /// The IPv4 networks of its VPC, as `10.0.0.0/16`.
    pub vpc_networks: Vec<String>,
}

impl Metadata {
    /// The user data, if there is any.
    #[must_use]
    pub fn user_data(&self) -> Option<&[u8]> {
        self.instance().and_then(|it| it.user_data.as_deref())
    }

    /// The instance, if metadata answers.
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

/// Judges it. `is_configured` says that the kubelet's files are there, wherever they came from.
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
