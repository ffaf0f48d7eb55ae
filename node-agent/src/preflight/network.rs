//! Checks of the cluster's networks against the VPC's.

use muster_bootstrap::finding::Finding;
use muster_bootstrap::network::Network;
use muster_bootstrap::place::Source;
use muster_bootstrap::report::Effective;
use muster_bootstrap::verdicts::{self, Verdict};

use super::Facts;
use super::credentials::CredentialCheck;

pub(super) fn check(facts: &Facts, effective: &Effective) -> Vec<Finding> {
    let Some(instance) = facts.metadata.instance() else { return Vec::new() };
    let one = |verdict: &'static Verdict, message: &str, text: &str| {
        Finding::new(verdict, message, Some((Source::whole("instance metadata").anywhere(), text)))
    };
    let mut found = Vec::new();
    let services = effective.service_cidr.as_deref().and_then(Network::read);
    if services.is_some_and(Network::is_ipv6) && instance.has_ipv6 == Some(false) {
        let message = "the cluster is of IPv6, and the instance has no IPv6 address";
        found.push(one(&verdicts::NW11, message, "network/interfaces/macs/…/ipv6s: 404"));
    }
    if let Some(services) = services.filter(|_| facts.family.is_some_and(muster_bootstrap::Family::is_windows))
        && let Some(text) =
            instance.vpc_networks.iter().find(|it| Network::read(it).is_some_and(|vpc| vpc.overlaps(services)))
    {
        let cidr = effective.service_cidr.as_deref().unwrap_or_default();
        found.push(one(&verdicts::WN10, &format!("service network {cidr} overlaps the VPC's {text}"), text));
    }
    if let (Some(tagged), Some(named)) = (&instance.cluster_of_tags, &effective.cluster_name)
        && tagged != named
        && !matches!(facts.standing, Some(CredentialCheck::Known { .. }))
    {
        let message = format!("the instance is of cluster `{tagged}`, and its user data names `{named}`");
        found.push(one(&verdicts::NW07, &message, &format!("tags/instance: {tagged}")));
    }
    found
}
