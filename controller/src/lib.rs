//! Controller

pub mod manifest;
pub mod snapshot;
