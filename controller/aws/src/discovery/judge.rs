//! Status of a class: a pure function of the class, its lookup results, and a point in time.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use muster_api::conditions::{READY, nodeclass, reason};
use muster_api::nodeclass::{Ec2NodeClass, Ec2NodeClassStatus, IgnoredTerm};
use muster_bootstrap::finding::Severity;
use muster_cloud::CloudError;

use super::bootstrap::{bootstrap_findings, finding_text};
use super::found::{self, Found, ImageError, Selected, Trial, TrialCall};
use super::kubelet::kubelet_refusal;
use crate::family::AmiFamily;
use crate::feature_gates::AwsFeatureGates;
use crate::launch::{Cluster, family_of, restricted};

const TRUE: &str = "True";
const FALSE: &str = "False";
const UNKNOWN: &str = "Unknown";
/// Maximum number of findings in one message.
const NAMED: usize = 3;

/// Conditions that `Ready` depends on.
const OF_READY: [&str; 7] = [
    nodeclass::AMIS_READY,
    nodeclass::CAPACITY_RESERVATIONS_READY,
    nodeclass::INSTANCE_PROFILE_READY,
    nodeclass::PLACEMENT_GROUP_READY,
    nodeclass::SECURITY_GROUPS_READY,
    nodeclass::SUBNETS_READY,
    nodeclass::VALIDATION_SUCCEEDED,
];
/// Conditions that must be true before a dry run.
const OF_VALIDATION: [&str; 4] = [
    nodeclass::AMIS_READY,
    nodeclass::INSTANCE_PROFILE_READY,
    nodeclass::SECURITY_GROUPS_READY,
    nodeclass::SUBNETS_READY,
];

/// Returns the new status of the class. Conditions of other controllers (`LaunchesSucceed`) are unchanged.
#[must_use]
pub fn judge(
    class: &Ec2NodeClass,
    cluster: &Cluster,
    found: &Found,
    gates: AwsFeatureGates,
    now: Timestamp,
) -> Ec2NodeClassStatus {
    let status = class.status.clone().unwrap_or_default();
    let ignored = class.spec.ignored_terms();
    let mut draft = Draft { status, generation: class.metadata.generation, ignored, gates, now };
    draft.subnets(found);
    draft.security_groups(found);
    draft.images(found);
    draft.reservations(found);
    draft.placement_group(found);
    draft.instance_profile(found);
    draft.validation(class, cluster, found);
    draft.bootstrap(class, cluster);
    draft.ready();
    draft.status
}

struct Draft {
    status: Ec2NodeClassStatus,
    generation: Option<i64>,
    /// Selector terms that select nothing.
    ignored: Vec<IgnoredTerm>,
    gates: AwsFeatureGates,
    now: Timestamp,
}

