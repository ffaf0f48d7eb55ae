//! What EC2 launches becomes what a test asks for, and ends when EC2 ends it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::site::{Node, Site};
use crate::cluster::{Cluster, fake_node};
use crate::ec2::{self, Credentials, Ec2, Event};
use crate::error::{Error, Result};
use crate::imds::proof::RoleCredentials;
use crate::imds::{Instance, MetadataOptions, Role};
use crate::machine::{Image, Shape, Spec};

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

impl Becomes {
    /// The tag by which a launch can say what becomes of it: `machine`, `kwok` or `nothing`.
    pub const TAG: &str = "becomes";

    /// What its tag says; without one what its image is: public images of AL2023 and AL2 for this host's architecture boot,
    /// all others never join.
    pub fn of(instance: &ec2::Instance) -> Self {
        let boots = instance.architecture == std::env::consts::ARCH;
        let image = match ec2::family_of(&instance.image) {
            Some("al2") => Image::Al2,
            _ => Image::Al2023,
        };
        match instance.tags.get(Self::TAG).map(String::as_str) {
            Some("machine") => Self::Machine(image),
            Some("kwok") => Self::KwokNode,
            Some(_) => Self::Nothing,
            None if boots && matches!(ec2::family_of(&instance.image), Some("al2" | "al2023")) => Self::Machine(image),
            None => Self::Nothing,
        }
    }
}

/// Follows the instances of one EC2. Dropping it ends what they became.
#[derive(Debug)]
pub struct Bridge {
    state: Arc<State>,
    follows: JoinHandle<()>,
}

/// What is done to machines before they boot.
pub trait Alter: Send + Sync + 'static {
    /// To what metadata say of the instance: its user data, its role, its options.
    fn instance(&self, _of: &ec2::Instance, _instance: &mut Instance) {}

    /// To the machine: its image, its hardware.
    fn machine(&self, _of: &ec2::Instance, _spec: &mut Spec) {}
}

/// Nothing.
impl Alter for () {}

/// What became of the instances so far.
struct State {
    site: Arc<Site>,
    alter: Box<dyn Alter>,
    became: Mutex<Became>,
    /// Counts its changes.
    changes: watch::Sender<u64>,
}

/// By instance ID.
#[derive(Debug, Default)]
struct Became {
    nodes: BTreeMap<String, Node>,
    /// What EC2 has ended: the end of an instance can overtake its launch.
    ended: BTreeSet<String>,
    /// Of those, what is done with.
    gone: BTreeSet<String>,
    /// Why an instance could not become what it should, or not end.
    failed: BTreeMap<String, String>,
}

impl Bridge {
    /// Follows `ec2` from now on; instances that run already count as launched. `plan` says what becomes of each.
    pub fn start(site: &Arc<Site>, ec2: &Arc<Ec2>, plan: impl Fn(&ec2::Instance) -> Becomes + Send + 'static) -> Self {
        Self::start_with(site, ec2, plan, ())
    }

    /// As [`Self::start`]; `alter` may alter each before it boots.
    pub fn start_with(
        site: &Arc<Site>,
        ec2: &Arc<Ec2>,
        plan: impl Fn(&ec2::Instance) -> Becomes + Send + 'static,
        alter: impl Alter,
    ) -> Self {
        let changes = watch::Sender::new(0);
        let alter = Box::new(alter);
        let state = Arc::new(State { site: Arc::clone(site), alter, became: Mutex::default(), changes });
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
        let what = format!("`{instance_id}` is a machine");
        self.find(instance_id, deadline, what, |became| became.nodes.get(instance_id).cloned()).await
    }

    /// Waits until nothing is left of what this instance became: EC2 has ended it, its plug is pulled, its Node deleted.
    ///
    /// # Errors
    /// [`Error::Deadline`], with the reason when something resisted.
    pub async fn gone(&self, instance_id: &str, deadline: Duration) -> Result<()> {
        let what = format!("`{instance_id}` is gone");
        self.find(instance_id, deadline, what, |became| became.gone.contains(instance_id).then_some(())).await
    }

    /// The machines that there are.
    pub fn nodes(&self) -> Vec<Node> {
        self.state.became().nodes.values().cloned().collect()
    }

    /// Follows no more, and pulls the plugs of all machines at once.
    ///
    /// # Errors
    /// The first that resists; the others are gone.
    pub async fn end(mut self) -> Result<()> {
        self.follows.abort();
        let _aborted = (&mut self.follows).await;
        let nodes = std::mem::take(&mut self.state.became().nodes);
        let ends = nodes.into_values().map(|node| self.state.site.terminate(node));
        futures::future::join_all(ends).await.into_iter().collect()
    }

    async fn find<T>(
        &self,
        instance_id: &str,
        deadline: Duration,
        what: String,
        look: impl Fn(&Became) -> Option<T>,
    ) -> Result<T> {
        let mut changes = self.state.changes.subscribe();
        let found = async {
            loop {
                changes.borrow_and_update();
                {
                    let became = self.state.became();
                    if let Some(found) = look(&became) {
                        return Some(found);
                    }
                    if became.failed.contains_key(instance_id) {
                        return None;
                    }
                }
                if changes.changed().await.is_err() {
                    return None;
                }
            }
        };
        let found = tokio::time::timeout(deadline, found).await.ok().flatten();
        found.ok_or_else(|| {
            let seen = self.state.became().failed.get(instance_id).cloned();
            Error::Deadline { what, waited: deadline, seen: seen.unwrap_or_else(|| "nothing of the kind".to_owned()) }
        })
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("became", &self.became).finish_non_exhaustive()
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
        self.note(&instance.id, done);
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
        self.alter.instance(of, &mut instance);
        let changed = |spec: &mut Spec| {
            spec.shape = shape;
            self.alter.machine(of, spec);
        };
        let node = self.site.boot(instance, image, changed).await?;
        let came_too_late = {
            let mut became = self.became();
            if became.ended.contains(&of.id) {
                Some(node)
            } else {
                became.nodes.insert(of.id.clone(), node);
                None
            }
        };
        match came_too_late {
            Some(node) => self.site.terminate(node).await,
            None => Ok(()),
        }
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
        if self.became().ended.contains(&instance.id) {
            self.site.forget(&instance.private_dns_name).await?;
        }
        Ok(())
    }

    /// Pulls the plug. The Node goes too: EKS's cloud controller deletes those whose instances are terminated.
    async fn end(&self, instance: &ec2::Instance) {
        let node = {
            let mut became = self.became();
            became.ended.insert(instance.id.clone());
            became.nodes.remove(&instance.id)
        };
        let ended = match node {
            Some(node) => self.site.terminate(node).await,
            None => self.site.forget(&instance.private_dns_name).await,
        };
        if ended.is_ok() {
            self.became().gone.insert(instance.id.clone());
        }
        self.note(&instance.id, ended);
    }

    /// Keeps what went wrong, and wakes who waits.
    fn note(&self, instance_id: &str, done: Result<()>) {
        if let Err(error) = done {
            self.became().failed.insert(instance_id.to_owned(), error.to_string());
        }
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn became(&self) -> MutexGuard<'_, Became> {
        self.became.lock().unwrap_or_else(PoisonError::into_inner)
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
    Some(Role { name, credentials, is_mapped: true })
}
