//! From an instance that EC2 launched to a node, and back.
//!
//! ```text
//!   Site ─┬ Fabric             the world's network
//!         ├ Metadata           169.254.169.254 in it
//!         ├ ControlPlane       at 192.0.2.1 in it
//!         ├ Authenticator      who a kubelet is: the API server asks it about tokens
//!         ├ CloudController    initializes Nodes, as EKS's does
//!         └ Machines ─► boot ─► Node (machine, metadata) ─► terminate
//!
//!   Ec2 ─ Events ─► Bridge ─ Becomes ─► a machine, a KWOK node, nothing
//! ```

mod authenticator;
mod bridge;
mod cloud;
mod site;
pub mod user_data;

pub use authenticator::Authenticator;
pub use bridge::{Alter, Becomes, Bridge};
pub use cloud::CloudController;
pub(crate) use site::Vacant;
pub use site::{CLUSTER, Node, Site};
