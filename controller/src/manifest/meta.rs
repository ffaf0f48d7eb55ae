//! `metadata` of any object.

use std::sync::Arc;

use muster_scheduling::model::Labels;

use super::field::{Decoded, Field};

/// What `metadata` says that matters to us.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Meta {
    /// Empty for kinds without a namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// Labels.
    pub labels: Labels,
    /// Annotations.
    pub annotations: Labels,
    /// The owner that controls it.
    pub owner: Option<Owner>,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// When it was deleted, as written.
    pub deleted: Option<Arc<str>>,
    /// When it was created, as written.
    pub created: Option<Arc<str>>,
}

/// An owner, in the namespace of what it owns.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// Its kind.
    pub kind: Arc<str>,
    /// Its name.
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
    /// `namespace/name`, or the name of a kind without namespaces.
    pub fn path(&self) -> Arc<str> {
        if self.namespace.is_empty() {
            Arc::clone(&self.name)
        } else {
            format!("{}/{}", self.namespace, self.name).into()
        }
    }
}

/// Reads `metadata`; `namespaced` kinds without a namespace are in `default`.
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
        let controls = owner.read("controller", |value| value.boolean())?.unwrap_or(false);
        Ok((controls, Owner { kind: owner.require("kind")?.shared()?, name: owner.require("name")?.shared()? }))
    })?;
    // Hand-written references often leave `controller` out, and then there is one.
    let alone = owners.len() == 1;
    Ok(Meta {
        namespace: namespace.unwrap_or_else(|| if namespaced { "default".into() } else { Arc::default() }),
        name,
        labels: field.read_or_default("labels", |labels| labels.labels())?,
        annotations: field.read_or_default("annotations", |annotations| annotations.labels())?,
        owner: owners.into_iter().find(|(controls, _)| *controls || alone).map(|(_, owner)| owner),
        deleting: field.get("deletionTimestamp")?.is_some(),
        deleted: field.shared_at("deletionTimestamp")?,
        created: field.shared_at("creationTimestamp")?,
    })
}
