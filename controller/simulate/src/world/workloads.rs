//! kube-controller-manager: workloads keep their number of pods, Jobs run to completion, CronJobs create Jobs.
//!
//! A Deployment owns its pods directly: ReplicaSets and rolling updates do not affect nodes. A changed template applies
//! to new pods only.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodStatus, PodTemplateSpec, Toleration, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::DynamicObject;
use muster_api::decode;
use serde_json::{Value, json};

use super::super::api::{Api, Kind, Path, grace_of, has_ended, is_ready, node_of, path_of};

/// Kinds that own pods.
pub(crate) const WORKLOADS: [&str; 5] = ["Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob"];

/// Time for which completed pods of a Job are kept.
const KEPT: Duration = Duration::from_secs(600);

/// State of the controllers that is not stored in objects.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workloads {
    /// Number of the next pod of each workload.
    next: BTreeMap<(String, Path), u64>,
}

/// Number of pods that a workload wants, and related fields.
struct Workload {
    kind: &'static str,
    path: Path,
    uid: String,
    replicas: u64,
    /// Number of required completions, for a Job.
    completions: Option<u64>,
    succeeded: u64,
    first_ordinal: u64,
}

/// Templates of a workload's pods and claims.
struct Mould {
    template: PodTemplateSpec,
    claim_templates: Vec<PersistentVolumeClaim>,
}

/// Fields of a pod that its workload uses.
struct Own {
    path: Path,
    uid: Option<String>,
    /// Termination grace period, in seconds.
    grace: u64,
    /// True if it counts as a replica.
    is_active: bool,
    is_placed: bool,
    is_ready: bool,
    /// True if its Job has not counted its completion yet.
    is_news: bool,
    /// Completion time.
    ended_at: Option<Timestamp>,
}

// === impl Workloads ===

impl Workloads {
    /// Creates missing pods, and deletes excess ones. Returns the number of created pods by workload.
    pub(crate) fn keep(&mut self, api: &mut Api, now: Timestamp) -> Vec<(String, usize)> {
        let mut all: Vec<Workload> = Vec::new();
        for kind in WORKLOADS.into_iter().filter(|kind| *kind != "CronJob") {
            let objects = api.others.get(kind).into_iter().flat_map(|store| store.values());
            let living = objects.filter(|object| object.metadata.deletion_timestamp.is_none());
            all.extend(living.filter_map(|object| read(kind, object)));
        }
        let mut pods: BTreeMap<&str, Vec<Own>> = BTreeMap::new();
        for (path, pod) in api.pods.iter() {
            let owner = pod.metadata.owner_references.as_deref().and_then(|owners| owners.first());
            if let Some(owner) = owner {
                pods.entry(&owner.uid).or_default().push(Own::new(path, pod));
            }
        }
        let own: Vec<Vec<Own>> = all.iter().map(|workload| pods.remove(&*workload.uid).unwrap_or_default()).collect();
        let mut made = Vec::new();
        for (workload, own) in all.iter().zip(own) {
            let names = match workload.kind {
                "StatefulSet" => ordinals(workload, &own, api, now),
                "Job" => self.run_job(workload, &own, api, now),
                _ => self.replicas(workload, &own, api, now),
            };
            if names.is_empty() {
                continue;
            }
            let Some(mould) = mould(api, workload) else { continue };
            for name in &names {
                make(api, workload, &mould, name, now);
            }
            made.push((workload.path.to_string(), names.len()));
        }
        made
    }

    /// Returns the names of missing pods, or deletes excess ones.
    fn replicas(&mut self, workload: &Workload, own: &[Own], api: &mut Api, now: Timestamp) -> Vec<String> {
        let mut active: Vec<&Own> = own.iter().filter(|pod| pod.is_active).collect();
        let wanted = usize::try_from(workload.replicas).unwrap_or(usize::MAX);
        if active.len() > wanted {
            // As in Kubernetes: pods without a node first, then those that are not ready, then the newest.
            active.sort_by_key(|pod| (pod.is_placed, pod.is_ready, Reverse(&pod.uid), &pod.path));
            for pod in &active[..active.len() - wanted] {
                end(api, pod, now);
            }
            return Vec::new();
        }
        (active.len()..wanted).map(|_| self.fresh_name(workload, api)).collect()
    }

