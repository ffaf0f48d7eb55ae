//! NodeOverlays: what they say of themselves.

use muster_cloud::after;
use muster_manifest::snapshot::OverlaidTypes;
use muster_stages::driver::Verdict;
use muster_stages::driver::claim::ASK;
use muster_stages::overlays;
use muster_stages::state::Cluster;

use super::context::LeaderContext;
use super::now;
use super::reconcile::conclude;
use crate::edge::ObservedVersions;
use crate::provider::Provider;

fn is_in_use<P: Provider>(context: &LeaderContext<P>, cluster: &Cluster) -> bool {
    context.settings.driver.overlays && cluster.overlays().len() > 0
}

fn evaluate<P: Provider>(context: &LeaderContext<P>, cluster: &Cluster) -> OverlaidTypes {
    OverlaidTypes::new(&cluster.pools_and_overlays(), &|class| context.provider.types(class))
}

/// Evaluates all overlays, and writes what has changed in their statuses.
pub(super) async fn reconcile<P: Provider>(context: &LeaderContext<P>) -> Verdict {
    let (step, mut observed) = {
        let cluster = context.cluster_cache.read();
        let mut leader_state = context.leader_state();
        if !is_in_use(context, &cluster) {
            let count = cluster.overlays().len();
            if count > 0 && !leader_state.has_warned_of_overlays {
                leader_state.has_warned_of_overlays = true;
                tracing::warn!(
                    count,
                    "NodeOverlays have no effect, because the feature gate `NodeOverlay` is off; turn it on with \
                     `--feature-gates NodeOverlay=true`"
                );
            }
            return Verdict::Rest(None);
        }
        let now = now();
        let is_behind = cluster.overlays().any(|overlay| {
            let meta = &overlay.typed.metadata;
            let name = meta.name.as_deref().unwrap_or_default();
            leader_state.is_behind("NodeOverlay", name, meta.resource_version.as_deref(), now)
        });
        if is_behind {
            return Verdict::Rest(Some(after(now, ASK)));
        }
        let evaluated = leader_state.overlaid.insert(evaluate(context, &cluster));
        let step = overlays::decide(cluster.overlays(), &evaluated.reports, now);
        let all = cluster.overlays().map(|overlay| &overlay.typed);
        (step, all.fold(ObservedVersions::default(), ObservedVersions::overlay))
    };
    let result = context.edge.reconcile(&mut observed, |_, _| step.clone()).await;
    match conclude(context, "NodeOverlay", "all", &observed, &result) {
        // Prices and types of the cloud change without an event.
        Verdict::Rest(_) => Verdict::Rest(Some(after(now(), overlays::EVERY))),
        verdict => verdict,
    }
}
