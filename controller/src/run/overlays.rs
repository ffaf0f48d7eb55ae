//! NodeOverlays: the types that a claim may be launched as, and what the overlays say of themselves.

use muster_api::{NodeClaim, labels};
use muster_cloud::after;
use muster_manifest::snapshot::OverlaidTypes;
use muster_scheduling::model::Catalogue;
use muster_stages::overlays;
use muster_stages::state::Cluster;

use super::context::{LeaderContext, LeaderState};
use super::now;
use super::reconcile::{ASK, conclude};
use super::work_queue::Verdict;
use crate::edge::ObservedVersions;
use crate::provider::Provider;

/// Returns the types of the cloud (`plain`) with the overlays for the claim's pool applied.
///
/// The result is kept until an overlay, a pool or a class changes, since many claims are launched together.
pub(super) fn types_of<P: Provider>(
    context: &LeaderContext<P>,
    cluster: &Cluster,
    leader_state: &mut LeaderState,
    claim: &NodeClaim,
    plain: Catalogue,
) -> Catalogue {
    let pool = claim.metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL));
    let (Some(pool), true) = (pool, is_in_use(context, cluster)) else { return plain };
    let known = leader_state.overlaid.as_ref().and_then(|all| all.of(pool));
    if let Some(known) = known.filter(|known| known.is_made_of(&plain)) {
        return known.clone();
    }
    let evaluated = leader_state.overlaid.insert(evaluate(context, cluster));
    evaluated.of(pool).cloned().unwrap_or(plain)
}

fn is_in_use<P: Provider>(context: &LeaderContext<P>, cluster: &Cluster) -> bool {
    context.settings.snapshot.gates.node_overlay && cluster.overlays().next().is_some()
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
