//! At start: what of [`crate::permissions`] is missing. Each is named once, and nothing stops for it: what it is needed for
//! may never come, and whatever fails for it says so.

use futures::StreamExt;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};

use super::metrics::Metrics;
use crate::permissions::{For, LEASE, Permission, Place, all};

/// Questions that are on their way at the same time.
const AT_ONCE: usize = 8;

/// Asks for each permission, and names those that are missing. Without a lease, none of it is needed.
pub(super) async fn check(client: Client, cloud: For, lease: Option<String>, namespace: String, metrics: Metrics) {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client);
    let is_needed = |one: &Permission| {
        let is_of_cloud = one.cloud == For::Any || one.cloud == cloud;
        // The address of the name server is what kubelets are told, and there are none.
        let is_of_place = match one.place {
            Place::Cluster => true,
            Place::LeaseNamespace => lease.is_some(),
            Place::KubeSystem => cloud == For::Aws,
        };
        is_of_cloud && is_of_place
    };
    let needed: Vec<Permission> = all().into_iter().filter(is_needed).collect();
    let ask = async |one: &Permission| {
        let review = review(one, &namespace, lease.as_deref());
        (*one, reviews.create(&PostParams::default(), &review).await)
    };
    let mut answers = futures::stream::iter(&needed).map(ask).buffered(AT_ONCE);
    let mut missing = 0;
    while let Some((one, answer)) = answers.next().await {
        let Permission { group, resource, verb, .. } = one;
        match answer {
            Ok(review) if review.status.as_ref().is_some_and(|status| status.allowed) => {}
            Ok(_) => {
                missing += 1;
                metrics.missing(&one);
                let namespace = namespace_of(&one, &namespace).unwrap_or_default();
                tracing::warn!(verb, resource, group, namespace, "a permission is missing");
            }
            // Who cannot even ask has other troubles, which say more.
            Err(error) => return tracing::warn!(%error, "permissions were not looked at"),
        }
    }
    tracing::info!(needed = needed.len(), missing, "permissions looked at");
}

fn review(one: &Permission, namespace: &str, lease: Option<&str>) -> SelfSubjectAccessReview {
    let (resource, subresource) =
        one.resource.split_once('/').map_or((one.resource, None), |(of, sub)| (of, Some(sub)));
    // The lease may have another name than in the chart.
    let name = one.name.map(|name| if name == LEASE { lease.unwrap_or(name) } else { name });
    let attributes = ResourceAttributes {
        group: Some(one.group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: subresource.map(str::to_owned),
        name: name.map(str::to_owned),
        namespace: namespace_of(one, namespace).map(str::to_owned),
        verb: Some(one.verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    SelfSubjectAccessReview { spec, ..Default::default() }
}

/// Where it is needed; none: everywhere.
fn namespace_of<'n>(one: &Permission, namespace: &'n str) -> Option<&'n str> {
    match one.place {
        Place::Cluster => None,
        Place::LeaseNamespace => Some(namespace),
        Place::KubeSystem => Some("kube-system"),
    }
}
