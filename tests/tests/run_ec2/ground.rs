//! What the tests stand on: a cluster with the definitions, an EC2 that knows it, a class, a pool, and the controller.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_credential_types::Credentials as Keys;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_ec2::config::{BehaviorVersion, Region};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use muster_aws::live::{Connection, SdkConfig, Witness};
use muster_controller::ec2::{self, Ec2 as Provider};
use muster_controller::edge::FIELD_MANAGER;
use muster_controller::provision::Lengths;
use muster_controller::run::{CloudOptions, Options, run_in};
use muster_tests::cluster::{Cluster, ControlPlane, Kwok, Options as Plane};
use muster_tests::ec2::{Credentials, Ec2, Moto, REGION};
use muster_tests::wait::{self, Selection};
use muster_tests::world::{Shared, World};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::machines::Machines;

/// How long anything may take on a machine that builds on all cores.
pub(crate) const SOON: Duration = Duration::from_secs(120);
/// The name that the controller's calls are recorded under.
pub(crate) const CONTROLLER: &str = "controller";
/// The EKS cluster.
pub(crate) const CLUSTER: &str = "shop";

fn moto() -> Arc<Moto> {
    static MOTO: OnceLock<Arc<Moto>> = OnceLock::new();
    Arc::clone(MOTO.get_or_init(|| Arc::new(Shared::moto().unwrap_or_else(|error| panic!("{error}")))))
}

/// A cluster and an EC2. They end with the value; the servers before their world.
pub(crate) struct Ground {
    pub(crate) plane: ControlPlane,
    pub(crate) ec2: Arc<Ec2>,
    pub(crate) machines: Machines,
    /// Ours, which no fault meets.
    pub(crate) client: aws_sdk_ec2::Client,
    /// By zone.
    pub(crate) subnets: BTreeMap<String, String>,
    _kwok: Kwok,
    pub(crate) world: World,
}

/// A controller in this process. It is killed with the value.
pub(crate) struct Controller {
    metrics: u16,
    _task: JoinSet<()>,
}

/// No TLS: what is configured so cannot reach AWS by mistake.
pub(crate) fn config(ec2: &Ec2, who: &Credentials) -> SdkConfig {
    let Credentials { access_key_id, secret_access_key, session_token, .. } = who;
    let keys = Keys::new(access_key_id, secret_access_key, session_token.clone(), None, "muster-tests");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(REGION))
        .endpoint_url(ec2.endpoint())
        .credentials_provider(SharedCredentialsProvider::new(keys))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build()
}

impl Ground {
    /// With the class `default` of AL2023 on every subnet, and the pool `general` of m5.large on demand, which takes one pod of `deploy`.
    pub(crate) async fn new(name: &str) -> Self {
        let ground = Self::bare(name).await;
        ground.apply(&[ground.class(json!({})), pool(&json!({}))]).await;
        ground
    }

    /// Without class and pool.
    pub(crate) async fn bare(name: &str) -> Self {
        let world = World::open(name).unwrap();
        let plane = world.control_plane(&Plane::named("run")).await.unwrap();
        let kwok = Kwok::start(world.spawner(), plane.cluster()).unwrap();
        let ec2 = Arc::new(Ec2::start(&moto()).await.unwrap_or_else(|error| panic!("{error}")));
        let config = config(&ec2, &ec2.credentials("operator"));
        let client = aws_sdk_ec2::Client::new(&config);
        let found = client.describe_subnets().send().await.unwrap();
        let of = |subnet: &aws_sdk_ec2::types::Subnet| {
            (subnet.availability_zone().unwrap().to_owned(), subnet.subnet_id().unwrap().to_owned())
        };
        let subnets: BTreeMap<String, String> = found.subnets().iter().map(of).collect();
        know_cluster(&config, &subnets).await;
        let machines = Machines::start(&ec2, plane.cluster().client());
        let ground = Self { plane, ec2, machines, client, subnets, _kwok: kwok, world };
        ground.define().await;
        ground
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.plane.cluster()
    }

    pub(crate) fn kube(&self) -> Client {
        self.cluster().client()
    }

    pub(crate) fn claims(&self) -> Api<DynamicObject> {
        self.of_kind("karpenter.sh", "NodeClaim")
    }

