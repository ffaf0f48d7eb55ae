//! Start of the service on Linux, by systemd.

use tokio::signal::unix::{SignalKind, signal};

use super::arguments::{RunArguments, ServiceAction};
use super::failure::Failure;
use super::service::runtime;
use crate::log;
use crate::publish::notify;
use crate::service::{self, Settings};

/// Command that shows if the service runs.
pub(super) const ASK: &str = "systemctl status muster-agent";

/// Runs the service until SIGTERM or SIGINT.
pub(super) fn run(settings: Settings) -> Result<(), Failure> {
    if !nix::unistd::geteuid().is_root() {
        return Err(Failure::Usage(
            "only root can watch over a node\n\nhint: start the unit muster-agent.service".to_owned(),
        ));
    }
    log::install();
    // systemd's socket for the readiness notification.
    let socket = std::env::var("NOTIFY_SOCKET").ok();
    let outside = |error: std::io::Error| Failure::Outside(error.to_string());
    let runtime = runtime().map_err(outside)?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(outside)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(outside)?;
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        let ended = service::run(settings, || notify::ready(socket.as_deref()), stop).await;
        ended.map_err(|fault| Failure::Outside(fault.to_string()))
    })
}

/// Fails: on Linux the package installs the unit.
pub(super) fn set_up(_: ServiceAction, _: RunArguments) -> Result<(), Failure> {
    Err(Failure::Usage(
        "services are installed so on Windows only\n\nhint: install the unit of the package, and `systemctl enable muster-agent`"
            .to_owned(),
    ))
}
