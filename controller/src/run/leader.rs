//! What the leader does, for as long as it leads: one task that sees what changes, and hands out looks.
//!
//! ```text
//!   Picture::changed ──┬─► agenda: claims, classes ──► looks, many at once, one for each object
//!                      ├─► Window ── due ──► round: decide (on a thread of its own), create      one at a time
//!                      └─► a Node came, a pod was told ──► nominate                              with it
//!   every two minutes ───► tidy
//! ```
//!
//! A slow launch is one look that takes long, and holds nobody up. Everything ends when this is dropped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;

use super::agenda::{Agenda, Verdict};
use super::desk::Desk;
use super::provider::Provider;
use super::{garbage, look, now, round};
use crate::provision::Window;
use crate::state::{Changed, Kind};

/// Looks that are open at the same time. Most of them wait for the API server or the cloud.
const AT_ONCE: usize = 64;
/// A crowd of nodes and pods is told of together.
const GATHER: Duration = Duration::from_millis(150);
/// Longest wait without looking at the clock.
const IDLE: Duration = Duration::from_secs(60);

/// An object that is looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Claim(String),
    Class(String),
}

/// What a task has come to.
enum Done {
    Looked(Item, Verdict),
    /// When to decide again although nothing has changed.
    Decided(Option<Timestamp>),
    Nominated(Option<Timestamp>),
    Tidied(Vec<String>, Timestamp),
}

struct Leader<P> {
    desk: Arc<Desk<P>>,
    agenda: Agenda<Item>,
    window: Window,
    tasks: JoinSet<Done>,
    open: usize,
    /// Whether pods are being decided about, or told: one at a time, both write the plan.
    is_planning: bool,
    decide_at: Option<Timestamp>,
    nominate_at: Option<Timestamp>,
    /// None while it is under way.
    tidy_at: Option<Timestamp>,
    /// What the last decision looked at, so that waiting pods alone are no reason for another one.
    waiting: BTreeSet<Arc<str>>,
}

/// Leads until it is dropped, or a task breaks.
pub(super) async fn lead<P: Provider>(desk: Arc<Desk<P>>) -> JoinError {
    desk.picture.synced().await;
    let mut leader = Leader {
        desk,
        agenda: Agenda::default(),
        window: Window::default(),
        tasks: JoinSet::new(),
        open: 0,
        is_planning: false,
        decide_at: None,
        nominate_at: None,
        tidy_at: Some(now()),
        waiting: BTreeSet::new(),
    };
    leader.look_at_everything();
    leader.run().await
}

// === impl Leader ===

