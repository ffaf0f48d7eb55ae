//! The Price List service: `GetProducts` for Linux and Windows on demand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::super::answer::{Answer, ApiError};
use super::super::digest::hex;
use super::super::faults::unsupported;
use super::super::lock;
use super::super::request::Request;
use super::prices::{self, Facts};

const PAGE: usize = 100;

/// One operating system as it is sold.
#[derive(Debug, Clone, Copy)]
struct Offer {
    system: &'static str,
    license_model: &'static str,
    has_licence: bool,
}

const INCLUDED: &str = "No License required";
const OFFERS: [Offer; 3] = [
    Offer { system: "Linux", license_model: INCLUDED, has_licence: false },
    Offer { system: "Windows", license_model: INCLUDED, has_licence: true },
    // Whoever has a licence pays what Linux costs.
    Offer { system: "Windows", license_model: "Bring your own license", has_licence: false },
];

/// Names of attributes, and the one value that each must have.
type Filters = Vec<(String, String)>;

pub(super) fn answer(request: &Request) -> Option<Result<Answer, ApiError>> {
    match request.action.as_str() {
        "GetProducts" => Some(products(request)),
        other => Some(Err(unsupported(&format!("`pricing:{other}`")))),
    }
}

/// Each filter names an attribute and the one value that it must have.
fn products(request: &Request) -> Result<Answer, ApiError> {
    let asked = &request.parameters.json;
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    if text(asked, "ServiceCode").as_deref() != Some("AmazonEC2") {
        return Err(ApiError::new(400, "NotFoundException", "only the service code AmazonEC2 has prices here"));
    }
    let filters = asked.get("Filters").and_then(Value::as_array).cloned().unwrap_or_default();
    let filters =
        filters.iter().filter_map(|filter| Some((text(filter, "Field")?, text(filter, "Value")?))).collect::<Vec<_>>();
    let Some((_, region)) = filters.iter().find(|(field, _)| field == "regionCode") else {
        return Err(ApiError::new(400, "InvalidParameterException", "a filter on regionCode is needed here"));
    };
    let matching = matching(region, &filters);
    let offset = text(asked, "NextToken").and_then(|token| token.parse().ok()).unwrap_or(0);
    let size = asked.get("MaxResults").and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
    let size = size.filter(|size| (1..=PAGE).contains(size)).unwrap_or(PAGE);
    let page: Vec<&String> = matching.iter().skip(offset).take(size).collect();
    let mut body = json!({ "FormatVersion": "aws_v1", "PriceList": page });
    if offset + size < matching.len() {
        body["NextToken"] = (offset + size).to_string().into();
    }
    Ok(Answer::json(200, &body))
}

/// The products that all filters match. They never change, and a controller asks for them page by page, each time it
/// starts.
fn matching(region: &str, filters: &[(String, String)]) -> Arc<Vec<String>> {
    static KNOWN: Mutex<BTreeMap<Filters, Arc<Vec<String>>>> = Mutex::new(BTreeMap::new());
    let mut known = lock(&KNOWN);
    Arc::clone(known.entry(filters.to_vec()).or_insert_with(|| Arc::new(products_of(region, filters))))
}

fn products_of(region: &str, filters: &[(String, String)]) -> Vec<String> {
    let types = prices::types(region);
    let name_is = filters.iter().find(|(field, _)| field == "instanceType").map(|(_, value)| value.as_str());
    let priced = types.iter().filter_map(|(name, facts)| Some((name, facts, facts.price?)));
    let asked_for = priced.filter(|(name, _, _)| name_is.is_none_or(|wanted| wanted == &***name));
    let offers = asked_for.flat_map(|(name, facts, linux)| {
        let offers = OFFERS.into_iter();
        let offers = offers.filter(move |one| one.system == "Linux" || facts.architecture == "x86_64");
        offers.map(move |offer| {
            let price = if offer.has_licence { prices::with_licence(linux, facts) } else { linux };
            (attributes(name, facts, region, offer), name, price)
        })
    });
    let matching =
        offers.filter(|(attributes, _, _)| filters.iter().all(|(field, value)| has(attributes, field, value)));
    matching.map(|(attributes, name, price)| product(&attributes, name, price)).collect()
}

fn attributes(name: &str, facts: &Facts, region: &str, offer: Offer) -> Value {
    let (family, tenancy) =
        if facts.bare_metal { ("Compute Instance (bare metal)", "Dedicated") } else { ("Compute Instance", "Shared") };
    json!({
        "instanceType": name, "productFamily": family, "tenancy": tenancy, "regionCode": region,
        "serviceCode": "AmazonEC2", "servicecode": "AmazonEC2", "operatingSystem": offer.system,
        "licenseModel": offer.license_model, "preInstalledSw": "NA",
        "capacitystatus": "Used", "marketoption": "OnDemand", "vcpu": facts.vcpus.to_string(),
        "memory": format!("{} GiB", facts.memory_mib / 1024),
    })
}

fn has(attributes: &Value, field: &str, value: &str) -> bool {
    // As the service does: case counts in values, not in names.
    let Some(attributes) = attributes.as_object() else { return false };
    attributes.iter().any(|(name, is)| name.eq_ignore_ascii_case(field) && is.as_str() == Some(value))
}

/// A product as the service sends it: JSON in a string.
fn product(attributes: &Value, name: &str, price: f64) -> String {
    let sku = hex(name, 16).to_uppercase();
    let term = format!("{sku}.JRTCKXETXF");
    let rate = format!("{term}.6YS6EN2CT7");
    let per_unit = json!({ "USD": format!("{price:.10}") });
    let dimension =
        json!({ "unit": "Hrs", "rateCode": rate, "beginRange": "0", "endRange": "Inf", "pricePerUnit": per_unit });
    json!({
        "product": { "sku": sku, "productFamily": attributes["productFamily"], "attributes": attributes },
        "serviceCode": "AmazonEC2",
        "terms": { "OnDemand": { term: { "sku": sku, "priceDimensions": { rate: dimension } } } },
        "publicationDate": muster_aws::PRICE_DATE,
    })
    .to_string()
}
