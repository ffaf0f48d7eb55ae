//! What EC2 launches becomes what a test asks for, and ends when EC2 ends it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::site::{Node, Site};
use crate::cluster::{Cluster, fake_node};
use crate::ec2::{self, Credentials, Ec2, Event};
use crate::error::{Error, Result};
use crate::imds::proof::RoleCredentials;
use crate::imds::{Instance, MetadataOptions, Role};
use crate::machine::{Image, Shape};

/// What an instance becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Becomes {
    /// A machine that boots this image.
    Machine(Image),
    /// A Node that is only an object, which KWOK keeps alive.
    KwokNode,
    /// Nothing: it never joins.
    Nothing,
}

/// Follows the instances of one EC2. Dropping it ends what they became.
#[derive(Debug)]
pub struct Bridge {
    state: Arc<State>,
    follows: JoinHandle<()>,
}

/// What became of the instances so far.
#[derive(Debug)]
struct State {
    site: Arc<Site>,
    nodes: Mutex<BTreeMap<String, Node>>,
    /// The instances that EC2 has ended: the end of one can overtake its launch.
    ended: Mutex<BTreeSet<String>>,
    /// Why an instance could not become what it should, by its ID.
    failed: Mutex<BTreeMap<String, String>>,
    /// Counts changes of the two.
    changes: watch::Sender<u64>,
}

impl Bridge {
    /// Follows `ec2` from now on; instances that run already count as launched. `plan` says what becomes of each.
    pub fn start(site: &Arc<Site>, ec2: &Arc<Ec2>, plan: impl Fn(&ec2::Instance) -> Becomes + Send + 'static) -> Self {
        let state = Arc::new(State {
            site: Arc::clone(site),
            nodes: Mutex::default(),
            ended: Mutex::default(),
            failed: Mutex::default(),
            changes: watch::Sender::new(0),
        });
        let (follower, ec2) = (Arc::clone(&state), Arc::clone(ec2));
        let follows = tokio::spawn(async move {
            let mut events = ec2.events();
            let mut work = JoinSet::new();
            while let Some(event) = events.next().await {
                match event {
                    Event::Launched(instance) => {
                        let (state, becomes) = (Arc::clone(&follower), plan(&instance));
                        let role = role_of(&instance, &ec2);
                        let account = ec2.account().to_owned();
                        work.spawn(async move { state.launch(&instance, becomes, role, account).await });
                    }
                    Event::Ended { instance, .. } => {
                        let state = Arc::clone(&follower);
                        work.spawn(async move { state.end(&instance).await });
                    }
                }
            }
        });
        Self { state, follows }
    }

    /// The machine that this instance became, as soon as it is there.
    ///
    /// # Errors
    /// [`Error::Deadline`], with the reason when it could not be made.
    pub async fn node(&self, instance_id: &str, deadline: Duration) -> Result<Node> {
        let mut changes = self.state.changes.subscribe();
        let found = async {
            loop {
                changes.borrow_and_update();
                if let Some(node) = self.state.nodes().get(instance_id) {
                    return Some(node.clone());
                }
                if self.state.failed().contains_key(instance_id) || changes.changed().await.is_err() {
                    return None;
                }
            }
        };
        let found = tokio::time::timeout(deadline, found).await.ok().flatten();
        found.ok_or_else(|| Error::Deadline {
            what: format!("`{instance_id}` is a machine"),
            waited: deadline,
            seen: self.state.failed().get(instance_id).cloned().unwrap_or_else(|| "no machine".to_owned()),
        })
    }

    /// Waits until nothing is left of what this instance became.
    ///
    /// # Errors
    /// [`Error::Deadline`].
    pub async fn gone(&self, instance_id: &str, deadline: Duration) -> Result<()> {
        let mut changes = self.state.changes.subscribe();
        let gone = changes.wait_for(|_| !self.state.nodes().contains_key(instance_id));
        match tokio::time::timeout(deadline, gone).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Deadline {
                what: format!("`{instance_id}` is gone"),
                waited: deadline,
                seen: "its machine runs".to_owned(),
            }),
        }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.follows.abort();
    }
}

