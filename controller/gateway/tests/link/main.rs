//! The gateway over real TLS and real streams, with NodeClaims, EC2 and STS in memory.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![expect(clippy::disallowed_methods, reason = "the tests hand the clock in")]

mod abuse;
mod allowances;
mod enrolment;
mod fleet;
mod health;
mod identities;
mod node;
mod operators;
mod reflection;
mod reports;
mod rotation;
mod skew;
mod strangers;
mod world;
