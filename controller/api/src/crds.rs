//! The definitions of our kinds as an API server takes them.

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

/// The definitions of all our kinds, by name.
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

/// Every object has these three; a CRD may say so, and editors then complete them.
fn declare_object_fields(root: &mut Value) {
    let Some(Value::Object(properties)) = root.get_mut("properties") else { return };
    for (field, description) in [("apiVersion", "Group and version of the kind."), ("kind", "Kind of the object.")] {
        properties.insert(field.to_owned(), serde_json::json!({"type": "string", "description": description}));
    }
    // Not even a description: the API server refuses a definition that says more of it.
    properties.insert("metadata".to_owned(), serde_json::json!({"type": "object"}));
}
