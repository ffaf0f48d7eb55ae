//! Failed status checks and scheduled events, asked for by the leader.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use muster_api::NodeClaim;
use muster_api::conditions::nodeclaim;
use muster_cloud::{CloudError, NoticeKind};
use muster_stages::lifecycle::is_true;
use tokio::time::sleep;

use super::super::context::LeaderContext;
use crate::facts::{ClaimFacts, Heeded};
use crate::provider::Provider;

/// Interval between two questions: Karpenter's.
const EVERY: Duration = Duration::from_secs(60);
/// Interval while the role lacks the permission, so that it is noticed once somebody has added it.
const REFUSED: Duration = Duration::from_secs(600);

/// Asks until it is dropped.
pub(in crate::run) async fn poll<P: Provider>(context: Arc<LeaderContext<P>>, facts: Arc<ClaimFacts>) -> Infallible {
    facts.cluster_cache().synced().await;
    let mut failing = BTreeSet::new();
    let mut was_told = false;
    loop {
        let mut wait = EVERY;
        match context.provider.unhealthy().await {
            Ok(found) => {
                was_told = false;
                failing = note(&context, &facts, failing, found).await;
            }
            Err(error @ CloudError::Unauthorized { .. }) => {
                wait = REFUSED;
                if !std::mem::replace(&mut was_told, true) {
                    tracing::error!(
                        %error,
                        hint = "compare the role's policy with `muster iam-policy`",
                        "status checks and scheduled events of instances are not read"
                    );
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut was_told, true) {
                    tracing::warn!(%error, "the status of instances cannot be read, and is tried again");
                }
            }
        }
        sleep(wait).await;
    }
}

/// Records what is found about instances of NodeClaims. Counts what was not found before. Returns what was found.
async fn note<P: Provider>(
    context: &LeaderContext<P>,
    facts: &ClaimFacts,
    before: BTreeSet<(String, NoticeKind)>,
    found: BTreeSet<(String, NoticeKind)>,
) -> BTreeSet<(String, NoticeKind)> {
    let mut own = BTreeSet::new();
    for (instance, kind) in found {
        // An instance that is rebooted fails its checks until it is back, and the reboot has a timeout of its own.
        let is_check = matches!(kind, NoticeKind::InstanceStatus | NoticeKind::SystemStatus);
        let believes = |claim: &NodeClaim| !(is_check && is_true(claim, nodeclaim::REBOOTING));
        match facts.heed(&instance, kind, facts.now(), believes).await {
            // Of another cluster, or of none.
            Ok(Heeded::Unknown) => continue,
            Ok(Heeded::Ignored | Heeded::Recorded) => {}
            Err(error) => tracing::warn!(%error, instance, "the status of an instance cannot be recorded"),
        }
        if !before.contains(&(instance.clone(), kind)) {
            context.metrics.instance_unhealthy(kind);
        }
        own.insert((instance, kind));
    }
    own
}
