//! The test EC2, asked by the real AWS SDK for Rust. No root needed.
//!
//! One test for each fault says which error the SDK makes of it.
//!
//! Needs of the world: moto.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod consistency;
mod faults;
mod fleet;
mod identity;
mod images;
mod lifecycle;
mod market;
mod reservations;
mod scale;
mod sdk;
mod wire;