    pub(crate) fn classes(&self) -> Api<DynamicObject> {
        self.of_kind("karpenter.k8s.aws", "EC2NodeClass")
    }

    fn of_kind(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        Api::all_with(self.kube(), &ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind)))
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.kube())
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.kube(), "default")
    }

    async fn define(&self) {
        let definitions = concat!(env!("CARGO_MANIFEST_DIR"), "/../controller/api/crds");
        self.cluster().kubectl(&["apply", "--server-side", "-f", definitions]).await.unwrap();
        for name in ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"] {
            let all: Api<CustomResourceDefinition> = Api::all(self.kube());
            let established = wait::until(all, name, SOON, "it is established", |definition| {
                let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
                conditions.into_iter().flatten().any(|it| it.type_ == "Established" && it.status == "True")
            });
            established.await.unwrap();
        }
    }

    pub(crate) async fn apply(&self, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
        std::fs::write(file.path(), list.to_string()).unwrap();
        self.cluster().kubectl(&["apply", "-f", file.path().to_str().unwrap()]).await.unwrap();
    }

    /// The class `default`: these fields over those that every test has.
    pub(crate) fn class(&self, fields: Value) -> Value {
        let subnets: Vec<Value> = self.subnets.values().map(|id| json!({ "id": id })).collect();
        let mut spec = json!({
            "subnetSelectorTerms": subnets,
            "securityGroupSelectorTerms": [{ "name": "default" }],
            "amiSelectorTerms": [{ "alias": "al2023@latest" }],
            "role": "nodes",
        });
        for (field, value) in fields.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let metadata = json!({ "name": "default" });
        json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": metadata, "spec": spec})
    }

    /// A Deployment `web` of pods that ask for a little less than an m5.large has, with these fields over their spec.
    pub(crate) async fn deploy(&self, replicas: usize, fields: Value) {
        let labels = json!({"app": "web"});
        let requests = json!({"cpu": "1500m", "memory": "3Gi"});
        let mut spec = json!({"containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}]});
        for (field, value) in fields.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let template = json!({"metadata": {"labels": labels}, "spec": spec});
        self.apply(&[json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
        })])
        .await;
    }

    /// Waits until so many pods run.
    pub(crate) async fn running(&self, count: usize, most: Duration) -> Vec<Pod> {
        let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        let all = Selection::labelled("app=web");
        let what = format!("{count} pods run");
        let found = wait::until_all(self.pods(), all, most, &what, |pods| pods.len() == count && pods.iter().all(runs));
        found.await.unwrap_or_else(|error| panic!("{error}\n{}", self.ec2.calls().by(CONTROLLER).lines()))
    }

    /// Waits for an event of ours of this reason about an object of this kind, whose message has `part`; the message.
    pub(crate) async fn event(&self, kind: &str, reason: &str, part: &str) -> String {
        self.event_within(SOON, kind, reason, part).await
    }

    /// As [`Self::event`], for what takes its time.
    pub(crate) async fn event_within(&self, most: Duration, kind: &str, reason: &str, part: &str) -> String {
        let events: Api<Event> = Api::all(self.kube());
        let is = |event: &Event| {
            event.reason.as_deref() == Some(reason)
                && event.involved_object.kind.as_deref() == Some(kind)
                && event.reporting_component.as_deref() == Some(FIELD_MANAGER)
                && event.message.as_deref().unwrap_or_default().contains(part)
        };
        let what = format!("there is an event {reason} about a {kind} that says `{part}`");
        let found = wait::until_all(events, Selection::all(), most, &what, |all| all.iter().any(is)).await;
        let found = found.unwrap_or_else(|error| panic!("{error}\n{}", self.ec2.calls().by(CONTROLLER).lines()));
        found.into_iter().find(is).unwrap().message.unwrap_or_default()
    }

    /// Waits until some NodeClaim has the condition with that status and reason; the message.
    pub(crate) async fn of_claim(&self, kind: &str, status: &str, reason: &str) -> String {
        let what = format!("a NodeClaim has {kind}={status} {reason}");
        let is = |one: &DynamicObject| {
            condition(one, kind).is_some_and(|found| found["status"] == status && found["reason"] == reason)
        };
        let found = wait::until_all(self.claims(), Selection::all(), SOON, &what, |all| all.iter().any(is)).await;
        let found = found.unwrap_or_else(|error| panic!("{error}\n{}", self.ec2.calls().by(CONTROLLER).lines()));
        text(condition(found.iter().find(|one| is(one)).unwrap(), kind).unwrap(), "message")
    }

    /// Waits until the class has the condition with that status and reason; the message.
    pub(crate) async fn of_class(&self, kind: &str, status: &str, reason: &str) -> String {
        let what = format!("the class has {kind}={status} {reason}");
        let found = wait::until(self.classes(), "default", SOON, &what, |one: &DynamicObject| {
            condition(one, kind).is_some_and(|found| found["status"] == status && found["reason"] == reason)
        });
        text(condition(&found.await.unwrap(), kind).unwrap(), "message")
    }

    /// Waits until the pool may launch.
    pub(crate) async fn pool_is_ready(&self) {
        let pools = self.of_kind("karpenter.sh", "NodePool");
        let is = |one: &DynamicObject| condition(one, "Ready").is_some_and(|found| found["status"] == "True");
        wait::until(pools, "general", SOON, "the pool is ready", is).await.unwrap();
    }

    /// Deletes pods, claims, pool and class, and waits until nothing is left of them, here and in EC2.
    pub(crate) async fn clear(&self) {
        self.cluster().kubectl(&["delete", "deployment", "web", "--ignore-not-found"]).await.unwrap();
        self.claims().delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
        wait::until_all(self.claims(), Selection::all(), SOON, "no NodeClaim is left", <[_]>::is_empty).await.unwrap();
        wait::until_all(self.nodes(), Selection::all(), SOON, "no Node is left", <[_]>::is_empty).await.unwrap();
        self.cluster().kubectl(&["delete", "nodepool,ec2nodeclass", "--all", "--wait=false"]).await.unwrap();
        wait::until_all(self.classes(), Selection::all(), SOON, "no class is left", <[_]>::is_empty).await.unwrap();
        self.nothing_is_left_in_ec2().await;
    }

    pub(crate) async fn nothing_is_left_in_ec2(&self) {
        assert_eq!(self.ec2.running(), [], "instances");
        let templates = self.client.describe_launch_templates().send().await.unwrap();
        assert_eq!(templates.launch_templates(), [], "launch templates");
        let iam = aws_sdk_iam::Client::new(&config(&self.ec2, &self.ec2.credentials("operator")));
        let profiles = iam.list_instance_profiles().send().await.unwrap();
        assert_eq!(profiles.instance_profiles(), [], "instance profiles");
    }

    /// EC2 as the controller sees it.
    pub(crate) async fn provider(&self, options: ec2::Options, witness: Option<Arc<dyn Witness>>) -> Provider {
        let aws = Connection::new(&config(&self.ec2, &self.ec2.credentials(CONTROLLER))).unwrap();
        Provider::connect_through(aws, self.kube(), options, witness).await.unwrap()
    }

    /// Starts the controller.
    pub(crate) async fn controller(&self) -> Controller {
        self.controller_with(ec2::Options::of(CLUSTER)).await
    }

    pub(crate) async fn controller_with(&self, options: ec2::Options) -> Controller {
        let provider = self.provider(options, None).await;
        // Free a moment ago: nobody else of this process asks for one that the kernel does not choose.
        let metrics = TcpListener::bind(("::", 0)).unwrap().local_addr().unwrap().port();
        let mut task = JoinSet::new();
        let client = self.kube();
        task.spawn(async move {
            run_in(client, provider, run_options(metrics), None, std::future::pending()).await.unwrap();
        });
        Controller { metrics, _task: task }
    }
}

