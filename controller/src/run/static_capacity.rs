//! Execution of `replicas`: the surplus of static pools goes. What they lack is launched by `round`.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::NodeClaim;
use muster_cloud::after;
use muster_stages::lifecycle::Answers;
use muster_stages::pools::{self, SurplusInput};
use muster_stages::step::{Step, Write};
use tokio::time::{Instant, sleep};

use super::context::LeaderContext;
use super::now;
use super::round::SEEN;
use crate::edge::{End, ObservedVersions};
use crate::provider::Provider;

/// Interval between checks whether the watch cache has caught up with our writes.
const ASK: Duration = Duration::from_millis(250);
/// Delay after a write that failed.
const RETRY: Duration = Duration::from_secs(5);

/// Deletes the claims that the pool has too many of. Returns the time of the next attempt, if one is needed although
/// nothing changes.
pub(super) async fn shrink<P: Provider>(context: &LeaderContext<P>, name: &str) -> Option<Timestamp> {
    if !context.settings.snapshot.gates.static_capacity {
        return None;
    }
    let step = {
        let (cluster, now) = (context.cluster_cache.read(), now());
        let pool = cluster.pool(name).filter(|pool| pool.spec.template.spec.node_class_ref.kind == P::CLASS)?;
        pool.spec.replicas?;
        let leader_state = context.leader_state();
        let is_behind = |claim: &NodeClaim| {
            let (name, version) = (claim.metadata.name.as_deref(), claim.metadata.resource_version.as_deref());
            leader_state.is_behind("NodeClaim", name.unwrap_or_default(), version, now)
        };
        // A mark that is not visible yet would make a node that goes anyway count.
        if cluster.claims_of_pool(name).any(is_behind) {
            return Some(after(now, ASK));
        }
        let pause = cluster.pause(&context.settings.driver.namespace);
        let gates = context.settings.snapshot.gates;
        pools::shrink(&SurplusInput { cluster: &cluster, plan: &leader_state.plan, pause, gates }, pool, now)
    };
    if step.writes.is_empty() {
        return step.again;
    }
    let going = deleted(&step);
    tracing::info!(pool = name, claims = ?going, "a static pool shrinks");
    let end = context.edge.carry_out(&step, &mut ObservedVersions::default(), &mut Answers::default()).await;
    // Until the cache shows the deletions, the same nodes would count, and others would go beside them.
    let is_visible = are_going(context, &going).await;
    match end {
        End::Done if is_visible => None,
        End::Failed(why) => {
            tracing::warn!(pool = name, why, "the surplus of a static pool was not deleted completely");
            Some(after(now(), RETRY))
        }
        End::Done | End::Stale => Some(after(now(), RETRY)),
        // The next leader starts over.
        End::Fenced => None,
    }
}

fn deleted(step: &Step) -> Vec<String> {
    let name = |write: &Write| match write {
        Write::DeleteClaim { name, .. } => Some(name.clone()),
        _ => None,
    };
    step.writes.iter().filter_map(name).collect()
}

/// Waits until the watch cache shows that all of `claims` are being deleted or gone. Returns false if it takes too
/// long.
async fn are_going<P: Provider>(context: &LeaderContext<P>, claims: &[String]) -> bool {
    let until = Instant::now() + SEEN;
    let is_going = |claim: Option<&NodeClaim>| claim.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some());
    while Instant::now() < until {
        let all = {
            let cluster = context.cluster_cache.read();
            claims.iter().all(|name| is_going(cluster.claim(name)))
        };
        if all {
            return true;
        }
        sleep(ASK / 5).await;
    }
    false
}
