//! NodeClasses of any cloud.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use muster_api::{NodeClassReference, decode};
use muster_manifest::NodeClass;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A NodeClass.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveClass {
    /// Reference, as in NodePools and NodeClaims.
    pub reference: NodeClassReference,
    /// Its metadata, without `managedFields`.
    pub meta: ObjectMeta,
    /// `status.conditions`.
    pub conditions: Vec<Condition>,
    /// The complete object, with the defaults of its CRD.
    pub object: Value,
    /// Input of the engine; none if the object violates its CRD.
    pub(super) manifest: Option<NodeClass>,
    /// Error of the CRD's validation. An API server with the same CRD would have rejected the object.
    pub refusal: Option<String>,
}

impl LiveClass {
    /// Returns the input of the engine; none if the object violates its CRD.
    #[must_use]
    pub const fn manifest(&self) -> Option<&NodeClass> {
        self.manifest.as_ref()
    }

    /// Deserializes the object into its typed form.
    ///
    /// # Errors
    /// Fails if it is of another kind or has an invalid field.
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        decode(&self.object).map_err(Into::into)
    }
}
