//! Signing of the proof by the agent.

use std::fmt;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, Tag, sign as hmac};
use jiff::Timestamp;

use super::proof::{ALGORITHM, BODY, CONTENT_TYPE, SIGNED_HEADERS};
use super::{RoleProof, host};
use crate::hex::Hex;
use crate::key::{KeyHash, sha256};
use crate::nonce::Nonce;

/// Credentials that instance metadata returns for an instance's role.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// `AccessKeyId` of the metadata.
    pub access_key_id: String,
    /// `SecretAccessKey` of the metadata.
    pub secret_access_key: String,
    /// `Token` of the metadata.
    pub session_token: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl RoleProof {
    /// Signs, with Signature Version 4, the request that [`RoleProof::request`] rebuilds (IAM User Guide, "Create a
    /// signed AWS API request").
    #[must_use]
    pub fn sign(
        credentials: &Credentials,
        region: &str,
        cluster: &str,
        nonce: &Nonce,
        key: &KeyHash,
        now: Timestamp,
    ) -> Self {
        let Credentials { access_key_id, secret_access_key, session_token } = credentials;
        let date = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let (day, host) = (date.get(..8).unwrap_or_default(), host(region));
        let headers = format!(
            "content-type:{CONTENT_TYPE}\nhost:{host}\nx-amz-date:{date}\nx-amz-security-token:{session_token}\n\
             x-muster-cluster:{cluster}\nx-muster-key-sha256:{key}\nx-muster-nonce:{nonce}\n"
        );
        let body = Hex(&sha256(BODY.as_bytes())).to_string();
        let request = format!("POST\n/\n\n{headers}\n{SIGNED_HEADERS}\n{body}");
        let scope = format!("{day}/{region}/sts/aws4_request");
        let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", Hex(&sha256(request.as_bytes())));
        let first = keyed(format!("AWS4{secret_access_key}").as_bytes(), day);
        let signing = ["sts", "aws4_request"]
            .into_iter()
            .fold(keyed(first.as_ref(), region), |key, part| keyed(key.as_ref(), part));
        let signature = keyed(signing.as_ref(), &text);
        Self {
            authorization: format!(
                "{ALGORITHM}Credential={access_key_id}/{scope}, SignedHeaders={SIGNED_HEADERS}, Signature={}",
                Hex(signature.as_ref())
            ),
            date,
            security_token: session_token.clone(),
        }
    }
}

fn keyed(key: &[u8], text: &str) -> Tag {
    hmac(&Key::new(HMAC_SHA256, key), text.as_bytes())
}