impl<P: Provider> Leader<P> {
    async fn run(&mut self) -> JoinError {
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
                () = sleep(wait) => {}
            }
        }
    }

    /// Who leads knows nothing of what changed before.
    fn look_at_everything(&mut self) {
        let now = now();
        let cluster = self.desk.picture.glance();
        for claim in cluster.claims() {
            self.agenda.want(Item::Claim(claim.metadata.name.clone().unwrap_or_default()), now);
        }
        for class in cluster.classes().filter(|class| class.reference.kind == P::CLASS) {
            self.agenda.want(Item::Class(class.reference.name.clone()), now);
        }
        for pod in cluster.unbound() {
            self.window.arrive(&pod.uid, now);
        }
        if cluster.pools().any(|pool| pool.spec.replicas.is_some()) {
            self.window.arrive("static pools", now);
        }
        drop(cluster);
        self.nominate_at = Some(now);
    }

    fn take_in(&mut self, changed: &Changed) {
        let now = now();
        for claim in &changed.claims {
            self.agenda.want(Item::Claim(claim.to_string()), now);
        }
        for (kind, class) in &changed.classes {
            if kind.name() == P::CLASS {
                self.agenda.want(Item::Class(class.to_string()), now);
            }
        }
        let cluster = self.desk.picture.glance();
        for path in &changed.waiting {
            if let Some(pod) = cluster.pod(path) {
                // A pod that has been marked since is news; one that has been told of its node is not.
                let word = if pod.is_marked { "marked" } else { "new" };
                if self.waiting.insert(format!("{} {word}", pod.uid).into()) {
                    self.window.arrive(&pod.uid, now);
                }
            }
        }
        drop(cluster);
        // What pods may go to has changed.
        let supply = [Kind::NodePool, Kind::Ec2NodeClass, Kind::KwokNodeClass, Kind::NodeOverlay, Kind::CapacityBuffer];
        if supply.iter().any(|kind| changed.kinds.contains(*kind)) {
            self.window.arrive("supply", now);
        }
        let concerns_nodes = [Kind::Node, Kind::NodeClaim].iter().any(|kind| changed.kinds.contains(*kind));
        if concerns_nodes || !changed.waiting.is_empty() {
            let soon = after(now, GATHER);
            self.nominate_at = Some(self.nominate_at.map_or(soon, |moment| moment.min(soon)));
        }
    }

    fn conclude(&mut self, done: Done) {
        let now = now();
        match done {
            Done::Looked(item, verdict) => {
                self.open = self.open.saturating_sub(1);
                self.agenda.close(&item, verdict, now);
            }
            Done::Decided(again) => {
                self.is_planning = false;
                self.decide_at = again;
                self.nominate_at = Some(now);
            }
            Done::Nominated(again) => {
                self.is_planning = false;
                self.nominate_at = [self.nominate_at, again].into_iter().flatten().min();
                self.release_holds();
            }
            Done::Tidied(missing, again) => {
                self.tidy_at = Some(again);
                for claim in missing {
                    self.agenda.want(Item::Claim(claim), now);
                }
            }
        }
    }

    /// Claims whose Node nothing holds back any more are looked at.
    fn release_holds(&mut self) {
        let now = now();
        let free: Vec<String> = {
            let memory = self.desk.memory();
            let free = memory.holds.iter().filter(|(_, (_, hold))| hold.is_none());
            free.map(|(claim, _)| claim.clone()).collect()
        };
        for claim in free {
            self.agenda.want(Item::Claim(claim), now);
        }
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let looks = self.agenda.next().filter(|_| self.open < AT_ONCE);
        let planning = if self.is_planning {
            None
        } else {
            let due = self.window.due(&self.desk.settings.window);
            [due, self.decide_at, self.nominate_at].into_iter().flatten().min()
        };
        [looks, planning, self.tidy_at].into_iter().flatten().min()
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
                    Item::Class(name) => look::class(&desk, name).await,
                };
                Done::Looked(item, verdict)
            });
        }
        if !self.is_planning {
            self.plan(now);
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

    /// Decides about pods, or tells them, if one of these is due.
    fn plan(&mut self, now: Timestamp) {
        let is_due = |moment: Option<Timestamp>| moment.is_some_and(|moment| moment <= now);
        let desk = Arc::clone(&self.desk);
        if self.window.is_due(&self.desk.settings.window, now) || is_due(self.decide_at) {
            self.window.close();
            self.decide_at = None;
            self.is_planning = true;
            self.forget_gone();
            self.tasks.spawn(async move { Done::Decided(round::provision(desk).await) });
        } else if is_due(self.nominate_at) {
            self.nominate_at = None;
            if desk.settings.nominates {
                self.is_planning = true;
                self.tasks.spawn(async move { Done::Nominated(round::nominate(desk).await) });
            }
        }
    }

    /// Pods that have a node or are gone are not remembered.
    fn forget_gone(&mut self) {
        let cluster = self.desk.picture.glance();
        let there: BTreeSet<&str> = cluster.unbound().map(|pod| &*pod.uid).collect();
        self.waiting.retain(|word| word.split_once(' ').is_some_and(|(uid, _)| there.contains(uid)));
    }
}
