//! Decoding of the file into instance types.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_scheduling::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use muster_scheduling::model::{InstanceType, Offering, Operator, Requirement, Requirements, Resource, Resources};
use rustc_hash::FxHashSet;

use super::document::{Amounts, Document, OfferingEntry, RequirementEntry, TypeEntry};
use super::error::{CatalogueError, Problem};
use super::{API_VERSION, KIND, locate};
use crate::intern::Texts;
use crate::quantity;

/// Maximum price in USD per hour. A higher price is a typing error, and sums of such prices would overflow; the most
/// expensive instance of EC2 costs a few hundred.
const MOST_DOLLARS: f64 = 1e6;

const OPERATORS: [Operator; 8] = [
    Operator::In,
    Operator::NotIn,
    Operator::Exists,
    Operator::DoesNotExist,
    Operator::Gt,
    Operator::Lt,
    Operator::Gte,
    Operator::Lte,
];

/// Reads the instance types of a catalogue, in the order of the file. `text` is JSON if it begins with a brace, else
/// YAML.
///
/// Values are kept as written with two exceptions: the zones and capacity types of a type are those of its available
/// offerings, and its name is one of its labels even if the file omits it.
///
/// # Errors
/// If `text` is not a catalogue, or a value in it is invalid.
pub fn read(text: &str) -> Result<Vec<InstanceType>, CatalogueError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document: Document<'_> = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| locate::in_json(text, &error))?
    } else {
        serde_saphyr::from_str_with_options(text, locate::yaml_options())
            .map_err(|error| locate::in_yaml(text, &error))?
    };
    for (field, found, expected) in [("apiVersion", &document.api_version, API_VERSION), ("kind", &document.kind, KIND)]
    {
        if &**found != expected {
            return Err(CatalogueError::OtherKind { field, found: found.to_string(), expected });
        }
    }
    let mut reader = Reader::default();
    let entries = document.instance_types.iter().enumerate();
    entries.map(|(index, entry)| reader.instance_type(index, entry)).collect()
}

#[derive(Default)]
struct Reader {
    texts: Texts,
    names: FxHashSet<Arc<str>>,
}

/// Path of a value within its instance type, and its error.
type Fault = (String, Problem);

impl Reader {
    fn instance_type(&mut self, index: usize, entry: &TypeEntry<'_>) -> Result<InstanceType, CatalogueError> {
        if entry.name.is_empty() {
            return Err(CatalogueError::Unnamed { index });
        }
        let name = self.texts.get(&entry.name);
        if !self.names.insert(Arc::clone(&name)) {
            return Err(CatalogueError::Duplicate { name: name.to_string() });
        }
        self.parts(&name, entry).map_err(|(field, problem)| CatalogueError::Value {
            instance_type: name.to_string(),
            field,
            problem,
        })
    }

    fn parts(&mut self, name: &Arc<str>, entry: &TypeEntry<'_>) -> Result<InstanceType, Fault> {
        let offerings = entry.offerings.iter().enumerate().map(|(index, offering)| self.offering(index, offering));
        let offerings: Vec<Offering> = offerings.collect::<Result<_, _>>()?;
        let mut requirements = self.requirements("", &entry.requirements)?;
        if requirements.get(INSTANCE_TYPE).is_none() {
            requirements.add(self.texts.get(INSTANCE_TYPE), Requirement::new(Operator::In, [Arc::clone(name)]));
        }
        for key in [ZONE, CAPACITY_TYPE] {
            if let Some(values) = values_of_available(&offerings, key) {
                requirements.remove(key);
                requirements.add(self.texts.get(key), Requirement::new(Operator::In, values));
            }
        }
        Ok(InstanceType {
            name: Arc::clone(name),
            requirements,
            capacity: self.amounts("capacity", &entry.capacity)?,
            overhead: self.amounts("overhead", &entry.overhead)?,
            offerings,
        })
    }

    fn offering(&mut self, index: usize, entry: &OfferingEntry<'_>) -> Result<Offering, Fault> {
        let requirements = self.requirements(&format!("offerings[{index}]."), &entry.requirements)?;
        if let Some(price) = entry.price.filter(|price| !(0.0..=MOST_DOLLARS).contains(price)) {
            return Err((format!("offerings[{index}].price"), Problem::Price(price)));
        }
        // What is bought is in one zone, and of one capacity type: nodes, prices and launches are told by both.
        for key in [ZONE, CAPACITY_TYPE] {
            if requirements.single(key).is_none_or(str::is_empty) {
                return Err((format!("offerings[{index}].requirements"), Problem::NotOne(key)));
            }
        }
        Ok(Offering {
            requirements,
            price: entry.price,
            available: entry.available,
            reservation_capacity: entry.reservation_capacity,
        })
    }

    fn requirements(&mut self, path: &str, entries: &[RequirementEntry<'_>]) -> Result<Requirements, Fault> {
        let mut requirements = Requirements::new();
        for (index, entry) in entries.iter().enumerate() {
            let fault = |(field, problem)| (format!("{path}requirements[{index}].{field}"), problem);
            let requirement = self.requirement(entry).map_err(fault)?;
            requirements.add(self.texts.get(&entry.key), requirement);
        }
        Ok(requirements)
    }

    /// Converts one requirement, or returns the invalid field.
    fn requirement(&mut self, entry: &RequirementEntry<'_>) -> Result<Requirement, (&'static str, Problem)> {
        if entry.key.is_empty() {
            return Err(("key", Problem::Operands("is empty")));
        }
        let operator = OPERATORS.into_iter().find(|operator| operator.name() == &*entry.operator);
        let operator = operator.ok_or_else(|| ("operator", Problem::Operator(entry.operator.to_string())))?;
        let count = entry.values.len();
        let problem = match operator {
            Operator::In | Operator::NotIn if count == 0 => "In and NotIn take at least one value",
            Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte if count != 1 => {
                "a bound takes exactly one value"
            }
            Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte if entry.values[0].parse::<i64>().is_err() => {
                "a bound takes an integer"
            }
            Operator::Exists | Operator::DoesNotExist if count > 0 => "Exists and DoesNotExist take no values",
            _ => return Ok(Requirement::new(operator, entry.values.iter().map(|value| self.texts.get(value)))),
        };
        Err(("values", Problem::Operands(problem)))
    }

    fn amounts(&mut self, field: &str, amounts: &Amounts<'_>) -> Result<Resources, Fault> {
        let mut resources = Resources::new();
        for (name, text) in &amounts.0 {
            let fault = |problem| (format!("{field}.{name}"), problem);
            let resource = self.resource(name);
            if resources.contains(&resource) {
                return Err(fault(Problem::Twice));
            }
            let amount = quantity::parse(&resource, text);
            let amount = amount.map_err(|error| fault(Problem::Quantity { text: text.to_string(), error }))?;
            resources.set(resource, amount);
        }
        Ok(resources)
    }

    fn resource(&mut self, name: &str) -> Resource {
        match Resource::new(name) {
            Resource::Other(_) => Resource::Other(self.texts.get(name)),
            known => known,
        }
    }
}

/// Returns the values of `key` among available offerings; `None` if one of them does not restrict `key`.
fn values_of_available(offerings: &[Offering], key: &str) -> Option<BTreeSet<Arc<str>>> {
    let mut values = BTreeSet::new();
    for offering in offerings.iter().filter(|offering| offering.available) {
        let requirement = offering.requirements.get(key).filter(|requirement| requirement.is_finite())?;
        values.extend(requirement.values().cloned());
    }
    Some(values)
}
