//! Where everything comes together: the course that is observed, the kubelets that wait for an answer, and when to look
//! again.

use std::time::Duration;

use jiff::Timestamp;
use muster_bootstrap::agent_config::Mode;
use muster_bootstrap::userdata::UserData;
use muster_proto::muster::AdmitKubeletResponse;
use tokio::time::Instant;

use super::log;
use super::rounds::{Made, Rounds};
use crate::course::hold::{ANSWER_WITHIN, Answered, Hold};
use crate::course::pace::Pace;
use crate::course::{Course, Observation};
use crate::phase::Phase;
use crate::preflight::{self, Facts};
use crate::probes::supervisor;
use crate::publish::socket::Asked;
use crate::report::Report;

/// How long until it looks for the kubelet's files by itself.
const LOOK_FOR_FILES: Duration = Duration::from_secs(10);
/// How long a warning may outlive its cause. Good answers of the API server are believed for as long.
const LOOK_AT_WARNINGS: Duration = Duration::from_secs(60);

/// The one place that changes the course.
pub(super) struct Desk {
    course: Course,
    hold: Hold<Asked>,
    rounds: Rounds,
    /// When the last preflight came, or was asked for.
    looked: Instant,
    /// Since when something holds the kubelet back, or since somebody tried to start it last.
    held_since: Option<Instant>,
    /// Whether the command line says to hold nothing back.
    is_told_to_report_only: bool,
    #[cfg(target_os = "linux")]
    native: crate::native::Bootstrap,
}

impl Desk {
    pub(super) fn new(course: Course, hold: Hold<Asked>, rounds: Rounds, is_told_to_report_only: bool) -> Self {
        Self {
            course,
            hold,
            rounds,
            looked: Instant::now(),
            held_since: None,
            is_told_to_report_only,
            #[cfg(target_os = "linux")]
            native: crate::native::Bootstrap::default(),
        }
    }

    pub(super) fn course(&mut self) -> &mut Course {
        &mut self.course
    }

    /// Takes an observation in.
    pub(super) fn observe(&mut self, observation: Observation) {
        self.course.observe(observation, Timestamp::now());
    }

    /// A kubelet is about to start.
    pub(super) fn ask(&mut self, asked: Asked) {
        self.rounds.expect_a_start();
        // Whoever starts it may have mended something.
        self.held_since = None;
        self.rounds.go();
        if self.course.is_report_only() {
            let _the_kubelet_gave_up = asked.send(admitted());
        } else {
            self.hold.ask(asked, Instant::now().into_std());
        }
    }

    /// A preflight was made: who waits for it is answered, and a kubelet that is owed its start is started.
    pub(super) async fn judge(&mut self, made: Made) {
        let Made { mut facts, began } = made;
        facts.has_joined = self.course.has_joined(&facts);
        let (mode, is_report_only) = wishes(&facts, self.is_told_to_report_only);
        let instance = facts.metadata.instance();
        self.course.identify(instance.map(|it| it.id.clone()), mode, is_report_only);
        let examined = preflight::examine(&facts);
        self.observe(Observation::Preflight(Box::new(examined)));
        self.looked = Instant::now();
        let refusal = answer(&self.course);
        #[cfg(target_os = "linux")]
        if mode == Mode::Native && refusal.admitted {
            let outcome = self.native.run(&facts).await;
            self.observe(Observation::Native(outcome.map_err(Box::new)));
        }
        let answered = self.hold.judged(began.into_std(), Instant::now().into_std(), !refusal.admitted);
        reply(answered, &refusal);
        if self.hold.is_asked() {
            self.rounds.go();
        }
        // A kubelet of Windows that still runs may be one that is being stopped.
        let runs = facts.is_kubelet_active && cfg!(not(windows));
        if self.hold.is_owed() && refusal.admitted && (runs || supervisor::order("start", "kubelet").await) {
            self.hold.settle();
        }
        self.observe(Observation::Held(self.hold.is_owed()));
        let is_held = self.hold.is_owed() || self.course.fatal().is_some();
        self.held_since = is_held.then(|| self.held_since.unwrap_or(self.looked));
    }

