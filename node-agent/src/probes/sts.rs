//! Identity of the node in STS. An EKS token is a presigned GetCallerIdentity request, so its bearer can send it.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, StatusCode, header};
use muster_bootstrap::userdata::base64;
use muster_link::sts;

use super::STEP;
use super::http::{Server, dial, tls_of_machine};
use crate::preflight::credentials::Caller;

/// Prefix of EKS tokens (aws-iam-authenticator).
const PREFIX: &str = "k8s-aws-v1.";

/// A presigned request.
#[derive(Debug, PartialEq, Eq)]
struct Signed {
    origin: String,
    path: String,
    /// True if the signature covers a header with the cluster name, which is not in the token.
    needs_cluster: bool,
}

/// Sends the request in a token that an API server has refused. `None` if it is not an EKS token, or STS cannot be
/// reached.
pub async fn caller(token: &str, cluster: Option<&str>) -> Option<Caller> {
    let signed = read(token)?;
    let server = Server::of_url(&signed.origin, Some(tls_of_machine()?)).ok()?;
    let mut request = Request::builder().uri(&signed.path).header(header::ACCEPT, "application/json");
    if signed.needs_cluster {
        request = request.header("x-k8s-aws-id", cluster?);
    }
    let request = request.body(Full::<Bytes>::default()).ok()?;
    let mut connection = dial(&server, STEP).await.ok()?;
    let answer = connection.ask(request, STEP).await.ok()?;
    judge(answer.status, &String::from_utf8_lossy(&answer.body))
}

/// Decodes a token. Only requests to AWS STS are accepted.
fn read(token: &str) -> Option<Signed> {
    let encoded = token.strip_prefix(PREFIX)?;
    // base64url without padding.
    let mut encoded: String = encoded.replace('-', "+").replace('_', "/");
    while !encoded.len().is_multiple_of(4) {
        encoded.push('=');
    }
    let url = String::from_utf8(base64(encoded.as_bytes())?).ok()?;
    let uri: hyper::Uri = url.parse().ok()?;
    let host = uri.host()?;
    let path = uri.path_and_query()?.to_string();
    let is_question = path.contains("Action=GetCallerIdentity");
    if uri.scheme_str() != Some("https") || !sts::is_host(host) || !is_question {
        return None;
    }
    Some(Signed { origin: format!("https://{host}"), needs_cluster: path.contains("x-k8s-aws-id"), path })
}

/// Parses a response of STS: JSON if requested, but XML in some partitions. The field names are the same.
fn judge(status: StatusCode, body: &str) -> Option<Caller> {
    let between = |name: &str| {
        let at = body.find(&format!("\"{name}\":\"")).map(|at| (at + name.len() + 4, '"'));
        let (from, end) = at.or_else(|| body.find(&format!("<{name}>")).map(|at| (at + name.len() + 2, '<')))?;
        body.get(from..)?.split(end).next().map(ToOwned::to_owned)
    };
    if status.is_success() {
        return between("Arn").map(Caller::Known);
    }
    let code = between("Code").unwrap_or_default();
    // A wrong clock or throttling is not a refusal, and has verdicts of its own.
    let is_refusal = ["AccessDenied", "InvalidClientTokenId", "UnrecognizedClientException"].contains(&code.as_str());
    (status.is_client_error() && is_refusal)
        .then(|| Caller::Refused(format!("{code}: {}", between("Message").unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_bootstrap::userdata::to_base64;

    fn token(url: &str) -> String {
        format!("{PREFIX}{}", to_base64(url.as_bytes()).trim_end_matches('=').replace('+', "-").replace('/', "_"))
    }

    #[test]
    fn nobody_but_sts_is_asked() {
        let query = "/?Action=GetCallerIdentity&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id&X-Amz-Signature=0";
        let signed = read(&token(&format!("https://sts.us-west-2.amazonaws.com{query}"))).unwrap();
        assert_eq!((signed.origin.as_str(), signed.path.as_str()), ("https://sts.us-west-2.amazonaws.com", query));
        assert!(signed.needs_cluster);
        for domain in [
            "us-west-2.api.aws",
            "us-gov-west-1.amazonaws.com",
            "cn-north-1.amazonaws.com.cn",
            "eusc-de-east-1.amazonaws.eu",
            "us-iso-east-1.c2s.ic.gov",
            "us-isob-east-1.sc2s.sgov.gov",
            "eu-isoe-west-1.cloud.adc-e.uk",
            "us-isof-south-1.csp.hci.ic.gov",
        ] {
            let origin = format!("https://sts.{domain}");
            assert_eq!(read(&token(&format!("{origin}{query}"))).unwrap().origin, origin);
        }
        for other in [
            "https://sts.example.com/?Action=GetCallerIdentity",
            "http://sts.us-west-2.amazonaws.com/?Action=GetCallerIdentity",
            "https://sts.us-west-2.amazonaws.com/?Action=AssumeRole",
            "https://ec2.us-west-2.amazonaws.com/?Action=GetCallerIdentity",
            "https://sts.us-west-2.amazonaws.com.example.com/?Action=GetCallerIdentity",
            "https://stsx.s3.amazonaws.com/?Action=GetCallerIdentity",
            "nonsense",
        ] {
            assert_eq!(read(&token(other)), None, "{other}");
        }
        assert_eq!(read("k8s-aws-v1.%%%"), None);
        assert_eq!(read("another"), None);
    }

    #[test]
    fn answers_of_sts_are_told_apart() {
        // From the API reference of STS.
        let xml = "<GetCallerIdentityResult><Arn>arn:aws:sts::111122223333:assumed-role/shop/i-1</Arn></GetCallerIdentityResult>";
        let known = Some(Caller::Known("arn:aws:sts::111122223333:assumed-role/shop/i-1".to_owned()));
        assert_eq!(judge(StatusCode::OK, xml), known);
        let json = r#"{"GetCallerIdentityResponse":{"GetCallerIdentityResult":{"Account":"1","Arn":"arn:aws:sts::111122223333:assumed-role/shop/i-1"}}}"#;
        assert_eq!(judge(StatusCode::OK, json), known);
        let denied = r#"{"Error":{"Code":"AccessDenied","Message":"denied by a policy","Type":"Sender"}}"#;
        assert_eq!(
            judge(StatusCode::FORBIDDEN, denied),
            Some(Caller::Refused("AccessDenied: denied by a policy".to_owned()))
        );
        assert_eq!(judge(StatusCode::FORBIDDEN, r#"{"Error":{"Code":"SignatureDoesNotMatch"}}"#), None);
        assert_eq!(judge(StatusCode::SERVICE_UNAVAILABLE, denied), None);
        assert_eq!(judge(StatusCode::OK, ""), None);
    }
}
