//! Checks a signature (SigV4) by signing the call again with the secret that its access key has.

use std::time::Duration;

use aws_credential_types::Credentials as SigningCredentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign,
};
use aws_sigv4::sign::v4;
use jiff::{SignedDuration, Timestamp};

use super::answer::ApiError;
use super::clock::later;
use super::faults;
use super::identity::Credentials;
use super::parameters::Parameters;
use super::request::Request;

/// What is signed, and where it stands.
struct Claim {
    date: String,
    signed_headers: String,
    signature: String,
    /// Presigned: how long it holds.
    expires: Option<Duration>,
}

/// How far a signature may be from the clock of the service: SigV4's own tolerance.
const TOLERANCE: SignedDuration = SignedDuration::from_mins(5);

/// Whether the signature is too old, or of the future, for a service whose clock is `ahead` of the caller's.
pub(super) fn check_age(request: &Request, now: Timestamp, ahead: SignedDuration) -> Result<(), ApiError> {
    let Some(claim) = claim(request) else { return Ok(()) };
    let at = time_of(request, &claim)?;
    let now = later(now, ahead);
    let age = now.duration_since(at);
    if age.abs() <= TOLERANCE {
        return Ok(());
    }
    let now = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    Err(faults::signature_expired(&request.service, &claim.date, &now, age.is_positive()))
}

/// Whether `credentials` made the signature. A presigned one must hold still; the age of others is not looked at, since a
/// test moves the proxy's clock and not that of its clients; where clocks differ on purpose, [`check_age`] is asked.
pub(super) fn check(request: &Request, credentials: &Credentials, now: Timestamp) -> Result<(), ApiError> {
    let claim = claim(request).ok_or_else(|| mismatch(request))?;
    let at = time_of(request, &claim)?;
    let end = claim.expires.and_then(|holds| SignedDuration::try_from(holds).ok()).map(|holds| later(at, holds));
    if end.is_some_and(|end| end < now) {
        let message = format!("Signature expired: {} is now earlier than {now}", claim.date);
        return Err(ApiError::new(403, "SignatureDoesNotMatch", message));
    }
    let ours = signature(request, credentials, &claim, at).ok_or_else(|| mismatch(request))?;
    if ours == claim.signature { Ok(()) } else { Err(mismatch(request)) }
}

fn time_of(request: &Request, claim: &Claim) -> Result<Timestamp, ApiError> {
    let at = jiff::fmt::strtime::parse("%Y%m%dT%H%M%SZ", &claim.date).and_then(|time| time.to_datetime());
    let at = at.and_then(|time| time.to_zoned(jiff::tz::TimeZone::UTC)).map_err(|_| mismatch(request))?;
    Ok(at.timestamp())
}

fn claim(request: &Request) -> Option<Claim> {
    if request.presigned {
        let query = Parameters::from_form(request.uri.query()?.as_bytes());
        return Some(Claim {
            date: query.text("X-Amz-Date")?.to_owned(),
            signed_headers: query.text("X-Amz-SignedHeaders")?.to_owned(),
            signature: query.text("X-Amz-Signature")?.to_owned(),
            expires: Some(Duration::from_secs(query.number("X-Amz-Expires")?)),
        });
    }
    let authorization = request.headers.get("authorization")?.to_str().ok()?;
    let field = |name: &str| {
        let (_, rest) = authorization.split_once(name)?;
        Some(rest.split([',', ' ']).next().unwrap_or(rest).to_owned())
    };
    Some(Claim {
        date: request.headers.get("x-amz-date")?.to_str().ok()?.to_owned(),
        signed_headers: field("SignedHeaders=")?,
        signature: field("Signature=")?,
        expires: None,
    })
}

fn signature(request: &Request, credentials: &Credentials, claim: &Claim, at: Timestamp) -> Option<String> {
    let Credentials { access_key_id, secret_access_key, session_token, .. } = credentials;
    let identity =
        SigningCredentials::new(access_key_id, secret_access_key, session_token.clone(), None, "muster-tests").into();
    let mut settings = SigningSettings::default();
    if request.presigned {
        settings.signature_location = SignatureLocation::QueryParams;
        settings.expires_in = claim.expires;
    }
    let signed = claim.signed_headers.split(';').collect::<Vec<_>>();
    if signed.contains(&"x-amz-content-sha256") {
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    }
    // What the signer adds itself.
    let added = ["x-amz-date", "x-amz-security-token", "x-amz-content-sha256"];
    let headers = signed.iter().filter(|name| request.presigned || !added.contains(name));
    let headers =
        headers.filter_map(|name| Some((*name, request.headers.get(*name)?.to_str().ok()?))).collect::<Vec<_>>();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(&request.region)
        .name(&request.service)
        .time(at.into())
        .settings(settings)
        .build()
        .ok()?
        .into();
    let uri = unsigned_uri(request);
    let body = SignableBody::Bytes(&request.body);
    let signable = SignableRequest::new(request.method.as_str(), &uri, headers.into_iter(), body).ok()?;
    Some(sign(signable, &parameters).ok()?.signature().to_owned())
}

/// The address as it was before it was signed.
fn unsigned_uri(request: &Request) -> String {
    let host = request.headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or_default();
    let query = request.uri.query().unwrap_or_default();
    let kept = query.split('&').filter(|pair| !request.presigned || !pair.starts_with("X-Amz-")).collect::<Vec<_>>();
    let query = if query.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    format!("http://{host}{}{query}", request.uri.path())
}

fn mismatch(request: &Request) -> ApiError {
    match request.service.as_str() {
        "ec2" => ApiError::new(401, "AuthFailure", "AWS was not able to validate the provided access credentials"),
        _ => ApiError::new(
            403,
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access \
             Key and signing method. Consult the service documentation for details.",
        ),
    }
}
