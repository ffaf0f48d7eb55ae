//! Library of the program `muster-agent`.
//!
//! ```text
//!  validate  arguments ─► inputs ─► muster_bootstrap::validate ─► document ─► JSON or text
//!
//!  run       probes (I/O, each with a timeout)                                    publish (I/O)
//!            metadata, files, /proc, DNS─TCP─TLS, ──► preflight ─┐               ┌─► status.json ─► status
//!            token, kubelet --version                 (pure)     │               ├─► serial console, one line
//!            journalctl -f, systemctl show ─────────► watch ─────┼─► BootState ► Report ─► agent.sock: health,
//!            own Node (watch), healthz, PodResources  (pure)     │   (pure)      │       reflection, admission
//!            /sys, /dev ────────────────────────────► devices ───┘      │        ├─► log bundle
//!                                                     (pure)            │        └─► link: stream to the controller
//!                                                                       ▼
//!  kubelet.service ─ ExecCondition ─ gate ────────► admission ◄─── Hold (pure): may the kubelet start? start it later?
//!                                                                       └─► native (mode `native`): files, then units
//! ```
//! On Windows the event log and log files replace the journal, the service control manager replaces `systemctl`, and a
//! named pipe replaces the socket. Instead of the gate, a watcher stops the kubelet's service if it was started too
//! early. See [`platform`] for the differences.
//!
//! Decisions are pure functions of observations and a time that is passed in: [`preflight`], [`watch`], [`devices`],
//! [`boot_state`]. They parse Linux text formats but call no Linux API, so they run on every platform. Probes and
//! publishing only do I/O and decide nothing. The stream to a controller ([`link`]) is another reader of the same
//! reports.

pub mod boot_state;
pub mod cli;
pub mod devices;
pub mod patience;
pub mod phase;
pub mod platform;
pub mod preflight;
pub mod probes;
pub mod report;
pub mod watch;

#[cfg(any(target_os = "linux", windows))]
pub mod link;
#[cfg(any(target_os = "linux", windows))]
mod log;
#[cfg(target_os = "linux")]
pub mod native;
#[cfg(any(target_os = "linux", windows))]
pub mod publish;
#[cfg(any(target_os = "linux", windows))]
pub mod service;
