//! EC2 as the cloud of the controller.
//!
//! ```text
//!   Options ──► cluster: what nodes have to know of it          EKS, API server
//!                  │
//!                  ▼
//!   EC2NodeClass ──► classes: look up ─► judge ─► try out ──► status          ┐
//!   upkeep: types, prices, templates, cluster ─► what is known of EC2         ├─ provider ──► run
//!   learning: what Nodes say of their machines ─► the types of the next ones  │
//!   agents: which instance a node is, which roles it may have                 │
//!   calls: counted; each right that is missing, named once                    ┘
//! ```
//!
//! Everything that is asked of AWS, and what its answers mean, is `muster_aws`. It is built with the feature `ec2` only;
//! without it there are the options, and [`StartError::NotBuilt`].

#[cfg(feature = "ec2")]
mod agents;
#[cfg(feature = "ec2")]
mod calls;
#[cfg(feature = "ec2")]
mod classes;
#[cfg(feature = "ec2")]
mod cluster;
#[cfg(feature = "ec2")]
mod learning;
mod options;
#[cfg(feature = "ec2")]
mod provider;
#[cfg(feature = "ec2")]
mod upkeep;

pub use self::options::{Options, StartError};
#[cfg(feature = "ec2")]
pub use self::provider::Ec2;
