//! Reading each family's documents into [`Facts`](crate::facts::Facts), with what is wrong on the way.

pub(crate) mod al2;
pub(crate) mod al2023;
pub(crate) mod bottlerocket;
pub(crate) mod cloud_init;
pub(crate) mod environment_file;
pub(crate) mod windows;
