//! Identity settings of an EC2NodeClass, and access of its nodes to instance metadata.

use crate::finding::Findings;
use crate::input::ClassSettings;
use crate::place::Source;
use crate::verdicts;

/// Judges role, instance profile and metadata options.
pub(crate) fn check(class: &ClassSettings, findings: &mut Findings) {
    let place = || Source::whole("EC2NodeClass").anywhere();
    for (field, value) in [("spec.role", &class.role), ("spec.instanceProfile", &class.instance_profile)] {
        let Some(value) = value.as_ref().filter(|value| value.contains('/')) else { continue };
        let name = value.rsplit('/').next().unwrap_or_default();
        let message = format!("`{field}` is not a name but has a path");
        let fix =
            format!("write `{field}: {name}`, and name the role without its path in the access entry or aws-auth");
        findings.add_with_fix(&verdicts::AU02, message, &fix, place(), format!("{field}: {value}"));
    }
    if class.has_no_metadata {
        let message = "nodes of this class cannot read instance metadata";
        findings.add(&verdicts::ID02, message, place(), "spec.metadataOptions.httpEndpoint: disabled");
    }
    // Without instance metadata the limit means nothing.
    if let Some(limit) = class.hop_limit.filter(|_| !class.has_no_metadata) {
        let text = format!("spec.metadataOptions.httpPutResponseHopLimit: {limit}");
        if limit < 2 {
            let message = "pods outside of the host's network get no answer from instance metadata";
            findings.add(&verdicts::ID03, message, place(), text);
        } else {
            let message = "every pod can read the credentials of the node's role and the launch token";
            findings.add(&verdicts::ID14, message, place(), text);
        }
    }
}
