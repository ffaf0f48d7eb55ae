//! What the leader does, for as long as it leads: one task that sees what changes, and hands out looks.
//!
//! ```text
//!   Picture::changed ──┬─► agenda: claims, classes ──► looks, many at once, one for each object
//!                      ├─► Window ── due ──► round: decide (on a thread of its own), create      one at a time
//!   Orders ────────────┼─► one in turn with that: decide, write, answer
//!                      ├─► a Node came, a pod was told ──► nominate                              beside it
//!                      ├─► Rhythm ── due ──► deliberate (likewise), open                         one at a time
//!                      └─► commands: what goes, and what was launched for it ──► looks, one for each command
//!   every two minutes ───► tidy
//! ```
//!
//! A slow launch is one look that takes long, and holds nobody up. Everything ends when this is dropped. What a change asks for is
//! in `intake`.

mod intake;
mod turns;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;

use self::turns::{Turn, Waiting};
use super::agenda::{Agenda, Verdict};
use super::desk::Desk;
use super::orders::{self, Ordered};
use super::provider::Provider;
use super::{disruption, garbage, look, now, round};
use crate::disruption::{Deliberation, Opening, Rhythm};
use crate::edge::Held;
use crate::lifecycle::Answers;
use crate::provision::Window;
use crate::step::Step;

/// Looks that are open at the same time. Most of them wait for the API server, each on a connection of its own, or for the
/// cloud.
const AT_ONCE: usize = 48;
/// For as long as a pod has no node, whatever was decided about it is decided again: Karpenter's figure.
const AGAIN: Duration = Duration::from_secs(10);
/// Longest wait without looking at the clock.
const IDLE: Duration = Duration::from_secs(60);

/// An object that is looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Claim(String),
    Pool(String),
    Class(String),
}

/// What a task has come to.
enum Done {
    Looked(Item, Verdict),
    /// A look at what disruption concerns.
    Advanced(disruption::Item, Verdict),
    /// What is to go.
    Deliberated(disruption::Deliberated),
    /// It has been begun.
    Opened,
    /// What people are to be told, and when to decide again although nothing has changed.
    Decided(Step),
    /// An order has been decided, written and answered.
    Ordered,
    /// Which pods are to be told of their nodes.
    Nominated(Step),
    /// People have been told; pods, if so it says.
    Told(Audience),
    Tidied(Vec<String>, Timestamp),
}

/// Who is told something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Audience {
    People,
    Pods,
}

struct Leader<P> {
    desk: Arc<Desk<P>>,
    agenda: Agenda<Item>,
    window: Window,
    tasks: JoinSet<Done>,
    open: usize,
    /// What disruption concerns: commands under way, and taints that nothing explains.
    commands: Agenda<disruption::Item>,
    rhythm: Rhythm,
    deliberation: Deliberation,
    is_deliberating: bool,
    /// Whether commands are being begun. They are left alone until that is done: who looks at half a command mends it.
    is_opening: bool,
    /// Whether it is being decided what is launched, for pods or for an order: no two pass one limit.
    is_planning: bool,
    /// The next order.
    order: Option<Ordered>,
    /// Whether the last such decision was about an order: then pods come first.
    was_order: bool,
    /// Whether it is being found out who is to be told.
    is_nominating: bool,
    /// Whether pods are being told of their nodes: what is on its way is not said a second time.
    is_telling: bool,
    decide_at: Option<Timestamp>,
    nominate_at: Option<Timestamp>,
    /// None while it is under way.
    tidy_at: Option<Timestamp>,
    /// What the last decision looked at, so that waiting pods alone are no reason for another one.
    waiting: BTreeSet<Arc<str>>,
}

/// Leads until it is dropped, or a task breaks.
pub(super) async fn lead<P: Provider>(desk: Arc<Desk<P>>, orders: &mut mpsc::Receiver<Ordered>) -> JoinError {
    desk.picture.synced().await;
    // Everything is looked at; what pods did before is nothing that happened on our watch.
    drop(desk.picture.take_changed());
    look::learn_from_all(&desk);
    let (begun, tempo) = (now(), desk.settings.tempo);
    let mut leader = Leader {
        desk,
        commands: Agenda::default(),
        // Whoever has just begun has told no pod of its node: a node that waits for its pods would seem empty.
        rhythm: Rhythm::from(after(begun, tempo.every)),
        deliberation: Deliberation::at(tempo),
        is_deliberating: false,
        is_opening: false,
        agenda: Agenda::default(),
        window: Window::default(),
        tasks: JoinSet::new(),
        open: 0,
        is_planning: false,
        order: None,
        was_order: false,
        is_nominating: false,
        is_telling: false,
        decide_at: None,
        nominate_at: None,
        tidy_at: Some(begun),
        waiting: BTreeSet::new(),
    };
    leader.look_at_everything();
    let provider = leader.desk.provider.clone();
    tokio::select! {
        broken = leader.run(orders) => broken,
        never = provider.keep_up() => match never {},
    }
}

