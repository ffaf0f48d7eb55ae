//! What Muster and the kubelets have written of the machines by the time at which this begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use muster_api::{NodeClaim, annotations, labels};
use muster_link::SecretHash;
use serde_json::{Value, json};

use super::machine::Machine;
use crate::ec2::{CapacityType, Ec2, Instance, MetadataOptions, REGION};
use crate::error::Result;

/// The secret of the launch template that all of them were launched with.
pub const LAUNCH_SECRET: &str = "mlt-of-ten-thousand-7f3a9c";
/// Requests that are under way.
const AT_ONCE: usize = 24;
/// What all machines are.
const TYPE: &str = "m5.large";

/// Where they are.
#[derive(Debug, Clone)]
pub struct Place {
    /// Name of the EKS cluster.
    pub cluster: String,
    /// Their NodePool.
    pub pool: String,
    /// Their EC2NodeClass.
    pub class: String,
    /// Which authorities their user data have them believe, as a NodeClaim says it.
    pub pins: String,
}

/// Has every machine launched, registered and initialized, with a Node whose kubelet is not ready yet: nobody has enrolled.
///
/// # Errors
/// What the API server says.
pub async fn create(client: &Client, ec2: &Ec2, place: &Place, machines: &[Arc<Machine>]) -> Result<()> {
    let claims: Api<NodeClaim> = Api::all(client.clone());
    let nodes: Api<Node> = Api::all(client.clone());
    let (parameters, patching) = (PostParams::default(), PatchParams::default());
    let made = stream::iter(machines).map(async |machine| {
        let of = read(claim(place, machine))?;
        let made: NodeClaim = claims.create(&parameters, &of).await?;
        let status = Patch::Merge(json!({ "status": status(machine) }));
        claims.patch_status(&machine.claim, &patching, &status).await?;
        nodes.create(&parameters, &read(node(place, machine))?).await?;
        let uid = made.metadata.uid.unwrap_or_default();
        Ok::<_, crate::Error>(instance(place, machine, &format!("{uid}.1")))
    });
    let made: Vec<Instance> = made.buffer_unordered(AT_ONCE).try_collect().await?;
    ec2.take_in(made);
    Ok(())
}

/// Has the kubelets of all machines be ready.
///
/// # Errors
/// What the API server says.
pub async fn make_ready(client: &Client, machines: &[Arc<Machine>]) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let (ready, patching) = (ready("True", "KubeletReady"), PatchParams::default());
    let patch = Patch::Strategic(json!({ "status": { "conditions": [ready] } }));
    let patched =
        stream::iter(machines).map(async |machine| nodes.patch_status(&machine.node, &patching, &patch).await);
    patched.buffer_unordered(AT_ONCE).try_for_each(async |_| Ok(())).await?;
    Ok(())
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> Result<T> {
    Ok(serde_json::from_value(object).map_err(std::io::Error::from)?)
}

fn labels_of(place: &Place, machine: &Machine) -> BTreeMap<&'static str, String> {
    let text = str::to_owned;
    BTreeMap::from([
        (labels::NODEPOOL, place.pool.clone()),
        (labels::EC2NODECLASS, place.class.clone()),
        (labels::CAPACITY_TYPE, text(labels::ON_DEMAND)),
        (labels::INSTANCE_TYPE, text(TYPE)),
        (labels::ZONE, text(machine.zone)),
        (labels::REGION, text(REGION)),
        (labels::ARCH, text(labels::AMD64)),
        (labels::OS, text(labels::LINUX)),
    ])
}

fn room() -> (Value, Value) {
    let of = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory, "pods": "29", "ephemeral-storage": "20Gi"});
    (of("2", "7577Mi"), of("1930m", "6903Mi"))
}

