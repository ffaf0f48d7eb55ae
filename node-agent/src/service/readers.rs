//! Readers of the report: status file, health names, console, log, bundle, controller and watchers.

use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use tokio::sync::watch;

use super::Known;
use crate::boot_state::BootState;
use crate::phase::Phase;
use crate::publish::{console, health, socket, status};
use crate::report::{Report, Weight};

/// Last state published to each reader.
pub(super) struct Readers {
    report: Report,
    run_folder: PathBuf,
    statuses: watch::Sender<socket::Statuses>,
    tells: Tells,
    /// Code that the last bundle was requested for.
    bundled: Option<String>,
    said: Option<String>,
    logged: String,
    is_written: bool,
}

/// Channels to readers with a task of their own.
pub(super) struct Tells {
    /// Watchers.
    pub(super) known: watch::Sender<Known>,
    /// Writer of log bundles.
    pub(super) bundles: watch::Sender<Option<Report>>,
    /// Link to the controller.
    pub(super) reports: watch::Sender<Report>,
}

impl Readers {
    /// Returns the readers of the first report, and the channel of the health statuses.
    pub(super) fn new(report: Report, run_folder: PathBuf, tells: Tells) -> (Self, watch::Receiver<socket::Statuses>) {
        let (statuses, told) = watch::channel(health::statuses(&report));
        let readers = Self {
            report,
            run_folder,
            statuses,
            tells,
            bundled: None,
            said: None,
            logged: String::new(),
            is_written: true,
        };
        (readers, told)
    }

    /// Returns the last published report.
    pub(super) fn report(&self) -> &Report {
        &self.report
    }

    /// Writes the status file.
    pub(super) fn write_status(&self) -> io::Result<()> {
        status::write(&self.run_folder, &self.report)
    }

    /// Publishes changes.
    pub(super) fn tell(&mut self, boot_state: &mut BootState, now: Timestamp) {
        let next = boot_state.report(now);
        if next.is_same(&self.report) && self.is_written {
            return;
        }
        self.report = next;
        // If a reader fails, the others are still served, and it is retried: on Windows, a program that reads the file
        // may prevent its replacement.
        let written = self.write_status();
        if let Err(error) = &written
            && self.is_written
        {
            tracing::warn!("the status cannot be written: {error}");
        }
        self.is_written = written.is_ok();
        self.statuses.send_replace(health::statuses(&self.report));
        console::say(&self.report, &mut self.said);
        self.ask_for_a_bundle();
        self.log_what_changed();
        self.tells.reports.send_replace(self.report.clone());
        let known = known(boot_state, &self.report);
        self.tells.known.send_if_modified(|before| std::mem::replace(before, known.clone()) != known);
    }

    /// Requests a bundle for each new error.
    fn ask_for_a_bundle(&mut self) {
        let error = self.report.verdict.as_ref().filter(|verdict| verdict.severity == Weight::Error);
        let code = error.map(|verdict| verdict.code.clone());
        if code.is_some() && code != self.bundled {
            self.tells.bundles.send_replace(Some(self.report.clone()));
        }
        self.bundled = code;
    }

    fn log_what_changed(&mut self) {
        let report = &self.report;
        let verdict = report.verdict.as_ref().map(|it| format!(", {}: {}", it.code, it.message)).unwrap_or_default();
        let stage = match report.phase {
            Phase::Initialized if report.waiting_for.is_none() => "the node takes pods".to_owned(),
            phase => phase.to_string(),
        };
        let line = format!("{stage}{verdict}");
        if line != self.logged {
            match report.verdict.as_ref().map(|it| it.severity) {
                Some(Weight::Error) => tracing::error!("{line}"),
                Some(Weight::Warning) => tracing::warn!("{line}"),
                Some(Weight::Info) | None => tracing::info!("{line}"),
            }
            self.logged = line;
        }
    }
}

