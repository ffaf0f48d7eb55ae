//! States of Windows services from the service control manager, converted to unit states.

use std::collections::BTreeMap;

use super::units::Unit;

/// State of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Service {
    /// Name.
    pub name: String,
    /// Service state; `None` if the service does not exist.
    pub state: Option<State>,
    /// Process ID; 0 if it does not run.
    pub process: u32,
    /// Exit code.
    pub exit_code: u32,
    /// True if the service control manager restarts it after a failure.
    pub is_restarted: bool,
}

/// Service state, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Stopped.
    Stopped,
    /// Start pending.
    Starting,
    /// Running or paused.
    Running,
    /// Stop pending.
    Stopping,
}

/// `ERROR_SERVICE_NEVER_STARTED`: exit code of a service that was not started since boot.
pub const NEVER_STARTED: u32 = 1077;

/// History of the services. The service control manager does not count restarts.
#[derive(Debug, Default)]
pub struct Services {
    seen: BTreeMap<String, Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    process: u32,
    restarts: u32,
    /// True if it was stopped regularly, so that its next start is not an automatic restart.
    has_ended_well: bool,
    was_started: bool,
}

/// Result of reading a service.
#[derive(Debug, PartialEq, Eq)]
pub struct Look {
    /// State as a unit.
    pub unit: Unit,
    /// True if it has started since the last read. False for a service that was running at the first read.
    pub has_started: bool,
}

impl Services {
    /// Records the state of a service.
    pub fn look(&mut self, service: &Service) -> Look {
        let is_first = !self.seen.contains_key(&service.name);
        let seen = self.seen.entry(service.name.clone()).or_default();
        let is_up = matches!(service.state, Some(State::Starting | State::Running));
        let is_new = is_up && service.process != seen.process && service.process != 0;
        if is_new {
            if seen.was_started && !seen.has_ended_well {
                seen.restarts += 1;
            }
            (seen.process, seen.has_ended_well) = (service.process, false);
        }
        let has_failed = service.state == Some(State::Stopped) && !matches!(service.exit_code, 0 | NEVER_STARTED);
        match service.state {
            Some(State::Stopped) => {
                seen.process = 0;
                seen.has_ended_well = !has_failed;
                seen.was_started |= service.exit_code != NEVER_STARTED;
            }
            Some(_) => seen.was_started |= is_up,
            None => *seen = Seen::default(),
        }
        let (active, sub) = match service.state {
            Some(State::Running) => ("active", "running"),
            Some(State::Starting) => ("activating", "start"),
            Some(State::Stopping) => ("deactivating", "stop"),
            Some(State::Stopped) if has_failed && service.is_restarted => ("activating", "auto-restart"),
            Some(State::Stopped) if has_failed => ("failed", "failed"),
            Some(State::Stopped) | None => ("inactive", "dead"),
        };
        let unit = Unit {
            name: service.name.clone(),
            exists: service.state.is_some(),
            active: active.to_owned(),
            sub: sub.to_owned(),
            result: if has_failed { "exit-code" } else { "success" }.to_owned(),
            restarts: seen.restarts,
            status: i32::try_from(service.exit_code).unwrap_or(i32::MAX),
            was_started: seen.was_started,
            began: None,
        };
        Look { unit, has_started: is_new && !is_first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubelet(state: Option<State>, process: u32, exit_code: u32) -> Service {
        Service { name: "kubelet".to_owned(), state, process, exit_code, is_restarted: true }
    }

    #[test]
    fn a_start_is_seen_once_and_restarts_are_counted() {
        let mut services = Services::default();
        let mut look = |state, process, exit_code| services.look(&kubelet(state, process, exit_code));
        assert!(!look(None, 0, 0).unit.exists);
        let made = look(Some(State::Stopped), 0, NEVER_STARTED);
        assert!(made.unit.exists && !made.unit.was_started && !made.unit.has_failed() && !made.has_started);
        assert!(look(Some(State::Starting), 7, 0).has_started);
        let running = look(Some(State::Running), 7, 0);
        assert!(running.unit.is_active() && !running.has_started && running.unit.was_started);
        let failed = look(Some(State::Stopped), 0, 1);
        assert!(failed.unit.is_restarting() && failed.unit.was_started, "{failed:?}");
        let again = look(Some(State::Running), 8, 0);
        assert_eq!((again.has_started, again.unit.restarts), (true, 1));
    }

    #[test]
    fn a_service_that_was_told_to_stop_is_not_restarted_by_itself() {
        let mut services = Services::default();
        let mut look = |state, process| services.look(&kubelet(state, process, 0));
        look(Some(State::Stopped), 0);
        look(Some(State::Running), 7);
        assert_eq!(look(Some(State::Stopped), 0).unit.active, "inactive");
        assert_eq!(look(Some(State::Running), 8).unit.restarts, 0);
        // A new process, although the end of the old one was not observed.
        assert_eq!(look(Some(State::Running), 9).unit.restarts, 1);
    }

    #[test]
    fn a_service_that_runs_already_has_not_started() {
        let mut services = Services::default();
        assert!(!services.look(&kubelet(Some(State::Running), 7, 0)).has_started);
        let other = Service { is_restarted: false, ..kubelet(Some(State::Stopped), 0, 1) };
        assert!(services.look(&other).unit.has_failed());
    }
}
