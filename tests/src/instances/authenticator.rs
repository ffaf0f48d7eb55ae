//! Who a kubelet is to the cluster: the webhook that EKS runs beside its API server.
//!
//! A token is a presigned `sts:GetCallerIdentity`. Its access key says which instance, its signature that it was made
//! with that instance's credentials and for this cluster; the node's role then maps to `system:node:` and its name, as
//! an access entry of type `EC2_LINUX` does.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::error::Result;
use crate::imds::{Instance, proof};
use crate::machine::{Fabric, GATEWAY};

/// Where the API server asks, in the world's network.
const PORT: u16 = 21_362;

/// A running authenticator. Dropping it ends it.
#[derive(Debug)]
pub struct Authenticator {
    known: Arc<Known>,
    server: JoinHandle<()>,
}

#[derive(Debug)]
struct Known {
    cluster: String,
    /// How far its clock is ahead of the machines'.
    ahead: SignedDuration,
    /// By access key.
    instances: RwLock<HashMap<String, Instance>>,
}

impl Authenticator {
    /// Serves for the cluster of this name. Its clock is `ahead` of the machines'.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub async fn start(fabric: &Fabric, cluster: impl Into<String>, ahead: SignedDuration) -> Result<Self> {
        let listener = fabric.listen(SocketAddr::from((GATEWAY, PORT))).await?;
        let known = Arc::new(Known { cluster: cluster.into(), ahead, instances: RwLock::default() });
        let router = Router::new().route("/authenticate", post(review)).with_state(Arc::clone(&known));
        let server = tokio::spawn(async move {
            let _ends_with_the_listener = axum::serve(listener, router).await;
        });
        Ok(Self { known, server })
    }

    /// Lets the node of `instance` in, if its role has an access entry.
    pub fn admit(&self, instance: &Instance) {
        if let Some(role) = instance.role.as_ref().filter(|role| role.is_mapped) {
            let mut instances = self.known.instances.write().unwrap_or_else(PoisonError::into_inner);
            instances.insert(role.credentials.access_key_id.clone(), instance.clone());
        }
    }

    /// Lets it in no more, as when the access entry of its role is missing.
    pub fn refuse(&self, instance_id: &str) {
        let mut instances = self.known.instances.write().unwrap_or_else(PoisonError::into_inner);
        instances.retain(|_, instance| instance.instance_id != instance_id);
    }
}

impl Drop for Authenticator {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Known before it serves: the API server must be given it when it starts.
pub(super) fn url() -> String {
    format!("http://{GATEWAY}:{PORT}/authenticate")
}

async fn review(State(known): State<Arc<Known>>, Json(review): Json<Value>) -> Json<Value> {
    let token = review.pointer("/spec/token").and_then(Value::as_str).unwrap_or_default();
    let status = match known.identify(token) {
        Ok(instance) => json!({
            "authenticated": true,
            "user": {
                "username": format!("system:node:{}", instance.host_name),
                "uid": instance.instance_id,
                "groups": ["system:bootstrappers", "system:nodes"],
                "extra": {"sessionName": [instance.instance_id]},
            },
        }),
        Err(why) => json!({"authenticated": false, "error": why}),
    };
    let version = review.get("apiVersion").cloned().unwrap_or_else(|| json!("authentication.k8s.io/v1"));
    Json(json!({"apiVersion": version, "kind": "TokenReview", "status": status}))
}

impl Known {
    fn identify(&self, token: &str) -> Result<Instance, String> {
        let query = proof::read(token).ok_or_else(|| "it is no token of `aws eks get-token`".to_owned())?;
        let credential = query.iter().find(|(name, _)| name == "X-Amz-Credential").map(|(_, value)| value.as_str());
        let key = credential.and_then(|credential| credential.split('/').next()).unwrap_or_default();
        let instances = self.instances.read().unwrap_or_else(PoisonError::into_inner);
        let instance = instances.get(key).ok_or_else(|| format!("access key `{key}` maps to nobody"))?.clone();
        drop(instances);
        let role = instance.role.as_ref().ok_or_else(|| format!("access key `{key}` maps to nobody"))?;
        let now = Timestamp::now().saturating_add(self.ahead).unwrap_or(Timestamp::MAX);
        proof::check(&query, &role.credentials, &self.cluster, now)?;
        Ok(instance)
    }
}
