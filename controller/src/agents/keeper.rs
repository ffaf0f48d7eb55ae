//! Reader and writer of the Secret with the keys, in each replica. Each write names the resource version that it is
//! based on.

use std::convert::Infallible;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use tokio::time::{sleep, timeout};

use super::FIELD_MANAGER;
use super::keys::{Fault, Keys, launch_key, make};
use super::launch_keys::LaunchStep;
use super::rotation::{Authorities, Rotation, Step, in_need, step};
use crate::permissions::AGENTS_SECRET;
use crate::watch::ClusterCache;

/// Pause before a retry at the start: the API server is unreachable, or the Secret cannot be used.
const RETRY: Duration = Duration::from_secs(10);
/// Timeout of a request to the API server. A connection that a load balancer has dropped may never return an answer,
/// and would stop the rotation of keys.
const ANSWER: Duration = Duration::from_secs(30);
/// Maximum number of NodeClaims named in one log line.
const NAMED: usize = 5;

/// Reads and writes the Secret.
pub(super) struct Keeper {
    secrets: Api<Secret>,
    namespace: String,
    cluster_cache: ClusterCache,
    rotation: Rotation,
    clock: fn() -> Timestamp,
}

impl Keeper {
    pub(super) fn new(
        client: &Client,
        namespace: &str,
        cluster_cache: ClusterCache,
        rotation: Rotation,
        clock: fn() -> Timestamp,
    ) -> Self {
        let secrets = Api::namespaced(client.clone(), namespace);
        Self { secrets, namespace: namespace.to_owned(), cluster_cache, rotation, clock }
    }

    /// Waits for the keys; makes new ones if the Secret does not exist.
    pub(super) async fn have(&self) -> Keys {
        let mut told = String::new();
        loop {
            match self.ask().await {
                Ok(keys) => return keys,
                Err(fault) => self.tell("agents cannot be served yet", &fault, &mut told),
            }
            sleep(RETRY).await;
        }
    }

    /// Checks the keys forever, takes the next step of their rotation, and calls `changed` with changed keys.
    pub(super) async fn keep(&self, mut keys: Keys, changed: impl Fn(&Keys)) -> Infallible {
        let mut told = String::new();
        loop {
            sleep(self.rotation.look.try_into().unwrap_or_default()).await;
            let seen = match self.ask().await {
                Ok(seen) => seen,
                Err(fault) => {
                    self.tell("agents are served with the previous keys", &fault, &mut told);
                    continue;
                }
            };
            if seen.version() != keys.version() {
                keys = seen;
                changed(&keys);
            }
            match self.go_on(&keys).await {
                Ok(None) => told.clear(),
                Ok(Some(after)) => {
                    keys = after;
                    changed(&keys);
                }
                Err(fault) => self.tell("the keys of agents cannot be replaced", &fault, &mut told),
            }
        }
    }

