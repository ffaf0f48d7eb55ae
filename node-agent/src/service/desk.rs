//! Where everything comes together: the course that is observed, the kubelets that wait for an answer, and when to look
//! again.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use muster_bootstrap::agent_config::Mode;
use muster_bootstrap::userdata::UserData;
use muster_proto::muster::AdmitKubeletResponse;

use super::log;
use super::rounds::{Made, Rounds};
use super::works::{Done, Order, Orders};
use crate::course::hold::{ANSWER_WITHIN, Answered, Hold};
use crate::course::pace::Pace;
use crate::course::{Course, Observation};
use crate::phase::Phase;
use crate::preflight::{self, Facts};
use crate::publish::socket::Asked;
use crate::report::Report;

/// How long until it looks for the kubelet's files by itself.
const LOOK_FOR_FILES: Duration = Duration::from_secs(10);
/// How long a warning may outlive its cause. Good answers of the API server are believed for as long.
const LOOK_AT_WARNINGS: Duration = Duration::from_secs(60);

/// One moment by both clocks: the one of reports, and the one that is never set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) wall: Timestamp,
    pub(super) steady: Instant,
}

impl Now {
    /// What the clocks say.
    pub(super) fn read() -> Self {
        Self { wall: Timestamp::now(), steady: Instant::now() }
    }
}

/// A preflight whose answer is still to be given.
#[derive(Debug, Clone, Copy)]
struct Judged {
    began: Instant,
    is_kubelet_active: bool,
}

/// The one place that changes the course. It waits for nothing: what takes time is ordered, and its outcome observed.
pub(super) struct Desk {
    course: Course,
    hold: Hold<Asked>,
    rounds: Rounds,
    orders: Orders,
    /// When the last preflight came, or was asked for.
    looked: Instant,
    /// Since when something holds the kubelet back, or since somebody tried to start it last.
    held_since: Option<Instant>,
    /// Whether the command line says to hold nothing back.
    is_told_to_report_only: bool,
    /// Whether the agent's own bootstrap is under way.
    #[cfg(target_os = "linux")]
    is_bootstrapping: bool,
    /// The preflight that is answered when the bootstrap is over.
    #[cfg(target_os = "linux")]
    judged: Option<Judged>,
    /// Whether an order to start the kubelet is under way.
    is_starting: bool,
    /// Whether the kubelet was refused its start while that order was under way, which is another start.
    has_refused_since: bool,
}

