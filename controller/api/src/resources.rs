//! Names of the resources that instance types are known to have.

/// Processor time.
pub const CPU: &str = "cpu";
/// Memory.
pub const MEMORY: &str = "memory";
/// Disk that goes with the node.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Number of pods.
pub const PODS: &str = "pods";
/// Number of nodes; only in the limits of a NodePool.
pub const NODES: &str = "nodes";

/// GPUs of NVIDIA.
pub const NVIDIA_GPU: &str = "nvidia.com/gpu";
/// GPUs of AMD.
pub const AMD_GPU: &str = "amd.com/gpu";
/// Neuron devices.
pub const AWS_NEURON: &str = "aws.amazon.com/neuron";
/// Cores of Neuron devices.
pub const AWS_NEURON_CORE: &str = "aws.amazon.com/neuroncore";
/// Gaudi accelerators.
pub const HABANA_GAUDI: &str = "habana.ai/gaudi";
/// Branch network interfaces of pods with security groups of their own.
pub const POD_ENI: &str = "vpc.amazonaws.com/pod-eni";
/// Addresses of Windows pods.
pub const PRIVATE_IPV4_ADDRESS: &str = "vpc.amazonaws.com/PrivateIPv4Address";
/// Elastic Fabric Adapters.
pub const EFA: &str = "vpc.amazonaws.com/efa";

/// Resources that no NodeOverlay may set: what an instance type has of them is known.
pub const NOT_FOR_OVERLAYS: [&str; 9] =
    [AWS_NEURON, AWS_NEURON_CORE, CPU, EFA, EPHEMERAL_STORAGE, HABANA_GAUDI, MEMORY, POD_ENI, PODS];

/// Who publishes an extended resource on a node that has joined, where that is known.
#[must_use]
pub fn publisher(resource: &str) -> Option<&'static str> {
    crate::table::find(include_str!("../data/extended-resources.tsv"), resource)
}

#[cfg(test)]
mod tests {
    use super::publisher;

    #[test]
    fn publishers_are_known_by_name_and_by_prefix() {
        assert_eq!(publisher("aws.amazon.com/neuroncore"), Some("the Neuron device plugin"));
        assert!(publisher("nvidia.com/mig-1g.5gb").is_some_and(|it| it.contains("NVIDIA device plugin")));
        assert_eq!(publisher("example.com/x"), None);
    }
}
