//! `aws eks get-token`, as a node's kubeconfig calls it.

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use muster_tests::imds::proof::{RoleCredentials, token};
use serde_json::{Value, json};

use crate::metadata::Metadata;

/// How long the client keeps a token: a minute less than EKS takes it.
const LIFE: SignedDuration = SignedDuration::from_mins(14);

/// The `ExecCredential` for `--cluster-name` in `--region`.
pub(crate) fn get_token(words: &[String]) -> Result<String> {
    let option = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1).cloned()
    };
    let cluster = option("--cluster-name").context("the following arguments are required: --cluster-name")?;
    let metadata = Metadata::connect()?;
    let region = option("--region").map_or_else(|| metadata.text("meta-data/placement/region"), Ok)?;
    let role = metadata.find("meta-data/iam/security-credentials/")?;
    let role =
        role.context("Unable to locate credentials. You can configure credentials by running \"aws configure\".")?;
    let path = format!("meta-data/iam/security-credentials/{}", String::from_utf8_lossy(&role).trim());
    let answer: Value = serde_json::from_str(&metadata.text(&path)?)?;
    let field = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let credentials = RoleCredentials {
        access_key_id: field("AccessKeyId"),
        secret_access_key: field("SecretAccessKey"),
        token: field("Token"),
    };
    let now = Timestamp::now();
    let expires = now.saturating_add(LIFE).unwrap_or(now).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let credential = json!({
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "spec": {},
        "status": {"expirationTimestamp": expires, "token": token(&credentials, &region, &cluster, now)?},
    });
    Ok(credential.to_string())
}
