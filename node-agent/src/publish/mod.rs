//! The edge towards readers: each gets the same report in its own form.
//!
//! ```text
//!  Report ─┬─► status   status.json in the agent's folder, replaced as a whole
//!          ├─► console  one line a failure, on the serial console
//!          ├─► bundle   bundle.txt in the folder of logs, once a failure: bounded, without secrets
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
