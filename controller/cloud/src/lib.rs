//! Interface between Muster and a cloud, and an in-memory implementation for tests and simulations.
//!
//! ```text
//!   lifecycle (decides) ──► LaunchRequest ──► Cloud ◄── muster-aws     EC2
//!        ▲                                      ▲  ◄── Memory         virtual time, faults, a record of every call
//!        │                                      │
//!        └── Launched, Instance, CloudError ◄───┘
//!                                 │
//!                                 ├─► Reaction   what an error means for the claim, its class, the next attempt
//!                                 └─► Refusals   which offerings to avoid, and for how long
//!
//!   NoticeQueue ──► Notice                          what the cloud says of its instances unasked
//!   ZonalShifts                                     zones in which nothing is launched, for as long as the cloud says
//!
//!   Catalogue, requirements ──► alternatives ──► first_choice ──► LaunchRequest
//! ```
//!
//! A launch is idempotent by its token: repeated requests with one token launch at most one instance. Everything else
//! here is a pure function of its arguments; only the methods of [`Cloud`] do I/O.

mod alternatives;
pub mod capacity_block;
mod error;
mod instance;
mod launch;
pub mod memory;
mod moment;
mod notice;
mod refusals;
mod token;
mod zonal_shifts;

use std::collections::BTreeMap;
use std::future::Future;

pub use self::alternatives::{MOST_TYPES, alternatives, first_choice};
pub use self::error::{CloudError, LaunchError, Reaction};
pub use self::instance::{CapacityType, Instance, InstanceState, Offering, UnknownCapacityType};
pub use self::launch::{Alternative, LaunchRequest, Launched, Overlaid, Refusal, Refused};
pub use self::memory::Memory;
pub use self::moment::after;
pub use self::notice::{Content, Message, Notice, NoticeKind, NoticeQueue, Pending, Urgency};
pub use self::refusals::Refusals;
pub use self::token::LaunchToken;
pub use self::zonal_shifts::{ShiftChange, ShiftEnd, ZonalShifts};

/// A cloud that launches instances.
///
/// Implementations resolve the NodeClass themselves (networks, images, user data); a request only names it.
pub trait Cloud: Send + Sync {
    /// Launches one instance as one of the alternatives.
    ///
    /// A repeated request with the same token returns the first outcome, whatever else the request contains, and
    /// launches nothing. A token is used up once its outcome is known: [`Launched`], or an error with
    /// [`LaunchError::is_outcome`] set. Until then a retry must use the same token.
    fn launch(&self, request: &LaunchRequest) -> impl Future<Output = Result<Launched, LaunchError>> + Send;

    /// Returns one instance. A terminated instance is returned for a while, in state [`InstanceState::Terminated`];
    /// after that the result is [`CloudError::NotFound`].
    fn get(&self, provider_id: &str) -> impl Future<Output = Result<Instance, CloudError>> + Send;

    /// Lists every instance of this cluster that is not terminated. New instances may be missing for some seconds.
    fn list(&self) -> impl Future<Output = Result<Vec<Instance>, CloudError>> + Send;

    /// Returns the last lines of the instance's console output, if the cloud has them yet.
    fn console(&self, provider_id: &str) -> impl Future<Output = Result<Option<String>, CloudError>> + Send;

    /// Terminates the instance. Returns before termination completes. Fails with [`CloudError::NotFound`] if the
    /// instance no longer exists.
    fn terminate(&self, provider_id: &str) -> impl Future<Output = Result<(), CloudError>> + Send;

    /// Reboots the instance. Returns before it is up again. A repeated call reboots it once more.
    fn reboot(&self, provider_id: &str) -> impl Future<Output = Result<(), CloudError>> + Send;

    /// Adds tags to the instance; a tag with the same key is overwritten.
    fn tag(
        &self,
        provider_id: &str,
        tags: &BTreeMap<String, String>,
    ) -> impl Future<Output = Result<(), CloudError>> + Send;
}
