//! Muster's EC2, asked of the test EC2. No root needed.
//!
//! Needs of the world: moto.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod calls;
mod classes;
mod faults;
mod fixture;
mod inventory;
mod launches;
mod prices;
mod templates;
mod zonal_shifts;