impl State {
    async fn launch(&self, instance: &ec2::Instance, becomes: Becomes, role: Option<Role>, account: String) {
        let done = match becomes {
            Becomes::Machine(image) => self.boot(instance, image, role, account).await,
            Becomes::KwokNode => self.create(instance).await,
            Becomes::Nothing => Ok(()),
        };
        if let Err(error) = done {
            self.failed().insert(instance.id.clone(), error.to_string());
        }
        self.changed();
    }

    async fn boot(&self, of: &ec2::Instance, image: Image, role: Option<Role>, account: String) -> Result<()> {
        let shape = Shape::of_type(&of.instance_type)?;
        let mut instance = Instance::new(&of.id, of.private_address);
        instance.image_id.clone_from(&of.image);
        instance.instance_type.clone_from(&of.instance_type);
        instance.architecture.clone_from(&of.architecture);
        instance.account_id = account;
        instance.region.clone_from(&of.region);
        instance.zone.clone_from(&of.zone);
        instance.host_name.clone_from(&of.private_dns_name);
        instance.subnet_id.clone_from(&of.subnet);
        instance.security_groups = of.security_groups.iter().map(|id| (id.clone(), id.clone())).collect();
        instance.role = role;
        instance.spot = of.spot_request.is_some();
        instance.user_data = of.user_data.as_ref().and_then(|data| STANDARD.decode(data).ok());
        instance.tags = of.metadata.tags.then(|| of.tags.clone());
        instance.pending = of.launched_at;
        instance.options = MetadataOptions {
            enabled: of.metadata.enabled,
            tokens_required: of.metadata.tokens_required,
            hop_limit: u8::try_from(of.metadata.hop_limit).unwrap_or(u8::MAX),
        };
        let node = self.site.boot(instance, image, |spec| spec.shape = shape).await?;
        self.nodes().insert(of.id.clone(), node);
        if self.ended().contains(&of.id) {
            self.pull(&of.id).await?;
        }
        Ok(())
    }

    async fn create(&self, instance: &ec2::Instance) -> Result<()> {
        let shape = Shape::of_type(&instance.instance_type)?;
        let room = json!({
            "cpu": shape.cpus.to_string(),
            "memory": format!("{}Mi", shape.memory_mib),
            "pods": shape.max_pods.to_string(),
        });
        let labels = json!({
            "node.kubernetes.io/instance-type": instance.instance_type,
            "topology.kubernetes.io/region": instance.region,
            "topology.kubernetes.io/zone": instance.zone,
        });
        let node = fake_node(
            &instance.private_dns_name,
            json!({
                "metadata": {"labels": labels},
                "spec": {"providerID": format!("aws:///{}/{}", instance.zone, instance.id)},
                "status": {"capacity": room, "allocatable": room},
            }),
        )?;
        nodes_of(self.site.cluster()?).create(&PostParams::default(), &node).await?;
        Ok(())
    }

    /// Pulls the plug. The Node goes too: EKS's cloud controller deletes those whose instances are terminated.
    async fn end(&self, instance: &ec2::Instance) {
        self.ended().insert(instance.id.clone());
        if let Err(error) = self.pull(&instance.id).await {
            self.failed().insert(instance.id.clone(), error.to_string());
        }
        self.changed();
        if let Ok(cluster) = self.site.cluster() {
            let _may_never_have_joined =
                nodes_of(cluster).delete(&instance.private_dns_name, &DeleteParams::default()).await;
        }
    }

    async fn pull(&self, instance_id: &str) -> Result<()> {
        let node = self.nodes().remove(instance_id);
        match node {
            Some(node) => self.site.terminate(node).await,
            None => Ok(()),
        }
    }

    fn ended(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<String, Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nodes_of(cluster: &Cluster) -> Api<KubeNode> {
    Api::all(cluster.client())
}

/// The role of the instance's profile, with the credentials that EC2 knows it by. Profiles carry their role's name here.
fn role_of(instance: &ec2::Instance, ec2: &Ec2) -> Option<Role> {
    let name = instance.instance_profile.as_ref()?.rsplit('/').next()?.to_owned();
    let Credentials { access_key_id, secret_access_key, session_token, .. } =
        ec2.instance_credentials(&name, &instance.id);
    let credentials = RoleCredentials { access_key_id, secret_access_key, token: session_token.unwrap_or_default() };
    Some(Role { name, credentials })
}
