//! Central state of the service: the course, pending requests of the kubelet, and the time of the next preflight.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use muster_bootstrap::agent_config::Mode;
use muster_bootstrap::userdata::UserData;
use muster_proto::muster::AdmitKubeletResponse;

use super::rounds::{Made, Rounds};
use super::works::{Done, Order, Orders};
use crate::boot_state::hold::{ANSWER_WITHIN, Answered, Hold};
use crate::boot_state::pace::Pace;
use crate::boot_state::{BootState, Observation};
use crate::phase::Phase;
use crate::preflight::{self, Facts};
use crate::publish::socket::Asked;
use crate::report::Report;

/// Interval between preflights until the kubelet's files exist.
const LOOK_FOR_FILES: Duration = Duration::from_secs(10);
/// Interval between preflights while there are warnings, which may be outdated. The cache of the API server's answers
/// has the same lifetime.
const LOOK_AT_WARNINGS: Duration = Duration::from_secs(60);

/// One moment on both clocks: wall clock for reports, and monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) wall: Timestamp,
    pub(super) steady: Instant,
}

impl Now {
    /// Reads both clocks.
    pub(super) fn read() -> Self {
        Self { wall: Timestamp::now(), steady: Instant::now() }
    }
}

/// A preflight whose requests are still to be answered.
#[derive(Debug, Clone, Copy)]
struct Judged {
    began: Instant,
    is_kubelet_active: bool,
}

/// The only owner of the course. It never blocks: long operations are ordered, and their results observed.
pub(super) struct Supervisor {
    boot_state: BootState,
    hold: Hold<Asked>,
    rounds: Rounds,
    orders: Orders,
    /// Time of the last preflight, or of the last request for one.
    looked: Instant,
    /// Start of the period in which the kubelet is held back. Reset when the kubelet tries to start.
    held_since: Option<Instant>,
    /// True if the command line requests report-only mode.
    is_told_to_report_only: bool,
    /// True while the native bootstrap runs.
    #[cfg(target_os = "linux")]
    is_bootstrapping: bool,
    /// Preflight to conclude when the bootstrap has ended.
    #[cfg(target_os = "linux")]
    judged: Option<Judged>,
    /// True while an order to start the kubelet is in progress.
    is_starting: bool,
    /// True if the kubelet was refused during that order, so that it is owed another start.
    has_refused_since: bool,
}

impl Supervisor {
    pub(super) fn new(
        boot_state: BootState,
        hold: Hold<Asked>,
        rounds: Rounds,
        orders: Orders,
        is_told_to_report_only: bool,
        now: Now,
    ) -> Self {
        Self {
            boot_state,
            hold,
            rounds,
            orders,
            looked: now.steady,
            held_since: None,
            is_told_to_report_only,
            #[cfg(target_os = "linux")]
            is_bootstrapping: false,
            #[cfg(target_os = "linux")]
            judged: None,
            is_starting: false,
            has_refused_since: false,
        }
    }

    pub(super) fn boot_state(&mut self) -> &mut BootState {
        &mut self.boot_state
    }

    /// Records an observation.
    pub(super) fn observe(&mut self, observation: Observation, now: Now) {
        self.boot_state.observe(observation, now.wall);
    }

    /// Handles a request of a kubelet that is about to start.
    pub(super) fn ask(&mut self, asked: Asked, now: Now) {
        self.rounds.expect_a_start();
        // The operator who starts it may have fixed something.
        self.held_since = None;
        self.rounds.go();
        if self.boot_state.is_report_only() {
            let _the_kubelet_gave_up = asked.send(admitted());
        } else {
            self.hold.ask(asked, now.steady);
        }
    }

    /// Handles a preflight: answers pending requests, and starts a kubelet that was held back. In native mode the
    /// bootstrap runs first.
    pub(super) fn judge(&mut self, made: Made, now: Now) {
        let Made { mut facts, began } = made;
        facts.has_joined = self.boot_state.has_joined(&facts);
        let (mode, is_report_only) = wishes(&facts, self.is_told_to_report_only);
        let instance = facts.metadata.instance();
        self.boot_state.identify(instance.map(|it| it.id.clone()), mode, is_report_only);
        let examined = preflight::examine(&facts);
        self.observe(Observation::Preflight(Box::new(examined)), now);
        self.looked = now.steady;
        let judged = Judged { began, is_kubelet_active: facts.is_kubelet_active };
        #[cfg(target_os = "linux")]
        if mode == Mode::Native && answer(&self.boot_state).admitted {
            self.judged = Some(judged);
            if !self.is_bootstrapping {
                self.is_bootstrapping = true;
                self.order(Order::Bootstrap(Box::new(facts)));
            }
            self.update_health(now);
            return;
        }
        self.conclude(judged, now);
    }

    /// Handles the result of an order.
    pub(super) fn done(&mut self, done: Done, now: Now) {
        match done {
            #[cfg(target_os = "linux")]
            Done::Bootstrap(outcome) => {
                self.is_bootstrapping = false;
                self.observe(Observation::Native(outcome), now);
                if let Some(judged) = self.judged {
                    self.conclude(judged, now);
                }
            }
            Done::StartKubelet(is_taken) => {
                self.is_starting = false;
                if is_taken && !self.has_refused_since {
                    self.hold.settle();
                }
                self.update_health(now);
            }
        }
    }

