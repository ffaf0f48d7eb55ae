//! AWSNodeTemplates and EC2NodeClasses.

use serde_json::{Map, Value, json};

use super::{Fields, meta, object, selectors};

/// Keys of v1alpha1 selectors that are not tags, and the fields of a term that replace them.
const OF_SUBNETS: [(&str, &str); 2] = [("aws-ids", "id"), ("aws::ids", "id")];
const OF_IMAGES: [(&str, &str); 4] =
    [("aws-ids", "id"), ("aws::ids", "id"), ("aws::name", "name"), ("aws::owners", "owner")];

pub(super) fn convert(fields: &mut Fields<'_>) -> Value {
    let version = fields.version();
    let metadata = meta::metadata(fields);
    drop(fields.take("status"));
    let mut spec = fields.inner("spec");
    let is_template = version.ends_with("v1alpha1");
    let mut class = if is_template { selected(&mut spec) } else { Map::new() };
    if is_template && spec.take("launchTemplate").is_some() {
        let message = "is left out: v1 makes launch templates itself; move its settings to the fields of the class";
        spec.note("launchTemplate", message);
    }
    image(&mut spec, &mut class);
    if let Some(profile) = spec.take("instanceProfile") {
        class.insert("instanceProfile".to_owned(), profile);
    } else if let Some(role) = spec.take("role") {
        class.insert("role".to_owned(), role);
    } else {
        spec.note("role", "v1 wants a `role` or an `instanceProfile`; v1alpha5 had a default in its settings");
    }
    let metadata_options = metadata_options(&mut spec, is_template);
    let same = object([
        ("subnetSelectorTerms", spec.take("subnetSelectorTerms")),
        ("securityGroupSelectorTerms", spec.take("securityGroupSelectorTerms")),
        ("userData", spec.take("userData")),
        ("tags", spec.take("tags")),
        ("metadataOptions", metadata_options),
        ("blockDeviceMappings", spec.take("blockDeviceMappings")),
        ("instanceStorePolicy", spec.take("instanceStorePolicy")),
        ("detailedMonitoring", spec.take("detailedMonitoring")),
        ("associatePublicIPAddress", spec.take("associatePublicIPAddress")),
        ("context", spec.take("context")),
    ]);
    for (key, value) in same {
        class.entry(key).or_insert(value);
    }
    // `apiVersion` and `kind` of the provider were part of the specification once.
    drop((spec.take("apiVersion"), spec.take("kind")));
    spec.finish();
    json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": metadata, "spec": class})
}

/// Takes the metadata options, and writes the default hop limit down: it changed from 2 to 1 in v1, and with 1, pods
/// without a role of their own lose their credentials. v1alpha1 had a default only for the whole field, v1beta1 also
/// for the limit alone.
fn metadata_options(spec: &mut Fields<'_>, is_template: bool) -> Option<Value> {
    let mut options = spec.take("metadataOptions");
    match &mut options {
        None => {
            options = Some(json!({"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled",
                                  "httpPutResponseHopLimit": 2, "httpTokens": "required"}));
        }
        Some(Value::Object(some)) if !is_template && some.get("httpPutResponseHopLimit").is_none_or(Value::is_null) => {
            some.insert("httpPutResponseHopLimit".to_owned(), json!(2));
        }
        Some(_) => return options,
    }
    spec.note("metadataOptions", "the default hop limit was 2 and is 1 in v1; the old one is written down");
    options
}

/// Converts the selectors of v1alpha1 to terms.
fn selected(spec: &mut Fields<'_>) -> Map<String, Value> {
    let mut terms = |key: &str, own: &[(&str, &str)]| {
        let selector = spec.inner(key).take_all();
        (!selector.is_empty()).then(|| Value::Array(selectors::terms(&selector, own)))
    };
    object([
        ("subnetSelectorTerms", terms("subnetSelector", &OF_SUBNETS)),
        ("securityGroupSelectorTerms", terms("securityGroupSelector", &OF_SUBNETS)),
        ("amiSelectorTerms", terms("amiSelector", &OF_IMAGES)),
    ])
}

/// Converts the image: v1 selects images by terms, so a family alone becomes an alias.
fn image(spec: &mut Fields<'_>, class: &mut Map<String, Value>) {
    let family = spec.text("amiFamily");
    if let Some(terms) = spec.take("amiSelectorTerms") {
        class.insert("amiSelectorTerms".to_owned(), terms);
    }
    let has_terms = class.get("amiSelectorTerms").and_then(Value::as_array).is_some_and(|terms| !terms.is_empty());
    // Default of both earlier versions.
    let name = family.clone().unwrap_or_else(|| "AL2".to_owned());
    let alias = match name.as_str() {
        "AL2" => Some("al2@latest"),
        "AL2023" => Some("al2023@latest"),
        "Bottlerocket" => Some("bottlerocket@latest"),
        "Windows2019" => Some("windows2019@latest"),
        "Windows2022" => Some("windows2022@latest"),
        _ => None,
    };
    match (has_terms, alias, name.as_str()) {
        (true, _, "Ubuntu") => {
            spec.note(
                "amiFamily",
                "v1 has no family `Ubuntu`: it boots like `AL2` with the images that the terms select",
            );
            class.insert("amiFamily".to_owned(), json!("AL2"));
        }
        (true, ..) => drop(class.insert("amiFamily".to_owned(), json!(name))),
        (false, Some(alias), _) => {
            class.insert("amiSelectorTerms".to_owned(), json!([{"alias": alias}]));
            let message = format!(
                "v1 wants the image named: `alias: {alias}` follows new releases as before; pin a version for production"
            );
            spec.note("amiSelectorTerms", message);
        }
        (false, None, _) => {
            class.insert("amiFamily".to_owned(), json!(name));
            spec.note(
                "amiSelectorTerms",
                format!("v1 wants the image named, and family `{name}` has no alias: add terms"),
            );
        }
    }
    if name == "AL2" && !has_terms {
        spec.note(
            "amiFamily",
            "EKS has no AL2 images since Kubernetes 1.33: `al2023@latest` is the way on, with its own user data",
        );
    }
}
