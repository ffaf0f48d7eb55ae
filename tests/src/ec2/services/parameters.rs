//! SSM's public parameters of EKS, Bottlerocket and Windows images; every other parameter is moto's.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::answer::{Answer, ApiError};
use super::super::request::Request;
use super::super::shared::Shared;

/// What is published below these names is answered here.
const PUBLIC: [&str; 3] =
    ["/aws/service/eks/optimized-ami/", "/aws/service/bottlerocket/", "/aws/service/ami-windows-latest/"];
/// When the parameters were last written.
const MODIFIED: f64 = 1_780_300_800.0;
const PAGE: usize = 10;

pub(super) fn answer(shared: &Shared, request: &Request) -> Option<Result<Answer, ApiError>> {
    let asked = &request.parameters.json;
    let text = |name: &str| asked.get(name).and_then(Value::as_str);
    let published = || shared.state().releases.parameters();
    match request.action.as_str() {
        "GetParameter" => {
            let name = text("Name").filter(|name| is_public(name))?;
            Some(match published().get(name) {
                Some(value) => Ok(Answer::json(200, &json!({ "Parameter": parameter(request, name, value) }))),
                None => Err(ApiError::new(400, "ParameterNotFound", "")),
            })
        }
        "GetParameters" => {
            let names = asked.get("Names")?.as_array()?.iter().filter_map(Value::as_str).collect::<Vec<_>>();
            if !names.iter().all(|name| is_public(name)) {
                return None;
            }
            let published = published();
            let (found, missing): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| published.contains_key(*name));
            let found = found.iter().map(|name| parameter(request, name, &published[*name])).collect::<Vec<_>>();
            Some(Ok(Answer::json(200, &json!({ "Parameters": found, "InvalidParameters": missing }))))
        }
        "GetParametersByPath" => {
            let path = text("Path").filter(|path| is_public(&format!("{}/", path.trim_end_matches('/'))))?;
            let deep = asked.get("Recursive").and_then(Value::as_bool).unwrap_or_default();
            Some(Ok(by_path(request, &published(), path, deep)))
        }
        _ => None,
    }
}

fn is_public(name: &str) -> bool {
    PUBLIC.iter().any(|start| name.starts_with(start))
}

fn by_path(request: &Request, published: &BTreeMap<String, String>, path: &str, deep: bool) -> Answer {
    let asked = &request.parameters.json;
    let path = format!("{}/", path.trim_end_matches('/'));
    let below = published.iter().filter_map(|(name, value)| Some((name, value, name.strip_prefix(&path)?)));
    let below = below.filter(|(_, _, rest)| deep || !rest.contains('/')).collect::<Vec<_>>();
    let offset = asked.get("NextToken").and_then(Value::as_str).and_then(|token| token.parse().ok()).unwrap_or(0);
    let size = asked.get("MaxResults").and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
    let size = size.filter(|size| (1..=PAGE).contains(size)).unwrap_or(PAGE);
    let page = below.iter().skip(offset).take(size).map(|(name, value, _)| parameter(request, name, value));
    let mut body = json!({ "Parameters": page.collect::<Vec<_>>() });
    if offset + size < below.len() {
        body["NextToken"] = (offset + size).to_string().into();
    }
    Answer::json(200, &body)
}

fn parameter(request: &Request, name: &str, value: &str) -> Value {
    let kind = if value.starts_with("ami-") { "aws:ec2:image" } else { "text" };
    json!({
        "Name": name, "Type": "String", "Value": value, "Version": 1, "DataType": kind, "LastModifiedDate": MODIFIED,
        "ARN": format!("arn:aws:ssm:{}::parameter{name}", request.region),
    })
}
