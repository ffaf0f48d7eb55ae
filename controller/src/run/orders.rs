//! Orders, on their way from whoever serves operators to the leader, and what comes back.
//!
//! ```text
//!   agents' thread: Counter ──► does this replica lead? ──► mpsc ──► leader, in turn with rounds: decide, write ──► Edge
//!         ▲                           └─ no: who does                          │
//!         └──────────────────────────────── oneshot ───────────────────────────┘
//! ```
//!
//! Who has given an order and is gone when its turn comes does not want it any more. One that is under way is finished whoever waits.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use muster_api::NodeClaim;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::desk::Desk;
use super::now;
use super::provider::{Provider, judged};
use super::round;
use crate::edge::{End, Fence, Held};
use crate::fleet::{self, Counter, Decision, Ended, Kind, Order, Refusal, Termination, Ticket};
use crate::lifecycle::{Answers, Readiness};
use crate::step::{Step, Write};

/// Orders that wait for their turn.
const WAITING: usize = 32;
/// How long one waits for it: a round about many pods may take seconds, and there is one between any two orders.
const TURN: Duration = Duration::from_secs(30);
/// How long it may take then: a decision, a hundred writes, and to see them.
const WORK: Duration = Duration::from_secs(60);
/// How long the API server may take to say who leads.
const LOOK: Duration = Duration::from_secs(5);

/// What came of it.
type Answer<T> = oneshot::Sender<Result<T, Refusal>>;

/// An order that waits for its turn.
pub(super) struct Ordered {
    what: What,
    /// When it has waited too long.
    until: Instant,
}

enum What {
    Launch(Order, Ticket, Answer<Decision>),
    Terminate(Termination, Answer<Ended>),
}

/// Takes orders.
pub(super) struct Orders<P> {
    desk: Arc<Desk<P>>,
    /// Whether this replica leads.
    fence: Fence,
    waiting: mpsc::Sender<Ordered>,
    /// Who else may lead.
    lease: Option<(Api<Lease>, String)>,
}

/// A counter for operators, and what the leader takes from it.
pub(super) fn counter<P: Provider>(
    desk: Arc<Desk<P>>,
    fence: Fence,
    lease: Option<(Api<Lease>, String)>,
) -> (Orders<P>, mpsc::Receiver<Ordered>) {
    let (waiting, orders) = mpsc::channel(WAITING);
    (Orders { desk, fence, waiting, lease }, orders)
}

/// Decides about an order and writes what follows.
pub(super) async fn carry_out<P: Provider>(desk: Arc<Desk<P>>, order: Ordered) {
    let Ordered { what, until } = order;
    let is_late = Instant::now() >= until;
    let late = || Refusal::new(Kind::NotNow, "its turn did not come in time, and nothing was done: try again");
    // Who does not wait for the answer any more is told nothing.
    let _nobody_waits = match what {
        What::Launch(_, _, answer) if answer.is_closed() => return,
        What::Terminate(_, answer) if answer.is_closed() => return,
        What::Launch(_, _, answer) if is_late => answer.send(Err(late())).map_err(drop),
        What::Terminate(_, answer) if is_late => answer.send(Err(late())).map_err(drop),
        What::Launch(order, ticket, answer) => answer.send(launch(desk, order, ticket).await).map_err(drop),
        What::Terminate(wanted, answer) => answer.send(terminate(&desk, &wanted).await).map_err(drop),
    };
}

async fn launch<P: Provider>(desk: Arc<Desk<P>>, order: Order, ticket: Ticket) -> Result<Decision, Refusal> {
    let of = Arc::clone(&desk);
    let (wanted, given) = (order.clone(), ticket.clone());
    let decided = tokio::task::spawn_blocking(move || decide(&of, &wanted, Some(&given))).await;
    let mut decision = decided.unwrap_or_else(|error| Err(Refusal::new(Kind::Defect, error.to_string())))?;
    if decision.claims.is_empty() {
        return Ok(decision);
    }
    let Ticket { by, id } = &ticket;
    let (pool, nodes, hourly_price) = (&order.pool, decision.claims.len(), decision.hourly_price);
    tracing::info!(by, id, pool, nodes, hourly_price, "launching what was ordered");
    let claims = std::mem::take(&mut decision.claims);
    let step = Step::act(claims.into_iter().map(|claim| Write::CreateClaim(Box::new(claim))));
    let written = write(&desk, &step).await;
    // The next decision must know of it, of what there is of it too, and whoever has ordered it the UIDs.
    round::seen(&desk, &step, if written.is_ok() { round::SEEN } else { round::PERHAPS_SEEN }).await;
    written?;
    let cluster = desk.picture.glance();
    for node in &mut decision.nodes {
        let claim = node.claim.as_ref().and_then(|name| cluster.claim(name));
        node.uid = claim.and_then(|claim| claim.metadata.uid.clone()).or(node.uid.take());
    }
    Ok(decision)
}

