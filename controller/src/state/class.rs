//! NodeClasses of any cloud.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use muster_api::NodeClassReference;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::manifest::NodeClass;

/// A NodeClass.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveClass {
    /// How NodePools and NodeClaims name it.
    pub reference: NodeClassReference,
    /// Its metadata, without `managedFields`.
    pub meta: ObjectMeta,
    /// `status.conditions`.
    pub conditions: Vec<Condition>,
    /// The whole of it, completed by the defaults of its CRD.
    pub object: Value,
    /// What the engine sees of it; none if its CRD refuses it.
    pub(super) manifest: Option<NodeClass>,
    /// Why its CRD refuses it, which the API server would have said too if it had the same CRD.
    pub refusal: Option<String>,
}

impl LiveClass {
    /// What the engine sees of it; none if its CRD refuses it.
    #[must_use]
    pub const fn manifest(&self) -> Option<&NodeClass> {
        self.manifest.as_ref()
    }

    /// Its typed form.
    ///
    /// # Errors
    /// It is of another kind, or a field is not what the kind says.
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.object)
    }
}
