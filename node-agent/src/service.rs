//! `muster-agent run`: wires the whole service. Watchers observe, the supervisor decides, readers publish.
//!
//! ```text
//!  watchers ─► observations ─┐
//!  gate ─────► requests ─────┼─► Supervisor (BootState, Hold) ─► Readers: status, health, console, log, bundle, link
//!  rounds ───► preflights ───┘        │                            └─► Known ─► watchers
//!     ▲                               ├─► orders ─► works: native bootstrap, start of a kubelet that was held back
//!     └────────── check again ────────┘               └─► results ─► Supervisor
//! ```

mod bundles;
mod fault;
mod parts;
mod readers;
mod rounds;
mod supervisor;
mod watchers;
#[cfg(windows)]
pub mod windows;
mod works;

use std::io;
use std::path::PathBuf;

use fs_err as fs;
use jiff::Timestamp;
use muster_bootstrap::agent_config::Mode;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

pub use self::fault::Fault;
use self::parts::Parts;
pub use self::parts::{Ended, Part};
use self::readers::{Readers, Tells};
use self::supervisor::{Now, Supervisor};
use crate::boot_state::BootState;
use crate::boot_state::hold::Hold;
use crate::link;
use crate::probes::machine;
use crate::publish::{endpoint, socket, status};

/// Settings of the service, from the command line.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Folder of the status file and the socket.
    pub run_folder: PathBuf,
    /// Folder of the log bundle.
    pub log_folder: PathBuf,
    /// Folder for data that outlives a boot: the keys that identify the node to the controller.
    pub state_folder: PathBuf,
    /// Base URL of the instance metadata service.
    pub metadata_endpoint: String,
    /// Only report and never hold the kubelet back, whatever the node's configuration says.
    pub report_only: bool,
}

/// Interval between evaluations of time-dependent findings.
const TICK: std::time::Duration = std::time::Duration::from_secs(1);
/// Capacity of the observation queue. Observations come in bursts: a journal read from boot has hundreds of lines.
const QUEUE: usize = 1024;

/// Facts that the watchers need, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Name of the Node.
    pub(crate) node_name: Option<String>,
    /// True if the node should offer extended resources.
    pub(crate) has_resources: bool,
    /// The kubelet's `healthzPort`; 0 if it is disabled.
    pub(crate) health_port: u16,
    /// True if pods can be scheduled to the node.
    pub(crate) is_settled: bool,
}

/// Runs until `stop` completes. `ready` notifies the service manager that the agent accepts requests.
///
/// # Errors
/// The agent's folder or socket cannot be created, or one of its tasks has ended.
pub async fn run(
    settings: Settings,
    ready: impl FnOnce() -> io::Result<()>,
    stop: impl Future<Output = ()>,
) -> Result<(), Fault> {
    let Settings { run_folder, log_folder, state_folder, metadata_endpoint, report_only } = settings;
    #[cfg(windows)]
    for folder in [&run_folder, &log_folder, &state_folder] {
        windows::make(folder).map_err(Fault::Folder)?;
    }
    fs::create_dir_all(&run_folder).map_err(Fault::Folder)?;
    let incoming = endpoint::bind(&run_folder).map_err(Fault::Socket)?;
    let (mut boot_state, hold) = resumed(&run_folder, report_only);

    let mut parts = Parts::default();
    let (observed_tx, mut observed_rx) = mpsc::channel(QUEUE);
    let (asked_tx, mut asked_rx) = mpsc::channel(8);
    let (made_tx, mut made_rx) = mpsc::channel(1);
    let (known_tx, known_rx) = watch::channel(Known { health_port: boot_state.health_port(), ..Known::default() });
    let (done_tx, mut done_rx) = mpsc::channel(1);
    let bundles = bundles::spawn(&mut parts, log_folder);
    let first = boot_state.report(Timestamp::now());
    let (reports_tx, reports) = watch::channel(first.clone());
    let link = link::speak(state_folder, metadata_endpoint.clone(), reports);
    parts.spawn(Part::Link, async { match link.await {} });
    let tells = Tells { known: known_tx, bundles, reports: reports_tx };
    let (mut readers, statuses) = Readers::new(first, run_folder, tells);
    let asked_of_others = asked_tx.clone();
    let socket = socket::serve(incoming, statuses, asked_of_others);
    parts.spawn(Part::Socket, async { socket.await.map_err(Ended::Serving) });
    let rounds = rounds::spawn(&mut parts, metadata_endpoint.clone(), made_tx);
    watchers::spawn(&mut parts, &observed_tx, &known_rx, &asked_tx, metadata_endpoint);
    let orders = works::spawn(&mut parts, done_tx);
    let mut supervisor = Supervisor::new(boot_state, hold, rounds, orders, report_only, Now::read());

    readers.write_status().map_err(Fault::Status)?;
    ready().map_err(Fault::Ready)?;
    supervisor.look(Now::read());
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(stop);
    loop {
        tokio::select! {
            Some(observation) = observed_rx.recv() => {
                supervisor.observe(observation, Now::read());
                // Drain a burst completely before a report is made.
                while let Ok(observation) = observed_rx.try_recv() {
                    supervisor.observe(observation, Now::read());
                }
            }
            Some(asked) = asked_rx.recv() => supervisor.ask(asked, Now::read()),
            Some(made) = made_rx.recv() => supervisor.judge(made, Now::read()),
            Some(done) = done_rx.recv() => supervisor.done(done, Now::read()),
            () = until(supervisor.answer_due()) => supervisor.answer_the_late(Now::read()),
            _ = tick.tick() => supervisor.look_again_if_due(readers.report(), Now::read()),
            Some((part, why)) = parts.ended() => return Err(Fault::Part { part, why }),
            () = &mut stop => return Ok(()),
        }
        readers.tell(supervisor.boot_state(), Timestamp::now());
    }
}

/// Restores the course, and the start owed to the kubelet, from the predecessor's status if it is of this boot. On
/// Windows the agent's folder outlives the boot.
fn resumed(run_folder: &std::path::Path, report_only: bool) -> (BootState, Hold<socket::Asked>) {
    let boot_id = machine::boot_id();
    let before = status::read(run_folder).ok().filter(|it| it.boot_id == boot_id);
    let mut boot_state = BootState::new(Mode::Delegate, report_only, boot_id, Timestamp::now());
    boot_state.resume(before.as_ref());
    (boot_state, Hold::new(before.is_some_and(|it| it.held)))
}

/// Waits until `time`; forever if it is `None`.
async fn until(time: Option<std::time::Instant>) {
    match time {
        Some(time) => sleep_until(Instant::from_std(time)).await,
        None => std::future::pending().await,
    }
}
