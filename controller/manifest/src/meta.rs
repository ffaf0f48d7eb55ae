//! `metadata` of any object.

use std::sync::Arc;

use muster_scheduling::model::Labels;

use super::field::{Decoded, Field};

/// Fields of `metadata` that are used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Meta {
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Labels.
    pub labels: Labels,
    /// Annotations.
    pub annotations: Labels,
    /// Controlling owner.
    pub owner: Option<Owner>,
    /// True if it has a deletion timestamp.
    pub deleting: bool,
    /// Deletion timestamp, as written.
    pub deleted: Option<Arc<str>>,
    /// Creation timestamp, as written.
    pub created: Option<Arc<str>>,
}

/// Owner, in the namespace of the owned object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// Kind.
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

const METADATA: &[&str] = &[
    "annotations",
    "clusterName",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

impl Meta {
    /// Returns `namespace/name`, or the name for cluster-scoped kinds.
    pub fn path(&self) -> Arc<str> {
        if self.namespace.is_empty() {
            Arc::clone(&self.name)
        } else {
            format!("{}/{}", self.namespace, self.name).into()
        }
    }
}

/// Reads `metadata`; objects of `namespaced` kinds without a namespace are in `default`.
pub(crate) fn meta(object: &Field<'_>, namespaced: bool) -> Decoded<Meta> {
    let field = object.require("metadata")?;
    field.only(METADATA);
    let name = field.shared_at("name")?.ok_or_else(|| {
        let hint = match field.tree().get("generateName") {
            Some(_) => "replace `generateName` by a `name`: nothing here creates the object",
            None => "add a `name`",
        };
        field.fault_at("name", "is missing", hint)
    })?;
    let namespace = field.shared_at("namespace")?.filter(|_| namespaced);
    let owners = field.list("ownerReferences", |owner| {
        let controls = owner.read("controller", |value| value.boolean())?;
        Ok((controls, Owner { kind: owner.require("kind")?.shared()?, name: owner.require("name")?.shared()? }))
    })?;
    // Hand-written references often omit `controller`; a single one then counts.
    let alone = owners.len() == 1;
    Ok(Meta {
        namespace: namespace.unwrap_or_else(|| if namespaced { "default".into() } else { Arc::default() }),
        name,
        labels: field.read_or_default("labels", |labels| labels.labels())?,
        annotations: field.read_or_default("annotations", |annotations| annotations.labels())?,
        owner: owners.into_iter().find(|(controls, _)| controls.unwrap_or(alone)).map(|(_, owner)| owner),
        deleting: field.get("deletionTimestamp")?.is_some(),
        deleted: field.shared_at("deletionTimestamp")?,
        created: field.shared_at("creationTimestamp")?,
    })
}
