//! KWOK: keeps Nodes alive that are only objects, and says that their pods run. For hundreds of nodes without machines.

use std::path::Path;

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::access::Cluster;
use crate::error::Result;
use crate::process::{Program, Running, Spawner};
use crate::programs;

/// A Node that KWOK keeps alive: 4 cores, 16 GiB, room for 110 pods. What `with` says is laid over that.
///
/// # Errors
/// When `with` makes no Node of it.
pub fn fake_node(name: &str, with: Value) -> Result<Node> {
    let room = json!({"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "20Gi"});
    let mut node = json!({
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
        },
        "status": {"allocatable": room, "capacity": room},
    });
    lay_over(&mut node, with);
    Ok(serde_json::from_value(node).map_err(std::io::Error::from)?)
}

/// As a JSON merge patch, but that null stays null.
fn lay_over(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                lay_over(under.entry(key).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}

/// KWOK at work for one cluster. It ends with the value.
#[derive(Debug)]
pub struct Kwok {
    server: Running,
}

impl Kwok {
    /// Starts it for the Nodes with the annotation `kwok.x-k8s.io/node: fake`; all others are left to their kubelets.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when set-up has not run.
    pub fn start(spawner: &Spawner, cluster: &Cluster) -> Result<Self> {
        Self::named("kwok", spawner, cluster)
    }

    /// Starts it as [`Self::start`] does, under this name, for a world with several.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn named(name: &str, spawner: &Spawner, cluster: &Cluster) -> Result<Self> {
        let program = programs::path("kwok")?;
        // Beside the program, from its own module: what "fast" nodes and pods do, and the leases.
        let stages = program.parent().unwrap_or(Path::new("/")).join("stages.yaml");
        let program = Program::new(name, program)
            .flag("kubeconfig", cluster.kubeconfig())
            .flag("config", stages)
            .flag("manage-all-nodes", "false")
            .flag("manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake")
            .flag("node-lease-duration-seconds", "40");
        Ok(Self { server: spawner.start(&program)? })
    }

    /// Makes sure that it runs.
    ///
    /// # Errors
    /// [`crate::Error::Ended`] with its last lines when it does not.
    pub fn check(&mut self) -> Result<()> {
        self.server.check()
    }

    /// Its process.
    pub fn server(&self) -> &Running {
        &self.server
    }
}
