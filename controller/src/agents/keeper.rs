//! Whoever looks at the Secret with the keys, and writes it: each replica does, and each write names the version that it has seen.

use std::convert::Infallible;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use tokio::time::{sleep, timeout};

use super::FIELD_MANAGER;
use super::keys::{Fault, Keys, SECRET, launch_key, make};
use super::launch_keys::LaunchStep;
use super::rotation::{Authorities, Rotation, Step, in_need, step};
use crate::watch::Picture;

/// Until the API server is asked again at the start: it is not there, or the Secret cannot be used.
const RETRY: Duration = Duration::from_secs(10);
/// How long an answer of the API server is waited for. A connection that a balancer has forgotten may never bring one, and no key would
/// be replaced any more.
const ANSWER: Duration = Duration::from_secs(30);
/// Names of claims in one line of the log.
const NAMED: usize = 5;

/// Looks and writes.
pub(super) struct Keeper {
    secrets: Api<Secret>,
    namespace: String,
    picture: Picture,
    rotation: Rotation,
    clock: fn() -> Timestamp,
}

impl Keeper {
    pub(super) fn new(
        client: &Client,
        namespace: &str,
        picture: Picture,
        rotation: Rotation,
        clock: fn() -> Timestamp,
    ) -> Self {
        let secrets = Api::namespaced(client.clone(), namespace);
        Self { secrets, namespace: namespace.to_owned(), picture, rotation, clock }
    }

    /// Waits for the keys: those that are there, or new ones.
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

    /// Looks at them for ever, does what is to be done about them, and says when they are others.
    pub(super) async fn keep(&self, mut keys: Keys, changed: impl Fn(&Keys)) -> Infallible {
        let mut told = String::new();
        loop {
            sleep(self.rotation.look.try_into().unwrap_or_default()).await;
            let seen = match self.ask().await {
                Ok(seen) => seen,
                Err(fault) => {
                    self.tell("agents are served with the keys of before", &fault, &mut told);
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

    /// The keys as they are now.
    async fn ask(&self) -> Result<Keys, Fault> {
        let now = (self.clock)();
        if let Some(there) = within(self.secrets.get_opt(SECRET)).await?? {
            return Keys::read(there, now);
        }
        // Never an apply: of two replicas that come at once the second must not replace what the first has made.
        match within(self.secrets.create(&parameters(), &make(now)?)).await? {
            Ok(made) => {
                tracing::info!(namespace = self.namespace, secret = SECRET, "keys for agents have been made");
                Keys::read(made, now)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                Keys::read(within(self.secrets.get(SECRET)).await??, now)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Does what is to be done now: at most one write, which is all of a step.
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

    /// Does what is to be done now about the key of launches.
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
            tracing::info!(namespace, "the secrets of launch templates are made by another key from now on");
        }
        Ok(written)
    }

    /// Writes the Secret: the keys then; none if it is not any more what was looked at.
    async fn write(&self, wanted: &Secret) -> Result<Option<Keys>, Fault> {
        match within(self.secrets.replace(SECRET, &parameters(), wanted)).await? {
            Ok(written) => Ok(Some(Keys::read(written, (self.clock)())?)),
            // Another replica was faster, or somebody has deleted it: it is looked at again.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Names of the claims whose nodes may know the one before alone.
    fn in_need(&self, held: &Authorities) -> Result<Vec<String>, Fault> {
        let signing = held.signing.fingerprint()?;
        let cluster = self.picture.glance();
        Ok(in_need(cluster.claims(), &signing).map(|claim| claim.name_any()).collect())
    }

    fn tell_step(&self, step: Step, in_need: &[String]) {
        let namespace = self.namespace.as_str();
        match step {
            Step::Wait => {}
            Step::Introduce => tracing::info!(namespace, "agents are told of another authority, which will sign soon"),
            Step::Replace => {
                tracing::info!(namespace, "another authority signs for agents; the one before still counts")
            }
            Step::Retire if in_need.is_empty() => {
                tracing::info!(namespace, "the authority before this one is forgotten: every agent knows this one");
            }
            Step::Retire => {
                let claims = in_need.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
                let count = in_need.len();
                tracing::warn!(
                    namespace,
                    count,
                    claims,
                    "the authority before this one is forgotten, and nodes that know no other are silent from now on"
                );
            }
        }
    }

    /// Says what is wrong, once.
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

/// What a call comes to, if it comes to anything in time.
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

    /// A keeper whose API server answers reads with the Secret, and calls with `silent` never.
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
        Keeper::new(&client, "karpenter", Picture::new(std::iter::empty()), Rotation::default(), || NOW)
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