    /// When somebody will have waited for too long.
    pub(super) fn answer_due(&self) -> Option<std::time::Instant> {
        self.hold.due()
    }

    /// Answers who has waited for too long by the last preflight.
    pub(super) fn answer_the_late(&mut self) {
        let refusal = answer(&self.course);
        log(&format!("the checks take longer than {} s: the last ones count", ANSWER_WITHIN.as_secs()));
        reply(self.hold.late(Instant::now().into_std(), !refusal.admitted), &refusal);
        self.observe(Observation::Held(self.hold.is_owed()));
    }

    /// Asks for a preflight.
    pub(super) fn look(&mut self) {
        self.looked = Instant::now();
        self.rounds.go();
    }

    /// Asks for another preflight if the last one is old enough.
    pub(super) fn look_again_if_due(&mut self, report: &Report) {
        let pause = look_again_after(&self.course, report, self.hold.is_owed(), self.held_since);
        if pause.is_some_and(|pause| self.looked.elapsed() >= pause) {
            self.look();
        }
    }
}

/// What the node's configuration in its user data asks of the agent.
fn wishes(facts: &Facts, report_only: bool) -> (Mode, bool) {
    let user_data = facts.metadata.user_data().map(|bytes| UserData::read(bytes, "user-data"));
    let config = preflight::agent_config(user_data.as_ref()).ok().flatten();
    let (mode, is_report_only) =
        config.map_or((mode_of_image(), report_only), |it| (it.spec.mode, report_only || it.spec.report_only));
    // What this platform cannot do the image's own bootstrap does; the preflight says so.
    (if cfg!(target_os = "linux") { mode } else { Mode::Delegate }, is_report_only)
}

/// An image that is made for it runs the agent's bootstrap, whether the user data says so or not.
#[cfg(target_os = "linux")]
fn mode_of_image() -> Mode {
    const NATIVE: &str = "/etc/muster/native";
    if std::path::Path::new(NATIVE).exists() { Mode::Native } else { Mode::Delegate }
}

#[cfg(not(target_os = "linux"))]
fn mode_of_image() -> Mode {
    Mode::Delegate
}

/// Gives answers: yes, or what is wrong.
fn reply(answers: Vec<Answered<Asked>>, refusal: &AdmitKubeletResponse) {
    for Answered { asked, admitted: is_admitted, after } in answers {
        if is_admitted {
            log(&format!("the kubelet may start, answered after {} ms", after.as_millis()));
        }
        let _the_kubelet_gave_up = asked.send(if is_admitted { admitted() } else { refusal.clone() });
    }
}

/// How long after the last preflight another one is due, if it is.
fn look_again_after(course: &Course, report: &Report, is_owed: bool, held_since: Option<Instant>) -> Option<Duration> {
    let has_registered = report.of(Phase::Registered).is_some_and(|it| it.ended.is_some());
    // A start that is owed is owed at any stage.
    if is_owed || (course.fatal().is_some() && !has_registered) {
        Some(Pace::PREFLIGHT.pause(held_since.map_or(Duration::ZERO, |since| since.elapsed())))
    } else if course.node_name().is_none() {
        // The kubelet's files are still to be written; its unit asks when they are, unless it has not learnt to.
        Some(LOOK_FOR_FILES)
    } else if course.has_warning() {
        Some(LOOK_AT_WARNINGS)
    } else {
        None
    }
}

fn admitted() -> AdmitKubeletResponse {
    AdmitKubeletResponse { admitted: true, code: String::new(), message: String::new() }
}

fn answer(course: &Course) -> AdmitKubeletResponse {
    match course.fatal().filter(|_| !course.is_report_only()) {
        None => admitted(),
        Some(finding) => AdmitKubeletResponse {
            admitted: false,
            code: finding.verdict.code.to_owned(),
            message: finding.message.clone(),
        },
    }
}