    /// Reads the keys; makes them if the Secret does not exist.
    async fn ask(&self) -> Result<Keys, Fault> {
        let now = (self.clock)();
        if let Some(there) = within(self.secrets.get_opt(AGENTS_SECRET)).await?? {
            return Keys::read(there, now);
        }
        // A create, not an apply: if two replicas start at once, the second must not replace the keys of the first.
        match within(self.secrets.create(&parameters(), &make(now)?)).await? {
            Ok(made) => {
                tracing::info!(namespace = self.namespace, secret = AGENTS_SECRET, "keys for agents have been made");
                Keys::read(made, now)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                Keys::read(within(self.secrets.get(AGENTS_SECRET)).await??, now)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the next step of the CA's rotation: at most one write, which is the whole step.
    async fn go_on(&self, keys: &Keys) -> Result<Option<Keys>, Fault> {
        let (now, held) = ((self.clock)(), &keys.authorities);
        let in_need = match held.former {
            Some(_) => self.in_need(held)?,
            None => Vec::new(),
        };
        let step = step(held, keys.is_asked, !in_need.is_empty(), &self.rotation, now);
        let after = match step {
            Step::Wait => return self.go_on_with_launches(keys).await,
            Step::Introduce => held.clone().introduce(now)?,
            Step::Replace => held.clone().replace(now),
            Step::Retire => held.clone().retire(),
        };
        let wanted = keys.followed_by(&after, step == Step::Introduce);
        let written = self.write(&wanted).await?;
        if written.is_some() {
            self.tell_step(step, &in_need);
        }
        Ok(written)
    }

    /// Takes the next step of the rotation of the launch key.
    async fn go_on_with_launches(&self, keys: &Keys) -> Result<Option<Keys>, Fault> {
        let (now, held, namespace) = ((self.clock)(), &keys.launch, self.namespace.as_str());
        let step = held.step(keys.is_launch_asked, &self.rotation, now);
        let after = match step {
            LaunchStep::Wait => return Ok(None),
            LaunchStep::Replace => held.clone().replace(launch_key()?, now),
            LaunchStep::Forget => held.clone().forget(),
        };
        let written = self.write(&keys.launched_by(&after, step == LaunchStep::Replace)).await?;
        if written.is_some() && step == LaunchStep::Replace {
            tracing::info!(namespace, "launch secrets are derived from a new key from now on");
        }
        Ok(written)
    }

    /// Writes the Secret and returns its keys; `None` if the Secret has changed since it was read.
    async fn write(&self, wanted: &Secret) -> Result<Option<Keys>, Fault> {
        match within(self.secrets.replace(AGENTS_SECRET, &parameters(), wanted)).await? {
            Ok(written) => Ok(Some(Keys::read(written, (self.clock)())?)),
            // Another replica was faster, or an operator has deleted it: it is read again.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the names of NodeClaims whose nodes may trust only the previous CA.
    fn in_need(&self, held: &Authorities) -> Result<Vec<String>, Fault> {
        let signing = held.signing.fingerprint()?;
        let cluster = self.cluster_cache.read();
        Ok(in_need(cluster.claims(), &signing).map(|claim| claim.name_any()).collect())
    }

    fn tell_step(&self, step: Step, in_need: &[String]) {
        let namespace = self.namespace.as_str();
        match step {
            Step::Wait => {}
            Step::Introduce => {
                tracing::info!(namespace, "a new certificate authority is announced to agents, and will sign soon")
            }
            Step::Replace => {
                tracing::info!(
                    namespace,
                    "a new certificate authority signs for agents; the previous one is still trusted"
                )
            }
            Step::Retire if in_need.is_empty() => {
                tracing::info!(
                    namespace,
                    "the previous certificate authority is removed: every agent knows the new one"
                );
            }
            Step::Retire => {
                let claims = in_need.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
                let count = in_need.len();
                tracing::warn!(
                    namespace,
                    count,
                    claims,
                    "the previous certificate authority is removed; agents that know no other cannot connect any more"
                );
            }
        }
    }

    /// Logs an error once.
    fn tell(&self, what: &str, fault: &Fault, told: &mut String) {
        let why = fault.to_string();
        if why != *told {
            tracing::error!(namespace = self.namespace, why, "{what}");
            *told = why;
        }
    }
}

fn parameters() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

/// Applies the timeout to a call.
async fn within<T>(call: impl Future<Output = kube::Result<T>>) -> Result<kube::Result<T>, Fault> {
    timeout(ANSWER, call).await.map_err(|_| Fault::Silence(ANSWER))
}

#[cfg(test)]
mod tests {
    use http::{Method, Request, Response};
    use kube::client::Body;
    use tower::service_fn;

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    const MISSING: &str = r#"{"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}"#;

    /// Returns a keeper whose API server returns the Secret to reads, and never answers requests of method `silent`.
    fn keeper(silent: Method, secret: Option<Secret>) -> Keeper {
        let service = service_fn(move |request: Request<Body>| {
            let (is_silent, body) = (request.method() == silent, secret.as_ref().map(serde_json::to_vec));
            async move {
                if is_silent {
                    std::future::pending::<()>().await;
                }
                match body {
                    Some(body) => Response::builder().body(Body::from(body?)),
                    None => Response::builder().status(404).body(Body::from(MISSING.as_bytes().to_vec())),
                }
                .map_err(tower::BoxError::from)
            }
        });
        let client = Client::new(service, "default");
        Keeper::new(&client, "karpenter", ClusterCache::new(std::iter::empty()), Rotation::default(), || NOW)
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_never_comes_is_not_waited_for_for_ever() {
        let secret = make(NOW).unwrap();
        let keys = Keys::read(secret.clone(), NOW).unwrap();
        let reading = keeper(Method::GET, None).ask().await.err();
        let making = keeper(Method::POST, None).ask().await.err();
        let writing = keeper(Method::PUT, Some(secret.clone())).write(&keys.secret).await.err();
        for fault in [reading, making, writing] {
            assert_eq!(
                fault.unwrap().to_string(),
                "the Secret `muster-agents` cannot be read or written: no answer within 30 s"
            );
        }
        assert!(keeper(Method::PUT, Some(secret)).ask().await.is_ok());
    }
}
