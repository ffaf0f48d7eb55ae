//! Service for operators' orders.

use futures::future::BoxFuture;
use muster_stages::fleet::{Decision, Ended, Order, Refusal, Termination, Ticket};

/// Service for orders. Every replica accepts them; the leader carries them out.
pub(crate) trait Counter: Send + Sync {
    /// Plans an order without launching it. It takes as long as a plan and runs on the caller's thread.
    fn plan(&self, order: &Order, ticket: Option<&Ticket>) -> Result<Decision, Refusal>;

    /// Carries out an order.
    fn launch(&self, order: Order, ticket: Ticket) -> BoxFuture<'_, Result<Decision, Refusal>>;

    /// Terminates a node.
    fn terminate(&self, termination: Termination) -> BoxFuture<'_, Result<Ended, Refusal>>;
}
