//! At start: what of [`crate::permissions`] is missing. Each is named once, and nothing stops for it: what it is needed for
//! may never come, and whatever fails for it says so.

use futures::StreamExt;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};

use super::metrics::Metrics;
use crate::permissions::Permission;

/// Questions that are on their way at the same time.
const AT_ONCE: usize = 8;

/// Asks for each permission, and names those that are missing: once, with the objects that it is missing for where it is for some of
/// them.
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
            // Answers come in the order of the questions.
            Ok(_) => match missing.last_mut() {
                Some((last, names)) if *last == one => names.extend(name),
                _ => missing.push((one, name.into_iter().collect())),
            },
            // Who cannot even ask has other troubles, which say more.
            Err(error) => return tracing::warn!(%error, "permissions were not looked at"),
        }
    }
    for (one, names) in &missing {
        let Permission { group, resource, verb, .. } = one;
        metrics.missing(one);
        let (namespace, name) = (one.namespace(&namespace).unwrap_or_default(), names.join(","));
        tracing::warn!(verb, resource, group, namespace, name, "a permission is missing");
    }
    tracing::info!(needed = needed.len(), missing = missing.len(), "permissions looked at");
}
