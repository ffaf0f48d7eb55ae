//! Orders of operators: passes them from the API endpoint to the leader's task, and returns the answers.
//!
//! ```text
//!   agents' thread: Counter ──► does this replica lead? ─► mpsc ──► leader, between rounds: decide, write ──► Edge
//!         ▲                           └─ no: names the leader                  │
//!         └──────────────────────────────── oneshot ───────────────────────────┘
//! ```
//!
//! An order whose caller has disconnected before its turn is dropped. An order in progress is finished in any case.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use muster_api::NodeClaim;
use muster_stages::driver::judged;
use muster_stages::fleet::{self, Decision, Ended, Kind, Order, Refusal, Termination, Ticket};
use muster_stages::lifecycle::{Answers, Readiness};
use muster_stages::step::{Step, Write};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::context::LeaderContext;
use super::now;
use super::round;
use crate::agents::Counter;
use crate::edge::{End, Fence, ObservedVersions};
use crate::provider::Provider;

/// Maximum number of queued orders.
const WAITING: usize = 32;
/// Longest wait in the queue: a round for many pods may take seconds, and one runs between any two orders.
const TURN: Duration = Duration::from_secs(30);
/// Longest processing time: a decision, a hundred writes, and the watch cache catching up.
const WORK: Duration = Duration::from_secs(60);
/// Timeout of the request for the Lease.
const LOOK: Duration = Duration::from_secs(5);

/// Channel for the answer to an order.
type Answer<T> = oneshot::Sender<Result<T, Refusal>>;

/// A queued order.
pub(super) struct Ordered {
    what: What,
    /// Time at which it expires.
    until: Instant,
}

enum What {
    Launch(Order, Ticket, Answer<Decision>),
    Terminate(Termination, Answer<Ended>),
}

/// Endpoint for orders.
pub(super) struct Orders<P> {
    context: Arc<LeaderContext<P>>,
    /// Open if this replica leads.
    fence: Fence,
    waiting: mpsc::Sender<Ordered>,
    /// Lease that names the leader, if leader election is enabled.
    lease: Option<(Api<Lease>, String)>,
}

/// Returns an endpoint for operators, and the leader's end of the queue.
pub(super) fn counter<P: Provider>(
    context: Arc<LeaderContext<P>>,
    fence: Fence,
    lease: Option<(Api<Lease>, String)>,
) -> (Orders<P>, mpsc::Receiver<Ordered>) {
    let (waiting, orders) = mpsc::channel(WAITING);
    (Orders { context, fence, waiting, lease }, orders)
}

/// Decides about an order and executes the decision.
pub(super) async fn carry_out<P: Provider>(context: Arc<LeaderContext<P>>, order: Ordered) {
    let Ordered { what, until } = order;
    let is_late = Instant::now() >= until;
    let late = || Refusal::new(Kind::NotNow, "it was not processed in time, and nothing was done: try again");
    // Sending fails if the caller has disconnected, which is ignored.
    let _nobody_waits = match what {
        What::Launch(_, _, answer) if answer.is_closed() => return,
        What::Terminate(_, answer) if answer.is_closed() => return,
        What::Launch(_, _, answer) if is_late => answer.send(Err(late())).map_err(drop),
        What::Terminate(_, answer) if is_late => answer.send(Err(late())).map_err(drop),
        What::Launch(order, ticket, answer) => answer.send(launch(context, order, ticket).await).map_err(drop),
        What::Terminate(wanted, answer) => answer.send(terminate(&context, &wanted).await).map_err(drop),
    };
}

async fn launch<P: Provider>(
    context: Arc<LeaderContext<P>>,
    order: Order,
    ticket: Ticket,
) -> Result<Decision, Refusal> {
    let of = Arc::clone(&context);
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
    let written = write(&context, &step).await;
    // The next decision must see what was created, even if in part, and the caller needs the UIDs.
    round::seen(&context, &step, if written.is_ok() { round::SEEN } else { round::PERHAPS_SEEN }).await;
    written?;
    let cluster = context.cluster_cache.read();
    for node in &mut decision.nodes {
        let claim = node.claim.as_ref().and_then(|name| cluster.claim(name));
        node.uid = claim.and_then(|claim| claim.metadata.uid.clone()).or(node.uid.take());
    }
    Ok(decision)
}

