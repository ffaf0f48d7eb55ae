//! Names of the resources of instance types.

/// CPU time.
pub const CPU: &str = "cpu";
/// Memory.
pub const MEMORY: &str = "memory";
/// Local disk of the node.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Number of pods.
pub const PODS: &str = "pods";
/// Number of nodes; only in the limits of a NodePool.
pub const NODES: &str = "nodes";

/// NVIDIA GPUs.
pub const NVIDIA_GPU: &str = "nvidia.com/gpu";
/// AMD GPUs.
pub const AMD_GPU: &str = "amd.com/gpu";
/// AWS Neuron devices.
pub const AWS_NEURON: &str = "aws.amazon.com/neuron";
/// Cores of AWS Neuron devices.
pub const AWS_NEURON_CORE: &str = "aws.amazon.com/neuroncore";
/// Intel Gaudi accelerators.
pub const HABANA_GAUDI: &str = "habana.ai/gaudi";
/// Branch network interfaces for pods with their own security groups.
pub const POD_ENI: &str = "vpc.amazonaws.com/pod-eni";
/// IPv4 addresses of Windows pods.
pub const PRIVATE_IPV4_ADDRESS: &str = "vpc.amazonaws.com/PrivateIPv4Address";
/// Elastic Fabric Adapters.
pub const EFA: &str = "vpc.amazonaws.com/efa";

/// Resources that a NodeOverlay may not set, because the values of an instance type are known.
pub const NOT_FOR_OVERLAYS: [&str; 9] =
    [AWS_NEURON, AWS_NEURON_CORE, CPU, EFA, EPHEMERAL_STORAGE, HABANA_GAUDI, MEMORY, POD_ENI, PODS];

/// Returns the component that publishes an extended resource on a node, if it is known.
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