/// The controller's own options.
pub(crate) fn run_options(metrics_port: u16) -> Options {
    Options {
        context: None,
        cloud: CloudOptions::Aws(Box::new(ec2::Options::of(CLUSTER))),
        metrics_port,
        health_port: 0,
        pace: (200, 300),
        lease: None,
        namespace: "kube-system".to_owned(),
        window: Lengths { idle: Duration::from_millis(100), max: Duration::from_secs(1) },
        packing: muster_scheduling::model::Options::default(),
        disruption: muster_scheduling::disrupt::Settings::default(),
        tempo: muster_controller::disruption::Tempo::default(),
        snapshot: muster_controller::snapshot::Settings::default(),
        reads_services: false,
        wait_for_unschedulable_mark: false,
        nominates: true,
        caps: muster_controller::lifecycle::caps::Caps::default(),
        agents: None,
    }
}

impl Controller {
    /// Waits until a series of this metric, with all of these labels, has at least that value.
    pub(crate) async fn counted(&self, metric: &str, labels: &[(&str, &str)], least: f64) {
        let url = format!("http://127.0.0.1:{}/metrics", self.metrics);
        let what = format!("{metric}{labels:?} is at least {least}");
        let found = wait::until_some(&what, SOON, || {
            let url = url.clone();
            async move {
                let text = tokio::task::spawn_blocking(move || ureq::get(&url).call()?.body_mut().read_to_string());
                let text = text.await.unwrap().unwrap_or_default();
                let is = |line: &&str| {
                    line.starts_with(metric)
                        && labels.iter().all(|(key, value)| line.contains(&format!("{key}=\"{value}\"")))
                };
                let value = |line: &str| line.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok());
                let sum: f64 = text.lines().filter(is).filter_map(value).sum();
                Ok((sum >= least).then_some(()))
            }
        });
        found.await.unwrap();
    }
}

