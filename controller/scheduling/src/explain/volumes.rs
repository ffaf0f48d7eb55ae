//! Check of the volumes of one pod against the instance types of one pool.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::census::{Census, TypeView};
use super::finding::{Finding, Stage};
use super::types::named;
use crate::model::{PodSpec, Resource};
use crate::solution::Reason;

/// Returns the `candidates` that can attach the volumes of `spec`.
pub(super) fn attachable<'t>(
    census: &Census<'_>,
    pool: usize,
    spec: &PodSpec,
    candidates: Vec<&'t TypeView>,
) -> Result<Vec<&'t TypeView>, Finding> {
    let drivers: BTreeSet<&Arc<str>> = spec.attachments.iter().map(|attachment| &attachment.driver).collect();
    let mut left = candidates;
    for driver in drivers {
        let claims = spec.attachments.iter().filter(|one| one.driver == *driver).map(|one| &one.claim);
        let claims = claims.collect::<BTreeSet<_>>().len();
        let resource = Resource::attachable(driver);
        let limit = |candidate: &TypeView| {
            let capacity = &named(census, pool, candidate).capacity;
            capacity.contains(&resource).then(|| usize::try_from(capacity.get(&resource)).unwrap_or(0))
        };
        let most = left.iter().filter_map(|candidate| limit(candidate)).max();
        left.retain(|candidate| limit(candidate).is_none_or(|limit| claims <= limit));
        if left.is_empty() {
            let most = most.unwrap_or(0);
            let message =
                format!("would exceed volume limit, {driver} attaches {most} volumes to a node, not {claims}");
            return Err(Finding::new(Stage::Volumes, Reason::VolumeLimit, message)
                .hint("put its data on fewer volumes, or split the pod".to_owned()));
        }
    }
    Ok(left)
}
