//! `muster-agent run`: the one file that knows the whole service. Watchers observe, the course decides, one loop publishes.

mod watchers;
#[cfg(windows)]
pub mod windows;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fs_err as fs;
use jiff::Timestamp;
use muster_bootstrap::agent_config::Mode;
use muster_bootstrap::userdata::UserData;
use muster_proto::muster::AdmitKubeletResponse;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::course::hold::{ANSWER_WITHIN, Answered, Hold};
use crate::course::{Course, Observation};
use crate::phase::Phase;
use crate::preflight::{self, Facts};
use crate::probes::gather::Gatherer;
use crate::probes::{machine, supervisor};
use crate::publish::{bundle, console, endpoint, health, socket, status};
use crate::report::{Report, Weight};

/// What the service was told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The agent's folder: status, socket.
    pub run_folder: PathBuf,
    /// The folder of the bundle.
    pub log_folder: PathBuf,
    /// URL of instance metadata.
    pub metadata_endpoint: String,
    /// Report, and hold nothing back, whatever the node's configuration says.
    pub report_only: bool,
}

/// How long the agent waits before it looks again at what holds the kubelet back.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How long until it looks for the kubelet's files by itself.
const LOOK_FOR_FILES: Duration = Duration::from_secs(10);
/// How long a warning may outlive its cause. Good answers of the API server are believed for as long.
const LOOK_AT_WARNINGS: Duration = Duration::from_secs(60);
/// What waits for its time in the course (patience, a line that lasts) is looked at this often.
const TICK: Duration = Duration::from_secs(1);
/// Observations come in bursts: a journal that is read from the boot on has hundreds of lines.
const QUEUE: usize = 1024;

/// What the watchers have to know, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// The name of the Node.
    pub(crate) node_name: Option<String>,
    /// Whether devices are asked for.
    pub(crate) has_resources: bool,
    /// The kubelet's health port; 0 if it has none.
    pub(crate) health_port: u16,
    /// Whether the node takes pods.
    pub(crate) is_settled: bool,
}

/// A preflight that was made, and whether the kubelet was about to start.
struct Made {
    facts: Facts,
    began: Instant,
}

