//! What EC2 launches becomes a Node, or does not, as a test says.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use muster_tests::cluster::fake_node;
use muster_tests::ec2::{Ec2, Event, Instance};
use muster_tests::machine::Shape;
use muster_tests::wait;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::ground::SOON;

/// What becomes of instances from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joins {
    /// A Node that registers as its user data says.
    AsTold,
    /// A Node whose user data was edited: it comes without any taint.
    WithoutTaints,
    /// A Node whose kubelet waits for a network plugin.
    NotReady,
    /// Nothing.
    Never,
}

/// What Nodes say of their memory from now on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) capacity: &'static str,
    pub(crate) allocatable: &'static str,
}

/// Follows an EC2, as its machines and the cluster's cloud controller do. It ends with the value.
pub(crate) struct Machines {
    joins: Arc<Mutex<Joins>>,
    memory: Arc<Mutex<Option<Memory>>>,
    absent: Arc<Mutex<Vec<String>>>,
    silent: Arc<AtomicBool>,
    _follows: JoinSet<()>,
}

impl Machines {
    pub(crate) fn start(ec2: &Arc<Ec2>, client: Client) -> Self {
        let joins = Arc::new(Mutex::new(Joins::AsTold));
        let memory = Arc::<Mutex<Option<Memory>>>::default();
        let absent = Arc::<Mutex<Vec<String>>>::default();
        let (own, said, mut events) = (Arc::clone(&joins), Arc::clone(&memory), ec2.events());
        let never = Arc::clone(&absent);
        let silent = Arc::<AtomicBool>::default();
        let dies = Arc::clone(&silent);
        let mut follows = JoinSet::new();
        follows.spawn(async move {
            let nodes: Api<Node> = Api::all(client);
            while let Some(event) = events.next().await {
                match event {
                    Event::Launched(instance) => {
                        let (joins, memory) = (*own.lock().unwrap(), *said.lock().unwrap());
                        let is_absent = never.lock().unwrap().contains(&instance.instance_type);
                        if joins != Joins::Never && !is_absent {
                            join(&nodes, &node(&instance, joins, memory)).await;
                        }
                    }
                    Event::Ended { instance, .. } => {
                        if dies.load(Ordering::SeqCst) {
                            fall_silent(&nodes, &instance.private_dns_name).await;
                        }
                        leave(&nodes, &instance.private_dns_name).await;
                    }
                }
            }
        });
        Self { joins, memory, absent, silent, _follows: follows }
    }

    pub(crate) fn join(&self, joins: Joins) {
        *self.joins.lock().unwrap() = joins;
    }

    /// Instances of these types never join from now on.
    pub(crate) fn never(&self, types: &[&str]) {
        self.absent.lock().unwrap().extend(types.iter().map(|&name| name.to_owned()));
    }

    /// Nodes whose instances end are dead from now on: KWOK keeps them alive otherwise until they are gone.
    pub(crate) fn die(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }

    pub(crate) fn say(&self, memory: Option<Memory>) {
        *self.memory.lock().unwrap() = memory;
    }
}

/// Creates the Node, as often as it takes. One that has joined before its controller was killed is there.
async fn join(nodes: &Api<Node>, node: &Node) {
    let asked = wait::until_some("the Node has joined", SOON * 2, || async {
        Ok(answered(nodes.create(&PostParams::default(), node).await.map(drop)))
    });
    asked.await.unwrap();
}

/// Takes the Node from KWOK, and has its kubelet silent, if it is there.
async fn fall_silent(nodes: &Api<Node>, name: &str) {
    let let_go = Patch::Merge(json!({"metadata": {"annotations": {"kwok.x-k8s.io/node": null}}}));
    let silent = json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"});
    let silent = Patch::Strategic(json!({"status": {"conditions": [silent]}}));
    let asked = wait::until_some("the Node is silent", SOON * 2, || async {
        let with = PatchParams::default();
        let released = answered(nodes.patch(name, &with, &let_go).await.map(drop));
        Ok(released.and(answered(nodes.patch_status(name, &with, &silent).await.map(drop))))
    });
    asked.await.unwrap();
}

/// Deletes the Node, if it is there.
async fn leave(nodes: &Api<Node>, name: &str) {
    let asked = wait::until_some("the Node is being deleted", SOON * 2, || async {
        Ok(answered(nodes.delete(name, &DeleteParams::default()).await.map(drop)))
    });
    asked.await.unwrap();
}

/// Whether the API server has said something, whatever it is.
fn answered(asked: kube::Result<()>) -> Option<()> {
    match asked {
        Ok(()) | Err(kube::Error::Api(_)) => Some(()),
        Err(_) => None,
    }
}

fn node(instance: &Instance, joins: Joins, memory: Option<Memory>) -> Node {
    let shape = Shape::of_type(&instance.instance_type).unwrap();
    let room = json!({
        "cpu": shape.cpus.to_string(),
        "memory": format!("{}Mi", shape.memory_mib),
        "pods": shape.max_pods.to_string(),
    });
    let (mut capacity, mut allocatable) = (room.clone(), room);
    if let Some(memory) = memory {
        (capacity["memory"], allocatable["memory"]) = (json!(memory.capacity), json!(memory.allocatable));
    }
    let taints = if joins == Joins::WithoutTaints { Vec::new() } else { taints(instance) };
    let labels = json!({
        "node.kubernetes.io/instance-type": instance.instance_type,
        "topology.kubernetes.io/zone": instance.zone,
    });
    let with = json!({
        "metadata": {"labels": labels},
        "spec": {"providerID": format!("aws:///{}/{}", instance.zone, instance.id), "taints": taints},
        "status": {"capacity": capacity, "allocatable": allocatable, "nodeInfo": {"bootID": format!("first-{}", instance.id)}},
    });
    let mut node = fake_node(&instance.private_dns_name, with).unwrap();
    if joins == Joins::NotReady {
        // KWOK, who would say that it is ready, is to leave it alone.
        node.metadata.annotations = None;
        let message = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
                       message:Network plugin returns error: cni plugin not initialized";
        let condition = json!({"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": message});
        node.status.as_mut().unwrap().conditions = Some(vec![serde_json::from_value(condition).unwrap()]);
    }
    node
}

/// Those that the NodeConfig in the user data has the kubelet register with.
fn taints(instance: &Instance) -> Vec<Taint> {
    let encoded = instance.user_data.as_ref().unwrap();
    let text = String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap();
    let (_, after) = text.split_once("\"registerWithTaints\":").unwrap();
    let list = serde_json::Deserializer::from_str(after).into_iter::<Value>().next().unwrap().unwrap();
    serde_json::from_value(list).unwrap()
}