impl Desk {
    pub(super) fn new(
        course: Course,
        hold: Hold<Asked>,
        rounds: Rounds,
        orders: Orders,
        is_told_to_report_only: bool,
        now: Now,
    ) -> Self {
        Self {
            course,
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

    pub(super) fn course(&mut self) -> &mut Course {
        &mut self.course
    }

    /// Takes an observation in.
    pub(super) fn observe(&mut self, observation: Observation, now: Now) {
        self.course.observe(observation, now.wall);
    }

    /// A kubelet is about to start.
    pub(super) fn ask(&mut self, asked: Asked, now: Now) {
        self.rounds.expect_a_start();
        // Whoever starts it may have mended something.
        self.held_since = None;
        self.rounds.go();
        if self.course.is_report_only() {
            let _the_kubelet_gave_up = asked.send(admitted());
        } else {
            self.hold.ask(asked, now.steady);
        }
    }

    /// A preflight was made: who waits for it is answered, and a kubelet that is owed its start is started. Where the
    /// bootstrap is the agent's own, that comes first.
    pub(super) fn judge(&mut self, made: Made, now: Now) {
        let Made { mut facts, began } = made;
        facts.has_joined = self.course.has_joined(&facts);
        let (mode, is_report_only) = wishes(&facts, self.is_told_to_report_only);
        let instance = facts.metadata.instance();
        self.course.identify(instance.map(|it| it.id.clone()), mode, is_report_only);
        let examined = preflight::examine(&facts);
        self.observe(Observation::Preflight(Box::new(examined)), now);
        self.looked = now.steady;
        let judged = Judged { began, is_kubelet_active: facts.is_kubelet_active };
        #[cfg(target_os = "linux")]
        if mode == Mode::Native && answer(&self.course).admitted {
            self.judged = Some(judged);
            if !self.is_bootstrapping {
                self.is_bootstrapping = true;
                self.order(Order::Bootstrap(Box::new(facts)));
            }
            self.reckon(now);
            return;
        }
        self.conclude(judged, now);
    }

    /// Something that was ordered is done.
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
                self.reckon(now);
            }
        }
    }

    /// Gives the answers that a preflight is good for.
    fn conclude(&mut self, judged: Judged, now: Now) {
        #[cfg(target_os = "linux")]
        {
            self.judged = None;
        }
        let refusal = answer(&self.course);
        let answered = self.hold.judged(judged.began, now.steady, !refusal.admitted);
        self.reply(answered, &refusal);
        if self.hold.is_asked() {
            self.rounds.go();
        }
        if self.hold.is_owed() && refusal.admitted {
            // A kubelet of Windows that still runs may be one that is being stopped.
            if judged.is_kubelet_active && cfg!(not(windows)) {
                self.hold.settle();
            } else if !self.is_starting {
                (self.is_starting, self.has_refused_since) = (true, false);
                self.order(Order::StartKubelet);
            }
        }
        self.reckon(now);
    }

    /// Says whether the kubelet is held, and remembers since when.
    fn reckon(&mut self, now: Now) {
        self.observe(Observation::Held(self.hold.is_owed()), now);
        let is_held = self.hold.is_owed() || self.course.fatal().is_some();
        self.held_since = is_held.then(|| self.held_since.unwrap_or(self.looked));
    }

    fn order(&self, order: Order) {
        // The service ends when whoever carries orders out has.
        let _the_service_is_ending = self.orders.send(order);
    }

    /// When somebody will have waited for too long.
    pub(super) fn answer_due(&self) -> Option<Instant> {
        self.hold.due()
    }

    /// Answers who has waited for too long by the last preflight.
    pub(super) fn answer_the_late(&mut self, now: Now) {
        let refusal = answer(&self.course);
        log(&format!("the checks take longer than {} s: the last ones count", ANSWER_WITHIN.as_secs()));
        let answered = self.hold.late(now.steady, !refusal.admitted);
        self.reply(answered, &refusal);
        self.observe(Observation::Held(self.hold.is_owed()), now);
    }

    /// Gives answers: yes, or what is wrong.
    fn reply(&mut self, answers: Vec<Answered<Asked>>, refusal: &AdmitKubeletResponse) {
        for Answered { asked, admitted: is_admitted, after } in answers {
            if is_admitted {
                log(&format!("the kubelet may start, answered after {} ms", after.as_millis()));
            }
            self.has_refused_since |= !is_admitted;
            let _the_kubelet_gave_up = asked.send(if is_admitted { admitted() } else { refusal.clone() });
        }
    }

    /// Asks for a preflight.
    pub(super) fn look(&mut self, now: Now) {
        self.looked = now.steady;
        self.rounds.go();
    }

    /// Asks for another preflight if the last one is old enough.
    pub(super) fn look_again_if_due(&mut self, report: &Report, now: Now) {
        let held_for = self.held_since.map(|since| now.steady.duration_since(since));
        let pause = look_again_after(&self.course, report, self.hold.is_owed(), held_for.unwrap_or_default());
        if pause.is_some_and(|pause| now.steady.duration_since(self.looked) >= pause) {
            self.look(now);
        }
    }
}

/// What the node's configuration in its user data asks of the agent.
fn wishes(facts: &Facts, report_only: bool) -> (Mode, bool) {
    let user_data = facts.metadata.user_data().map(|bytes| UserData::read(bytes, "user-data"));
    let config = preflight::agent_config(user_data.as_ref()).ok().flatten();
    let (mode, of_config) = config.map_or((None, false), |it| (it.spec.mode, it.spec.report_only));
    let (mode, is_report_only) = (mode.unwrap_or_else(mode_of_image), report_only || of_config);
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

/// How long after the last preflight another one is due, if it is.
fn look_again_after(course: &Course, report: &Report, is_owed: bool, held_for: Duration) -> Option<Duration> {
    let has_registered = report.of(Phase::Registered).is_some_and(|it| it.ended.is_some());
    // A start that is owed is owed at any stage.
    if is_owed || (course.fatal().is_some() && !has_registered) {
        Some(Pace::PREFLIGHT.pause(held_for))
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
