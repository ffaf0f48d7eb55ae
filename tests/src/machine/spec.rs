//! What a machine is, before it boots.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use super::image::Image;
use super::network::Addresses;
use super::shape::Shape;

/// One instance, as EC2 would describe it to its hypervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// As `i-0123456789abcdef0`.
    pub instance_id: String,
    /// Its private DNS name, which is its host name.
    pub host_name: String,
    /// Its private address.
    pub address: Ipv4Addr,
    /// As `m5.large`.
    pub instance_type: String,
    /// What it boots.
    pub image: Image,
    /// The hardware of its instance type.
    pub shape: Shape,
    /// Whether the network for pods is set up from the start. On EKS a pod (`aws-node`) does it, and a node is not Ready
    /// before.
    pub cni: bool,
    /// How long the boot is held up before cloud-init runs.
    pub slow: Duration,
    /// Files of the host that the machine has too, as `(from, at)`. Folders too.
    pub files: Vec<(PathBuf, PathBuf)>,
}

impl Spec {
    /// A machine of the default shape with a network for pods.
    pub fn new(instance_id: impl Into<String>, address: Ipv4Addr, image: Image) -> Self {
        let [a, b, c, d] = address.octets();
        Self {
            instance_id: instance_id.into(),
            host_name: format!("ip-{a}-{b}-{c}-{d}.us-west-2.compute.internal"),
            address,
            instance_type: "m5.large".to_owned(),
            image,
            shape: Shape::default(),
            cni: true,
            slow: Duration::ZERO,
            files: Vec::new(),
        }
    }

    /// The addresses of machine `number` of a world. Pods have a network that no VPC may have (RFC 6598).
    pub(super) fn addresses(&self, number: u32) -> Addresses {
        let [_, _, high, low] = number.to_be_bytes();
        Addresses { private: self.address, pods: format!("100.{}.{low}.0/24", 64 + high % 64) }
    }
}
