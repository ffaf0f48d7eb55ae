//! Validation of a class's user data before anything is launched with it.

use std::collections::BTreeMap;

use muster_api::nodeclass::{Ec2NodeClass, Toggle};
use muster_bootstrap::finding::{Finding, Severity};
use muster_bootstrap::input::ClassSettings;
use muster_bootstrap::kubelet::taints::Taint;
use muster_bootstrap::{BootstrapInput, validate_node_class, verdicts};

use crate::launch::{Cluster, bootstrap_family, family_of, launch_of};

/// Returns the findings of the bootstrap rules, which the agent shares, for a class. Errors come first.
#[must_use]
pub fn bootstrap_findings(class: &Ec2NodeClass, cluster: &Cluster) -> Vec<Finding> {
    let spec = &class.spec;
    let options = &spec.metadata_options;
    let settings = ClassSettings {
        role: spec.role.clone(),
        instance_profile: spec.instance_profile.clone(),
        // The default value may come from the API server, so it is not reported.
        hop_limit: Some(options.http_put_response_hop_limit).filter(|limit| *limit != 1),
        has_no_metadata: options.http_endpoint == Toggle::Disabled,
    };
    let input = BootstrapInput {
        family: Some(bootstrap_family(family_of(spec))),
        required_taints: vec![Taint::unregistered()],
        class: Some(settings),
        ..BootstrapInput::default()
    };
    let launch = launch_of(cluster, class, None, &BTreeMap::new(), &[]);
    let name = class.metadata.name.clone().unwrap_or_default();
    let own = spec.user_data.as_deref().unwrap_or_default();
    let report = validate_node_class(input, &name, own, &launch);
    let mut findings = report.findings;
    // The agent finds this by the instance's tags; here it is known before an instance exists.
    findings.extend(report.effective.cluster_name.and_then(|named| another_cluster(&named, cluster)));
    findings.retain(|finding| finding.severity != Severity::Info);
    findings.sort_by_key(|finding| finding.severity != Severity::Error);
    findings
}

/// A name that a script computes is known only on the instance.
fn another_cluster(named: &str, cluster: &Cluster) -> Option<Finding> {
    let is_literal = named.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_'));
    (is_literal && named != cluster.name).then(|| {
        let message = format!("the user data names the cluster `{named}`, and its nodes are for `{}`", cluster.name);
        Finding::new(&verdicts::NW07, &message, None)
    })
}

/// Formats a finding as `UD02: no launch is possible: … (line 3). Cause: … Fix: …`.
#[must_use]
pub fn finding_text(finding: &Finding) -> String {
    let line = finding.evidence.as_ref().and_then(|evidence| evidence.place.line);
    let at = line.map(|line| format!(" (line {line})")).unwrap_or_default();
    format!("{}: {}{at}. Cause: {} Fix: {}", finding.verdict.code, finding.message, finding.verdict.cause, finding.fix)
}