async fn terminate<P: Provider>(context: &LeaderContext<P>, wanted: &Termination) -> Result<Ended, Refusal> {
    let fleet::Ending { ended, write: delete } = {
        let cluster = context.cluster_cache.read();
        let claims: Vec<&NodeClaim> = cluster.claims().collect();
        fleet::terminate(&claims, P::CLASS, wanted)?
    };
    if let Some(delete) = delete {
        let Termination { by, claim, .. } = wanted;
        tracing::info!(by, claim, "ending a node as it was ordered");
        write(context, &Step::act([delete])).await?;
    }
    Ok(ended)
}

async fn write<P: Provider>(context: &LeaderContext<P>, step: &Step) -> Result<(), Refusal> {
    let again = "repeating the request does what is missing, and nothing twice";
    match context.edge.carry_out(step, &mut ObservedVersions::default(), &mut Answers::default()).await {
        End::Done => Ok(()),
        End::Fenced => Err(Refusal::new(Kind::NotNow, format!("this replica is no longer the leader: {again}"))),
        End::Failed(why) => {
            tracing::warn!(why, "an order was not carried out as a whole");
            Err(Refusal::new(Kind::NotNow, format!("not all was written ({why}): {again}")))
        }
        End::Stale => Err(Refusal::new(Kind::NotNow, format!("something has changed meanwhile: {again}"))),
    }
}

/// Decides about an order in the current state. It may take long: call it on a blocking thread.
fn decide<P: Provider>(
    context: &LeaderContext<P>,
    order: &Order,
    ticket: Option<&Ticket>,
) -> Result<Decision, Refusal> {
    let now = now();
    let class = class_of(context, &order.pool);
    let decided = round::with(context, now, |round| fleet::launch(round, &class, order, ticket, now));
    decided.unwrap_or_else(|why| Err(Refusal::new(Kind::Defect, why)))
}

/// Returns the readiness of a pool's class. For a missing pool the value is irrelevant.
fn class_of<P: Provider>(context: &LeaderContext<P>, pool: &str) -> Readiness {
    let cluster = context.cluster_cache.read();
    let Some(pool) = cluster.pool(pool) else { return Readiness::Missing };
    let reference = &pool.spec.template.spec.node_class_ref;
    judged(&context.provider, cluster.class(reference), reference).readiness
}

// === impl Orders ===

impl<P: Provider> Counter for Orders<P> {
    fn plan(&self, order: &Order, ticket: Option<&Ticket>) -> Result<Decision, Refusal> {
        decide(&self.context, order, ticket)
    }

    fn launch(&self, order: Order, ticket: Ticket) -> BoxFuture<'_, Result<Decision, Refusal>> {
        self.hand_over(move |answer| What::Launch(order, ticket, answer)).boxed()
    }

    fn terminate(&self, termination: Termination) -> BoxFuture<'_, Result<Ended, Refusal>> {
        self.hand_over(move |answer| What::Terminate(termination, answer)).boxed()
    }
}

impl<P: Provider> Orders<P> {
    /// Passes the order to the leader's task if this replica leads.
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
            // An answer takes precedence over a lost lease.
            biased;
            answered = timeout(TURN + WORK, answered) => match answered {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => unknown("this replica is no longer the leader"),
                Err(_) => unknown("it takes too long"),
            },
            () = fence.closes() => unknown("this replica is no longer the leader"),
        }
    }

    /// Returns a refusal that names the leader.
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
                "this replica does not lead, and nothing was done: there is no leader at the moment\n\nhint: try again"
                    .to_owned()
            }
        };
        Refusal::new(Kind::NotNow, message)
    }
}
