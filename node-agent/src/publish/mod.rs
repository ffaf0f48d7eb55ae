//! The edge towards readers: each gets the same report in its own form.
//!
//! ```text
//!  Report ─┬─► status   /run/muster/status.json, replaced as a whole
//!          ├─► console  one line a failure, on the serial console
//!          ├─► bundle   /var/log/muster/bundle.txt, once a failure: bounded, without secrets
//!          └─► health ─► socket: health, reflection, admission
//! ```

pub mod bundle;
pub mod console;
pub mod health;
pub mod notify;
pub mod socket;
pub mod status;
#[cfg(test)]
mod tests;
