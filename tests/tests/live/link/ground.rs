//! What the tests stand on: a cluster in a network of machines, an EC2 that launches them, and the controller, whose port for agents
//! is in that network.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt};
use muster_aws::live::{Connection, SdkConfig};
use muster_controller::agents::{self, Port, Rotation};
use muster_controller::ec2::{self, Ec2 as Provider};
use muster_controller::run::{CloudOptions, Observers, Options, run_in};
use muster_link::document::Certificates;
use muster_proto::health::HealthListRequest;
use muster_proto::health::health_check_response::ServingStatus;
use muster_proto::health::health_client::HealthClient;
use muster_stages::provision::Lengths;
use muster_tests::OnSite;
use muster_tests::cluster::Cluster;
use muster_tests::ec2::{self as emulated, Ec2, REGION};
use muster_tests::imds::Instance;
use muster_tests::instances::{Alter, Becomes, Bridge, CLUSTER, Site};
use muster_tests::machine::{GATEWAY, Spec};
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tonic::transport::Endpoint;

use super::MOST;

/// Where machines reach the controller.
pub(crate) const AGENTS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(GATEWAY), 9443);
/// Role and instance profile of nodes: in this world both have one name.
const ROLE: &str = "muster-node";

/// The ground of one test.
pub(crate) struct Ground<'c> {
    pub(crate) case: &'c OnSite,
    pub(crate) bridge: Bridge,
    ports: Ports,
    subnets: Vec<String>,
    controller: JoinSet<()>,
}

/// The controller's ports, which outlive it: who connects while there is none waits for the next one.
struct Ports {
    agents: Arc<TcpListener>,
    health: Arc<TcpListener>,
    metrics: u16,
}

impl<'c> Ground<'c> {
    /// With the controller, a class of AL2023 and a pool of m5.large whose nodes' agents are waited for. `alter` may alter what boots.
    pub(crate) async fn new(case: &'c OnSite, alter: impl Alter) -> Self {
        let (site, cluster, ec2) = (case.site(), case.cluster().unwrap(), Arc::clone(case.ec2().await.unwrap()));
        let operator = ec2.sdk_config("operator");
        let subnets = know_cluster(&operator).await;
        define(cluster).await;
        let bridge = Bridge::start_with(site, &ec2, Becomes::of, Baked { program: program(), alter });
        apply(cluster, &[class("default", &subnets), pool("general", "default", "m5.large")]).await;
        let agents = Arc::new(site.fabric().listen(AGENTS).await.unwrap().into_std().unwrap());
        let metrics = free_port();
        let ports = Ports { agents, health: Arc::new(TcpListener::bind(("127.0.0.1", 0)).unwrap()), metrics };
        let controller = controller(site, cluster, &ec2, &ports, None).await;
        Self { case, bridge, ports, subnets, controller }
    }

    /// Kills the controller, and starts another one.
    pub(crate) async fn restart(&mut self) {
        self.controller.shutdown().await;
        let ec2 = Arc::clone(self.case.ec2().await.unwrap());
        self.controller = controller(self.case.site(), self.cluster(), &ec2, &self.ports, None).await;
    }

    /// The port of health.
    pub(crate) fn health_port(&self) -> u16 {
        self.ports.health.local_addr().unwrap().port()
    }

    /// Another replica, which does not lead as long as somebody else has this Lease; and where it serves, and tells of its health.
    pub(crate) async fn stand_by(&self, lease: &str) -> (JoinSet<()>, SocketAddr, u16) {
        let at = SocketAddr::new(AGENTS.ip(), AGENTS.port() + 1);
        let agents = Arc::new(self.case.site().fabric().listen(at).await.unwrap().into_std().unwrap());
        let metrics = free_port();
        let ports = Ports { agents, health: Arc::new(TcpListener::bind(("127.0.0.1", 0)).unwrap()), metrics };
        let ec2 = Arc::clone(self.case.ec2().await.unwrap());
        let health = ports.health.local_addr().unwrap().port();
        (controller(self.case.site(), self.cluster(), &ec2, &ports, Some(lease.to_owned())).await, at, health)
    }

