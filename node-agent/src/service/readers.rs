//! Everyone who reads the report: the file, the health names, the console, the log, the bundle, and the watchers.

use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use tokio::sync::watch;

use super::{Known, log};
use crate::course::Course;
use crate::phase::Phase;
use crate::publish::{console, health, socket, status};
use crate::report::{Report, Weight};

/// What each of them was told last.
pub(super) struct Readers {
    report: Report,
    run_folder: PathBuf,
    statuses: watch::Sender<socket::Statuses>,
    known: watch::Sender<Known>,
    bundles: watch::Sender<Option<Report>>,
    /// The code that a bundle was asked for.
    bundled: Option<String>,
    said: Option<String>,
    logged: String,
    is_written: bool,
}

impl Readers {
    /// Those of the first report, and where its health names are to be had.
    pub(super) fn new(
        report: Report,
        run_folder: PathBuf,
        known: watch::Sender<Known>,
        bundles: watch::Sender<Option<Report>>,
    ) -> (Self, watch::Receiver<socket::Statuses>) {
        let (statuses, told) = watch::channel(health::statuses(&report));
        let readers = Self {
            report,
            run_folder,
            statuses,
            known,
            bundles,
            bundled: None,
            said: None,
            logged: String::new(),
            is_written: true,
        };
        (readers, told)
    }

    /// What they were told last.
    pub(super) fn report(&self) -> &Report {
        &self.report
    }

    /// Writes the file.
    pub(super) fn write_status(&self) -> io::Result<()> {
        status::write(&self.run_folder, &self.report)
    }

    /// Tells them what has changed.
    pub(super) fn tell(&mut self, course: &mut Course, now: Timestamp) {
        let next = course.report(now);
        if next.is_same(&self.report) && self.is_written {
            return;
        }
        self.report = next;
        // What cannot be written to one reader is still written to the others, and tried again: on Windows whoever reads
        // the file may keep it from being replaced.
        let written = self.write_status();
        if let Err(error) = &written
            && self.is_written
        {
            log(&format!("the status cannot be written: {error}"));
        }
        self.is_written = written.is_ok();
        self.statuses.send_replace(health::statuses(&self.report));
        console::say(&self.report, &mut self.said);
        self.ask_for_a_bundle();
        self.log_what_changed();
        let known = known(course, &self.report);
        self.known.send_if_modified(|before| std::mem::replace(before, known.clone()) != known);
    }

    /// Each fault gets a bundle.
    fn ask_for_a_bundle(&mut self) {
        let error = self.report.verdict.as_ref().filter(|verdict| verdict.severity == Weight::Error);
        let code = error.map(|verdict| verdict.code.clone());
        if code.is_some() && code != self.bundled {
            self.bundles.send_replace(Some(self.report.clone()));
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
            log(&line);
            self.logged = line;
        }
    }
}

fn known(course: &Course, report: &Report) -> Known {
    Known {
        node_name: course.node_name().map(ToOwned::to_owned),
        has_resources: !course.resources().is_empty(),
        health_port: course.health_port(),
        is_settled: report.phase == Phase::Initialized && report.waiting_for.is_none(),
    }
}