fn claim(place: &Place, machine: &Machine) -> Value {
    let requirement = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": machine.claim,
            "labels": labels_of(place, machine),
            "annotations": {
                annotations::AGENT: annotations::AGENT_EXPECTED,
                annotations::AGENT_SECRET: SecretHash::of(LAUNCH_SECRET).to_string(),
                annotations::AGENT_PINS: place.pins,
                annotations::LAUNCH_ATTEMPT: "1",
                annotations::INSTANCE_TAGGED: "true",
                annotations::CLUSTER_NAME_TAGGED: "true",
            },
            "finalizers": [annotations::TERMINATION_FINALIZER],
        },
        "spec": {
            "nodeClassRef": {"group": labels::AWS_GROUP, "kind": "EC2NodeClass", "name": place.class},
            "requirements": [
                requirement(labels::NODEPOOL, &place.pool),
                requirement(labels::CAPACITY_TYPE, labels::ON_DEMAND),
                requirement(labels::INSTANCE_TYPE, TYPE),
                requirement(labels::ZONE, machine.zone),
            ],
            "resources": {"requests": {"cpu": "1500m", "memory": "3Gi", "pods": "1"}},
            "expireAfter": "Never",
        },
    })
}

fn status(machine: &Machine) -> Value {
    let (capacity, allocatable) = room();
    let condition = |kind: &str| {
        let at = machine.launched_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": at,
               "observedGeneration": 1})
    };
    let conditions = ["Launched", "Registered", "Initialized", "Ready"].map(condition);
    json!({
        "nodeName": machine.node, "providerID": machine.provider_id(), "imageID": machine.image,
        "capacity": capacity, "allocatable": allocatable,
        "conditions": conditions,
    })
}

fn ready(status: &str, reason: &str) -> Value {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({"type": "Ready", "status": status, "reason": reason, "message": "", "lastHeartbeatTime": now,
           "lastTransitionTime": now})
}

fn node(place: &Place, machine: &Machine) -> Value {
    let (capacity, allocatable) = room();
    let mut labels_of = labels_of(place, machine);
    labels_of.insert(labels::HOSTNAME, machine.node.clone());
    for mark in [labels::REGISTERED, labels::INITIALIZED] {
        labels_of.insert(mark, "true".to_owned());
    }
    json!({
        "metadata": {"name": machine.node, "labels": labels_of, "finalizers": [annotations::TERMINATION_FINALIZER]},
        "spec": {"providerID": machine.provider_id()},
        "status": {
            "capacity": capacity, "allocatable": allocatable, "conditions": [ready("False", "KubeletNotReady")],
            "addresses": [{"type": "InternalIP", "address": machine.address}],
            "nodeInfo": {
                "architecture": "amd64", "bootID": machine.boot_id(), "containerRuntimeVersion": "containerd://2.1.0",
                "kernelVersion": "6.12.0", "kubeProxyVersion": "", "kubeletVersion": "v1.35.0",
                "machineID": machine.instance, "operatingSystem": "linux", "osImage": "Amazon Linux 2023",
                "systemUUID": machine.instance,
            },
        },
    })
}

fn instance(place: &Place, machine: &Machine, token: &str) -> Instance {
    let tags = [
        (muster_aws::launch::CLUSTER_NAME, place.cluster.as_str()),
        (muster_aws::launch::LAUNCH_TOKEN, token),
        (labels::NODEPOOL, &place.pool),
        (labels::EC2NODECLASS, &place.class),
        ("Name", &machine.node),
    ];
    Instance {
        id: machine.instance.clone(),
        region: REGION.to_owned(),
        zone: machine.zone.to_owned(),
        instance_type: TYPE.to_owned(),
        capacity_type: CapacityType::OnDemand,
        architecture: "x86_64".to_owned(),
        private_address: machine.address,
        private_dns_name: machine.node.clone(),
        subnet: "subnet-0a9e0000000000000".to_owned(),
        security_groups: vec!["sg-0a9e0000000000000".to_owned()],
        image: machine.image.clone(),
        user_data: None,
        tags: tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        launch_template: None,
        fleet: None,
        instance_profile: None,
        metadata: MetadataOptions::default(),
        spot_request: None,
        reservation: None,
        placement_group: None,
        partition: None,
        launched_at: machine.launched_at,
        launched_by: "controller".to_owned(),
    }
}