    fn run_job(&mut self, workload: &Workload, own: &[Own], api: &mut Api, now: Timestamp) -> Vec<String> {
        let fresh: Vec<&Path> = own.iter().filter(|pod| pod.is_news).map(|pod| &pod.path).collect();
        let succeeded = workload.succeeded.saturating_add(fresh.len() as u64);
        for path in &fresh {
            let _gone_already = api.update(&Kind::Pod, path, None, |pod: &mut Pod| {
                pod.metadata.labels.get_or_insert_default().insert(COUNTED.to_owned(), "true".to_owned());
            });
        }
        if !fresh.is_empty() {
            let kind = Kind::Other("Job".to_owned());
            let _gone_already = api.update(&kind, &workload.path, None, |job: &mut DynamicObject| {
                json_patch::merge(&mut job.data, &json!({"status": {"succeeded": succeeded}}));
            });
        }
        for pod in own.iter().filter(|pod| pod.ended_at.is_some_and(|ended| now >= muster_cloud::after(ended, KEPT))) {
            end(api, pod, now);
        }
        let active = own.iter().filter(|pod| pod.is_active).count() as u64;
        let completions = workload.completions.unwrap_or(if succeeded > 0 { 0 } else { workload.replicas });
        let left = completions.saturating_sub(succeeded);
        let missing = workload.replicas.min(left).saturating_sub(active);
        (0..missing).map(|_| self.fresh_name(workload, api)).collect()
    }

    /// Returns a name that no pod of the workload has had.
    fn fresh_name(&mut self, workload: &Workload, api: &Api) -> String {
        let next = self.next.entry((workload.kind.to_owned(), workload.path.clone())).or_insert(0);
        loop {
            let name = format!("{}-{next}", workload.path.name);
            *next += 1;
            if api.pods.get(&Path::new(workload.path.namespace.clone(), name.clone())).is_none() {
                return name;
            }
        }
    }
}

// === impl Own ===

impl Own {
    fn new(path: &Path, pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let is_counted = pod.metadata.labels.as_ref().is_some_and(|all| all.contains_key(COUNTED));
        let last_change = || status?.conditions.as_ref()?.last()?.last_transition_time.as_ref().map(|time| time.0);
        Self {
            path: path.clone(),
            uid: pod.metadata.uid.clone(),
            grace: grace_of(pod),
            is_active: pod.metadata.deletion_timestamp.is_none() && !has_ended(pod),
            is_placed: node_of(pod).is_some(),
            is_ready: is_ready(pod),
            is_news: !is_counted && status.and_then(|status| status.phase.as_deref()) == Some("Succeeded"),
            ended_at: has_ended(pod).then(last_change).flatten(),
        }
    }
}

/// Label of completed pods that the status of their Job counts.
const COUNTED: &str = "simulation.muster.dev/counted";

/// Returns the Job that a CronJob creates; `number` distinguishes its runs.
pub(crate) fn job_of(cron_job: &DynamicObject, number: u64) -> Option<DynamicObject> {
    let template = cron_job.data.pointer("/spec/jobTemplate")?;
    let name = cron_job.metadata.name.clone()?;
    let mut job: DynamicObject = decode(&serde_json::json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": template.get("metadata").cloned().unwrap_or_else(|| serde_json::json!({})),
        "spec": template.get("spec")?,
    }))
    .ok()?;
    job.metadata.name = Some(format!("{name}-{number}"));
    job.metadata.namespace.clone_from(&cron_job.metadata.namespace);
    job.metadata.owner_references =
        Some(vec![owner("batch/v1", "CronJob", &name, &cron_job.metadata.uid.clone().unwrap_or_default())]);
    Some(job)
}

/// Returns a controlling owner reference.
pub(crate) fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Returns a pod of a template, as its controller creates it and the API server admits it.
pub(crate) fn pod_of(api: &Api, template: &PodTemplateSpec, path: &Path, owner: OwnerReference) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    let mut pod = Pod {
        metadata: ObjectMeta {
            name: Some(path.name.clone()),
            namespace: Some(path.namespace.clone()),
            labels: meta.labels,
            annotations: meta.annotations,
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: Some(PodStatus { phase: Some("Pending".to_owned()), ..PodStatus::default() }),
    };
    super::admission::admit(api, &mut pod);
    pod
}

