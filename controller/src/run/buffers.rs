//! CapacityBuffers: what they say of themselves.

use muster_cloud::after;
use muster_stages::buffers;
use muster_stages::driver::Verdict;
use muster_stages::driver::claim::ASK;

use super::context::LeaderContext;
use super::now;
use super::reconcile::conclude;
use crate::edge::ObservedVersions;
use crate::provider::Provider;

/// Writes what has changed in the statuses of the buffers since the last round.
pub(super) async fn reconcile<P: Provider>(context: &LeaderContext<P>) -> Verdict {
    let (step, mut observed) = {
        let cluster = context.cluster_cache.read();
        let mut leader_state = context.leader_state();
        let count = cluster.buffers().len();
        if count == 0 || !context.settings.driver.keeps_buffers {
            if count > 0 && !leader_state.has_warned_of_buffers {
                leader_state.has_warned_of_buffers = true;
                tracing::warn!(
                    count,
                    "CapacityBuffers keep no room, because the feature gate `CapacityBuffer` is off; turn it on with \
                     `--feature-gates CapacityBuffer=true`"
                );
            }
            return Verdict::Rest(None);
        }
        let now = now();
        let is_behind = cluster.buffers().any(|(path, buffer)| {
            let version = buffer.typed.metadata.resource_version.as_deref();
            leader_state.is_behind("CapacityBuffer", path, version, now)
        });
        if is_behind {
            return Verdict::Rest(Some(after(now, ASK)));
        }
        let step = buffers::decide(&cluster, &leader_state.buffers, now);
        let all = cluster.buffers();
        (step, all.fold(ObservedVersions::default(), |observed, (path, buffer)| observed.buffer(path, &buffer.typed)))
    };
    let result = context.edge.reconcile(&mut observed, |_, _| step.clone()).await;
    conclude(context, "CapacityBuffer", "all", &observed, &result)
}
