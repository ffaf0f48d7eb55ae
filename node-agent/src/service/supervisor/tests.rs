//! The gate's decisions, on a clock that the tests set.

#[cfg(target_os = "linux")]
use muster_bootstrap::finding::Finding;
#[cfg(target_os = "linux")]
use muster_bootstrap::verdicts;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::*;
use crate::preflight::tests::{healthy, user_data};

const DELEGATE: &str = "apiVersion: muster.dev/v1\nkind: AgentConfig\nspec: {mode: delegate}\n";
#[cfg(target_os = "linux")]
const NATIVE: &str = "apiVersion: muster.dev/v1\nkind: AgentConfig\nspec: {mode: native}\n";

struct Fixture {
    supervisor: Supervisor,
    orders: UnboundedReceiver<Order>,
    start: Now,
    /// How long after the start it is.
    after: Duration,
}

impl Fixture {
    fn new(is_owed: bool) -> Self {
        let start = Now { wall: "2026-11-21T20:00:00Z".parse().unwrap(), steady: Instant::now() };
        let boot_state = BootState::new(Mode::Delegate, false, "b".to_owned(), start.wall);
        let (orders_tx, orders) = mpsc::unbounded_channel();
        let supervisor = Supervisor::new(boot_state, Hold::new(is_owed), Rounds::default(), orders_tx, false, start);
        Self { supervisor, orders, start, after: Duration::ZERO }
    }

    fn now(&self) -> Now {
        Now {
            wall: self.start.wall.checked_add(self.after).unwrap(),
            steady: self.start.steady.checked_add(self.after).unwrap(),
        }
    }

    fn after(&mut self, milliseconds: u64) -> &mut Self {
        self.after += Duration::from_millis(milliseconds);
        self
    }

    /// A kubelet asks; its answer.
    fn ask(&mut self) -> oneshot::Receiver<AdmitKubeletResponse> {
        let (asked, answer) = oneshot::channel();
        self.supervisor.ask(asked, self.now());
        answer
    }

    /// A preflight that begins and ends now.
    fn judge(&mut self, agent: &str, change: impl FnOnce(&mut Facts)) {
        let mut facts = healthy();
        if let preflight::identity::Metadata::Answers(instance) = &mut facts.metadata {
            instance.user_data = Some(user_data(agent));
        }
        change(&mut facts);
        let now = self.now();
        self.supervisor.judge(Made { facts, began: now.steady }, now);
    }

    fn done(&mut self, done: Done) {
        self.supervisor.done(done, self.now());
    }

    #[cfg(target_os = "linux")]
    fn is_late(&mut self) -> bool {
        let is_due = self.supervisor.answer_due().is_some_and(|due| due <= self.now().steady);
        if is_due {
            self.supervisor.answer_the_late(self.now());
        }
        is_due
    }

    fn is_held(&mut self) -> bool {
        let now = self.now().wall;
        self.supervisor.boot_state().report(now).held
    }

    /// Whether another preflight is due.
    fn looks(&mut self) -> bool {
        let now = self.now();
        let report = self.supervisor.boot_state().report(now.wall);
        let before = self.supervisor.looked;
        self.supervisor.look_again_if_due(&report, now);
        self.supervisor.looked != before
    }
}

/// Swap is on, which no kubelet starts with.
fn ill(facts: &mut Facts) {
    facts.machine.swaps = "Filename Type Size Used Priority\n/swap file 1024 0 -2\n".to_owned();
}

fn well(_: &mut Facts) {}

fn admitted_of(answer: &mut oneshot::Receiver<AdmitKubeletResponse>) -> Option<bool> {
    answer.try_recv().ok().map(|it| it.admitted)
}

#[test]
fn a_kubelet_is_answered_by_a_preflight_that_began_after_it_asked() {
    let mut told = Fixture::new(false);
    let mut answer = told.ask();
    assert_eq!(admitted_of(&mut answer), None);
    told.after(100).judge(DELEGATE, well);
    assert_eq!(admitted_of(&mut answer), Some(true));
    let mut answer = told.ask();
    told.after(100).judge(DELEGATE, ill);
    let refusal = answer.try_recv().unwrap();
    assert_eq!((refusal.admitted, refusal.code.as_str()), (false, "KA17"));
    assert!(told.is_held());
    assert!(matches!(told.orders.try_recv(), Err(TryRecvError::Empty)));
}

