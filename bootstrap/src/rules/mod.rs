//! The rules. Each one evaluates the facts and reports faults.
//!
//! ```text
//!  envelope     the user data as a whole: size, encodings, MIME, family
//!  cluster      endpoint, certificate authority, service CIDR
//!  arguments    flags of this version, their values, labels, positional arguments
//!  config       the kubelet's configuration: fields of this version, contradictions
//!  containerd   the configuration of containerd in a NodeConfig
//!  node_config  values of a NodeConfig that nodeadm drops or fails on
//!  scripts      whether shell scripts run, start the bootstrap, or have no effect
//!  agent        the agent's own document
//!  registration taints, labels, name, provider ID: the node's registration
//!  architecture programs that a script downloads
//!  pods         maximum number of pods, against the IP addresses of the instance type
//!  class        settings of an EC2NodeClass besides its user data
//! ```

pub(crate) mod agent;
pub(crate) mod architecture;
pub(crate) mod arguments;
pub(crate) mod class;
pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod containerd;
pub(crate) mod envelope;
pub(crate) mod node_config;
pub(crate) mod pods;
pub(crate) mod registration;
pub(crate) mod scripts;
