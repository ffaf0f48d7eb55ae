//! The rules: each looks at the facts and says what is wrong.
//!
//! ```text
//!  envelope     the user data as a whole: size, wrappings, MIME, is it for this family
//!  cluster      endpoint, certificate authority, service network
//!  arguments    flags of this version, their values, labels, positional arguments
//!  config       the kubelet's configuration: fields of this version, contradictions
//!  containerd   the configuration of containerd in a NodeConfig
//!  node_config  values of a NodeConfig that nodeadm drops or fails on
//!  scripts      whether shell scripts run, start the bootstrap, or do something in vain
//!  agent        the document of the agent itself
//!  registration taints, labels, name, provider ID: what the node registers with
//!  architecture programs that a script fetches
//!  pods         how many pods, against the addresses of the instance type
//!  class        what an EC2NodeClass says beside its user data
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
