//! CustomResourceDefinitions of our kinds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

use crate::capacitybuffer::CapacityBuffer;
use crate::kwoknodeclass::{self, KwokNodeClass};
use crate::nodeclaim::NodeClaim;
use crate::nodeclass::Ec2NodeClass;
use crate::nodeoverlay::NodeOverlay;
use crate::nodepool::NodePool;
use crate::schema;

/// Returns the CustomResourceDefinitions of all our kinds, sorted by name.
///
/// ```
/// let names: Vec<String> = muster_api::crds().into_iter().filter_map(|crd| crd.metadata.name).collect();
/// assert!(names.is_sorted() && names.contains(&"nodepools.karpenter.sh".to_owned()));
/// ```
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut definitions = [
        CapacityBuffer::crd(),
        Ec2NodeClass::crd(),
        KwokNodeClass::crd(),
        NodeClaim::crd(),
        NodeOverlay::crd(),
        NodePool::crd(),
    ]
    .map(tidied);
    definitions.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    definitions.into()
}

fn tidied(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut definition.spec.versions {
        let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) else {
            continue;
        };
        let Ok(mut tree) = serde_json::to_value(&*root) else { continue };
        schema::tidy(&mut tree);
        declare_object_fields(&mut tree);
        if definition.spec.names.kind == "KWOKNodeClass" {
            kwoknodeclass::ready_from_the_start(&mut tree);
        }
        if let Ok(tidy) = serde_json::from_value(tree) {
            *root = tidy;
        }
    }
    definition
}

/// Declares the three fields of every object, which is optional in a CRD, so that editors complete them.
fn declare_object_fields(root: &mut Value) {
    let Some(Value::Object(properties)) = root.get_mut("properties") else { return };
    for (field, description) in [("apiVersion", "Group and version of the kind."), ("kind", "Kind of the object.")] {
        properties.insert(field.to_owned(), serde_json::json!({"type": "string", "description": description}));
    }
    // Without a description: the API server rejects a CRD that declares more for `metadata`.
    properties.insert("metadata".to_owned(), serde_json::json!({"type": "object"}));
}
