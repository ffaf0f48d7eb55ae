//! Devices of a machine: nodes in `/dev`, and a plugin that tells the kubelet of them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Machine;
use crate::error::Result;

/// All devices of one kind: what their plugin serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Inventory {
    /// As `nvidia.com/gpu`.
    pub resource: String,
    /// The variable in which a container finds the IDs of its devices.
    pub variable: Option<String>,
    /// The devices.
    pub devices: Vec<Device>,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Device {
    /// As `GPU-0`.
    pub id: String,
    /// Whether it may be given to pods.
    pub healthy: bool,
    /// Its nodes, as `/dev/nvidia0`. A container that has the device has them too.
    pub nodes: Vec<String>,
}

impl Inventory {
    /// GPUs, as NVIDIA's plugin serves them.
    pub fn nvidia(count: u32) -> Self {
        let device = |number| Device {
            id: format!("GPU-{number}"),
            healthy: true,
            nodes: vec![format!("/dev/nvidia{number}"), "/dev/nvidiactl".to_owned()],
        };
        Self {
            resource: "nvidia.com/gpu".to_owned(),
            variable: Some("NVIDIA_VISIBLE_DEVICES".to_owned()),
            devices: (0..count).map(device).collect(),
        }
    }

    /// Interfaces of the Elastic Fabric Adapter, as its plugin serves them.
    pub fn efa(count: u32) -> Self {
        let device = |number| Device {
            id: format!("rdmap{number}s0"),
            healthy: true,
            nodes: vec![format!("/dev/infiniband/uverbs{number}")],
        };
        let devices = (0..count).map(device).collect();
        Self { resource: "vpc.amazonaws.com/efa".to_owned(), variable: None, devices }
    }

    /// The same with one device unhealthy.
    #[must_use]
    pub fn with_unhealthy(mut self, id: &str) -> Self {
        self.devices.iter_mut().filter(|device| device.id == id).for_each(|device| device.healthy = false);
        self
    }

    fn unit(&self) -> String {
        format!("{}-device-plugin", self.resource.replace(['/', '.'], "-"))
    }

    fn file(&self) -> PathBuf {
        PathBuf::from(format!("/run/devices/{}.json", self.unit()))
    }
}

impl Machine {
    /// Makes the nodes of these devices and starts their plugin. It registers as soon as the kubelet runs.
    ///
    /// # Errors
    /// When the machine does not run.
    pub async fn plug_in(&self, inventory: &Inventory) -> Result<()> {
        self.add_nodes(inventory).await?;
        self.write_inventory(inventory).await?;
        let unit = format!("--unit={}", inventory.unit());
        let file = inventory.file();
        let words = ["systemd-run", "--quiet", &unit, "--property=Restart=always", "--property=RestartSec=100ms"];
        let limit = "--property=StartLimitIntervalSec=0";
        let file = file.to_string_lossy().into_owned();
        let words = words.into_iter().chain([limit, "/usr/bin/device-plugin", &file]);
        self.run(words).await.map(drop)
    }

    /// Tells the plugin of a change.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn change_devices(&self, inventory: &Inventory) -> Result<()> {
        self.write_inventory(inventory).await?;
        self.run(["systemctl", "kill", "--signal=HUP", &inventory.unit()]).await.map(drop)
    }

    /// Ends the plugin of this kind, as when its pod was deleted.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn unplug(&self, inventory: &Inventory) -> Result<()> {
        self.run(["systemctl", "stop", &inventory.unit()]).await.map(drop)
    }

    /// A node that swallows everything stands in for the driver's.
    async fn add_nodes(&self, inventory: &Inventory) -> Result<()> {
        let script = "for node; do mkdir -p \"${node%/*}\"; [ -e \"$node\" ] || mknod -m 666 \"$node\" c 1 3; done";
        let nodes = inventory.devices.iter().flat_map(|device| &device.nodes).map(String::as_str);
        self.run(["sh", "-ec", script, "sh"].into_iter().chain(nodes)).await.map(drop)
    }

    async fn write_inventory(&self, inventory: &Inventory) -> Result<()> {
        self.run(["mkdir", "-p", "/run/devices"]).await?;
        let text = serde_json::to_string(inventory).map_err(std::io::Error::from)?;
        self.put(&inventory.file(), &text).await
    }
}