    /// Waits until the controller says that it serves agents.
    pub(crate) async fn serves(&self) {
        let url = format!("http://127.0.0.1:{}", self.health_port());
        let found = wait::until_some("agents are served", MOST, || async {
            let Ok(channel) = Endpoint::from_shared(url.clone()).unwrap().connect().await else { return Ok(None) };
            let all = HealthClient::new(channel).list(HealthListRequest {}).await;
            let is = |name: &str| {
                let all = all.as_ref().ok()?.get_ref();
                all.statuses.get(name).map(|one| one.status == i32::from(ServingStatus::Serving))
            };
            Ok((is("") == Some(true) && is("muster.v1.NodeReports") == Some(true)).then_some(()))
        });
        found.await.unwrap();
    }

    /// What the controller counts.
    pub(crate) async fn metrics(&self) -> String {
        let url = format!("http://127.0.0.1:{}/metrics", self.ports.metrics);
        let asked = tokio::task::spawn_blocking(move || ureq::get(&url).call()?.body_mut().read_to_string());
        asked.await.unwrap().unwrap()
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.case.cluster().unwrap()
    }

    pub(crate) fn claims(&self) -> Api<DynamicObject> {
        of_kind(self.cluster(), "karpenter.sh", "NodeClaim")
    }

    /// Another class, and a pool of the same name with one instance type; `change` says what else is special about the pool.
    pub(crate) async fn offer(&self, name: &str, instance_type: &str, change: impl FnOnce(&mut Value)) {
        let mut pool = pool(name, name, instance_type);
        change(&mut pool);
        apply(self.cluster(), &[class(name, &self.subnets), pool]).await;
    }

    /// One pod that needs a node.
    pub(crate) async fn deploy(&self) {
        self.deploy_to("web", "general", 1, json!({})).await;
    }

    /// So many pods that need a node each of this pool; `extra` is what else they request.
    pub(crate) async fn deploy_to(&self, name: &str, pool: &str, replicas: usize, extra: Value) {
        let labels = json!({ "app": name });
        let mut requests = json!({"cpu": "1500m", "memory": "3Gi"});
        requests.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        // Of what has a vendor limits and requests are the same.
        let resources = json!({"requests": requests, "limits": extra});
        let spec = json!({
            "nodeSelector": {"karpenter.sh/nodepool": pool},
            "containers": [{"name": "main", "image": "none", "resources": resources}],
        });
        let template = json!({"metadata": {"labels": labels}, "spec": spec});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
        });
        apply(self.cluster(), &[deployment]).await;
    }

    /// So many of them.
    pub(crate) async fn scale(&self, replicas: usize) {
        let replicas = format!("--replicas={replicas}");
        self.cluster().kubectl(&["scale", "deployment", "web", &replicas]).await.unwrap();
    }

    /// Waits until the NodeClaims are as `are` says.
    pub(crate) async fn all_claims(&self, what: &str, are: impl Fn(&[DynamicObject]) -> bool) -> Vec<DynamicObject> {
        let found = wait::until_all(self.claims(), Selection::all(), MOST, what, are).await;
        found.unwrap_or_else(|error| panic!("{error}\n{}", self.told()))
    }

    /// Waits until a NodeClaim is as `is` says.
    pub(crate) async fn claim(&self, what: &str, is: impl Fn(&DynamicObject) -> bool) -> DynamicObject {
        let found = wait::until_all(self.claims(), Selection::all(), MOST, what, |all| all.iter().any(&is)).await;
        found.unwrap_or_else(|error| panic!("{error}\n{}", self.told())).into_iter().find(&is).unwrap()
    }

    /// What the agents of all machines have logged.
    pub(crate) fn told(&self) -> String {
        let of = |node: &muster_tests::instances::Node| {
            let journal = node.machine.journal().lines();
            let lines: Vec<String> = journal.into_iter().filter(|line| line.contains("muster-agent")).collect();
            format!("--- {}\n{}\n", node.served.instance.instance_id, lines.join("\n"))
        };
        self.bridge.nodes().iter().map(of).collect()
    }

    /// Waits for an event of this reason about an object of this kind; its message.
    pub(crate) async fn event(&self, kind: &str, reason: &str) -> String {
        self.event_that(kind, reason, "").await
    }

    /// The same, of one whose message has this text.
    pub(crate) async fn event_that(&self, kind: &str, reason: &str, says: &str) -> String {
        let events: Api<Event> = Api::all(self.cluster().client());
        let is = |event: &Event| {
            event.reason.as_deref() == Some(reason)
                && event.involved_object.kind.as_deref() == Some(kind)
                && event.message.as_ref().is_some_and(|message| message.contains(says))
        };
        let what = format!("there is an event {reason} about a {kind}");
        let found = wait::until_all(events, Selection::all(), MOST, &what, |all| all.iter().any(is)).await.unwrap();
        found.into_iter().find(is).unwrap().message.unwrap_or_default()
    }

    /// Deletes all that the test made, and waits until it is gone.
    pub(crate) async fn clear(self) {
        self.cluster().kubectl(&["delete", "deployment", "--all", "-n", "default"]).await.unwrap();
        self.claims().delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
        wait::until_all(self.claims(), Selection::all(), MOST, "no NodeClaim is left", <[_]>::is_empty).await.unwrap();
        self.cluster().kubectl(&["delete", "nodepool,ec2nodeclass", "--all", "--wait=false"]).await.unwrap();
        let classes = of_kind(self.cluster(), "karpenter.k8s.aws", "EC2NodeClass");
        wait::until_all(classes, Selection::all(), MOST, "no class is left", <[_]>::is_empty).await.unwrap();
        self.bridge.end().await.unwrap();
    }
}

