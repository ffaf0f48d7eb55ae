//! Tags with the name of the Node on its instance, for people who use the cloud's console.
//!
//! Tags of ownership are set with the launch; the Node's name is known only afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::annotations;
use muster_api::conditions::nodeclaim;
use muster_cloud::after;

use super::conditions::is_true;
use super::seen::Seen;
use crate::step::{Call, MetaChange, Step, Write};

/// Delay after a failure. Nothing depends on these tags.
const WAIT: Duration = Duration::from_secs(60);

/// Tags the instance of a registered node, once.
pub(super) fn tag(seen: &Seen<'_>, now: Timestamp) -> Step {
    let is_done = seen.annotation(annotations::INSTANCE_TAGGED) == Some("true");
    if is_done || !seen.class.tags_instances || !is_true(seen.claim, nodeclaim::REGISTERED) {
        return Step::rest();
    }
    let node = seen.claim.status.as_ref().and_then(|status| status.node_name.clone());
    let (Some(id), Some(node)) = (seen.provider_id(), node) else { return Step::rest() };
    match &seen.answers.tag {
        None => {
            let tags = [("Name".to_owned(), node), ("karpenter.sh/nodeclaim".to_owned(), seen.name())];
            Step::act([Write::Cloud(Call::Tag { provider_id: id.to_owned(), tags: BTreeMap::from(tags) })])
        }
        Some(Err(error)) if !error.is_not_found() => Step::until(after(now, error.turn().unwrap_or(WAIT))),
        Some(_) => {
            // The cluster's name is among the tags of the launch. Without its annotation, Karpenter would tag each
            // instance once more if it took over.
            let change = MetaChange::default()
                .annotation(annotations::INSTANCE_TAGGED, "true")
                .annotation(annotations::CLUSTER_NAME_TAGGED, "true");
            Step::act([Write::ClaimMeta { name: seen.name(), change }])
        }
    }
}