// === impl Leader ===

impl<P: Provider> Leader<P> {
    async fn run(&mut self, orders: &mut mpsc::Receiver<Ordered>) -> JoinError {
        let picture = self.desk.picture.clone();
        loop {
            self.hand_out();
            let wait = self
                .next_moment()
                .map_or(IDLE, |moment| Duration::try_from(moment.duration_since(now())).unwrap_or_default().min(IDLE));
            tokio::select! {
                changed = picture.changed() => self.take_in(&changed),
                Some(done) = self.tasks.join_next() => match done {
                    Ok(done) => self.conclude(done),
                    Err(broken) => return broken,
                },
                Some(order) = orders.recv(), if self.order.is_none() => self.order = Some(order),
                () = sleep(wait) => {}
            }
        }
    }

    fn conclude(&mut self, done: Done) {
        let now = now();
        match done {
            Done::Looked(item, verdict) => {
                self.open = self.open.saturating_sub(1);
                self.agenda.close(&item, verdict, now);
                self.look_at_claims_of_ready_classes();
            }
            Done::Advanced(item, verdict) => {
                self.open = self.open.saturating_sub(1);
                self.commands.close(&item, verdict, now);
            }
            Done::Deliberated(disruption::Deliberated { deliberation, openings, again, moments }) => {
                self.is_deliberating = false;
                self.deliberation = deliberation;
                let is_open = self.deliberation.is_open();
                self.rhythm.answer(again, is_open, moments, now);
                self.note_rests(now);
                self.begin(openings);
            }
            Done::Opened => self.is_opening = false,
            Done::Decided(step) => {
                self.is_planning = false;
                // The room of a pod may go to another one, of which nobody is told.
                let waits = self.desk.picture.glance().count_unbound() > 0;
                self.decide_at = [step.again, waits.then(|| after(now, AGAIN))].into_iter().flatten().min();
                self.nominate_at = Some(now);
                self.tell(step, Audience::People);
            }
            Done::Ordered => self.is_planning = false,
            Done::Nominated(step) => {
                self.is_nominating = false;
                self.nominate_at = [self.nominate_at, step.again].into_iter().flatten().min();
                self.open_gates();
                self.is_telling |= !step.writes.is_empty();
                self.tell(step, Audience::Pods);
            }
            Done::Told(Audience::People) => {}
            Done::Told(Audience::Pods) => {
                self.is_telling = false;
                self.nominate_at = Some(now);
            }
            Done::Tidied(missing, again) => {
                self.tidy_at = Some(again);
                for claim in missing {
                    self.agenda.want(Item::Claim(claim), now);
                }
            }
        }
    }

    /// Has NodePools say whose consolidation rests, or rests no more.
    fn note_rests(&mut self, now: Timestamp) {
        let rests = self.deliberation.delivered().filter_map(|one| Some((one.pool.to_string(), one.rest?))).collect();
        let before = std::mem::replace(&mut self.desk.memory().rests, rests);
        for (pool, rest) in &self.desk.memory().rests {
            if before.get(pool) != Some(rest) {
                self.agenda.want(Item::Pool(pool.clone()), now);
            }
        }
    }

    /// Begins what was decided to go.
    fn begin(&mut self, openings: Vec<Opening>) {
        if openings.is_empty() {
            return;
        }
        self.is_opening = true;
        let desk = Arc::clone(&self.desk);
        self.tasks.spawn(async move {
            disruption::open(desk, openings).await;
            Done::Opened
        });
    }

    /// Thousands of pods, or their owners, may be told for seconds: nobody waits for that.
    fn tell(&mut self, step: Step, audience: Audience) {
        if step.writes.is_empty() {
            return;
        }
        let desk = Arc::clone(&self.desk);
        self.tasks.spawn(async move {
            // What fails here is tried again by whoever decides next.
            let _ = desk.edge.carry_out(&step, &mut Held::default(), &mut Answers::default()).await;
            Done::Told(audience)
        });
    }