/// An image with the agent, and what a test alters.
struct Baked<A> {
    program: PathBuf,
    alter: A,
}

impl<A: Alter> Alter for Baked<A> {
    fn instance(&self, of: &emulated::Instance, instance: &mut Instance) {
        self.alter.instance(of, instance);
    }

    fn machine(&self, of: &emulated::Instance, spec: &mut Spec) {
        bake(&self.program, spec);
        self.alter.machine(of, spec);
    }
}

/// The agent as `images/README.md` says that it gets into an image.
fn bake(program: &Path, spec: &mut Spec) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (units, own) = (root.join("images/systemd"), root.join("tests/images/agent"));
    let mut put = |from: PathBuf, at: &str| spec.files.push((from, PathBuf::from(at)));
    put(program.to_owned(), "/usr/bin/muster-agent");
    for unit in ["muster-agent.service", "kubelet.service.d/10-muster-agent.conf"] {
        put(units.join(unit), &format!("/etc/systemd/system/{unit}"));
    }
    for drop_in in ["multi-user.target.d/10-muster-agent.conf", "muster-agent.service.d/10-shape.conf"] {
        let path = format!("etc/systemd/system/{drop_in}");
        put(own.join(&path), &format!("/{path}"));
    }
}

/// The one that cargo builds, one folder above the tests.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let found = own.ancestors().skip(1).take(2).map(|folder| folder.join("muster-agent")).find(|it| it.is_file());
    found.unwrap_or_else(|| {
        panic!("there is no `muster-agent` beside the tests\n\nhint: run `cargo build --workspace --bin muster-agent`")
    })
}

/// The role of nodes and the cluster, as an operator has made them. The subnets of the cluster.
async fn know_cluster(config: &SdkConfig) -> Vec<String> {
    let iam = aws_sdk_iam::Client::new(config);
    iam.create_role().role_name(ROLE).assume_role_policy_document("{}").send().await.unwrap();
    iam.create_instance_profile().instance_profile_name(ROLE).send().await.unwrap();
    iam.add_role_to_instance_profile().instance_profile_name(ROLE).role_name(ROLE).send().await.unwrap();
    let found = aws_sdk_ec2::Client::new(config).describe_subnets().send().await.unwrap();
    let subnets: Vec<String> = found.subnets().iter().map(|it| it.subnet_id().unwrap().to_owned()).collect();
    let vpc = aws_sdk_eks::types::VpcConfigRequest::builder().set_subnet_ids(Some(subnets.clone()));
    let network = aws_sdk_eks::types::KubernetesNetworkConfigRequest::builder().service_ipv4_cidr("10.96.0.0/16");
    let create = aws_sdk_eks::Client::new(config).create_cluster().name(CLUSTER).version("1.35");
    let create = create.role_arn("arn:aws:iam::123456789012:role/eks").resources_vpc_config(vpc.build());
    create.kubernetes_network_config(network.build()).send().await.unwrap();
    subnets
}

fn of_kind(cluster: &Cluster, group: &str, kind: &str) -> Api<DynamicObject> {
    Api::all_with(cluster.client(), &ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind)))
}

async fn define(cluster: &Cluster) {
    let definitions = concat!(env!("CARGO_MANIFEST_DIR"), "/../controller/api/crds");
    cluster.kubectl(&["apply", "--server-side", "-f", definitions]).await.unwrap();
    for name in ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"] {
        let all: Api<CustomResourceDefinition> = Api::all(cluster.client());
        let established = wait::until(all, name, MOST, "it is established", |definition| {
            let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
            conditions.into_iter().flatten().any(|it| it.type_ == "Established" && it.status == "True")
        });
        established.await.unwrap();
    }
}

