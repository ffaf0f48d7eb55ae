//! EC2 as it is: the calls, and nothing that is decided by them.
//!
//! ```text
//!   launch, get, list, console, terminate, tag          (muster_cloud::Cloud)
//!        │        └─► batch: many that ask about one instance are one call about many
//!        ▼
//!   Ec2Cloud ◄── Classes     each EC2NodeClass with what its selectors found
//!        │   ◄── Inventory   instance types, zones, prices
//!        ▼
//!   launch::plan (pure) ─► templates (made once, by content) ─► CreateFleet ─► launch::outcome (pure)
//!                                 │
//!                       caller: one budget for each family of calls, retries, errors; a witness of every try
//! ```
//!
//! One launch is one CreateFleet with the launch's own client token. Karpenter's batches of equal launches would save calls,
//! and cannot be repeated: after a crash nobody knows which instances of a batch are whose, so it leaves them to a garbage
//! collection. With a token each launch is asked for again, and EC2 answers with the same instance. What it costs is EC2's
//! limit for CreateFleet, 50 at once and 5 a second unless the account has more.

mod batch;
mod caller;
mod classes;
mod cloud;
mod cluster;
mod connection;
mod describe;
mod fleet;
mod identity;
mod instances;
mod intervals;
mod lookup;
mod prices;
mod profile;
mod template_data;
mod templates;
mod trial;
mod types;
mod upkeep;
mod witness;

pub use self::caller::Clock;
pub use self::classes::Options;
pub use self::cloud::Ec2Cloud;
pub use self::connection::{ConnectError, Connection, SdkConfig};
pub use self::intervals::Intervals;
pub use self::witness::{Ended, Pause, Witness};
