//! Check at start for missing permissions, see [`crate::permissions`]. Each missing one is logged once, and the
//! controller starts nevertheless: the permission may never be needed, and the operation that needs it reports the
//! failure.

use futures::StreamExt;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};

use super::metrics::Metrics;
use crate::permissions::Permission;

/// Maximum number of concurrent access reviews.
const AT_ONCE: usize = 8;

/// Reviews each permission and logs those that are missing, with the object names if it is missing for some objects
/// only.
pub(super) async fn check(
    client: Client,
    needed: Vec<Permission>,
    lease: Option<String>,
    namespace: String,
    metrics: Metrics,
) {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client);
    let questions = |one: &Permission| {
        let asked = one.questions(&namespace, lease.as_deref());
        let one = *one;
        asked.into_iter().map(move |attributes| (one, attributes))
    };
    let ask = async |(one, attributes): (Permission, ResourceAttributes)| {
        let name = attributes.name.clone();
        let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
        let review = SelfSubjectAccessReview { spec, ..Default::default() };
        (one, name, reviews.create(&PostParams::default(), &review).await)
    };
    let mut answers = futures::stream::iter(needed.iter().flat_map(questions)).map(ask).buffered(AT_ONCE);
    let mut missing: Vec<(Permission, Vec<String>)> = Vec::new();
    while let Some((one, name, answer)) = answers.next().await {
        match answer {
            Ok(review) if review.status.as_ref().is_some_and(|status| status.allowed) => {}
            // Answers arrive in the order of the questions.
            Ok(_) => match missing.last_mut() {
                Some((last, names)) if *last == one => names.extend(name),
                _ => missing.push((one, name.into_iter().collect())),
            },
            // If the review itself fails, other errors are more informative.
            Err(error) => return tracing::warn!(%error, "permissions could not be checked"),
        }
    }
    for (one, names) in &missing {
        let Permission { group, resource, verb, .. } = one;
        metrics.missing(one);
        let (namespace, name) = (one.namespace(&namespace).unwrap_or_default(), names.join(","));
        tracing::warn!(verb, resource, group, namespace, name, "a permission is missing");
    }
    tracing::info!(needed = needed.len(), missing = missing.len(), "permissions checked");
}