/// Runs until `stop` is there. `ready` tells whoever started the agent that it can be asked.
///
/// # Errors
/// The agent's folder or socket cannot be made, or a part of the agent has ended.
pub async fn run(
    settings: Settings,
    ready: impl FnOnce() -> io::Result<()>,
    stop: impl Future<Output = ()>,
) -> Result<(), String> {
    let Settings { run_folder, log_folder, metadata_endpoint, report_only } = settings;
    let fault = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| format!("{what}: {error}")
    };
    fs::create_dir_all(&run_folder).map_err(fault("the agent's folder cannot be made"))?;
    let incoming = endpoint::bind(&run_folder).map_err(fault("the agent's socket cannot be made"))?;
    let boot_id = machine::boot_id();
    // What the agent before this one had come to in this boot; the folder outlives it on Windows.
    let before = status::read(&run_folder).ok().filter(|it| it.boot_id == boot_id);
    let mut course = Course::new(Mode::Delegate, report_only, boot_id, Timestamp::now());
    course.resume(before.as_ref());
    let mut hold = Hold::new(before.is_some_and(|it| it.held));
    let mut report = course.report(Timestamp::now());
    let (statuses_tx, statuses) = watch::channel(health::statuses(&report));
    let (asked_tx, mut asked_rx) = mpsc::channel(8);
    let (observed_tx, mut observed_rx) = mpsc::channel(QUEUE);
    let (known_tx, known_rx) = watch::channel(Known { health_port: course.health_port(), ..Known::default() });
    let (made_tx, mut made_rx) = mpsc::channel(1);
    let look = Arc::new(Notify::new());
    let about_to_start = Arc::new(std::sync::atomic::AtomicBool::new(false));

    let mut parts = JoinSet::new();
    let asked_of_others = asked_tx.clone();
    parts.spawn(
        async move { socket::serve(incoming, statuses, asked_of_others).await.map_err(|error| error.to_string()) },
    );
    parts.spawn(preflights(metadata_endpoint.clone(), Arc::clone(&look), Arc::clone(&about_to_start), made_tx));
    watchers::spawn(&mut parts, &observed_tx, &known_rx, &asked_tx, metadata_endpoint);
    status::write(&run_folder, &report).map_err(fault("the status cannot be written"))?;
    ready().map_err(fault("whoever started the agent cannot be told that it runs"))?;
    look.notify_one();

    #[cfg(target_os = "linux")]
    let mut native = crate::native::Bootstrap::default();
    let mut is_written = true;
    let mut said = None;
    let mut logged = String::new();
    let mut bundled: Option<String> = None;
    let mut looked = Instant::now();
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(stop);
    loop {
        tokio::select! {
            Some(observation) = observed_rx.recv() => {
                course.observe(observation, Timestamp::now());
                // A burst is taken in as a whole before anything is said about it.
                while let Ok(observation) = observed_rx.try_recv() {
                    course.observe(observation, Timestamp::now());
                }
            }
            Some(asked) = asked_rx.recv() => {
                about_to_start.store(true, std::sync::atomic::Ordering::Relaxed);
                look.notify_one();
                if course.is_report_only() {
                    let _the_kubelet_gave_up = asked.send(admitted());
                } else {
                    hold.ask(asked, Instant::now().into_std());
                }
            }
            Some(made) = made_rx.recv() => {
                let Made { facts, began } = made;
                let (mode, is_report_only) = wishes(&facts, report_only);
                let instance = facts.metadata.instance();
                course.identify(instance.map(|it| it.id.clone()), mode, is_report_only);
                let examined = preflight::examine(&facts);
                course.observe(Observation::Preflight(Box::new(examined)), Timestamp::now());
                looked = Instant::now();
                let refusal = answer(&course);
                #[cfg(target_os = "linux")]
                if mode == Mode::Native && refusal.admitted {
                    let outcome = native.run(&facts).await;
                    course.observe(Observation::Native(outcome.map_err(Box::new)), Timestamp::now());
                }
                reply(hold.judged(began.into_std(), Instant::now().into_std(), !refusal.admitted), &refusal);
                if hold.is_asked() {
                    look.notify_one();
                }
                // A kubelet of Windows that still runs may be one that is being stopped.
                let runs = facts.is_kubelet_active && cfg!(not(windows));
                if hold.is_owed() && refusal.admitted && (runs || supervisor::order("start", "kubelet").await) {
                    hold.settle();
                }
                course.observe(Observation::Held(hold.is_owed()), Timestamp::now());
            }
            () = until(hold.due()) => {
                let refusal = answer(&course);
                let late = hold.late(Instant::now().into_std(), !refusal.admitted);
                log(&format!("the checks take longer than {} s: the last ones count", ANSWER_WITHIN.as_secs()));
                reply(late, &refusal);
                course.observe(Observation::Held(hold.is_owed()), Timestamp::now());
            }
            _ = tick.tick() => {
                if let Some(pause) = look_again_after(&course, &report, hold.is_owed())
                    && looked.elapsed() >= pause
                {
                    looked = Instant::now();
                    look.notify_one();
                }
            }
            Some(ended) = parts.join_next() => {
                return Err(match ended {
                    Ok(Err(error)) => error,
                    Ok(Ok(())) => "a part of the agent has ended".to_owned(),
                    Err(error) => error.to_string(),
                });
            }
            () = &mut stop => return Ok(()),
        }
        let next = course.report(Timestamp::now());
        if next.is_same(&report) && is_written {
            continue;
        }
        report = next;
        // What cannot be written to one reader is still written to the others, and tried again: on Windows whoever reads
        // the file may keep it from being replaced.
        let written = status::write(&run_folder, &report);
        if let Err(error) = &written
            && is_written
        {
            log(&format!("the status cannot be written: {error}"));
        }
        is_written = written.is_ok();
        statuses_tx.send_replace(health::statuses(&report));
        console::say(&report, &mut said);
        tell(&report, &mut logged, &mut bundled, &log_folder);
        known_tx.send_if_modified(|known| refresh(known, &course, &report));
    }
}