fn known(boot_state: &BootState, report: &Report) -> Known {
    Known {
        node_name: boot_state.node_name().map(ToOwned::to_owned),
        has_resources: !boot_state.resources().is_empty(),
        health_port: boot_state.health_port(),
        is_settled: report.phase == Phase::Initialized && report.waiting_for.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use muster_bootstrap::agent_config::Mode;
    use muster_bootstrap::finding::Finding;
    use muster_bootstrap::verdicts;

    use super::*;
    use crate::boot_state::Observation;

    struct Fixture {
        folder: tempfile::TempDir,
        boot_state: BootState,
        readers: Readers,
        bundles: watch::Receiver<Option<Report>>,
        reports: watch::Receiver<Report>,
        statuses: watch::Receiver<socket::Statuses>,
        known: watch::Receiver<Known>,
        now: Timestamp,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let now = "2026-11-21T20:00:00Z".parse().unwrap();
            let mut boot_state = BootState::new(Mode::Delegate, false, "boot".to_owned(), now);
            let (known_tx, known) = watch::channel(Known::default());
            let (bundles_tx, bundles) = watch::channel(None);
            let (reports_tx, reports) = watch::channel(boot_state.report(now));
            let place = folder.path().join("run");
            let tells = Tells { known: known_tx, bundles: bundles_tx, reports: reports_tx };
            let (readers, statuses) = Readers::new(boot_state.report(now), place, tells);
            Self { folder, boot_state, readers, bundles, reports, statuses, known, now }
        }

        fn on_observation(&mut self, observation: Observation) {
            self.boot_state.observe(observation, self.now);
            self.readers.tell(&mut self.boot_state, self.now);
        }

        fn fault(&mut self, is_there: bool) {
            let finding = Finding::new(&verdicts::UD12, "`containerd` cannot be started", None);
            self.on_observation(Observation::Native(if is_there { Err(Box::new(finding)) } else { Ok(()) }));
        }

        fn written(&self) -> Option<Report> {
            status::read(&self.folder.path().join("run")).ok()
        }
    }

    #[test]
    fn each_fault_gets_one_bundle_and_another_one_when_it_comes_back() {
        let mut told = Fixture::new();
        told.fault(true);
        assert_eq!(told.written().unwrap().verdict.unwrap().code, "UD12");
        assert_eq!(told.reports.borrow_and_update().verdict.as_ref().unwrap().code, "UD12");
        assert!(told.bundles.has_changed().unwrap());
        let bundled = told.bundles.borrow_and_update().clone();
        assert_eq!(bundled.unwrap().verdict.unwrap().code, "UD12");
        // Something else changes: the fault is the same.
        told.on_observation(Observation::Held(true));
        assert!(told.written().unwrap().held);
        assert!(!told.bundles.has_changed().unwrap());
        told.fault(false);
        assert!(!told.bundles.has_changed().unwrap());
        told.fault(true);
        assert!(told.bundles.has_changed().unwrap());
    }

    #[test]
    fn nobody_is_told_the_same_twice() {
        let mut told = Fixture::new();
        told.on_observation(Observation::Held(true));
        told.statuses.mark_unchanged();
        told.known.mark_unchanged();
        std::fs::remove_file(status::path(&told.folder.path().join("run"))).unwrap();
        told.on_observation(Observation::Held(true));
        assert!(told.written().is_none());
        assert!(!told.statuses.has_changed().unwrap());
        assert!(!told.known.has_changed().unwrap());
    }

    #[test]
    fn a_file_that_cannot_be_written_is_tried_again_and_the_others_are_told() {
        let mut told = Fixture::new();
        // A file where the folder should be.
        let place = told.folder.path().join("run");
        std::fs::write(&place, "").unwrap();
        told.fault(true);
        assert!(told.bundles.has_changed().unwrap());
        assert!(told.written().is_none());
        std::fs::remove_file(&place).unwrap();
        // Nothing has changed since, but it was not written.
        told.readers.tell(&mut told.boot_state, told.now);
        assert_eq!(told.written().unwrap().verdict.unwrap().code, "UD12");
    }
}
