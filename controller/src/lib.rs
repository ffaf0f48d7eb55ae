//! Controller

pub mod cli;
pub mod manifest;
pub mod snapshot;
