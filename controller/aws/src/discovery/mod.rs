//! From an EC2NodeClass to its status.
//!
//! ```text
//!  spec ─► wanted (pure) ─► Describe… (live) ─► Found ─► judge (pure) ─► status: subnets, groups, images, …, conditions
//!                                                           ▲
//!                                         bootstrap's rules ┘ BootstrapValid
//! ```

mod bootstrap;
mod found;
mod hash;
pub mod images;
mod judge;
pub mod selectors;

pub use self::bootstrap::{bootstrap_findings, finding_text};
pub use self::found::{Found, FoundReservation, FoundSubnet, ImageError, Selected, Trial, TrialCall};
pub use self::hash::{HASH_VERSION, class_hash};
pub use self::judge::judge;
