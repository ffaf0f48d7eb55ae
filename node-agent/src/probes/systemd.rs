//! systemd, through `systemctl`, which is in every image. It is run on events, not polled.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::watch::units::{self, PROPERTIES, UNITS, Unit};

/// Timeout of `systemctl`. PID 1 answers in milliseconds, unless it reloads.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the states of the units; `None` if systemd does not answer.
pub async fn units() -> Option<Vec<Unit>> {
    let mut words = vec!["show".to_owned(), format!("--property={PROPERTIES}")];
    words.extend(UNITS.map(|unit| format!("{unit}.service")));
    Some(units::read(&systemctl(&words).await?))
}

/// Returns the text of a unit with its drop-ins.
pub async fn text_of(unit: &str) -> Option<String> {
    systemctl(&["cat".to_owned(), format!("{unit}.service")]).await
}

/// Returns the environment variables that all units get, in shell syntax.
pub async fn environment() -> Option<String> {
    systemctl(&["show-environment".to_owned()]).await
}

/// Starts, stops or restarts a unit without waiting, since the unit may be waiting for the agent. Returns true on
/// success.
pub async fn order(verb: &str, unit: &str) -> bool {
    systemctl(&["--no-block".to_owned(), verb.to_owned(), format!("{unit}.service")]).await.is_some()
}

async fn systemctl(words: &[String]) -> Option<String> {
    let mut command = Command::new("systemctl");
    command.args(words).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let output = timeout(PATIENCE, command.output()).await.ok()?.ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
