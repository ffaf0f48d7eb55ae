//! Workloads, which create pods.

use std::sync::Arc;

use muster_scheduling::model::LabelSelector;

use super::field::{Decoded, Field};
use super::meta::{Meta, meta};
use super::pod::{PodTemplate, template};
use super::selector::{label_selector, of_labels};

/// A Deployment, StatefulSet, ReplicaSet, ReplicationController, Job or CronJob.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Position in the input, in one sequence with pods.
    pub sequence: usize,
    /// Kind.
    pub kind: &'static str,
    /// Metadata.
    pub meta: Meta,
    /// Template of its pods.
    pub template: Arc<PodTemplate>,
    /// `spec.selector`.
    pub selector: Option<LabelSelector>,
    /// Number of pods that run at a time.
    pub replicas: u32,
    /// Ordinal of its first pod (`spec.ordinals.start` of a StatefulSet).
    pub first_ordinal: u32,
    /// `volumeClaimTemplates`: name and storage class.
    pub claim_templates: Vec<(Arc<str>, Option<Arc<str>>)>,
}

/// Selector of a controller of pods, which the default topology spread uses.
#[derive(Debug, Clone, PartialEq)]
pub struct Owning {
    /// Kind.
    pub kind: &'static str,
    /// `namespace/name`.
    pub path: Arc<str>,
    /// `spec.selector`.
    pub selector: LabelSelector,
}

impl Owning {
    /// Returns the selector of `workload`, if kube-scheduler uses it.
    #[must_use]
    pub fn of(workload: &Workload) -> Option<Self> {
        let counts = matches!(workload.kind, "ReplicaSet" | "ReplicationController" | "StatefulSet");
        let selector = workload.selector.as_ref().filter(|_| counts)?;
        Some(Self { kind: workload.kind, path: workload.meta.path(), selector: selector.clone() })
    }
}

/// A DaemonSet.
#[derive(Debug, Clone, PartialEq)]
pub struct DaemonSet {
    /// Metadata.
    pub meta: Meta,
    /// Template of its pods.
    pub template: Arc<PodTemplate>,
}

const OBJECT: &[&str] = &["apiVersion", "kind", "metadata", "spec", "status"];

const DEPLOYMENT: &[&str] = &[
    "minReadySeconds",
    "paused",
    "progressDeadlineSeconds",
    "replicas",
    "revisionHistoryLimit",
    "selector",
    "strategy",
    "template",
];

const STATEFUL_SET: &[&str] = &[
    "minReadySeconds",
    "ordinals",
    "persistentVolumeClaimRetentionPolicy",
    "podManagementPolicy",
    "replicas",
    "revisionHistoryLimit",
    "selector",
    "serviceName",
    "template",
    "updateStrategy",
    "volumeClaimTemplates",
];

const JOB: &[&str] = &[
    "activeDeadlineSeconds",
    "backoffLimit",
    "backoffLimitPerIndex",
    "completionMode",
    "completions",
    "managedBy",
    "manualSelector",
    "maxFailedIndexes",
    "parallelism",
    "podFailurePolicy",
    "podReplacementPolicy",
    "scheduling",
    "selector",
    "successPolicy",
    "suspend",
    "template",
    "ttlSecondsAfterFinished",
];

const CRON_JOB: &[&str] = &[
    "concurrencyPolicy",
    "failedJobsHistoryLimit",
    "jobTemplate",
    "schedule",
    "startingDeadlineSeconds",
    "successfulJobsHistoryLimit",
    "suspend",
    "timeZone",
];

