//! How an instance proves its role to a cluster: a presigned `sts:GetCallerIdentity`, packed as `aws eks get-token` packs
//! it. Written once for both ends: a machine makes such a token, the world's authenticator makes it again and compares.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign};
use aws_sigv4::sign::v4;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use jiff::fmt::strtime;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::error::Result;

/// What every token of EKS begins with.
pub const PREFIX: &str = "k8s-aws-v1.";
/// What AWS encodes in a query: all but letters, digits and `-._~`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// How long the URL is good for.
const EXPIRES: Duration = Duration::from_secs(60);

/// Credentials of a role as metadata gives them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleCredentials {
    /// `AccessKeyId`.
    pub access_key_id: String,
    /// `SecretAccessKey`.
    pub secret_access_key: String,
    /// `Token`.
    pub token: String,
}

/// The token for `cluster`, made at `time`.
///
/// # Errors
/// When the request cannot be signed.
pub fn token(credentials: &RoleCredentials, region: &str, cluster: &str, time: Timestamp) -> Result<String> {
    let url = presign(credentials, region, cluster, time).map_err(std::io::Error::other)?;
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(url)))
}

/// Reads a token: the URL in it, as name and value of its query.
pub(crate) fn read(token: &str) -> Option<Vec<(String, String)>> {
    let url = URL_SAFE_NO_PAD.decode(token.strip_prefix(PREFIX)?).ok()?;
    let url = String::from_utf8(url).ok()?;
    let (_, query) = url.split_once('?')?;
    let pairs = query.split('&').map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    });
    Some(pairs.collect())
}

/// Whether `query` (of [`read`]) was signed with `credentials` for `cluster`, and is not too old at `now`.
///
/// # Errors
/// One sentence on what is wrong with it.
pub(crate) fn check(
    query: &[(String, String)],
    credentials: &RoleCredentials,
    cluster: &str,
    now: Timestamp,
) -> Result<(), String> {
    let value = |name: &str| {
        let found = query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        found.ok_or_else(|| format!("the token has no `{name}`"))
    };
    let date = value("X-Amz-Date")?;
    let time = strtime::parse("%Y%m%dT%H%M%SZ", date).and_then(|parts| parts.to_datetime());
    let time = time.and_then(|time| time.to_zoned(jiff::tz::TimeZone::UTC)).map_err(|error| error.to_string())?;
    let age = now.duration_since(time.timestamp());
    // STS's own tolerance and EKS's limit on the life of a token.
    if age.as_secs() > 15 * 60 || age.as_secs() < -5 * 60 {
        return Err(format!("the token was made at {date}, which is too far from {now}"));
    }
    let region = value("X-Amz-Credential")?.split('/').nth(2).unwrap_or_default().to_owned();
    let ours = token(credentials, &region, cluster, time.timestamp()).map_err(|error| error.to_string())?;
    let ours = read(&ours).unwrap_or_default();
    let signature = ours.iter().find(|(name, _)| name == "X-Amz-Signature").map(|(_, value)| value.as_str());
    if signature == Some(value("X-Amz-Signature")?) {
        return Ok(());
    }
    Err("the signature is not one of these credentials for this cluster".to_owned())
}

fn presign(
    credentials: &RoleCredentials,
    region: &str,
    cluster: &str,
    time: Timestamp,
) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let host = format!("sts.{region}.amazonaws.com");
    let url = format!("https://{host}/?Action=GetCallerIdentity&Version=2011-06-15");
    let RoleCredentials { access_key_id, secret_access_key, token } = credentials.clone();
    let identity = Credentials::new(access_key_id, secret_access_key, Some(token), None, "metadata").into();
    let mut settings = SigningSettings::default();
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(EXPIRES);
    let parameters = v4::SigningParams::builder().identity(&identity).region(region).name("sts");
    let parameters = parameters.time(SystemTime::from(time)).settings(settings).build()?.into();
    let headers = [("host", host.as_str()), ("x-k8s-aws-id", cluster)].into_iter();
    let request = SignableRequest::new("GET", &url, headers, SignableBody::Bytes(b""))?;
    let (instructions, _signature) = sign(request, &parameters)?.into_parts();
    let more = instructions.params().iter().map(|(name, value)| format!("&{name}={}", encode(value)));
    Ok(url.clone() + &more.collect::<String>())
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn credentials(secret: &str) -> RoleCredentials {
        RoleCredentials {
            access_key_id: "ASIA0123456789ABCDEF".to_owned(),
            secret_access_key: secret.to_owned(),
            token: "session".to_owned(),
        }
    }

    #[test]
    fn a_token_is_good_for_its_instance_its_cluster_and_its_time() {
        let one = credentials("one");
        let two = credentials("two");
        let made = Timestamp::from_second(1_800_000_000).unwrap();
        let query = read(&token(&one, "us-west-2", "blue", made).unwrap()).unwrap();
        assert_eq!(check(&query, &one, "blue", made), Ok(()));
        assert!(check(&query, &two, "blue", made).is_err(), "another instance's key");
        assert!(check(&query, &one, "green", made).is_err(), "another cluster");
        let late = made + SignedDuration::from_mins(16);
        assert!(check(&query, &one, "blue", late).unwrap_err().contains("too far"));
        assert_eq!(read("k8s-aws-v1.%"), None);
        assert_eq!(read("plain"), None);
    }
}
