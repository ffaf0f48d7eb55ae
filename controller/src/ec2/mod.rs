//! EC2 as a cloud provider of the controller.
//!
//! ```text
//!   Options ──► cluster: what nodes need to know about it      EKS, API server
//!                  │
//!                  ▼
//!   EC2NodeClass ──► classes: look up ─► judge ─► try out ──► status         ┐
//!   upkeep: types, prices, templates, cluster ─► state of EC2                ├─ provider ──► run
//!   zonal_shifts: zones in which nothing is launched                         │
//!   learning: capacity reported by Nodes ─► instance types of later launches │
//!   agents: instance and permitted roles of a node                           │
//!   calls: metrics; each missing permission, logged once                     ┘
//! ```
//!
//! `muster_aws` has all calls of AWS and interprets the responses. It is built with the feature `ec2` only; without it,
//! this module has the options and [`StartError::NotBuilt`].

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
#[cfg(feature = "ec2")]
mod zonal_shifts;

pub use self::options::{Options, StartError, ZONAL_SHIFTS_EVERY};
#[cfg(feature = "ec2")]
pub use self::provider::Ec2;
#[cfg(feature = "ec2")]
pub(crate) use self::provider::clock;