pub(crate) async fn apply(cluster: &Cluster, objects: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    std::fs::write(file.path(), list.to_string()).unwrap();
    cluster.kubectl(&["apply", "-f", file.path().to_str().unwrap()]).await.unwrap();
}

fn class(name: &str, subnets: &[String]) -> Value {
    let subnets: Vec<Value> = subnets.iter().map(|id| json!({ "id": id })).collect();
    let spec = json!({
        "subnetSelectorTerms": subnets,
        "securityGroupSelectorTerms": [{ "name": "default" }],
        "amiSelectorTerms": [{ "alias": "al2023@latest" }],
        "instanceProfile": ROLE,
        "blockDeviceMappings":
            [{ "deviceName": "/dev/xvda", "ebs": { "volumeSize": "20Gi", "deleteOnTermination": true } }],
    });
    json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name}, "spec": spec})
}

fn pool(name: &str, class: &str, instance_type: &str) -> Value {
    let one = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let spec = json!({
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class},
        "requirements": [
            one("node.kubernetes.io/instance-type", &[instance_type]),
            one("topology.kubernetes.io/zone", &["us-east-1a", "us-east-1b"]),
            one("karpenter.sh/capacity-type", &["spot"]),
        ],
    });
    let template = json!({"metadata": {"annotations": {"muster.dev/agent": "expected"}}, "spec": spec});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"template": template, "disruption": {"consolidateAfter": "Never"}},
    })
}

/// Free a moment ago: nobody else of this process asks for one that the kernel does not choose.
fn free_port() -> u16 {
    TcpListener::bind(("::", 0)).unwrap().local_addr().unwrap().port()
}

/// `muster run` in this process, by the same way as the program goes.
async fn controller(site: &Site, cluster: &Cluster, ec2: &Ec2, ports: &Ports, lease: Option<String>) -> JoinSet<()> {
    let aws = Connection::new(&ec2.sdk_config("controller")).unwrap();
    let of_ec2 = ec2::Options {
        endpoint: Some(cluster.inside().unwrap().to_owned()),
        certificate_authority: Some(STANDARD.encode(cluster.authority().unwrap())),
        ..ec2::Options::of(CLUSTER)
    };
    let provider = Provider::connect_through(aws, cluster.client(), of_ec2.clone(), None).await.unwrap();
    let pinned = std::fs::read_to_string(site.metadata().authority().certificate()).unwrap();
    let options = Options {
        lease,
        metrics_port: ports.metrics,
        window: Lengths { idle: Duration::from_millis(100), max: Duration::from_secs(1) },
        agents: Some(agents::Options {
            port: Port::Bound(Arc::clone(&ports.agents)),
            health_port: Port::Bound(Arc::clone(&ports.health)),
            address: AGENTS.to_string().parse().unwrap(),
            // The world's authority stands for AWS.
            certificates: Certificates::read(&format!("# {REGION}\n{pinned}")).unwrap(),
            documents: muster_controller::cli::DOCUMENTS,
            // In seconds what takes hours.
            rotation: Rotation {
                look: SignedDuration::from_secs(1),
                introduction: SignedDuration::from_secs(5),
                outlived: SignedDuration::from_secs(10),
                launch_outlived: SignedDuration::from_secs(10),
                ..Rotation::default()
            },
        }),
        ..Options::of(CloudOptions::Aws(Box::new(of_ec2)))
    };
    let client = cluster.client();
    let mut task = JoinSet::new();
    let never = std::future::pending();
    task.spawn(async move { run_in(client, provider, options, Observers::default(), never).await.unwrap() });
    task
}

/// A condition of an object.
pub(crate) fn condition<'o>(object: &'o DynamicObject, kind: &str) -> Option<&'o Value> {
    object.data["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

/// Whether an object has the condition with that status.
pub(crate) fn has(object: &DynamicObject, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|one| one["status"] == status)
}

/// The instance of a claim.
pub(crate) fn instance_of(claim: &DynamicObject) -> String {
    let id =
        claim.data["status"]["providerID"].as_str().unwrap_or_else(|| panic!("{} is not launched", claim.name_any()));
    id.rsplit('/').next().unwrap().to_owned()
}
