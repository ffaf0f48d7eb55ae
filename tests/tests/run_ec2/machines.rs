//! What EC2 launches becomes a Node, or does not, as a test says.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use muster_tests::cluster::fake_node;
use muster_tests::ec2::{Ec2, Event, Instance};
use muster_tests::machine::Shape;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// What becomes of instances from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joins {
    /// A Node that registers as its user data says.
    AsTold,
    /// A Node whose user data was edited: it comes without any taint.
    WithoutTaints,
    /// Nothing.
    Never,
}

/// Follows an EC2, as its machines and the cluster's cloud controller do. It ends with the value.
pub(crate) struct Machines {
    joins: Arc<Mutex<Joins>>,
    _follows: JoinSet<()>,
}

impl Machines {
    pub(crate) fn start(ec2: &Arc<Ec2>, client: Client) -> Self {
        let joins = Arc::new(Mutex::new(Joins::AsTold));
        let (own, mut events) = (Arc::clone(&joins), ec2.events());
        let mut follows = JoinSet::new();
        follows.spawn(async move {
            let nodes: Api<Node> = Api::all(client);
            while let Some(event) = events.next().await {
                match event {
                    Event::Launched(instance) => {
                        let joins = *own.lock().unwrap();
                        if joins != Joins::Never {
                            // One that has joined before its controller was killed is there.
                            let _ = nodes.create(&PostParams::default(), &node(&instance, joins)).await;
                        }
                    }
                    Event::Ended { instance, .. } => {
                        let _ = nodes.delete(&instance.private_dns_name, &DeleteParams::default()).await;
                    }
                }
            }
        });
        Self { joins, _follows: follows }
    }

    pub(crate) fn join(&self, joins: Joins) {
        *self.joins.lock().unwrap() = joins;
    }
}

fn node(instance: &Instance, joins: Joins) -> Node {
    let shape = Shape::of_type(&instance.instance_type).unwrap();
    let room = json!({
        "cpu": shape.cpus.to_string(),
        "memory": format!("{}Mi", shape.memory_mib),
        "pods": shape.max_pods.to_string(),
    });
    let taints = if joins == Joins::AsTold { taints(instance) } else { Vec::new() };
    let labels = json!({
        "node.kubernetes.io/instance-type": instance.instance_type,
        "topology.kubernetes.io/zone": instance.zone,
    });
    let with = json!({
        "metadata": {"labels": labels},
        "spec": {"providerID": format!("aws:///{}/{}", instance.zone, instance.id), "taints": taints},
        "status": {"capacity": room, "allocatable": room},
    });
    fake_node(&instance.private_dns_name, with).unwrap()
}

/// Those that the NodeConfig in the user data has the kubelet register with.
fn taints(instance: &Instance) -> Vec<Taint> {
    let encoded = instance.user_data.as_ref().unwrap();
    let text = String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap();
    let (_, after) = text.split_once("\"registerWithTaints\":").unwrap();
    let list = serde_json::Deserializer::from_str(after).into_iter::<Value>().next().unwrap().unwrap();
    serde_json::from_value(list).unwrap()
}
