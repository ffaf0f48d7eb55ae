//! EC2 for Muster: which instance types a NodeClass may launch, where, at what price, and what their nodes offer to pods.
//!
//! ```text
//!  catalogue/ec2.tsv ──► embedded ──► InstanceTypeFacts ─┐
//!  (checked in)          (parsed once)  (what EC2 says)  │      ┌─ labels        requirements of the nodes
//!                                                        ├──► resolve ─ capacity   cpu, memory, pods, devices
//!  EC2NodeClass ──► ClassSettings ───────────────────────┘      ├─ overhead      kubelet's reservations, eviction
//!                   (what the operator says)                    └─ offerings     zone × capacity type, price, available
//!                                                                      │
//!  --catalog FILE ──► catalogue::read ──► Vec<InstanceType> ◄──────────┘
//!  muster types   ◄── catalogue::write ◄─────────┘            (muster-scheduling's model)
//! ```
//!
//! Everything here is a function of its arguments and of the checked-in table; nothing calls AWS. The rules are those of
//! Karpenter's AWS provider 1.14, so that its manifests mean the same; where we go further the item says so.

mod capacity;
mod class;
mod compatibility;
mod embedded;
mod error;
mod facts;
mod family;
mod intern;
mod nodeclass;
mod offerings;
mod overhead;
mod requirements;
mod resolve;
mod row;

pub mod catalogue;
pub mod quantity;

pub use class::{
    BlockDevice, CapacityReservation, ClassSettings, InstanceStorePolicy, InterfaceType, KubeletSettings,
    NetworkInterface, PlacementGroup, Threshold,
};
pub use embedded::{DEFAULT_REGION, Ec2, PRICE_DATE, PRICE_REGION, Region};
pub use error::{Error, SettingError};
pub use facts::{
    Accelerator, Architecture, EbsFacts, Gpu, InstanceStorage, InstanceTypeFacts, NetworkFacts, NeuronDevice, Place,
    PlacementStrategy, Processor, UsageClasses,
};
pub use family::{AmiFamily, UnknownFamily};
pub use nodeclass::PREFIX_DELEGATION;
pub use offerings::{PriceSource, Prices};
pub use resolve::{Resolver, instance_types, resolve};
