//! Checks of a proof's headers, and the request made from them.

use jiff::civil::DateTime;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::key::KeyHash;
use crate::nonce::Nonce;
use crate::sts::host;

pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256 ";
/// Headers that must be signed, exactly these, in the order of Signature Version 4.
pub(super) const SIGNED_HEADERS: &str =
    "content-type;host;x-amz-date;x-amz-security-token;x-muster-cluster;x-muster-key-sha256;x-muster-nonce";
pub(super) const CONTENT_TYPE: &str = "application/x-www-form-urlencoded; charset=utf-8";
pub(super) const BODY: &str = "Action=GetCallerIdentity&Version=2011-06-15";
/// Maximum difference between the clocks of instance and controller. STS itself allows 15 minutes; a nonce lives for
/// one.
const CLOCKS: SignedDuration = SignedDuration::from_mins(5);
/// Maximum length of a session token in bytes. It has no documented limit; those of instances have about 1,500 bytes.
const LONGEST_TOKEN: usize = 8 * 1024;

/// Proof of the role, as the agent sends it.
#[derive(Clone, PartialEq, Eq)]
pub struct RoleProof {
    /// Header `authorization`.
    pub authorization: String,
    /// Header `x-amz-date`.
    pub date: String,
    /// Header `x-amz-security-token`.
    pub security_token: String,
}

/// Reason why a proof is rejected before STS is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RoleFault {
    /// Not a header of Signature Version 4.
    #[error("the signature of the proof of the role is malformed")]
    Malformed,
    /// Signed for another region, service or day.
    #[error("the proof of the role is signed for another region, service or day")]
    Scope,
    /// Other headers are signed than the required ones.
    #[error("the proof of the role does not sign the headers that it has to, and only those")]
    Headers,
    /// Signed too long ago, or in the future.
    #[error("the proof of the role was made more than {} minutes from now", CLOCKS.as_mins())]
    Time,
    /// The session token is missing or invalid; credentials of an instance have one.
    #[error("the proof of the role has no session token")]
    Token,
}

/// Request to STS. Redirects are not followed: it is sent to `host` only.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedRequest {
    /// Host of STS; also the header `host`.
    pub host: String,
    /// Other headers.
    pub headers: [(&'static str, String); 7],
    /// Body of the `POST` to `/`.
    pub body: &'static str,
}

impl std::fmt::Debug for RoleProof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoleProof").field("date", &self.date).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for SignedRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignedRequest").field("host", &self.host).finish_non_exhaustive()
    }
}

impl RoleProof {
    /// Returns the request that the instance must have signed.
    ///
    /// # Errors
    /// The proof cannot be valid, so STS need not be asked.
    pub fn request(
        &self,
        region: &str,
        cluster: &str,
        nonce: &Nonce,
        key: &KeyHash,
        now: Timestamp,
    ) -> Result<SignedRequest, RoleFault> {
        self.judge(region, now)?;
        Ok(SignedRequest {
            host: host(region),
            headers: [
                ("authorization", self.authorization.clone()),
                ("content-type", CONTENT_TYPE.to_owned()),
                ("x-amz-date", self.date.clone()),
                ("x-amz-security-token", self.security_token.clone()),
                ("x-muster-cluster", cluster.to_owned()),
                ("x-muster-key-sha256", key.to_string()),
                ("x-muster-nonce", nonce.to_string()),
            ],
            body: BODY,
        })
    }

    fn judge(&self, region: &str, now: Timestamp) -> Result<(), RoleFault> {
        let time = time(&self.date).ok_or(RoleFault::Malformed)?;
        if now.duration_since(time).abs() > CLOCKS {
            return Err(RoleFault::Time);
        }
        let fields = self.authorization.strip_prefix(ALGORITHM).ok_or(RoleFault::Malformed)?;
        let mut fields = fields.split(", ");
        let mut field =
            |name: &str| fields.next().and_then(|field| field.strip_prefix(name)).ok_or(RoleFault::Malformed);
        let (credential, headers, signature) = (field("Credential=")?, field("SignedHeaders=")?, field("Signature=")?);
        if fields.next().is_some() || !is_signature(signature) {
            return Err(RoleFault::Malformed);
        }
        let (access_key, scope) = credential.split_once('/').ok_or(RoleFault::Malformed)?;
        if !is_access_key(access_key) {
            return Err(RoleFault::Malformed);
        }
        let day = self.date.get(..8).ok_or(RoleFault::Malformed)?;
        if scope != format!("{day}/{region}/sts/aws4_request") {
            return Err(RoleFault::Scope);
        }
        if headers != SIGNED_HEADERS {
            return Err(RoleFault::Headers);
        }
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_.".contains(&byte);
        let token = &self.security_token;
        if token.is_empty() || token.len() > LONGEST_TOKEN || !token.bytes().all(is_token) {
            return Err(RoleFault::Token);
        }
        Ok(())
    }
}

fn is_signature(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns true for 16 to 128 letters, digits and `_` (API reference of IAM, AccessKey).
fn is_access_key(text: &str) -> bool {
    (16..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Parses exactly the format of `20261122T160018Z`.
fn time(text: &str) -> Option<Timestamp> {
    if text.len() != 16 || !text.is_ascii() {
        return None;
    }
    let read: DateTime = strtime::parse("%Y%m%dT%H%M%SZ", text).ok()?.to_datetime().ok()?;
    let time = read.to_zoned(TimeZone::UTC).ok()?.timestamp();
    // `strtime` also accepts blanks and signs.
    (time.strftime("%Y%m%dT%H%M%SZ").to_string() == text).then_some(time)
}
