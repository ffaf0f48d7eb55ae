//! kube-controller-manager: workloads keep as many pods as they ask for, Jobs run to their end, CronJobs start Jobs.
//!
//! A Deployment owns its pods itself: what stands between them, and rolling updates, changes no node. A changed template
//! is that of new pods.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodStatus, PodTemplateSpec, Toleration, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::DynamicObject;
use serde::Deserialize;
use serde_json::Value;

use super::super::api::{Api, Kind, Path, grace_of, has_ended, is_ready, node_of, path_of};

/// Kinds that keep pods running.
pub(crate) const WORKLOADS: [&str; 5] = ["Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob"];

/// How long the pods of a Job stay once they have ended.
const KEPT: Duration = Duration::from_secs(600);

/// What the controllers know that no object says.
#[derive(Debug, Default)]
pub(crate) struct Workloads {
    /// The number of the next pod of each workload.
    next: BTreeMap<(String, Path), u64>,
}

/// A workload, as far as pods come of it.
struct Workload {
    kind: String,
    path: Path,
    uid: String,
    replicas: u64,
    /// How many pods have to succeed, of a Job.
    completions: Option<u64>,
    succeeded: u64,
    first_ordinal: u64,
    template: PodTemplateSpec,
    claim_templates: Vec<PersistentVolumeClaim>,
}

// === impl Workloads ===

impl Workloads {
    /// Makes the pods that are missing, and ends those that are too many. What was made, by workload.
    pub(crate) fn keep(&mut self, api: &mut Api, now: Timestamp) -> Vec<(String, usize)> {
        let all: Vec<Workload> = WORKLOADS
            .iter()
            .filter_map(|kind| api.others.get(*kind))
            .flat_map(|shelf| shelf.values())
            .filter(|object| object.metadata.deletion_timestamp.is_none())
            .filter_map(read)
            .collect();
        let mut pods: BTreeMap<String, Vec<(Path, Pod)>> = BTreeMap::new();
        for (path, pod) in api.pods.iter() {
            let owner = pod.metadata.owner_references.as_deref().and_then(|owners| owners.first());
            if let Some(owner) = owner {
                pods.entry(owner.uid.clone()).or_default().push((path.clone(), pod.clone()));
            }
        }
        let mut made = Vec::new();
        for workload in &all {
            let own = pods.remove(&workload.uid).unwrap_or_default();
            let count = match workload.kind.as_str() {
                "StatefulSet" => keep_ordinals(workload, &own, api, now),
                "Job" => self.run_job(workload, &own, api, now),
                _ => self.keep_replicas(workload, &own, api, now),
            };
            if count > 0 {
                made.push((workload.path.to_string(), count));
            }
        }
        made
    }

    fn keep_replicas(&mut self, workload: &Workload, own: &[(Path, Pod)], api: &mut Api, now: Timestamp) -> usize {
        let active: Vec<&(Path, Pod)> = own.iter().filter(|(_, pod)| is_active(pod)).collect();
        let wanted = usize::try_from(workload.replicas).unwrap_or(usize::MAX);
        if active.len() > wanted {
            // As the controller does it: those without a node first, then those that are not ready, then the youngest.
            let mut order: Vec<&(Path, Pod)> = active.clone();
            order.sort_by_key(|(path, pod)| {
                (node_of(pod).is_some(), is_ready(pod), std::cmp::Reverse(pod.metadata.uid.clone()), path.clone())
            });
            for (path, pod) in order.into_iter().take(active.len() - wanted) {
                end(api, path, pod, now);
            }
            return 0;
        }
        let missing = wanted - active.len();
        for _ in 0..missing {
            let name = self.fresh_name(workload, own);
            make(api, workload, &name, now);
        }
        missing
    }

    fn run_job(&mut self, workload: &Workload, own: &[(Path, Pod)], api: &mut Api, now: Timestamp) -> usize {
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        let uncounted = |pod: &Pod| {
            let counted = pod.metadata.labels.as_ref().and_then(|all| all.get(COUNTED)).is_some();
            phase(pod) == "Succeeded" && !counted
        };
        let fresh: Vec<Path> = own.iter().filter(|(_, pod)| uncounted(pod)).map(|(path, _)| path.clone()).collect();
        let succeeded = workload.succeeded + fresh.len() as u64;
        for path in &fresh {
            let _gone_already = api.update(&Kind::Pod, path, None, |pod: &mut Pod| {
                pod.metadata.labels.get_or_insert_default().insert(COUNTED.to_owned(), "true".to_owned());
            });
        }
        if !fresh.is_empty() {
            let kind = Kind::Other("Job".to_owned());
            let _gone_already = api.update(&kind, &workload.path, None, |job: &mut DynamicObject| {
                job.data["status"]["succeeded"] = succeeded.into();
            });
        }
        for (path, pod) in own.iter().filter(|(_, pod)| has_ended(pod)) {
            let ended =
                pod.status.as_ref().and_then(|status| status.conditions.as_ref()?.last()?.last_transition_time.clone());
            if ended.is_some_and(|ended| now >= muster_cloud::after(ended.0, KEPT)) {
                end(api, path, pod, now);
            }
        }
        let active = own.iter().filter(|(_, pod)| is_active(pod)).count() as u64;
        let completions = workload.completions.unwrap_or(if succeeded > 0 { 0 } else { workload.replicas });
        let left = completions.saturating_sub(succeeded);
        let missing = workload.replicas.min(left).saturating_sub(active);
        for _ in 0..missing {
            let name = self.fresh_name(workload, own);
            make(api, workload, &name, now);
        }
        usize::try_from(missing).unwrap_or(usize::MAX)
    }

