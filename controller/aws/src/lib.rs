//! EC2 support: the instance types that a NodeClass may launch, their zones, prices and node capacity, and their
//! launch.
//!
//! ```text
//!  catalogue/ec2.tsv ──► embedded ──► InstanceTypeFacts ─┐
//!  (checked in)          (parsed once)  (facts of EC2)   │      ┌─ labels        requirements of the nodes
//!  live ──► Inventory ───────────────────────────────────┼──► resolve ─ capacity   cpu, memory, pods, devices
//!  EC2NodeClass ──► ClassSettings ───────────────────────┘      ├─ overhead      kubelet's reservations, eviction
//!                   (operator's settings)                       └─ offerings     zone, capacity type, price, available
//!                                                                      │
//!  --catalog FILE ──► catalogue::read ──► Vec<InstanceType> ◄──────────┘
//!  muster types   ◄── catalogue::write ◄─────────┘            (muster-scheduling's model)
//!  --prices FILE, live ──► prices ──► PriceList, laid over the embedded prices
//!  Node of the same build ──► learned ──► capacity and overhead of the next one
//!
//!  EC2NodeClass ──► discovery ──► queries ──────────► live ──► Found ──► discovery::judge ──► status, conditions
//!  LaunchRequest ─► launch ─────► templates, a fleet ─► live ──► answer ─► launch::outcome ──► Launched, LaunchError
//!                                                        ├─ budget        rate limits, by family of calls
//!                                                        ├─ refusal       meaning of error codes
//!                                                        └─ ending        reasons for termination
//!
//!  interruption queue ──► live ──► messages ──► notices ◄── instance_status ◄── live ◄── DescribeInstanceStatus
//!  ARC ──► live ──► zonal_shifts ──► zones in which nothing is launched
//! ```
//!
//! Everything except `live` is a pure function of its arguments and of the checked-in table. `live` is a separate
//! feature, since the AWS SDK takes longer to build than everything else. The rules are those of Karpenter's AWS
//! provider 1.14, so that its manifests keep their meaning; deviations are documented on the item.

mod capacity;
mod class;
mod compatibility;
mod embedded;
mod error;
mod facts;
mod family;
mod feature_gates;
mod images;
mod intern;
mod inventory;
#[cfg(feature = "live")]
mod node_properties;
mod nodeclass;
mod offerings;
mod overhead;
mod rate_limits;
mod requirements;
mod resolve;
mod row;

pub mod catalogue;
#[cfg(feature = "launch")]
pub mod discovery;
pub mod ending;
pub mod error_codes;
pub mod instance_status;
#[cfg(feature = "launch")]
pub mod launch;
pub mod learned;
#[cfg(feature = "live")]
pub mod live;
pub mod messages;
pub mod permissions;
pub mod policy;
pub mod prices;
pub mod quantity;
pub mod reservation_counts;
pub mod zonal_shifts;

#[cfg(feature = "launch")]
pub use capacity::kubelet::KubeletOfType;
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
pub use feature_gates::AwsFeatureGates;
pub use images::suits;
pub use inventory::Inventory;
pub use nodeclass::PREFIX_DELEGATION;
pub use prices::{PriceSource, Prices};
pub use rate_limits::{Budgets, Family};
pub use resolve::{Resolver, instance_types, resolve};