#[test]
fn a_kubelet_that_is_owed_its_start_is_owed_it_until_the_order_is_taken() {
    let mut told = Fixture::new(true);
    told.judge(DELEGATE, ill);
    assert!(told.orders.try_recv().is_err());
    told.after(2000).judge(DELEGATE, well);
    assert!(matches!(told.orders.try_recv(), Ok(Order::StartKubelet)));
    // The order is under way: nothing is ordered twice.
    told.after(2000).judge(DELEGATE, well);
    assert!(told.orders.try_recv().is_err());
    told.done(Done::StartKubelet(false));
    assert!(told.is_held());
    told.after(2000).judge(DELEGATE, well);
    assert!(matches!(told.orders.try_recv(), Ok(Order::StartKubelet)));
    told.done(Done::StartKubelet(true));
    assert!(!told.is_held());
}

#[test]
fn an_order_does_not_pay_for_a_start_that_is_refused_while_it_is_under_way() {
    let mut told = Fixture::new(true);
    told.judge(DELEGATE, well);
    assert!(matches!(told.orders.try_recv(), Ok(Order::StartKubelet)));
    // The unit asks before `systemctl` has returned, and by then something is wrong.
    let mut answer = told.after(10).ask();
    told.after(10).judge(DELEGATE, ill);
    assert_eq!(admitted_of(&mut answer), Some(false));
    told.done(Done::StartKubelet(true));
    assert!(told.is_held(), "that start did not happen");
}

#[test]
fn a_kubelet_that_runs_is_owed_nothing() {
    let mut told = Fixture::new(true);
    told.judge(DELEGATE, |facts| facts.is_kubelet_active = true);
    assert_eq!(told.is_held(), cfg!(windows));
}

#[cfg(target_os = "linux")]
#[test]
fn a_bootstrap_that_takes_its_time_holds_nobody_up_for_longer_than_two_seconds() {
    let mut told = Fixture::new(false);
    let mut answer = told.ask();
    told.after(100).judge(NATIVE, well);
    assert!(matches!(told.orders.try_recv(), Ok(Order::Bootstrap(_))));
    assert_eq!(admitted_of(&mut answer), None, "its files are still being written");
    // Another preflight does not begin another bootstrap.
    told.after(1000).judge(NATIVE, well);
    assert!(told.orders.try_recv().is_err());
    assert!(!told.is_late());
    assert!(told.after(900).is_late());
    assert_eq!(admitted_of(&mut answer), Some(true));
    // One that asks later, and is in time.
    let mut answer = told.ask();
    told.after(100).judge(NATIVE, well);
    told.after(100).done(Done::Bootstrap(Ok(())));
    assert_eq!(admitted_of(&mut answer), Some(true));
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_bootstrap_came_to_is_reported_and_it_is_tried_again() {
    let mut told = Fixture::new(false);
    told.judge(NATIVE, well);
    assert!(matches!(told.orders.try_recv(), Ok(Order::Bootstrap(_))));
    let finding = Finding::new(&verdicts::UD12, "`containerd` cannot be started", None);
    told.after(5000).done(Done::Bootstrap(Err(Box::new(finding))));
    let now = told.now().wall;
    assert_eq!(told.supervisor.boot_state().report(now).verdict.unwrap().code, "UD12");
    told.after(5000).judge(NATIVE, well);
    assert!(matches!(told.orders.try_recv(), Ok(Order::Bootstrap(_))));
}

#[cfg(target_os = "linux")]
#[test]
fn a_refusal_does_not_wait_for_a_bootstrap() {
    let mut told = Fixture::new(false);
    told.judge(NATIVE, well);
    let mut answer = told.ask();
    told.after(100).judge(NATIVE, ill);
    assert_eq!(admitted_of(&mut answer), Some(false));
    told.after(100).done(Done::Bootstrap(Ok(())));
    assert!(told.is_held());
    assert!(matches!(told.orders.try_recv(), Ok(Order::Bootstrap(_))));
    assert!(told.orders.try_recv().is_err(), "nothing is started that was refused");
}

#[test]
fn what_holds_the_kubelet_back_is_looked_at_ever_more_seldom_until_somebody_asks() {
    let mut told = Fixture::new(false);
    told.judge(DELEGATE, ill);
    assert!(!told.after(1900).looks());
    assert!(told.after(100).looks());
    told.after(240_000).judge(DELEGATE, ill);
    assert!(!told.after(29_000).looks());
    assert!(told.after(1000).looks());
    let _answer = told.ask();
    told.judge(DELEGATE, ill);
    assert!(told.after(2000).looks());
}

#[test]
fn in_report_only_everybody_is_let_through_at_once() {
    let mut told = Fixture::new(false);
    told.judge("apiVersion: muster.dev/v1\nkind: AgentConfig\nspec: {reportOnly: true}\n", ill);
    assert_eq!(admitted_of(&mut told.ask()), Some(true));
    assert!(!told.is_held());
}
