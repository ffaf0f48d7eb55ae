//! Recognition of the kind of a manifest, including kinds and versions that were replaced.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use super::schema::KindSchema;
use crate::crds::crds;
use crate::likeness::nearest_of;

/// API groups of our kinds; each has one version.
const GROUPS: [&str; 4] = ["autoscaling.x-k8s.io", "karpenter.k8s.aws", "karpenter.kwok.sh", "karpenter.sh"];

/// Group, version and kind.
type Identity = (String, String, String);

static SCHEMAS: LazyLock<BTreeMap<Identity, KindSchema>> = LazyLock::new(|| {
    let definitions = crds();
    let versions = definitions.iter().filter_map(|definition| {
        let version = definition.spec.versions.iter().find(|version| version.storage)?;
        let identity = (definition.spec.group.clone(), version.name.clone(), definition.spec.names.kind.clone());
        Some((identity, KindSchema::compile(definition)))
    });
    versions.collect()
});

/// Recognized kind of a manifest.
pub(super) enum Recognized {
    /// One of our kinds, in its current version.
    Ours(&'static str, &'static KindSchema),
    /// A kind or version of our groups that is not supported; the message tells how to fix it.
    Refused(String),
    /// A kind of another project.
    Foreign,
}

/// Recognizes a manifest by its `apiVersion` and `kind`.
pub(super) fn recognize(manifest: &Value) -> Recognized {
    let text = |field: &str| manifest.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let Some((group, version)) = api_version.split_once('/') else { return Recognized::Foreign };
    if !GROUPS.contains(&group) {
        return Recognized::Foreign;
    }
    let current = || SCHEMAS.iter().filter(|((its_group, _, _), _)| its_group == group);
    if let Some(((_, _, its_kind), schema)) =
        current().find(|((_, its_version, its_kind), _)| its_version == version && its_kind == kind)
    {
        return Recognized::Ours(its_kind, schema);
    }
    let replacement = match (group, kind) {
        ("karpenter.sh", "Provisioner") => Some("NodePool of `karpenter.sh/v1`".to_owned()),
        ("karpenter.sh", "Machine") => Some("NodeClaim of `karpenter.sh/v1`".to_owned()),
        ("karpenter.k8s.aws", "AWSNodeTemplate") => Some("EC2NodeClass of `karpenter.k8s.aws/v1`".to_owned()),
        _ => None,
    };
    if let Some(replacement) = replacement {
        return Recognized::Refused(format!(
            "{kind} of `{api_version}` is no longer read: it has become {replacement}\n\nhint: `muster convert -f` rewrites it"
        ));
    }
    if let Some(((_, its_version, _), _)) = current().find(|((_, _, its_kind), _)| its_kind == kind) {
        let hint = if matches!(version, "v1beta1" | "v1alpha5") {
            "`muster convert -f` rewrites it".to_owned()
        } else {
            format!("write `apiVersion: {group}/{its_version}`")
        };
        return Recognized::Refused(format!(
            "`apiVersion` is `{api_version}`, but {kind} is only read as `{group}/{its_version}`\n\nhint: {hint}"
        ));
    }
    // This group also has foreign kinds besides CapacityBuffer.
    if group == "autoscaling.x-k8s.io" {
        return Recognized::Foreign;
    }
    let near = nearest_of(current().map(|((_, _, its_kind), _)| its_kind.as_str()), kind);
    let hint = near.map(|near| format!("\n\nhint: did you mean `{near}`?")).unwrap_or_default();
    Recognized::Refused(format!("`kind` is `{kind}`, which the group `{group}` does not have{hint}"))
}

/// Iterates over all compiled schemas.
#[cfg(test)]
pub(super) fn schemas() -> impl Iterator<Item = (&'static str, &'static KindSchema)> {
    SCHEMAS.iter().map(|((_, _, kind), schema)| (kind.as_str(), schema))
}
