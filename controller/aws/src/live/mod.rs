//! Calls to AWS, without decisions.
//!
//! ```text
//!   launch, get, list, console, terminate, tag          (muster_cloud::Cloud)
//!        │        └─► batch: many requests about one instance each become one call
//!        ▼
//!   Ec2Cloud ◄── Classes     each EC2NodeClass with the objects of its selectors
//!        │   ◄── Inventory   instance types, zones, prices
//!        │   ◄── counts of reservations, less our launches since
//!        ▼
//!   launch::plan (pure) ─► templates (created once, by content) ─► CreateFleet ─► launch::outcome (pure)
//!                                 │
//!                       caller: one rate limit for each family of calls, retries, errors; a witness of every attempt
//! ```
//!
//! Notices come from `queue` (messages of SQS) and `statuses` (status checks, scheduled events), and zones that
//! nothing is launched in from `zonal_shifts`.
//!
//! One launch is one CreateFleet with the launch's own client token. Karpenter batches equal launches, which saves
//! calls but cannot be repeated: after a crash the owners of a batch's instances are unknown, so Karpenter leaves them
//! to garbage collection. With a token each launch is repeated, and EC2 returns the same instance. The cost is the rate
//! limit of CreateFleet: a burst of 50 and 5 per second, unless the account has a higher one.

mod batch;
mod call_observer;
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
mod queue;
mod reservations;
mod statuses;
mod template_data;
mod template_match;
mod templates;
mod trial;
mod types;
mod upkeep;
mod zonal_shifts;

pub use self::call_observer::{CallObserver, Ended, Pause};
pub use self::caller::Clock;
pub use self::classes::Options;
pub use self::cloud::Ec2Cloud;
pub use self::connection::{ConnectError, Connection, SdkConfig};
pub use self::intervals::Intervals;
pub use self::prices::ask_prices;
pub use self::queue::Queue;