async fn terminate<P: Provider>(desk: &Desk<P>, wanted: &Termination) -> Result<Ended, Refusal> {
    let fleet::Ending { ended, write: delete } = {
        let cluster = desk.picture.glance();
        let claims: Vec<&NodeClaim> = cluster.claims().collect();
        fleet::terminate(&claims, P::CLASS, wanted)?
    };
    if let Some(delete) = delete {
        let Termination { by, claim, .. } = wanted;
        tracing::info!(by, claim, "ending a node as it was ordered");
        write(desk, &Step::act([delete])).await?;
    }
    Ok(ended)
}

async fn write<P: Provider>(desk: &Desk<P>, step: &Step) -> Result<(), Refusal> {
    let again = "the same request again does what is missing, and nothing twice";
    match desk.edge.carry_out(step, &mut Held::default(), &mut Answers::default()).await {
        End::Done => Ok(()),
        End::Fenced => Err(Refusal::new(Kind::NotNow, format!("this replica does not lead any more: {again}"))),
        End::Failed(why) => {
            tracing::warn!(why, "an order was not carried out as a whole");
            Err(Refusal::new(Kind::NotNow, format!("not all was written ({why}): {again}")))
        }
        End::Stale => Err(Refusal::new(Kind::NotNow, format!("something has changed meanwhile: {again}"))),
    }
}

/// What an order comes to as things are. It takes as long as it takes: not on a thread that others wait for.
fn decide<P: Provider>(desk: &Desk<P>, order: &Order, ticket: Option<&Ticket>) -> Result<Decision, Refusal> {
    let now = now();
    let class = class_of(desk, &order.pool);
    let decided = round::with(desk, now, |round| fleet::launch(round, &class, order, ticket, now));
    decided.unwrap_or_else(|why| Err(Refusal::new(Kind::Defect, why)))
}

/// How it stands with the class of a pool. Of a pool that there is not it does not matter.
fn class_of<P: Provider>(desk: &Desk<P>, pool: &str) -> Readiness {
    let cluster = desk.picture.glance();
    let Some(pool) = cluster.pool(pool) else { return Readiness::Missing };
    let reference = &pool.spec.template.spec.node_class_ref;
    judged(&desk.provider, cluster.class(reference), reference).readiness
}

// === impl Orders ===

impl<P: Provider> Counter for Orders<P> {
    fn plan(&self, order: &Order, ticket: Option<&Ticket>) -> Result<Decision, Refusal> {
        decide(&self.desk, order, ticket)
    }

    fn launch(&self, order: Order, ticket: Ticket) -> BoxFuture<'_, Result<Decision, Refusal>> {
        self.hand_over(move |answer| What::Launch(order, ticket, answer)).boxed()
    }

    fn terminate(&self, termination: Termination) -> BoxFuture<'_, Result<Ended, Refusal>> {
        self.hand_over(move |answer| What::Terminate(termination, answer)).boxed()
    }
}

impl<P: Provider> Orders<P> {
    /// Has the leader do it, if that is this replica.
    async fn hand_over<T: Send>(&self, what: impl FnOnce(Answer<T>) -> What + Send) -> Result<T, Refusal> {
        if !self.fence.is_open() {
            return Err(self.elsewhere().await);
        }
        let (answer, answered) = oneshot::channel();
        let order = Ordered { what: what(answer), until: Instant::now() + TURN };
        self.waiting
            .try_send(order)
            .map_err(|_| Refusal::new(Kind::Exhausted, "too many orders wait for their turn: try again"))?;
        let unknown = |why: &str| {
            let message =
                format!("{why}, and it is not known what came of it: the same request again does nothing twice");
            Err(Refusal::new(Kind::NotNow, message))
        };
        let mut fence = self.fence.clone();
        tokio::select! {
            // What was answered counts, whatever has happened since.
            biased;
            answered = timeout(TURN + WORK, answered) => match answered {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => unknown("this replica leads no more"),
                Err(_) => unknown("it takes too long"),
            },
            () = fence.closes() => unknown("this replica leads no more"),
        }
    }

    /// Who is to be asked instead.
    async fn elsewhere(&self) -> Refusal {
        let holder = match &self.lease {
            Some((leases, name)) => timeout(LOOK, leases.get_opt(name)).await.ok().and_then(Result::ok).flatten(),
            None => None,
        };
        let holder = holder.and_then(|lease| lease.spec?.holder_identity).filter(|holder| !holder.is_empty());
        let message = match holder {
            Some(holder) => {
                format!("this replica does not lead, and nothing was done: `{holder}` does\n\nhint: ask that one")
            }
            None => {
                "this replica does not lead, and nothing was done: nobody does just now\n\nhint: try again".to_owned()
            }
        };
        Refusal::new(Kind::NotNow, message)
    }
}
