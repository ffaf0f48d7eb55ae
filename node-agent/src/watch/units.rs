//! States of systemd's units, as `systemctl show` prints them.

use std::time::Duration;

/// The units that the agent follows. Those that an image does not have are `not-found` and no matter.
pub const UNITS: [&str; 7] =
    ["kubelet", "containerd", "nodeadm-config", "nodeadm-run", "cloud-init", "cloud-final", "nvidia-fabricmanager"];

/// The properties that are asked for.
pub const PROPERTIES: &str =
    "Id,LoadState,ActiveState,SubState,Result,NRestarts,ExecMainStatus,ExecMainPID,ExecMainStartTimestampMonotonic";

/// How a unit stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unit {
    /// Its name, without `.service`.
    pub name: String,
    /// Whether there is such a unit.
    pub exists: bool,
    /// `active`, `inactive`, `activating`, `deactivating`, `failed`.
    pub active: String,
    /// As `running`, `auto-restart`, `exited`.
    pub sub: String,
    /// `success`, or how it ended.
    pub result: String,
    /// How often systemd has started it again by itself.
    pub restarts: u32,
    /// What its main process ended with.
    pub status: i32,
    /// Whether it ever had a main process.
    pub was_started: bool,
    /// When its main process was started last, since the boot; `None` if it never was, or that is not known.
    pub began: Option<Duration>,
}

impl Unit {
    /// Whether it runs.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.active == "active"
    }

    /// Whether it ended with an error and is not on its way again.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.active == "failed"
    }

    /// Whether systemd waits to start it again.
    #[must_use]
    pub fn is_restarting(&self) -> bool {
        self.sub == "auto-restart"
    }
}

/// Reads what `systemctl show --property=… UNIT…` prints: one paragraph a unit.
#[must_use]
pub fn read(text: &str) -> Vec<Unit> {
    text.split("\n\n").filter_map(paragraph).collect()
}

fn paragraph(text: &str) -> Option<Unit> {
    let mut unit = Unit::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        match key {
            "Id" => unit.name = value.strip_suffix(".service").unwrap_or(value).to_owned(),
            "LoadState" => unit.exists = value != "not-found",
            "ActiveState" => value.clone_into(&mut unit.active),
            "SubState" => value.clone_into(&mut unit.sub),
            "Result" => value.clone_into(&mut unit.result),
            "NRestarts" => unit.restarts = value.parse().unwrap_or(0),
            "ExecMainStatus" => unit.status = value.parse().unwrap_or(0),
            "ExecMainStartTimestampMonotonic" => {
                unit.began = value.parse().ok().filter(|it| *it != 0).map(Duration::from_micros);
            }
            "ExecMainPID" => unit.was_started = value != "0",
            _ => {}
        }
    }
    (!unit.name.is_empty()).then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Captured from systemd 252.
    const SHOWN: &str = "Result=exit-code\nNRestarts=3\nExecMainPID=812\nExecMainStartTimestampMonotonic=12345678\nExecMainStatus=1\nId=kubelet.service\nLoadState=loaded\nActiveState=activating\nSubState=auto-restart\n\nResult=success\nNRestarts=0\nExecMainPID=0\nExecMainStartTimestampMonotonic=0\nExecMainStatus=0\nId=nodeadm-run.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\n";

    #[test]
    fn paragraphs_are_units() {
        let units = read(SHOWN);
        assert_eq!(units.len(), 2);
        let kubelet = &units[0];
        assert_eq!((kubelet.name.as_str(), kubelet.restarts, kubelet.status), ("kubelet", 3, 1));
        assert!(kubelet.is_restarting() && kubelet.was_started && !kubelet.is_active() && !kubelet.has_failed());
        assert_eq!(kubelet.began, Some(Duration::from_micros(12_345_678)));
        assert!(!units[1].exists && units[1].began.is_none());
        assert_eq!(read("nonsense\n\n\n"), []);
    }
}
