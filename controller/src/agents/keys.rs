//! The keys that agents are served with: in a Secret, made by whoever comes first, the same for all replicas and all their lives.
//!
//! They are made anew when somebody deletes the Secret: replicas that start afterwards have the new ones. Nodes that were launched
//! before then do not know the controller any more; they are nodes as before, but say nothing, until they are replaced.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use muster_gateway::{Authority, Material};
use muster_link::{LAUNCH_KEY_BYTES, LaunchKey};
use tokio::time::sleep;

use super::FIELD_MANAGER;

/// Name of the Secret.
pub(crate) const SECRET: &str = "muster-agents";
/// What it holds: the authority's certificate and key, certificates of authorities before it, and what launch secrets are made by.
const CERTIFICATE: &str = "ca.crt";
const KEY: &str = "ca.key";
const TRUSTED: &str = "trusted.crt";
const LAUNCH: &str = "launch.key";
/// Until the API server is asked again: it is not there, or the Secret cannot be used.
const RETRY: Duration = Duration::from_secs(10);

/// The keys.
pub(super) struct Keys {
    pub(super) authority: Authority,
    pub(super) launch: LaunchKey,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("the Secret `{SECRET}` cannot be read or made: {0}")]
    Kube(#[from] kube::Error),
    #[error("the Secret `{SECRET}` lacks `{0}`, or it cannot be read")]
    Missing(&'static str),
    #[error("the Secret `{SECRET}`: {0}")]
    Authority(#[from] muster_gateway::AuthorityFault),
    #[error("there are no random numbers")]
    NoRandom,
}

/// Waits for the keys: those that are there, or new ones.
pub(super) async fn have(client: &Client, namespace: &str, clock: fn() -> Timestamp) -> Keys {
    let mut told = String::new();
    loop {
        match ask(client, namespace, clock()).await {
            Ok(keys) => return keys,
            Err(fault) => {
                let why = fault.to_string();
                if why != told {
                    tracing::error!(namespace, why, "agents cannot be served yet");
                    told = why;
                }
                sleep(RETRY).await;
            }
        }
    }
}

async fn ask(client: &Client, namespace: &str, now: Timestamp) -> Result<Keys, Fault> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    if let Some(there) = secrets.get_opt(SECRET).await? {
        return read(&there, now);
    }
    let made = make(now)?;
    // Never an apply: of two replicas that come at once the second must not replace what the first has made.
    let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match secrets.create(&parameters, &made).await {
        Ok(made) => {
            tracing::info!(namespace, secret = SECRET, "keys for agents have been made");
            read(&made, now)
        }
        Err(kube::Error::Api(status)) if status.code == 409 => read(&secrets.get(SECRET).await?, now),
        Err(error) => Err(error.into()),
    }
}

fn make(now: Timestamp) -> Result<Secret, Fault> {
    let Material { certificate, key, trusted: _ } = Material::make(now)?;
    let mut bytes = [0; LAUNCH_KEY_BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Fault::NoRandom)?;
    let texts = [(CERTIFICATE, certificate), (KEY, key), (LAUNCH, LaunchKey::new(bytes).expose())];
    let data = texts.map(|(name, text)| (name.to_owned(), ByteString(text.into_bytes())));
    let labels = BTreeMap::from([("app.kubernetes.io/managed-by".to_owned(), "muster".to_owned())]);
    let metadata = ObjectMeta { name: Some(SECRET.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    Ok(Secret { metadata, data: Some(data.into()), type_: Some("Opaque".to_owned()), ..Secret::default() })
}

fn read(secret: &Secret, now: Timestamp) -> Result<Keys, Fault> {
    let text = |name: &'static str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(name));
        bytes.and_then(|bytes| String::from_utf8(bytes.0.clone()).ok()).ok_or(Fault::Missing(name))
    };
    let (certificate, key) = (text(CERTIFICATE)?, text(KEY)?);
    let material = Material { certificate, key, trusted: text(TRUSTED).unwrap_or_default() };
    let launch = LaunchKey::parse(text(LAUNCH)?.trim()).ok_or(Fault::Missing(LAUNCH))?;
    Ok(Keys { authority: Authority::read(&material, now)?, launch })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    #[test]
    fn what_is_made_is_read_again_and_each_is_another() {
        let made = make(NOW).unwrap();
        let (one, again) = (read(&made, NOW).unwrap(), read(&made, NOW).unwrap());
        assert_eq!(one.authority.certificate_pem(), again.authority.certificate_pem());
        assert_eq!(one.launch, again.launch);
        let other = read(&make(NOW).unwrap(), NOW).unwrap();
        assert!(other.launch != one.launch && other.authority.certificate_pem() != one.authority.certificate_pem());
    }

    #[test]
    fn what_is_wrong_with_it_is_named_and_never_quoted() {
        let broken = |name: &str, text: Option<&str>| {
            let mut secret = make(NOW).unwrap();
            let data = secret.data.as_mut().unwrap();
            match text {
                Some(text) => drop(data.insert(name.to_owned(), ByteString(text.as_bytes().to_vec()))),
                None => drop(data.remove(name)),
            }
            read(&secret, NOW).err().unwrap().to_string()
        };
        assert_eq!(broken(KEY, None), "the Secret `muster-agents` lacks `ca.key`, or it cannot be read");
        assert_eq!(broken(LAUNCH, Some("hush")), "the Secret `muster-agents` lacks `launch.key`, or it cannot be read");
        assert_eq!(broken(KEY, Some("hush")), "the Secret `muster-agents`: the authority's `key` cannot be read");
    }
}