    /// Claims whose Node nothing holds back any more are looked at, each when its node opens.
    fn open_gates(&mut self) {
        let desk = Arc::clone(&self.desk);
        for (claim, moment) in desk.memory().gates.openings() {
            self.agenda.want(Item::Claim(claim.clone()), moment);
        }
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let is_free = self.open < AT_ONCE;
        [
            self.agenda.next().filter(|_| is_free),
            self.commands.next().filter(|_| is_free && !self.is_opening),
            self.window.due(&self.desk.settings.window).filter(|_| !self.is_planning),
            self.decide_at.filter(|_| !self.is_planning),
            self.nominate_at.filter(|_| !self.is_nominating),
            self.can_deliberate().then(|| self.rhythm.next()),
            self.tidy_at,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Pods that wait come first, and what was decided is begun before the next decision. Whose turn it is `turns` says.
    const fn can_deliberate(&self) -> bool {
        !self.is_deliberating && !self.is_opening && !self.is_planning
    }

    /// Starts whatever is due.
    fn hand_out(&mut self) {
        let now = now();
        while self.open < AT_ONCE {
            let Some(item) = self.agenda.take(now) else { break };
            self.open += 1;
            let desk = Arc::clone(&self.desk);
            self.tasks.spawn(async move {
                let verdict = match &item {
                    Item::Claim(name) => look::claim(&desk, name).await,
                    Item::Pool(name) => look::pool(&desk, name).await,
                    Item::Class(name) => look::class(&desk, name).await,
                };
                Done::Looked(item, verdict)
            });
        }
        while self.open < AT_ONCE && !self.is_opening {
            let Some(item) = self.commands.take(now) else { break };
            self.open += 1;
            let desk = Arc::clone(&self.desk);
            self.tasks.spawn(async move {
                let verdict = disruption::look(&desk, &item).await;
                Done::Advanced(item, verdict)
            });
        }
        self.nominate(now);
        while let Some(turn) = self.waiting_for_a_turn(now).next(self.was_order) {
            match turn {
                Turn::Pods => self.plan(),
                Turn::Order => self.carry_out_order(),
                Turn::Deliberation => self.deliberate(),
            }
        }
        if self.tidy_at.is_some_and(|moment| moment <= now) {
            self.tidy_at = None;
            let desk = Arc::clone(&self.desk);
            self.tasks.spawn(async move {
                let (missing, again) = garbage::tidy(&desk).await;
                Done::Tidied(missing, again)
            });
        }
    }

    /// Who could begin to decide now. Of decisions about launches there is one at a time, and of what was decided to go the
    /// replacements are there first.
    fn waiting_for_a_turn(&self, now: Timestamp) -> Waiting {
        let is_due =
            self.window.is_due(&self.desk.settings.window, now) || self.decide_at.is_some_and(|moment| moment <= now);
        Waiting {
            pods: is_due && !self.is_planning,
            order: self.order.is_some() && !self.is_planning && !self.is_opening,
            deliberation: self.can_deliberate() && self.rhythm.is_due(now),
        }
    }

    /// Decides about pods.
    fn plan(&mut self) {
        self.window.close();
        self.decide_at = None;
        self.is_planning = true;
        self.was_order = false;
        self.forget_gone();
        let desk = Arc::clone(&self.desk);
        self.tasks.spawn(async move { Done::Decided(round::provision(desk).await) });
    }

    /// Carries the next order out.
    fn carry_out_order(&mut self) {
        let Some(order) = self.order.take() else { return };
        self.is_planning = true;
        self.was_order = true;
        let desk = Arc::clone(&self.desk);
        self.tasks.spawn(async move {
            orders::carry_out(desk, order).await;
            Done::Ordered
        });
    }

    /// Decides about what goes.
    fn deliberate(&mut self) {
        self.rhythm.ask(now());
        self.is_deliberating = true;
        let (desk, deliberation) = (Arc::clone(&self.desk), self.deliberation.clone());
        self.tasks.spawn(async move { Done::Deliberated(disruption::deliberate(desk, deliberation).await) });
    }

    /// Finds out which pods are to be told of their nodes, if that is due. It does not wait for the next plan: a node that
    /// comes up meanwhile is held back until its pods know.
    fn nominate(&mut self, now: Timestamp) {
        if self.is_nominating || self.nominate_at.is_none_or(|moment| moment > now) {
            return;
        }
        self.nominate_at = None;
        if self.desk.settings.nominates {
            self.is_nominating = true;
            let (desk, is_telling) = (Arc::clone(&self.desk), self.is_telling);
            self.tasks.spawn(async move { Done::Nominated(round::nominate(&desk, is_telling)) });
        }
    }
}