/// Decodes a Deployment, StatefulSet, ReplicaSet or ReplicationController.
pub(crate) fn replicated(object: &Field<'_>, kind: &'static str) -> Decoded<(Workload, PodTemplate)> {
    object.only(OBJECT);
    let meta = meta(object, true)?;
    let spec = object.require("spec")?;
    spec.only(match kind {
        "Deployment" => DEPLOYMENT,
        "StatefulSet" => STATEFUL_SET,
        _ => &["minReadySeconds", "replicas", "selector", "template"],
    });
    let claim_templates = spec.list("volumeClaimTemplates", |claim| {
        let class = claim.read("spec", |spec| spec.read("storageClassName", |class| class.shared()))?;
        Ok((claim.require("metadata")?.require("name")?.shared()?, class.flatten()))
    })?;
    let ordinal = spec.read("ordinals", |ordinals| ordinals.read("start", |start| start.count()))?;
    let workload = Workload {
        sequence: 0,
        kind,
        meta,
        template: Arc::default(),
        selector: spec.read("selector", |selector| match kind {
            "ReplicationController" => Ok(of_labels(&selector.labels()?)),
            _ => label_selector(selector),
        })?,
        replicas: spec.read("replicas", |count| count.crowd())?.unwrap_or(1),
        first_ordinal: ordinal.flatten().unwrap_or(0),
        claim_templates,
    };
    Ok((workload, template(spec.require("template")?)?))
}

/// Decodes a Job.
pub(crate) fn job(object: &Field<'_>) -> Decoded<(Workload, PodTemplate)> {
    object.only(OBJECT);
    let meta = meta(object, true)?;
    let finished = object.read("status", |status| {
        let succeeded = status.read("succeeded", |count| count.count())?.unwrap_or(0);
        let ended = status.list("conditions", |condition| {
            let kind = condition.shared_at("type")?;
            Ok(matches!(kind.as_deref(), Some("Complete" | "Failed"))
                && condition.shared_at("status")?.as_deref() == Some("True"))
        })?;
        Ok(if ended.contains(&true) { u32::MAX } else { succeeded })
    })?;
    let (mut workload, template) = job_spec(&object.require("spec")?, meta, "Job", finished.unwrap_or(0))?;
    workload.kind = "Job";
    Ok((workload, template))
}

/// Decodes a CronJob as one run.
pub(crate) fn cron_job(object: &Field<'_>) -> Decoded<(Workload, PodTemplate)> {
    object.only(OBJECT);
    let meta = meta(object, true)?;
    let spec = object.require("spec")?;
    spec.only(CRON_JOB);
    let suspended = spec.read("suspend", |value| value.boolean())?.unwrap_or(false);
    let job = spec.require("jobTemplate")?;
    let (mut workload, template) = job_spec(&job.require("spec")?, meta, "CronJob", 0)?;
    if suspended {
        workload.replicas = 0;
    }
    Ok((workload, template))
}

fn job_spec(spec: &Field<'_>, meta: Meta, kind: &'static str, finished: u32) -> Decoded<(Workload, PodTemplate)> {
    spec.only(JOB);
    let parallelism = spec.read("parallelism", |count| count.crowd())?.unwrap_or(1);
    // Without completions a Job is a work queue: any success ends it, and until then all its pods run.
    let completions = spec.read("completions", |count| count.count())?;
    let left = match completions {
        Some(completions) => completions.saturating_sub(finished),
        None if finished > 0 => 0,
        None => parallelism,
    };
    let suspended = spec.read("suspend", |value| value.boolean())?.unwrap_or(false);
    let workload = Workload {
        sequence: 0,
        kind,
        meta,
        template: Arc::default(),
        selector: spec.read("selector", label_selector)?,
        replicas: if suspended { 0 } else { parallelism.min(left) },
        first_ordinal: 0,
        claim_templates: Vec::new(),
    };
    Ok((workload, template(spec.require("template")?)?))
}

/// Decodes a DaemonSet.
pub(crate) fn daemon_set(object: &Field<'_>) -> Decoded<(DaemonSet, PodTemplate)> {
    object.only(OBJECT);
    let meta = meta(object, true)?;
    let spec = object.require("spec")?;
    spec.only(&["minReadySeconds", "revisionHistoryLimit", "selector", "template", "updateStrategy"]);
    Ok((DaemonSet { meta, template: Arc::default() }, template(spec.require("template")?)?))
}