    /// A name that no pod of the workload has ever had.
    fn fresh_name(&mut self, workload: &Workload, own: &[(Path, Pod)]) -> String {
        let next = self.next.entry((workload.kind.clone(), workload.path.clone())).or_insert(0);
        loop {
            let name = format!("{}-{next}", workload.path.name);
            *next += 1;
            if !own.iter().any(|(path, _)| path.name == name) {
                return name;
            }
        }
    }
}

/// Marks the ended pods of a Job that its status counts.
const COUNTED: &str = "simulation.muster.dev/counted";

/// A Job of a CronJob, as its controller makes it; `number` tells its runs apart.
pub(crate) fn job_of(cron_job: &DynamicObject, number: u64) -> Option<DynamicObject> {
    let template = cron_job.data.pointer("/spec/jobTemplate")?;
    let name = cron_job.metadata.name.clone()?;
    let mut job: DynamicObject = serde_json::from_value(serde_json::json!({
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

/// An owner that controls.
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

/// A pod of a template, as its controller makes it and the API server admits it.
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

/// A toleration of a taint by its key, for so long.
pub(crate) fn tolerates(key: &str, effect: &str, seconds: Option<i64>) -> Toleration {
    Toleration {
        key: Some(key.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some(effect.to_owned()),
        toleration_seconds: seconds,
        value: None,
    }
}

fn read(object: &DynamicObject) -> Option<Workload> {
    let kind = object.types.as_ref()?.kind.clone();
    if kind == "CronJob" {
        return None;
    }
    let number = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_u64);
    let spec = object.data.get("spec")?;
    let is_suspended = spec.get("suspend").and_then(Value::as_bool).unwrap_or(false);
    let field = if kind == "Job" { "/spec/parallelism" } else { "/spec/replicas" };
    let claim_templates = spec.get("volumeClaimTemplates").map(Vec::<PersistentVolumeClaim>::deserialize);
    Some(Workload {
        path: path_of(&object.metadata),
        uid: object.metadata.uid.clone()?,
        replicas: if is_suspended { 0 } else { number(field).unwrap_or(1) },
        completions: number("/spec/completions"),
        succeeded: number("/status/succeeded").unwrap_or(0),
        first_ordinal: number("/spec/ordinals/start").unwrap_or(0),
        template: PodTemplateSpec::deserialize(spec.get("template")?).ok()?,
        claim_templates: claim_templates.and_then(Result::ok).unwrap_or_default(),
        kind,
    })
}

/// Whether the pod stands for one of those that are wanted.
fn is_active(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && !has_ended(pod)
}

/// The pods of a StatefulSet have fixed names: one follows when the one before is gone.
fn keep_ordinals(workload: &Workload, own: &[(Path, Pod)], api: &mut Api, now: Timestamp) -> usize {
    let wanted: Vec<String> = (workload.first_ordinal..workload.first_ordinal + workload.replicas)
        .map(|ordinal| format!("{}-{ordinal}", workload.path.name))
        .collect();
    for (path, pod) in own.iter().filter(|(path, pod)| is_active(pod) && !wanted.contains(&path.name)) {
        end(api, path, pod, now);
    }
    let missing: Vec<&String> = wanted.iter().filter(|name| !own.iter().any(|(path, _)| path.name == **name)).collect();
    for name in &missing {
        make(api, workload, name, now);
    }
    missing.len()
}

fn end(api: &mut Api, path: &Path, pod: &Pod, now: Timestamp) {
    let _gone_already = api.end_pod(path, None, Duration::from_secs(grace_of(pod)), now);
}

fn make(api: &mut Api, workload: &Workload, name: &str, now: Timestamp) {
    let path = Path::new(workload.path.namespace.clone(), name);
    let group = if workload.kind == "Job" { "batch/v1" } else { "apps/v1" };
    let owner = owner(group, &workload.kind, &workload.path.name, &workload.uid);
    let mut pod = pod_of(api, &workload.template, &path, owner);
    for template in &workload.claim_templates {
        let volume = template.metadata.name.clone().unwrap_or_default();
        let claim = format!("{volume}-{name}");
        let mut made = template.clone();
        made.metadata.name = Some(claim.clone());
        made.metadata.namespace = Some(path.namespace.clone());
        // One that is there already belongs to an earlier pod of the name, and so to this one.
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