impl Draft {
    fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|one| one.type_ == kind)
    }

    fn is(&self, kind: &str, status: &str) -> bool {
        self.condition(kind).is_some_and(|one| one.status == status)
    }

    /// Sets a condition; its transition time changes only with its status.
    fn set(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let next = Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: self.generation,
            last_transition_time: Time(self.now),
        };
        match self.status.conditions.iter_mut().find(|one| one.type_ == kind) {
            Some(there) => {
                let since =
                    if there.status == next.status { there.last_transition_time.clone() } else { Time(self.now) };
                *there = Condition { last_transition_time: since, ..next };
            }
            None => self.status.conditions.push(next),
        }
    }

    /// Sets a condition to true, with a warning about ignored terms as its message.
    fn set_true(&mut self, kind: &str) {
        let warning = self.warning(kind).unwrap_or_default();
        self.set(kind, TRUE, kind, &warning);
    }

    /// Sets a condition to false because terms select nothing, with a warning about ignored ones.
    fn set_missing(&mut self, kind: &str, reason: &str, message: &str) {
        let warning = self.warning(kind).map_or_else(String::new, |warning| format!("; {warning}"));
        self.set(kind, FALSE, reason, &format!("{message}{warning}"));
    }

    /// Returns the warning about ignored terms of the list that the condition reports on.
    fn warning(&self, kind: &str) -> Option<String> {
        let list = match kind {
            nodeclass::SUBNETS_READY => "subnetSelectorTerms",
            nodeclass::SECURITY_GROUPS_READY => "securityGroupSelectorTerms",
            nodeclass::AMIS_READY => "amiSelectorTerms",
            nodeclass::CAPACITY_RESERVATIONS_READY => "capacityReservationSelectorTerms",
            _ => return None,
        };
        let of_list = self.ignored.iter().filter(|term| term.is_in(list));
        let texts: Vec<String> = of_list.map(ToString::to_string).collect();
        (!texts.is_empty()).then(|| first_few(&texts))
    }

    /// Handles a failed lookup: a true condition stays true, any other becomes unknown.
    fn failed(&mut self, kind: &str, error: &CloudError) {
        if self.is(kind, TRUE) {
            self.set_true(kind);
        } else {
            self.set(kind, UNKNOWN, error.reason(), &error.to_string());
        }
    }

    fn subnets(&mut self, found: &Found) {
        match &found.subnets {
            Ok(subnets) => {
                self.status.subnets = found::subnets(subnets);
                if subnets.is_empty() {
                    let message = "spec.subnetSelectorTerms select no subnet";
                    self.set_missing(nodeclass::SUBNETS_READY, reason::SUBNETS_NOT_FOUND, message);
                } else {
                    self.set_true(nodeclass::SUBNETS_READY);
                }
            }
            Err(error) => self.failed(nodeclass::SUBNETS_READY, error),
        }
    }

    fn security_groups(&mut self, found: &Found) {
        match &found.security_groups {
            Ok(groups) => {
                let mut groups = groups.clone();
                groups.sort_by(|a, b| a.id.cmp(&b.id));
                groups.dedup_by(|a, b| a.id == b.id);
                let is_empty = groups.is_empty();
                self.status.security_groups = groups;
                if is_empty {
                    let message = "spec.securityGroupSelectorTerms select no security group";
                    self.set_missing(nodeclass::SECURITY_GROUPS_READY, reason::SECURITY_GROUPS_NOT_FOUND, message);
                } else {
                    self.set_true(nodeclass::SECURITY_GROUPS_READY);
                }
            }
            Err(error) => self.failed(nodeclass::SECURITY_GROUPS_READY, error),
        }
    }

    fn images(&mut self, found: &Found) {
        match &found.images {
            Ok(images) => {
                self.status.amis.clone_from(images);
                if images.is_empty() {
                    let message = "spec.amiSelectorTerms select no image";
                    self.set_missing(nodeclass::AMIS_READY, reason::AMI_NOT_FOUND, message);
                } else {
                    self.set_true(nodeclass::AMIS_READY);
                }
            }
            Err(ImageError::Alias(error)) => {
                self.status.amis.clear();
                self.set(nodeclass::AMIS_READY, FALSE, reason::UNSUPPORTED_ALIAS, &error.to_string());
            }
            Err(ImageError::Cloud(error)) => self.failed(nodeclass::AMIS_READY, error),
        }
    }

    fn reservations(&mut self, found: &Found) {
        match &found.reservations {
            Ok(reservations) => {
                self.status.capacity_reservations = found::reservations(reservations, self.now);
                // An empty list is valid: reservations may be created later.
                self.set_true(nodeclass::CAPACITY_RESERVATIONS_READY);
            }
            Err(error) => self.failed(nodeclass::CAPACITY_RESERVATIONS_READY, error),
        }
    }

    fn placement_group(&mut self, found: &Found) {
        let kind = nodeclass::PLACEMENT_GROUP_READY;
        match &found.placement_group {
            Ok(Selected::Nothing | Selected::Group(_)) => self.set_true(kind),
            Ok(Selected::Missing) => {
                let message = "spec.placementGroupSelector selects a placement group that does not exist";
                self.set(kind, FALSE, reason::PLACEMENT_GROUP_NOT_FOUND, message);
            }
            // The status does not store the group, so without the lookup nothing is known of it.
            Err(error) => self.set(kind, FALSE, reason::PLACEMENT_GROUP_RESOLUTION_FAILED, &error.to_string()),
        }
    }

    fn instance_profile(&mut self, found: &Found) {
        match &found.instance_profile {
            Ok(name) => {
                self.status.instance_profile = Some(name.clone());
                self.set_true(nodeclass::INSTANCE_PROFILE_READY);
            }
            Err(error) => self.failed(nodeclass::INSTANCE_PROFILE_READY, error),
        }
    }

    fn validation(&mut self, class: &Ec2NodeClass, cluster: &Cluster, found: &Found) {
        let kind = nodeclass::VALIDATION_SUCCEEDED;
        if family_of(&class.spec) == AmiFamily::Al2023 && cluster.service_cidr.is_none() {
            let message = "the network of the cluster's Services is not known, and nodeadm needs it";
            self.set(kind, FALSE, reason::CLUSTER_CIDR_RESOLUTION_FAILED, message);
            return;
        }
        if let Some((reason, message)) = kubelet_refusal(class, self.gates) {
            self.set(kind, FALSE, reason, &message);
            return;
        }
        for (status, word) in [(FALSE, "false"), (UNKNOWN, "unknown")] {
            let not_ready = |kind: &&&str| self.condition(kind).map_or(UNKNOWN, |one| one.status.as_str()) == status;
            let dependencies: Vec<&str> = OF_VALIDATION.iter().filter(not_ready).copied().collect();
            if !dependencies.is_empty() {
                let message = format!("{}: {word}", dependencies.join(", "));
                self.set(kind, status, reason::DEPENDENCIES_NOT_READY, &message);
                return;
            }
        }
        if let Some(tag) = class.spec.tags.keys().find(|key| restricted(key)) {
            let message = format!("spec.tags: `{tag}` is set on everything by the controller");
            self.set(kind, FALSE, reason::TAG_VALIDATION_FAILED, &message);
            return;
        }
        match &found.trial {
            Some(Err(trial)) => self.trial(trial),
            Some(Ok(())) | None => self.set_true(kind),
        }
    }

    /// Handles a failed dry run: missing permissions and invalid user data are attributed to the class, any other error
    /// is temporary.
    fn trial(&mut self, trial: &Trial) {
        let kind = nodeclass::VALIDATION_SUCCEEDED;
        let message = trial.error.to_string();
        match &trial.error {
            CloudError::Unauthorized { .. } => {
                let reason = match trial.call {
                    TrialCall::CreateLaunchTemplate => reason::CREATE_LAUNCH_TEMPLATE_AUTH_CHECK_FAILED,
                    TrialCall::CreateFleet => reason::CREATE_FLEET_AUTH_CHECK_FAILED,
                    TrialCall::RunInstances => reason::RUN_INSTANCES_AUTH_CHECK_FAILED,
                };
                self.set(kind, FALSE, reason, &message);
            }
            CloudError::BadClass { reason, .. } if reason == reason::USER_DATA_SIZE_LIMIT_EXCEEDED => {
                self.set(kind, FALSE, reason::USER_DATA_SIZE_LIMIT_EXCEEDED, &message);
            }
            _ if self.is(kind, TRUE) => self.set_true(kind),
            error => self.set(kind, UNKNOWN, error.reason(), &message),
        }
    }

    fn bootstrap(&mut self, class: &Ec2NodeClass, cluster: &Cluster) {
        let kind = nodeclass::BOOTSTRAP_VALID;
        let findings = bootstrap_findings(class, cluster);
        let texts = |severity| -> Vec<String> {
            let of_severity = findings.iter().filter(|finding| finding.severity == severity);
            of_severity.map(finding_text).collect()
        };
        let errors = texts(Severity::Error);
        let warnings = texts(Severity::Warning);
        match (findings.first(), errors.as_slice(), warnings.as_slice()) {
            (Some(first), [_, ..], _) => self.set(kind, FALSE, first.verdict.code, &first_few(&errors)),
            (_, _, [_, ..]) => self.set(kind, TRUE, "Warnings", &first_few(&warnings)),
            _ => self.set_true(kind),
        }
    }

    fn ready(&mut self) {
        for (status, reason) in [(FALSE, reason::UNHEALTHY_DEPENDENTS), (UNKNOWN, reason::RECONCILING_DEPENDENTS)] {
            let of_status = |kind: &&&str| self.condition(kind).map_or(UNKNOWN, |one| one.status.as_str()) == status;
            let dependents: Vec<&str> = OF_READY.iter().filter(of_status).copied().collect();
            if !dependents.is_empty() {
                let message = dependents.iter().map(|kind| format!("{kind}={status}")).collect::<Vec<_>>().join(", ");
                self.set(READY, status, reason, &message);
                return;
            }
        }
        self.set_true(READY);
    }
}

pub(super) fn first_few(texts: &[String]) -> String {
    let more = texts.len().saturating_sub(NAMED);
    let first = texts.iter().take(NAMED).cloned().collect::<Vec<_>>().join(" | ");
    if more > 0 { format!("{first} | and {more} more") } else { first }
}
