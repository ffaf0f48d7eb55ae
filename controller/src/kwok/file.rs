//! Parser for the instance types file of Karpenter's KWOK provider: `--instance-types-file-path`.

use std::collections::BTreeMap;
use std::path::Path;

use muster_api::Operator as Written;
use muster_aws::quantity;
use muster_scheduling::model::{InstanceType, Offering, Operator, Requirement, Requirements, Resource, Resources};
use serde::Deserialize;
use serde_json::Value;

use super::catalogue::{Facts, complete};

/// Number of pods per node of a type that does not specify it.
const PODS: i64 = 110;

/// Error in the file. `Display` has the whole message, including a hint.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error(
        "cannot read `{path}`: {reason}\n\nhint: `--instance-types-file-path` and `INSTANCE_TYPES_FILE_PATH` name a file of JSON"
    )]
    Unreadable {
        /// Path of the file.
        path: String,
        /// Cause.
        reason: String,
    },
    /// The file has an invalid format.
    #[error(
        "`{path}`: {reason}\n\nhint: it is a list of {{name, offerings, architecture, operatingSystems, resources}}, as Karpenter's KWOK provider reads it"
    )]
    Malformed {
        /// Path of the file.
        path: String,
        /// Problem and its location.
        reason: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Type {
    name: String,
    offerings: Vec<Offered>,
    architecture: String,
    operating_systems: Vec<String>,
    resources: BTreeMap<String, Value>,
}

/// Keys are capitalized, because Karpenter's Go struct has no JSON tags.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Offered {
    price: f64,
    requirements: Vec<Required>,
    #[serde(default)]
    reservation_capacity: u32,
}

#[derive(Deserialize)]
struct Required {
    key: String,
    operator: Written,
    #[serde(default)]
    values: Vec<String>,
}

/// Reads the types of the file, sorted by name.
///
/// # Errors
/// Fails if the file cannot be read or has an invalid format.
pub fn read(path: &Path) -> Result<Vec<InstanceType>, FileError> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| FileError::Unreadable { path: name.clone(), reason: error.to_string() })?;
    parse(&text).map_err(|reason| FileError::Malformed { path: name, reason })
}

fn parse(text: &str) -> Result<Vec<InstanceType>, String> {
    let types: Vec<Type> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut all = types.into_iter().map(model).collect::<Result<Vec<_>, _>>()?;
    all.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some([twice, _]) = all.array_windows().find(|[one, next]| one.name == next.name) {
        return Err(format!("there are two types of the name `{}`", twice.name));
    }
    Ok(all)
}

fn model(one: Type) -> Result<InstanceType, String> {
    let Type { name, offerings, architecture, operating_systems, resources } = one;
    let mut capacity = Resources::new();
    for (resource, amount) in &resources {
        let text = match amount {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let resource = Resource::new(resource);
        let amount = quantity::parse(&resource, &text)
            .map_err(|error| format!("`{name}`: field `resources.{resource}`: `{text}` {error}"))?;
        capacity.set(resource, amount);
    }
    if capacity.get(&Resource::Pods) == 0 {
        capacity.set(Resource::Pods, PODS);
    }
    let offerings = offerings
        .into_iter()
        .map(|offered| Offering {
            requirements: offered.requirements.into_iter().map(requirement).collect::<Requirements>(),
            price: Some(offered.price),
            // The file's value is ignored: all offerings of Karpenter's provider are available.
            available: true,
            reservation_capacity: offered.reservation_capacity,
        })
        .collect();
    Ok(complete(Facts { name: &name, arch: &architecture, systems: &operating_systems, capacity, offerings }))
}

fn requirement(required: Required) -> (std::sync::Arc<str>, Requirement) {
    let Required { key, operator, values } = required;
    let operator = match operator {
        Written::In => Operator::In,
        Written::NotIn => Operator::NotIn,
        Written::Exists => Operator::Exists,
        Written::DoesNotExist => Operator::DoesNotExist,
        Written::Gt => Operator::Gt,
        Written::Lt => Operator::Lt,
        Written::Gte => Operator::Gte,
        Written::Lte => Operator::Lte,
    };
    (key.into(), Requirement::new(operator, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"[{
        "name": "c-2x", "architecture": "amd64", "operatingSystems": ["linux"],
        "offerings": [{"Price": 0.5, "Available": false, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z"]},
            {"key": "example.com/rack", "operator": "In", "values": ["r1"]}]}],
        "resources": {"cpu": "2", "memory": "4Gi"}
    }]"#;

    #[test]
    fn a_file_of_karpenters() {
        let all = parse(FILE).unwrap();
        let [one] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!(one.capacity.get(&Resource::Pods), 110);
        assert!(one.offerings[0].launchable(), "available, whatever the file says");
        assert_eq!(one.requirements.single("example.com/rack"), Some("r1"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = parse(&FILE.replace("4Gi", "4Gx")).unwrap_err();
        assert_eq!(error, "`c-2x`: field `resources.memory`: `4Gx` is not a quantity such as `940m`, `2` or `8Gi`");
        assert!(parse("{}").unwrap_err().contains("line 1"));
        let twice = format!("[{0},{0}]", FILE.trim().trim_start_matches('[').trim_end_matches(']'));
        assert_eq!(parse(&twice).unwrap_err(), "there are two types of the name `c-2x`");
    }
}
