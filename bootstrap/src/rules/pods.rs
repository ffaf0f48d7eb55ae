//! Maximum number of pods, against the IP addresses that the node can have.

use crate::finding::{Findings, Severity};
use crate::kubelet::instance::{Figures, evaluate};
use crate::parsed::ParsedBootstrap;
use crate::place::Place;
use crate::verdicts;

/// Judges nodeadm's expression. Without an instance type, it is evaluated for m5.large.
pub(crate) fn expression(bootstrap: &ParsedBootstrap, instance_type: Option<&str>, findings: &mut Findings) {
    let Some(stated) = &bootstrap.max_pods_expression else { return };
    let known = instance_type.and_then(Figures::of);
    let Some(figures) = known.or_else(|| Figures::of("m5.large")) else { return };
    if let Err(fault) = evaluate(&stated.text, figures) {
        let message = format!("nodeadm ignores `maxPodsExpression`: {fault}");
        let fix = "write a CEL expression of `default_enis`, `ips_per_eni` and `max_pods`, such as `max_pods - 5`";
        findings.add_with_fix(&verdicts::KA30, message, fix, stated.place.clone(), &stated.text);
    }
}

/// Judges the maximum number of pods in effect.
pub(crate) fn addresses(pods: i64, (place, text): (Place, String), instance_type: &str, findings: &mut Findings) {
    let Some(figures) = Figures::of(instance_type) else { return };
    let (one, prefixed) = (figures.pods(), figures.pods_with_prefixes());
    if pods > prefixed {
        let message = format!("{pods} pods, and {instance_type} has addresses for {prefixed} at most");
        let fix = format!("set `maxPods` to {one}, or to {prefixed} with prefix delegation");
        findings.add_with_fix(&verdicts::CN07, message, &fix, place, text);
    } else if pods > one {
        // The documents do not state whether aws-node assigns prefixes, or another plugin its own addresses.
        let message = format!("{pods} pods, and without prefix delegation {instance_type} has addresses for {one}");
        findings.add_as(Severity::Info, &verdicts::CN07, message, place, text);
    }
}