/// The role of nodes, and the cluster, as an operator has made them.
async fn know_cluster(config: &SdkConfig, subnets: &BTreeMap<String, String>) {
    let iam = aws_sdk_iam::Client::new(config);
    iam.create_role().role_name("nodes").assume_role_policy_document("{}").send().await.unwrap();
    let eks = aws_sdk_eks::Client::new(config);
    let vpc = aws_sdk_eks::types::VpcConfigRequest::builder().set_subnet_ids(Some(subnets.values().cloned().collect()));
    let network = aws_sdk_eks::types::KubernetesNetworkConfigRequest::builder().service_ipv4_cidr("10.100.0.0/16");
    let create = eks.create_cluster().name(CLUSTER).version("1.35").role_arn("arn:aws:iam::123456789012:role/eks");
    create.resources_vpc_config(vpc.build()).kubernetes_network_config(network.build()).send().await.unwrap();
}

/// The pool `general`: these fields over the spec of its template.
pub(crate) fn pool(fields: &Value) -> Value {
    let mut spec = json!({
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": requirements(&["m5.large"], &["us-east-1a", "us-east-1b"], &["on-demand"]),
    });
    for (field, value) in fields.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"},
        // What is launched stays: who takes it away is the test.
        "spec": {"template": {"spec": spec}, "disruption": {"consolidateAfter": "Never"}},
    })
}

/// Of these types, zones and capacity types.
pub(crate) fn requirements(types: &[&str], zones: &[&str], paid: &[&str]) -> Value {
    let one = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    json!([
        one("node.kubernetes.io/instance-type", types),
        one("topology.kubernetes.io/zone", zones),
        one("karpenter.sh/capacity-type", paid),
    ])
}

/// A condition of an object.
pub(crate) fn condition<'o>(object: &'o DynamicObject, kind: &str) -> Option<&'o Value> {
    object.data["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

/// A field of an object that is a text.
pub(crate) fn text(object: &Value, field: &str) -> String {
    object[field].as_str().unwrap_or_default().to_owned()
}

/// Every instance has its claim, and every claim its one instance.
pub(crate) fn paired(claims: &[DynamicObject], ec2: &Ec2) {
    let instances = ec2.running();
    assert_eq!(claims.len(), instances.len(), "{}", ec2.calls().by(CONTROLLER).lines());
    for claim in claims {
        let id = claim.data["status"]["providerID"].as_str().unwrap_or_default();
        let own = instances.iter().filter(|one| id.ends_with(&one.id));
        assert_eq!(own.count(), 1, "{}: {id}", claim.name_any());
    }
}

/// The one that cargo builds, one folder above the tests.
pub(crate) fn muster() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let found = own.ancestors().skip(1).take(2).map(|folder| folder.join("muster")).find(|it| it.is_file());
    found.unwrap_or_else(|| {
        panic!("there is no `muster` beside the tests\n\nhint: run `cargo test --workspace`, which builds it with EC2")
    })
}