    /// Answers the requests made before the preflight, and orders the start owed to the kubelet.
    fn conclude(&mut self, judged: Judged, now: Now) {
        #[cfg(target_os = "linux")]
        {
            self.judged = None;
        }
        let refusal = answer(&self.boot_state);
        let answered = self.hold.judged(judged.began, now.steady, !refusal.admitted);
        self.reply(answered, &refusal);
        if self.hold.is_asked() {
            self.rounds.go();
        }
        if self.hold.is_owed() && refusal.admitted {
            // On Windows, a running kubelet may be one that is being stopped.
            if judged.is_kubelet_active && cfg!(not(windows)) {
                self.hold.settle();
            } else if !self.is_starting {
                (self.is_starting, self.has_refused_since) = (true, false);
                self.order(Order::StartKubelet);
            }
        }
        self.update_health(now);
    }

    /// Reports if the kubelet is held back, and updates `held_since`.
    fn update_health(&mut self, now: Now) {
        self.observe(Observation::Held(self.hold.is_owed()), now);
        let is_held = self.hold.is_owed() || self.boot_state.fatal().is_some();
        self.held_since = is_held.then(|| self.held_since.unwrap_or(self.looked));
    }

    fn order(&self, order: Order) {
        // Fails only while the service is ending.
        let _the_service_is_ending = self.orders.send(order);
    }

    /// Returns the time when the oldest pending request is overdue.
    pub(super) fn answer_due(&self) -> Option<Instant> {
        self.hold.due()
    }

    /// Answers overdue requests by the last preflight.
    pub(super) fn answer_the_late(&mut self, now: Now) {
        let refusal = answer(&self.boot_state);
        tracing::warn!("the checks take longer than {} s: the last ones count", ANSWER_WITHIN.as_secs());
        let answered = self.hold.late(now.steady, !refusal.admitted);
        self.reply(answered, &refusal);
        self.observe(Observation::Held(self.hold.is_owed()), now);
    }

    /// Sends the answers.
    fn reply(&mut self, answers: Vec<Answered<Asked>>, refusal: &AdmitKubeletResponse) {
        for Answered { asked, admitted: is_admitted, after } in answers {
            if is_admitted {
                tracing::info!("the kubelet may start, answered after {} ms", after.as_millis());
            }
            self.has_refused_since |= !is_admitted;
            let _the_kubelet_gave_up = asked.send(if is_admitted { admitted() } else { refusal.clone() });
        }
    }

    /// Requests a preflight.
    pub(super) fn look(&mut self, now: Now) {
        self.looked = now.steady;
        self.rounds.go();
    }

    /// Requests a preflight if the last one is old enough.
    pub(super) fn look_again_if_due(&mut self, report: &Report, now: Now) {
        let held_for = self.held_since.map(|since| now.steady.duration_since(since));
        let pause = look_again_after(&self.boot_state, report, self.hold.is_owed(), held_for.unwrap_or_default());
        if pause.is_some_and(|pause| now.steady.duration_since(self.looked) >= pause) {
            self.look(now);
        }
    }
}

/// Returns the bootstrap mode and the report-only flag, from the node's configuration and the command line.
fn wishes(facts: &Facts, report_only: bool) -> (Mode, bool) {
    let user_data = facts.metadata.user_data().map(|bytes| UserData::read(bytes, "user-data"));
    let config = preflight::agent_config(user_data.as_ref()).ok().flatten();
    let (mode, of_config) = config.map_or((None, false), |it| (it.spec.mode, it.spec.report_only));
    let (mode, is_report_only) = (mode.unwrap_or_else(mode_of_image), report_only || of_config);
    // Only Linux supports native mode. The preflight reports this.
    (if cfg!(target_os = "linux") { mode } else { Mode::Delegate }, is_report_only)
}

/// An image built for native mode uses it by default.
#[cfg(target_os = "linux")]
fn mode_of_image() -> Mode {
    const NATIVE: &str = "/etc/muster/native";
    if std::path::Path::new(NATIVE).exists() { Mode::Native } else { Mode::Delegate }
}

#[cfg(not(target_os = "linux"))]
fn mode_of_image() -> Mode {
    Mode::Delegate
}

/// Returns the time after the last preflight when another one is due, if any.
fn look_again_after(boot_state: &BootState, report: &Report, is_owed: bool, held_for: Duration) -> Option<Duration> {
    let has_registered = report.of(Phase::Registered).is_some_and(|it| it.ended.is_some());
    // An owed start counts at any stage.
    if is_owed || (boot_state.fatal().is_some() && !has_registered) {
        Some(Pace::PREFLIGHT.pause(held_for))
    } else if boot_state.node_name().is_none() {
        // The kubelet's files are not written yet. Its unit requests a preflight later, if it has the gate.
        Some(LOOK_FOR_FILES)
    } else if boot_state.has_warning() {
        Some(LOOK_AT_WARNINGS)
    } else {
        None
    }
}

fn admitted() -> AdmitKubeletResponse {
    AdmitKubeletResponse { admitted: true, code: String::new(), message: String::new() }
}

fn answer(boot_state: &BootState) -> AdmitKubeletResponse {
    match boot_state.fatal().filter(|_| !boot_state.is_report_only()) {
        None => admitted(),
        Some(finding) => AdmitKubeletResponse {
            admitted: false,
            code: finding.verdict.code.to_owned(),
            message: finding.message.clone(),
        },
    }
}
