//! Encoding of instance types into the file.

use std::borrow::Cow;

use muster_scheduling::model::{InstanceType, Requirements, Resources};

use super::document::{Amounts, Document, OfferingEntry, RequirementEntry, Text, TypeEntry};
use super::{API_VERSION, CatalogueError, KIND};
use crate::quantity;

/// Format of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Indented JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Returns `types` as a catalogue file, in their order, with a trailing newline.
///
/// # Errors
/// If the encoder fails, which does not happen for instance types.
pub fn write(types: &[InstanceType], format: Format) -> Result<String, CatalogueError> {
    let document = Document {
        api_version: Text(Cow::Borrowed(API_VERSION)),
        kind: Text(Cow::Borrowed(KIND)),
        instance_types: types.iter().map(type_entry).collect(),
    };
    match format {
        Format::Json => {
            let json =
                serde_json::to_string_pretty(&document).map_err(|error| CatalogueError::Syntax(error.to_string()))?;
            Ok(json + "\n")
        }
        Format::Yaml => serde_saphyr::to_string(&document).map_err(|error| CatalogueError::Syntax(error.to_string())),
    }
}

fn type_entry(instance_type: &InstanceType) -> TypeEntry<'_> {
    let offerings = instance_type.offerings.iter().map(|offering| OfferingEntry {
        requirements: requirement_entries(&offering.requirements),
        price: offering.price,
        available: offering.available,
        reservation_capacity: offering.reservation_capacity,
    });
    TypeEntry {
        name: Text(Cow::Borrowed(&instance_type.name)),
        requirements: requirement_entries(&instance_type.requirements),
        capacity: amounts(&instance_type.capacity),
        overhead: amounts(&instance_type.overhead),
        offerings: offerings.collect(),
    }
}

fn requirement_entries(requirements: &Requirements) -> Vec<RequirementEntry<'_>> {
    let mut entries = Vec::new();
    for (key, requirement) in requirements.iter() {
        for (operator, values) in requirement.entries() {
            entries.push(RequirementEntry {
                key: Text(Cow::Borrowed(key)),
                operator: Text(Cow::Borrowed(operator.name())),
                values: values.iter().map(|value| Text(Cow::Owned(value.to_string()))).collect(),
            });
        }
    }
    entries
}

fn amounts(resources: &Resources) -> Amounts<'_> {
    let amounts = resources
        .iter()
        .map(|(resource, amount)| (Cow::Borrowed(resource.name()), Cow::Owned(quantity::format(resource, amount))));
    Amounts(amounts.collect())
}
