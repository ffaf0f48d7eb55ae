//! What the proxy answers: a body, an error in the form that the service's protocol wants, or a cut connection.

use axum::body::Body;
use axum::http::{Response, StatusCode, header};
use serde_json::{Value, json};
use xmltree::Element;

use super::request::Protocol;
use super::xml;

/// An answer with a body.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// An error as AWS documents it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiError {
    pub(super) status: u16,
    pub(super) code: String,
    pub(super) message: String,
}

/// Marks a response that must not be sent: the connection is closed instead.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut;

impl Answer {
    /// EC2's success: `<ActionResponse xmlns=…><requestId/>…</ActionResponse>`.
    pub(super) fn ec2(action: &str, request_id: &str, children: Vec<Element>) -> Self {
        let mut root = xml::branch(&format!("{action}Response"), [xml::leaf("requestId", request_id)]);
        root.attributes.insert("xmlns".into(), xml::EC2_NAMESPACE.to_owned());
        root.children.extend(children.into_iter().map(xmltree::XMLNode::Element));
        Self::xml(200, &root)
    }

    pub(super) fn xml(status: u16, root: &Element) -> Self {
        let headers = vec![("content-type".to_owned(), "text/xml;charset=UTF-8".to_owned())];
        Self { status, headers, body: xml::write(root) }
    }

    pub(super) fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("content-type".to_owned(), "application/x-amz-json-1.1".to_owned())];
        Self { status, headers, body: body.to_string().into_bytes() }
    }

    /// As sent.
    pub(super) fn into_response(self, request_id: &str) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_GATEWAY);
        let id = ("x-amzn-requestid".to_owned(), request_id.to_owned());
        for (name, value) in self.headers.into_iter().chain([id]) {
            let Ok(name) = header::HeaderName::try_from(name) else { continue };
            let Ok(value) = header::HeaderValue::try_from(value) else { continue };
            response.headers_mut().insert(name, value);
        }
        response
    }

    /// The error code of an answer, whoever wrote it; `None` for a success.
    pub(super) fn error_code(&self) -> Option<String> {
        if self.status < 400 {
            return None;
        }
        let of_xml = || {
            let root = xml::read(&self.body)?;
            xml::text(&root, "Errors/Error/Code").or_else(|| xml::text(&root, "Error/Code"))
        };
        let of_json = || {
            let body: Value = serde_json::from_slice(&self.body).ok()?;
            let kind = body.get("__type")?.as_str()?;
            Some(kind.rsplit('#').next().unwrap_or(kind).to_owned())
        };
        let of_header = || {
            let (_, value) = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-amzn-errortype"))?;
            Some(value.split(':').next().unwrap_or(value).to_owned())
        };
        Some(of_header().or_else(of_json).or_else(of_xml).unwrap_or_else(|| self.status.to_string()))
    }
}

impl ApiError {
    pub(super) fn new(status: u16, code: &str, message: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), message: message.into() }
    }

    /// In the form of `protocol`.
    pub(super) fn answer(&self, protocol: Protocol, request_id: &str) -> Answer {
        let Self { status, code, message } = self;
        let fault = if *status >= 500 { "Receiver" } else { "Sender" };
        match protocol {
            Protocol::Ec2Query => {
                let error = xml::branch("Error", [xml::leaf("Code", code), xml::leaf("Message", message)]);
                let id = xml::leaf("RequestID", request_id);
                Answer::xml(*status, &xml::branch("Response", [xml::branch("Errors", [error]), id]))
            }
            Protocol::Query => {
                let error = [xml::leaf("Type", fault), xml::leaf("Code", code), xml::leaf("Message", message)];
                let id = xml::leaf("RequestId", request_id);
                Answer::xml(*status, &xml::branch("ErrorResponse", [xml::branch("Error", error), id]))
            }
            Protocol::Json | Protocol::RestJson => {
                let mut answer = Answer::json(*status, &json!({ "__type": code, "message": message }));
                answer.headers.push(("x-amzn-errortype".to_owned(), code.clone()));
                answer
            }
        }
    }
}
