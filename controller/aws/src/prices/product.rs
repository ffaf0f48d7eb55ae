//! One product of the Price List of AWS (`pricing:GetProducts`), which comes as JSON in a string.
//!
//! Source: AWS Price List Query API, "Reading the price list"; aws/karpenter-provider-aws, `pkg/providers/pricing`, for
//! the choice of products.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use super::{OperatingSystem, is_price};

/// Product families of instances, with the tenancy of the products that count. EC2 sells bare metal as dedicated only.
pub(crate) const FAMILIES: [(&str, &str); 2] =
    [("Compute Instance", "Shared"), ("Compute Instance (bare metal)", "Dedicated")];
/// Operating systems as the Price List names them.
pub(crate) const SYSTEMS: [(OperatingSystem, &str); 2] =
    [(OperatingSystem::Linux, "Linux"), (OperatingSystem::Windows, "Windows")];
/// License model with the licence in the price. Windows is also sold at the price of Linux, to those who bring their
/// own licence (aws/aws-sdk-js, issue 1819).
pub(crate) const LICENCE_INCLUDED: &str = "No License required";
/// Attributes of all products that count.
pub(crate) const ATTRIBUTES: [(&str, &str); 3] =
    [("preInstalledSw", "NA"), ("capacitystatus", "Used"), ("marketoption", "OnDemand")];

/// On-demand price of an instance type in a region.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OnDemandPrice {
    pub(crate) instance_type: String,
    pub(crate) system: OperatingSystem,
    /// Empty if the product does not name it.
    pub(crate) region: String,
    /// USD (in China: CNY) per hour.
    pub(crate) price: f64,
    pub(crate) published: Option<Timestamp>,
}

/// Relevant fields of a product.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    product: Product,
    #[serde(default)]
    terms: Terms,
    #[serde(default)]
    publication_date: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct Product {
    #[serde(default)]
    product_family: Option<String>,
    attributes: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
struct Terms {
    #[serde(rename = "OnDemand", default)]
    on_demand: BTreeMap<String, Term>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Term {
    price_dimensions: BTreeMap<String, Dimension>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dimension {
    price_per_unit: BTreeMap<String, String>,
}

/// Returns the price of a product. `None` if it is not an instance on demand with a plain operating system, or has no
/// price above zero.
///
/// # Errors
/// If `text` is not a product.
pub(crate) fn read(text: &str) -> Result<Option<OnDemandPrice>, serde_json::Error> {
    let Document { product, terms, publication_date } = serde_json::from_str(text)?;
    let Some((instance_type, system)) = product.instance() else { return Ok(None) };
    let dimensions = terms.on_demand.values().flat_map(|term| term.price_dimensions.values());
    let mut prices = dimensions.filter_map(|one| {
        let text = one.price_per_unit.get("USD").or_else(|| one.price_per_unit.get("CNY"))?;
        text.parse().ok().filter(|price| is_price(*price))
    });
    Ok(prices.next().map(|price| OnDemandPrice {
        instance_type: instance_type.to_owned(),
        system,
        region: product.attributes.get("regionCode").cloned().unwrap_or_default(),
        price,
        published: publication_date.and_then(|text| moment(&text)),
    }))
}

/// Parses a publication date: a time, or a date alone.
fn moment(text: &str) -> Option<Timestamp> {
    text.parse().ok().or_else(|| format!("{text}T00:00:00Z").parse().ok())
}

impl Product {
    /// Returns the instance type and operating system, if this is a product that counts. An attribute that is left out
    /// is taken for the one that was asked for.
    fn instance(&self) -> Option<(&str, OperatingSystem)> {
        let of = |name: &str| self.attributes.get(name).map(String::as_str);
        let family = self.product_family.as_deref().or_else(|| of("productFamily"));
        let is_family = |(name, tenancy): &(&str, &str)| family == Some(*name) && of("tenancy") == Some(*tenancy);
        let is_plain = |(name, value): &(&str, &str)| of(name).is_none_or(|found| found == *value);
        if !FAMILIES.iter().any(is_family) || !ATTRIBUTES.iter().all(is_plain) {
            return None;
        }
        let system = SYSTEMS.iter().find(|(_, name)| of("operatingSystem") == Some(*name))?.0;
        let is_included = system == OperatingSystem::Linux || of("licenseModel") == Some(LICENCE_INCLUDED);
        is_included.then_some((of("instanceType")?, system))
    }
}
