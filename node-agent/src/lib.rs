//! The library behind the program `muster-agent`.
//!
//! ```text
//!  validate   arguments ─► inputs ─► muster_bootstrap::judge ─► document ─► JSON, or text for people
//!
//!  run        probes (edge: each with a deadline)                                   publish (edge)
//!             metadata, files, /proc, DNS─TCP─TLS, ──► preflight ─┐               ┌─► status.json ─► status
//!             token, kubelet --version                 (pure)     │               ├─► serial console, one line
//!             journalctl -f, systemctl show ─────────► watch ─────┼─► Course ─► Report ─► agent.sock: health,
//!             own Node (watch), healthz, PodResources  (pure)     │   (pure)      │       reflection, admission
//!             /sys, /dev ────────────────────────────► devices ───┘      │        ├─► log bundle
//!                                                      (pure)            │        └─► link: one stream ─► controller
//!                                                                        ▼
//!  kubelet.service ─ ExecCondition ─ gate ──────────► admission ◄─── Hold (pure): may the kubelet start, is it owed a start?
//!                                                                        └─► native (mode `native`): files, then units
//! ```
//! On Windows the journal is the event log and files of logs, `systemctl` the service manager, the socket a named pipe; the
//! gate is a watcher that stops a kubelet's service that was started too early ([`platform`] says which is which).
//!
//! Decisions are pure functions of what was observed and a time that is passed in: [`preflight`], [`watch`], [`devices`],
//! [`course`]. They know nothing of Linux but its texts, and so run on every platform. Probes and publishing are thin and
//! know nothing of what is right. The stream to a controller ([`link`]) is one more reader of the same reports.

pub mod cli;
pub mod course;
pub mod devices;
pub mod phase;
pub mod platform;
pub mod preflight;
pub mod probes;
pub mod report;
pub mod watch;

#[cfg(any(target_os = "linux", windows))]
pub mod link;
#[cfg(target_os = "linux")]
pub mod native;
#[cfg(any(target_os = "linux", windows))]
pub mod publish;
#[cfg(any(target_os = "linux", windows))]
pub mod service;
