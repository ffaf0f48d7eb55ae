//! KWOK: keeps Nodes alive that are only objects, and says that their pods run. For hundreds of nodes without machines.

use std::path::Path;

use super::access::Cluster;
use crate::error::Result;
use crate::process::{Program, Running, Spawner};
use crate::programs;

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
        let program = programs::path("kwok")?;
        // Beside the program, from its own module: what "fast" nodes and pods do, and the leases.
        let stages = program.parent().unwrap_or(Path::new("/")).join("stages.yaml");
        let program = Program::new("kwok", program)
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
