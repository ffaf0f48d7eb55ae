//! What Muster asks of a cloud, what a cloud may answer, and a cloud in memory.
//!
//! ```text
//!   lifecycle (decides) ──► LaunchRequest ──► Cloud ◄── muster-aws     EC2
//!        ▲                                      ▲  ◄── Memory         virtual time, faults, a record of every call
//!        │                                      │
//!        └── Launched, Instance, CloudError ◄───┘
//!                                 │
//!                                 ├─► Reaction   what an error means for the claim, its class, the next attempt
//!                                 └─► Refusals   which offerings to leave alone, and for how long
//!
//!   Catalogue, requirements ──► alternatives ──► first_choice ──► LaunchRequest
//! ```
//!
//! A launch is idempotent by its token: however often it is asked for, at most one instance comes of it. Everything else
//! here is a function of its arguments; only the methods of [`Cloud`] take time.

mod alternatives;
mod error;
mod instance;
mod launch;
pub mod memory;
mod moment;
mod refusals;

use std::collections::BTreeMap;
use std::future::Future;

pub use self::alternatives::{MOST_TYPES, alternatives, first_choice};
pub use self::error::{CloudError, LaunchError, Reaction};
pub use self::instance::{CapacityType, Instance, InstanceState, Offering, UnknownCapacityType};
pub use self::launch::{Alternative, LaunchRequest, LaunchToken, Launched, Refusal, Refused};
pub use self::memory::Memory;
pub use self::moment::after;
pub use self::refusals::Refusals;

/// A cloud that instances are launched in.
///
/// Implementations resolve the NodeClass themselves (networks, images, user data); what they are asked names it.
pub trait Cloud: Send + Sync {
    /// Launches one instance as one of the alternatives.
    ///
    /// Asked again with the same token, it answers with what came of the first time, whatever else the request says, and
    /// launches nothing. A token is used up when something is known to have come of it: [`Launched`], or an error that says
    /// so ([`LaunchError::is_outcome`]). Until then only the same token may be asked for.
    fn launch(&self, request: &LaunchRequest) -> impl Future<Output = Result<Launched, LaunchError>> + Send;

    /// One instance. One that has ended is found for a while, in state [`InstanceState::Terminated`]; then it is
    /// [`CloudError::NotFound`].
    fn get(&self, provider_id: &str) -> impl Future<Output = Result<Instance, CloudError>> + Send;

    /// Every instance of this cluster that has not ended. New ones may be missing for some seconds.
    fn list(&self) -> impl Future<Output = Result<Vec<Instance>, CloudError>> + Send;

    /// The last lines that the instance wrote to its console, if the cloud has them yet.
    fn console(&self, provider_id: &str) -> impl Future<Output = Result<Option<String>, CloudError>> + Send;

    /// Has the instance end. Returns before it has; [`CloudError::NotFound`] if there is none any more.
    fn terminate(&self, provider_id: &str) -> impl Future<Output = Result<(), CloudError>> + Send;

    /// Adds tags to the instance, over those of the same name.
    fn tag(
        &self,
        provider_id: &str,
        tags: &BTreeMap<String, String>,
    ) -> impl Future<Output = Result<(), CloudError>> + Send;
}