/// Makes a preflight whenever it is asked to.
async fn preflights(
    endpoint: String,
    look: Arc<Notify>,
    about_to_start: Arc<std::sync::atomic::AtomicBool>,
    made_tx: mpsc::Sender<Made>,
) -> Result<(), String> {
    let mut gatherer = Gatherer::new(endpoint);
    loop {
        look.notified().await;
        let began = Instant::now();
        let facts = gatherer.gather(about_to_start.load(std::sync::atomic::Ordering::Relaxed)).await;
        made_tx.send(Made { facts, began }).await.map_err(|_| "the agent is ending".to_owned())?;
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

/// Waits for a time, for ever if there is none.
async fn until(time: Option<std::time::Instant>) {
    match time {
        Some(time) => sleep_until(Instant::from_std(time)).await,
        None => std::future::pending().await,
    }
}

/// Gives answers: yes, or what is wrong.
fn reply(answers: Vec<Answered<socket::Asked>>, refusal: &AdmitKubeletResponse) {
    for Answered { asked, admitted: is_admitted, after } in answers {
        if is_admitted {
            log(&format!("the kubelet may start, answered after {} ms", after.as_millis()));
        }
        let _the_kubelet_gave_up = asked.send(if is_admitted { admitted() } else { refusal.clone() });
    }
}

/// How long after the last preflight another one is due, if it is.
fn look_again_after(course: &Course, report: &Report, is_owed: bool) -> Option<Duration> {
    let has_registered = report.of(Phase::Registered).is_some_and(|it| it.ended.is_some());
    // A start that is owed is owed at any stage.
    if is_owed || (course.fatal().is_some() && !has_registered) {
        Some(LOOK_AGAIN)
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

fn refresh(known: &mut Known, course: &Course, report: &Report) -> bool {
    let next = Known {
        node_name: course.node_name().map(ToOwned::to_owned),
        has_resources: !course.resources().is_empty(),
        health_port: course.health_port(),
        is_settled: report.phase == Phase::Initialized && report.waiting_for.is_none(),
    };
    let is_new = next != *known;
    *known = next;
    is_new
}

/// Says in the log what changed, and keeps a bundle of a failure.
fn tell(report: &Report, logged: &mut String, bundled: &mut Option<String>, folder: &std::path::Path) {
    let error = report.verdict.as_ref().filter(|verdict| verdict.severity == Weight::Error);
    let code = error.map(|verdict| verdict.code.clone());
    if code.is_some() && code != *bundled {
        let (report, folder) = (report.clone(), folder.to_owned());
        // It ends by its own deadlines; a bundle that cannot be written is no reason to end.
        tokio::spawn(async move {
            if let Err(error) = bundle::write(&folder, &report).await {
                log(&format!("the bundle cannot be written: {error}"));
            }
        });
    }
    *bundled = code;
    let verdict = report.verdict.as_ref().map(|it| format!(", {}: {}", it.code, it.message)).unwrap_or_default();
    let stage = match report.phase {
        Phase::Initialized if report.waiting_for.is_none() => "the node takes pods".to_owned(),
        phase => phase.to_string(),
    };
    let line = format!("{stage}{verdict}");
    if line != *logged {
        log(&line);
        *logged = line;
    }
}

/// Says something in the agent's own log.
#[cfg(not(windows))]
#[expect(clippy::print_stderr, reason = "a service of systemd logs to stderr")]
pub(crate) fn log(line: &str) {
    eprintln!("{line}");
}

#[cfg(windows)]
pub(crate) use self::windows::log;
