//! Reads an EC2NodeClass from a manifest.

use std::collections::BTreeMap;

use muster_api::validation;
use muster_bootstrap::Family;
use muster_bootstrap::input::ClassSettings;
use muster_bootstrap::node_class::Launch;
use muster_bootstrap::userdata::to_base64;
use serde_json::{Map, Value};

use super::failure::Failure;

/// The settings of an EC2NodeClass that concern user data.
#[derive(Debug)]
pub(super) struct NodeClass {
    /// Name of the EC2NodeClass.
    pub(super) name: String,
    /// AMI family: `amiFamily`, else the family of the alias, else Custom.
    pub(super) family: Family,
    /// `spec.userData`.
    pub(super) user_data: String,
    /// Settings of the instance role and of instance metadata.
    pub(super) settings: ClassSettings,
    /// Known part of the launch parameters.
    pub(super) launch: Launch,
}

/// Reads the only EC2NodeClass of a manifest. Ignored documents and fields are reported in `notes`.
pub(super) fn read(name: &str, text: &str, notes: &mut Vec<String>) -> Result<NodeClass, Failure> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| {
        let reason = error.without_snippet().to_string();
        let reason = reason.lines().next().unwrap_or("unreadable").to_owned();
        Failure::Usage(format!("`{name}` is not YAML or JSON: {reason}\n\nhint: correct the text there"))
    })?;
    let mut found: Option<NodeClass> = None;
    for (index, document) in documents.into_iter().enumerate() {
        let items = match document.get("items").and_then(Value::as_array) {
            Some(items) if document["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => items.clone(),
            _ => vec![document],
        };
        for object in items {
            if object["kind"] != "EC2NodeClass" {
                if let Some(kind) = object["kind"].as_str() {
                    notes.push(format!("{name}: document {}: kind `{kind}` is passed over", index + 1));
                }
                continue;
            }
            let class = class(name, index + 1, &object, notes)?;
            if let Some(first) = &found {
                let message = format!(
                    "`{name}` has two EC2NodeClasses, `{}` and `{}`\n\nhint: give one at a time",
                    first.name, class.name
                );
                return Err(Failure::Usage(message));
            }
            found = Some(class);
        }
    }
    found.ok_or_else(|| {
        Failure::Usage(format!("`{name}` has no EC2NodeClass\n\nhint: user data itself is given with --user-data"))
    })
}

fn class(file: &str, document: usize, object: &Value, notes: &mut Vec<String>) -> Result<NodeClass, Failure> {
    let checked = validation::check(object);
    let name = object["metadata"]["name"].as_str().unwrap_or("unnamed").to_owned();
    if let Some(error) = checked.errors.first() {
        let text = error.to_string();
        let hint = if text.contains("hint:") { "" } else { "\n\nhint: an API server would refuse the object" };
        let message = format!("{file}: document {document}: EC2NodeClass `{name}`: {text}{hint}");
        return Err(Failure::Usage(message));
    }
    for field in &checked.warnings {
        let meant = field.nearest.as_ref().map(|it| format!("; did you mean `{it}`?")).unwrap_or_default();
        notes.push(format!("{file}: document {document}: field `{}` is not known{meant}", field.path));
    }
    let spec = &checked.defaulted["spec"];
    let alias = spec["amiSelectorTerms"].as_array().into_iter().flatten().find_map(|term| term["alias"].as_str());
    let of_alias = alias.and_then(|alias| alias.split('@').next()).and_then(|family| family.parse().ok());
    let family = spec["amiFamily"].as_str().and_then(|family| family.parse().ok()).or(of_alias);
    let family = family.unwrap_or(Family::Custom);
    let mut labels = BTreeMap::from([("karpenter.k8s.aws/ec2nodeclass".to_owned(), name.clone())]);
    if family != Family::Custom {
        labels.insert("karpenter.sh/do-not-sync-taints".to_owned(), "true".to_owned());
    }
    let launch = Launch {
        // The cluster is not known here. These placeholders are not shown.
        cluster_name: "cluster".to_owned(),
        endpoint: "https://cluster.eks.amazonaws.com".to_owned(),
        certificate_authority: to_base64(b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"),
        service_cidr: "10.100.0.0/16".to_owned(),
        cluster_dns: None,
        labels,
        taints: Vec::new(),
        kubelet: spec["kubelet"].as_object().cloned().unwrap_or_else(Map::new),
        uses_instance_store: spec["instanceStorePolicy"] == "RAID0",
    };
    let user_data = spec["userData"].as_str().unwrap_or_default().to_owned();
    let text = |field: &str| spec[field].as_str().map(ToOwned::to_owned);
    let settings = ClassSettings {
        role: text("role"),
        instance_profile: text("instanceProfile"),
        // Read from the object as written: the default is 1 too, and a default must not cause a warning.
        hop_limit: object["spec"]["metadataOptions"]["httpPutResponseHopLimit"].as_i64(),
        has_no_metadata: spec["metadataOptions"]["httpEndpoint"] == "disabled",
    };
    Ok(NodeClass { name, family, user_data, settings, launch })
}
