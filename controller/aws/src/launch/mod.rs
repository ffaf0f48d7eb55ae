//! Conversion of a launch request to a CreateFleet request, and of its response to a result.
//!
//! ```text
//!  LaunchRequest ─► choice ──► offerings of one request
//!  EC2NodeClass ──► template ► image, user data, disks, network, tags: one for each image × pod limit
//!  Controller       agent ───► its address and a secret, for the node's agent, in the user data
//!  Inventory        subnets ─► the subnet of each zone
//!                      └──► Plan: templates × overrides ──► CreateFleet ──► answer ──► Launched, LaunchError
//! ```
//!
//! Nothing here calls AWS; a plan is a value that tests compare with a file.

mod agent;
mod answer;
mod choice;
mod devices;
mod plan;
mod subnets;
mod tags;
mod template;
mod user_data;

pub use self::agent::{AgentSettings, Controller};
pub use self::answer::{FleetAnswer, FleetError, Had, outcome};
pub use self::devices::{Disk, MetadataOptions};
#[cfg(feature = "live")]
pub(crate) use self::plan::image_for;
pub use self::plan::{Grounds, Override, Plan, PlanError, PlannedTemplate, plan};
pub use self::subnets::{Addresses, Taken};
#[cfg(feature = "live")]
pub(crate) use self::tags::of_class as tags_of_class;
pub use self::tags::{CLUSTER_NAME, LAUNCH_TOKEN, ownership, restricted};
pub use self::template::{Interface, NAME_PREFIX, Placement, Reservation, Template};
pub(crate) use self::user_data::launch as launch_of;
pub use self::user_data::{Cluster, bootstrap_family, family_of, user_data};
