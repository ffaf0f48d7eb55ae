//! Instances of a listing, as input of the decision on drift.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_cloud::Instance;
use muster_manifest::ObservedInstance;

/// Returns the properties of instances that drift is about, by provider ID. Thousands of instances share a few images,
/// subnets and groups, so equal texts are kept once.
#[must_use]
pub fn observed_instances(instances: &[Instance]) -> BTreeMap<Arc<str>, ObservedInstance> {
    let mut texts = Texts::default();
    let mut observed = |instance: &Instance| {
        let security_groups: BTreeSet<Arc<str>> = instance.security_groups.iter().map(|id| texts.get(id)).collect();
        ObservedInstance {
            image: instance.image_id.as_deref().map(|id| texts.get(id)),
            subnet: instance.subnet.as_deref().map(|id| texts.get(id)),
            security_groups: security_groups.into_iter().collect(),
            reservation: instance.offering.reservation.as_deref().map(|id| texts.get(id)),
            placement_group: instance.placement_group.as_deref().map(|id| texts.get(id)),
        }
    };
    instances.iter().map(|instance| (instance.provider_id.as_str().into(), observed(instance))).collect()
}

#[derive(Default)]
struct Texts(BTreeSet<Arc<str>>);

// === impl Texts ===

impl Texts {
    fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.0.insert(Arc::clone(&text));
        text
    }
}

#[cfg(test)]
mod tests {
    use muster_cloud::{CapacityType, InstanceState};

    use super::*;
    use crate::lifecycle::tests::fixture::{instance, offering};

    #[test]
    fn what_drift_is_about_is_kept_once() {
        let one = |id: &str| Instance {
            provider_id: format!("aws:///eu-west-1a/{id}"),
            subnet: Some("subnet-1".to_owned()),
            security_groups: vec!["sg-2".to_owned(), "sg-1".to_owned()],
            placement_group: Some("pg-1".to_owned()),
            offering: muster_cloud::Offering {
                reservation: Some("cr-1".to_owned()),
                ..offering("a", CapacityType::Reserved)
            },
            ..instance(InstanceState::Running)
        };
        let observed = observed_instances(&[one("i-1"), one("i-2")]);
        let (first, second) = (&observed["aws:///eu-west-1a/i-1"], &observed["aws:///eu-west-1a/i-2"]);
        assert_eq!(first, second);
        let text = |text: &Option<Arc<str>>| text.as_ref().unwrap().to_string();
        assert_eq!(text(&first.image), "ami-1");
        assert_eq!(text(&first.subnet), "subnet-1");
        assert_eq!(text(&first.reservation), "cr-1");
        assert_eq!(text(&first.placement_group), "pg-1");
        assert_eq!(first.security_groups, ["sg-1".into(), "sg-2".into()], "sorted");
        assert!(Arc::ptr_eq(&first.security_groups[0], &second.security_groups[0]));
    }
}
