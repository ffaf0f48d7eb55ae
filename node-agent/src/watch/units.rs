//! States of systemd's units, as `systemctl show` prints them.

use std::time::Duration;

/// Units that the agent follows. Units that an image lacks are `not-found`.
pub const UNITS: [&str; 7] =
    ["kubelet", "containerd", "nodeadm-config", "nodeadm-run", "cloud-init", "cloud-final", "nvidia-fabricmanager"];

/// Properties to query.
pub const PROPERTIES: &str =
    "Id,LoadState,ActiveState,SubState,Result,NRestarts,ExecMainStatus,ExecMainPID,ExecMainStartTimestampMonotonic";

/// State of a unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unit {
    /// Name, without `.service`.
    pub name: String,
    /// True if the unit exists.
    pub exists: bool,
    /// Active state: `active`, `inactive`, `activating`, `deactivating`, `failed`.
    pub active: String,
    /// Sub-state, such as `running`, `auto-restart`, `exited`.
    pub sub: String,
    /// `success`, or the kind of failure.
    pub result: String,
    /// Number of automatic restarts by systemd.
    pub restarts: u32,
    /// Exit status of the main process.
    pub status: i32,
    /// True if the unit ever had a main process.
    pub was_started: bool,
    /// Time from boot to the last start of its main process; `None` if it never started or this is not known.
    pub began: Option<Duration>,
}

impl Unit {
    /// Returns true if the unit is active.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.active == "active"
    }

    /// Returns true if the unit failed and will not be restarted.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.active == "failed"
    }

    /// Returns true if systemd is about to restart the unit.
    #[must_use]
    pub fn is_restarting(&self) -> bool {
        self.sub == "auto-restart"
    }
}

/// Parses the output of `systemctl show --property=… UNIT…`: one paragraph per unit.
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
