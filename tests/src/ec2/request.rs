//! A call as the proxy understands it: which service, which action, with what, by whom.

use std::collections::BTreeMap;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use serde_json::Value;

use super::parameters::Parameters;
use super::services;

/// How a service's answers and errors are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Form in, XML out, errors in `<Response><Errors>`.
    Ec2Query,
    /// Form in, XML out, errors in `<ErrorResponse>`: IAM, STS.
    Query,
    /// `X-Amz-Target` and JSON: SSM, SQS, EventBridge, Pricing.
    Json,
    /// Paths and JSON: EKS, ARC.
    RestJson,
}

/// One call.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// `ec2`, `ssm`, …: the service in the credential scope of the signature.
    pub(super) service: String,
    pub(super) region: String,
    /// `DescribeInstances`.
    pub(super) action: String,
    pub(super) parameters: Parameters,
    /// Of the signature; empty if the call is not signed.
    pub(super) access_key: String,
    pub(super) user_agent: String,
    /// A `GET` whose signature stands in its address.
    pub(super) presigned: bool,
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn read(parts: Parts, body: Vec<u8>) -> Self {
        let Parts { method, uri, headers, .. } = parts;
        let header =
            |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let in_query = Parameters::from_form(uri.query().unwrap_or_default().as_bytes());
        let presigned = in_query.text("X-Amz-Credential").is_some();
        let scope = match in_query.text("X-Amz-Credential") {
            Some(credential) => credential.to_owned(),
            None => credential_of(&header("authorization")).unwrap_or_default().to_owned(),
        };
        let mut scope = scope.split('/').map(str::to_owned);
        let access_key = scope.next().unwrap_or_default();
        let region = scope.nth(1).unwrap_or_default();
        let mut service = scope.next().unwrap_or_default();
        let (action, parameters) = match service.as_str() {
            "eks" => (rest_action(&method, uri.path()), rest_parameters(&in_query, &body, uri.path())),
            "arc-zonal-shift" => {
                let json = services::shift_parameters(&body, uri.path());
                (services::shift_action(&method, uri.path()), Parameters { json, ..Parameters::default() })
            }
            _ if !header("x-amz-target").is_empty() => {
                let target = header("x-amz-target");
                let json = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let action = target.rsplit('.').next().unwrap_or_default().to_owned();
                (action, Parameters { json, ..Parameters::default() })
            }
            _ => {
                let mut parameters = if body.is_empty() { in_query } else { Parameters::from_form(&body) };
                let action = parameters.query.remove("Action").unwrap_or_default();
                parameters.query.remove("Version");
                parameters.query.retain(|name, _| !name.starts_with("X-Amz-"));
                if service.is_empty() && action == "GetCallerIdentity" {
                    "sts".clone_into(&mut service);
                }
                (action, parameters)
            }
        };
        let user_agent = header("user-agent");
        Self { service, region, action, parameters, access_key, user_agent, presigned, method, uri, headers, body }
    }

    /// A call of the proxy to moto, on behalf of the caller of `like`.
    pub(super) fn own(like: &Self, service: &str, action: &str, asked: &BTreeMap<String, String>) -> Self {
        let version = if service == "iam" { "2010-05-08" } else { "2016-11-15" };
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("Action", action).append_pair("Version", version).extend_pairs(asked);
        Self::unsigned(
            service,
            &like.region,
            Some("application/x-www-form-urlencoded"),
            &[],
            form.finish().into_bytes(),
        )
    }

    /// A call that moto takes and nobody signed: moto reads service and region out of the signature and checks nothing.
    pub(super) fn unsigned(
        service: &str,
        region: &str,
        content: Option<&str>,
        headers: &[(&'static str, &str)],
        body: Vec<u8>,
    ) -> Self {
        let scope = format!("Credential=PROXY/20260101/{region}/{service}/aws4_request");
        let authorization = format!("AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0");
        let mut map = HeaderMap::new();
        let content = content.map(|content| ("content-type", content));
        for (name, value) in
            content.into_iter().chain([("authorization", authorization.as_str())]).chain(headers.iter().copied())
        {
            if let Ok(value) = HeaderValue::from_str(value) {
                map.insert(name, value);
            }
        }
        let mut parts = http::Request::new(()).into_parts().0;
        parts.method = Method::POST;
        parts.uri = Uri::from_static("/");
        parts.headers = map;
        Self::read(parts, body)
    }

    pub(super) fn protocol(&self) -> Protocol {
        protocol(&self.service)
    }

    /// `ec2:RunInstances`, as IAM names it.
    pub(super) fn iam_action(&self) -> String {
        format!("{}:{}", self.service, self.action)
    }
}

/// How the service writes.
pub(super) fn protocol(service: &str) -> Protocol {
    match service {
        "ec2" => Protocol::Ec2Query,
        "ssm" | "sqs" | "events" | "pricing" => Protocol::Json,
        "eks" | "arc-zonal-shift" => Protocol::RestJson,
        _ => Protocol::Query,
    }
}

/// `AWS4-HMAC-SHA256 Credential=KEY/DATE/REGION/SERVICE/aws4_request, …`
fn credential_of(authorization: &str) -> Option<&str> {
    let (_, rest) = authorization.split_once("Credential=")?;
    Some(rest.split([',', ' ']).next().unwrap_or(rest))
}

/// EKS names its actions by method and path; those not listed are recorded as `GET /path`.
fn rest_action(method: &Method, path: &str) -> String {
    let segments = path.split('/').filter(|segment| !segment.is_empty()).collect::<Vec<_>>();
    match (method.as_str(), segments.as_slice()) {
        ("GET", ["clusters"]) => "ListClusters".to_owned(),
        ("POST", ["clusters"]) => "CreateCluster".to_owned(),
        ("GET", ["clusters", _]) => "DescribeCluster".to_owned(),
        ("DELETE", ["clusters", _]) => "DeleteCluster".to_owned(),
        (method, _) => format!("{method} {path}"),
    }
}

fn rest_parameters(in_query: &Parameters, body: &[u8], path: &str) -> Parameters {
    let mut json = serde_json::from_slice(body).unwrap_or_else(|_| Value::Object(serde_json::Map::new()));
    if let (Value::Object(json), Some(name)) = (&mut json, path.strip_prefix("/clusters/")) {
        json.insert("name".to_owned(), name.into());
        json.extend(in_query.query.iter().map(|(key, value)| (key.clone(), value.clone().into())));
    }
    Parameters { json, ..Parameters::default() }
}