/// Returns a toleration of a taint key, for a number of seconds or unlimited.
pub(crate) fn tolerates(key: &str, effect: &str, seconds: Option<i64>) -> Toleration {
    Toleration {
        key: Some(key.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some(effect.to_owned()),
        toleration_seconds: seconds,
        value: None,
    }
}

fn read(kind: &'static str, object: &DynamicObject) -> Option<Workload> {
    let number = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_u64);
    let is_suspended = object.data.pointer("/spec/suspend").and_then(Value::as_bool).unwrap_or(false);
    let field = if kind == "Job" { "/spec/parallelism" } else { "/spec/replicas" };
    Some(Workload {
        kind,
        path: path_of(&object.metadata),
        uid: object.metadata.uid.clone()?,
        replicas: if is_suspended { 0 } else { number(field).unwrap_or(1) },
        completions: number("/spec/completions"),
        succeeded: number("/status/succeeded").unwrap_or(0),
        first_ordinal: number("/spec/ordinals/start").unwrap_or(0),
    })
}

fn mould(api: &Api, workload: &Workload) -> Option<Mould> {
    let spec = api.others.get(workload.kind)?.get(&workload.path)?.data.get("spec")?;
    let claim_templates = spec.get("volumeClaimTemplates").map(decode::<Vec<PersistentVolumeClaim>>);
    Some(Mould {
        template: decode(spec.get("template")?).ok()?,
        claim_templates: claim_templates.and_then(Result::ok).unwrap_or_default(),
    })
}

/// Handles the pods of a StatefulSet, whose names are fixed: a successor is created when its predecessor is gone.
fn ordinals(workload: &Workload, own: &[Own], api: &mut Api, now: Timestamp) -> Vec<String> {
    let wanted = workload.first_ordinal..workload.first_ordinal.saturating_add(workload.replicas);
    let ordinal = |pod: &Own| -> Option<u64> {
        let text = pod.path.name.strip_prefix(&*workload.path.name)?.strip_prefix('-')?;
        text.parse().ok().filter(|ordinal| wanted.contains(ordinal))
    };
    for pod in own.iter().filter(|pod| pod.is_active && ordinal(pod).is_none()) {
        end(api, pod, now);
    }
    let there: BTreeSet<u64> = own.iter().filter_map(ordinal).collect();
    let missing = wanted.clone().filter(|ordinal| !there.contains(ordinal));
    missing.map(|ordinal| format!("{}-{ordinal}", workload.path.name)).collect()
}

fn end(api: &mut Api, pod: &Own, now: Timestamp) {
    let _gone_already = api.end_pod(&pod.path, None, Duration::from_secs(pod.grace), now);
}

fn make(api: &mut Api, workload: &Workload, mould: &Mould, name: &str, now: Timestamp) {
    let path = Path::new(workload.path.namespace.clone(), name);
    let group = if workload.kind == "Job" { "batch/v1" } else { "apps/v1" };
    let owner = owner(group, workload.kind, &workload.path.name, &workload.uid);
    let mut pod = pod_of(api, &mould.template, &path, owner);
    for template in &mould.claim_templates {
        let volume = template.metadata.name.clone().unwrap_or_default();
        let claim = format!("{volume}-{name}");
        let mut made = template.clone();
        made.metadata.name = Some(claim.clone());
        made.metadata.namespace = Some(path.namespace.clone());
        // An existing claim of that name belonged to an earlier pod of the same name and is reused.
        let _there_already = api.create(made, now);
        if let Some(spec) = &mut pod.spec {
            let volumes = spec.volumes.get_or_insert_default();
            volumes.retain(|one| one.name != volume);
            let source = PersistentVolumeClaimVolumeSource { claim_name: claim, ..Default::default() };
            volumes.push(Volume { name: volume, persistent_volume_claim: Some(source), ..Volume::default() });
        }
    }
    super::volumes::make_ephemeral(api, &pod, now);
    let _there_already = api.create(pod, now);
}
