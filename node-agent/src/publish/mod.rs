//! Output of the report: each reader gets the same report in its own format.
//!
//! ```text
//!  Report ─┬─► status   status.json in the agent's folder, replaced atomically
//!          ├─► console  one line per failure, on the serial console
//!          ├─► bundle   bundle.txt in the log folder, once per failure: bounded, without secrets
//!          └─► health ─► socket: health, reflection, admission ─► endpoint: Unix socket, or named pipe
//! ```

pub mod bundle;
pub mod console;
#[cfg(unix)]
#[path = "endpoint_unix.rs"]
pub mod endpoint;
#[cfg(windows)]
#[path = "endpoint_windows.rs"]
pub mod endpoint;
pub mod health;
#[cfg(target_os = "linux")]
pub mod notify;
pub mod socket;
pub mod status;
#[cfg(test)]
mod tests;
