//! What the tests stand on: an API server, an EC2, machines that have been launched, and the controller as a program.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use muster_link::Pins;
use muster_proto::health::HealthListRequest;
use muster_proto::health::health_check_response::ServingStatus;
use muster_proto::health::health_client::HealthClient;
use muster_tests::agents::{Agents, Claims, Evidence, Machine, Place, create, evidence, machines};
use muster_tests::cluster::{ControlPlane, Options as Plane};
use muster_tests::ec2::{Ec2, REGION};
use muster_tests::imds::Authority;
use muster_tests::replica::Replica;
use muster_tests::wait;
use muster_tests::world::{Shared, World};
use serde_json::{Value, json};
use tonic::transport::Endpoint;

/// How long a part of the ground may take on a machine that builds on all cores.
const SOON: Duration = Duration::from_secs(120);
/// The EKS cluster.
const CLUSTER: &str = "shop";
/// Verbs that change objects.
const WRITES: [&str; 6] = ["POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"];
/// Objects that the controller writes because of a node.
const RESOURCES: [&str; 7] = ["nodeclaims", "nodes", "pods", "events", "configmaps", "secrets", "nodepools"];
/// The role of its nodes.
const ROLE: &str = "nodes";

/// The ground of one test. The servers end before their world.
pub(crate) struct Ground {
    pub(crate) machines: Vec<Arc<Machine>>,
    pub(crate) claims: Claims,
    plane: ControlPlane,
    ec2: Arc<Ec2>,
    authority: Authority,
    /// Of agents, and of health.
    ports: [u16; 2],
    world: World,
}

impl Ground {
    /// With so many machines, of the pool `general`.
    pub(crate) async fn new(name: &str, count: u32) -> Self {
        let world = World::open(name).unwrap();
        // Nobody but Muster and the test changes anything.
        let bare = Plane { has_controllers: false, ..Plane::named("agents") };
        let plane = world.control_plane(&bare).await.unwrap();
        let ec2 = Arc::new(Shared::ec2().await.unwrap_or_else(|error| panic!("{error}")));
        let authority = Authority::create(world.folder().join("identity")).unwrap();
        let claims = Claims::follow(&plane.cluster().client());
        let ports = [world.free_port().unwrap(), world.free_port().unwrap()];
        let mut ground = Self { machines: Vec::new(), claims, plane, ec2, authority, ports, world };
        ground.define().await;
        let subnets = ground.know_cluster().await;
        ground.apply(&[class(&subnets), pool()]).await;
        // A controller of before, which has looked the class up and made the keys.
        let before = ground.controller("before").await;
        let image = ground.image().await;
        drop(before);
        ground.machines = machines(count, &image);
        let place = Place {
            cluster: CLUSTER.to_owned(),
            pool: "general".to_owned(),
            class: "default".to_owned(),
            pins: Pins::of_pem(&ground.believed().await).unwrap().to_string(),
        };
        create(&ground.client(), &ground.ec2, &place, &ground.machines).await.unwrap();
        ground
    }

    pub(crate) fn client(&self) -> Client {
        self.plane.cluster().client()
    }

    /// Starts the controller, and waits until it serves agents.
    pub(crate) async fn controller(&self, name: &str) -> Replica {
        let replica = self.start(name);
        let url = format!("http://{}", self.health());
        let found = wait::until_some("agents are served", SOON, || async {
            let Ok(channel) = Endpoint::from_shared(url.clone()).unwrap().connect().await else { return Ok(None) };
            let all = HealthClient::new(channel).list(HealthListRequest {}).await;
            let status = all.ok().and_then(|all| Some(all.get_ref().statuses.get("muster.v1.NodeReports")?.status));
            Ok((status == Some(ServingStatus::Serving.into())).then_some(()))
        });
        found.await.unwrap_or_else(|error| panic!("{error}\n{}", replica.said()));
        replica
    }

    /// Starts the controller.
    pub(crate) fn start(&self, name: &str) -> Replica {
        let pinned = self.world.folder().join("identity.pem");
        let certificate = std::fs::read_to_string(self.authority.certificate()).unwrap();
        std::fs::write(&pinned, format!("# {REGION}\n{certificate}")).unwrap();
        let [agents, health] = self.ports;
        let program = Replica::program(name, self.plane.cluster().kubeconfig()).unwrap();
        let program = program
            .flag("agent-port", agents.to_string())
            .flag("agent-address", self.address())
            .flag("agent-health-port", health.to_string())
            .flag("agent-identity-certificates", pinned)
            .env("CLUSTER_NAME", CLUSTER)
            .env("AWS_ENDPOINT_URL", self.ec2.endpoint());
        let variables = self.ec2.credentials("controller").environment();
        let program = variables.into_iter().fold(program, |program, (name, value)| program.env(name, value));
        Replica::start(self.world.spawner(), &program).unwrap()
    }

    /// Where health is asked.
    pub(crate) fn health(&self) -> String {
        format!("127.0.0.1:{}", self.ports[1])
    }

    /// Where agents are served.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports[0])
    }

    /// What proves of each machine which instance it is.
    pub(crate) fn evidence(&self) -> Vec<Evidence> {
        evidence(&self.machines, &self.ec2, &self.authority, ROLE).unwrap()
    }

    /// Number of writes to the API server since it was started, of objects that a node has anything to do with: those of
    /// all clients, the refused ones too.
    pub(crate) async fn writes(&self) -> u64 {
        let text = self.plane.cluster().kubectl(&["get", "--raw", "/metrics"]).await.unwrap();
        let label = |line: &str, name: &str| {
            let (_, rest) = line.split_once(&format!("{name}=\""))?;
            Some(rest.split_once('"')?.0.to_owned())
        };
        let is_write = |line: &&str| {
            let (verb, resource) = (label(line, "verb"), label(line, ",resource"));
            verb.is_some_and(|verb| WRITES.contains(&&*verb)) && resource.is_some_and(|it| RESOURCES.contains(&&*it))
        };
        let lines = text.lines().filter(|line| line.starts_with("apiserver_request_total{")).filter(is_write);
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
    }

    /// The agents of all machines, to be started.
    pub(crate) async fn agents(&self) -> Agents {
        let evidence = self.evidence();
        let all = self.machines.iter().cloned().zip(evidence).collect();
        let authority = self.believed().await;
        Agents::new(all, &self.world.folder().join("agents"), &self.address(), &authority).unwrap()
    }

    /// The certificates of the authorities that the controller has nodes believe.
    pub(crate) async fn believed(&self) -> String {
        let secrets: Api<Secret> = Api::namespaced(self.client(), "kube-system");
        let kept = secrets.get("muster-agents").await.unwrap().data.unwrap();
        String::from_utf8(kept["ca.crt"].0.clone()).unwrap()
    }

    async fn define(&self) {
        let definitions = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../controller/api/crds");
        let cluster = self.plane.cluster();
        cluster.kubectl(&["apply", "--server-side", "-f", definitions.to_str().unwrap()]).await.unwrap();
        for name in ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"] {
            let all: Api<CustomResourceDefinition> = Api::all(self.client());
            let established = wait::until(all, name, SOON, "it is established", |definition| {
                let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
                conditions.into_iter().flatten().any(|it| it.type_ == "Established" && it.status == "True")
            });
            established.await.unwrap();
        }
    }

    /// The role of nodes and the cluster, as an operator has made them. The cluster's subnets.
    async fn know_cluster(&self) -> Vec<String> {
        let operator = self.ec2.credentials("operator");
        let aws = async |arguments: &[&str]| self.ec2.aws(&operator, arguments).await.unwrap();
        aws(&["iam", "create-role", "--role-name", ROLE, "--assume-role-policy-document", "{}"]).await;
        let found = aws(&["ec2", "describe-subnets"]).await;
        let id = |subnet: &Value| subnet["SubnetId"].as_str().unwrap().to_owned();
        let subnets: Vec<String> = found["Subnets"].as_array().unwrap().iter().map(id).collect();
        let network = format!("subnetIds={}", subnets.join(","));
        let role = "arn:aws:iam::123456789012:role/eks";
        let create = ["eks", "create-cluster", "--name", CLUSTER, "--kubernetes-version", "1.35", "--role-arn", role];
        let with = ["--resources-vpc-config", &network, "--kubernetes-network-config", "serviceIpv4Cidr=10.100.0.0/16"];
        aws(&[create.as_slice(), with.as_slice()].concat()).await;
        subnets
    }

    async fn apply(&self, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
        std::fs::write(file.path(), list.to_string()).unwrap();
        self.plane.cluster().kubectl(&["apply", "-f", file.path().to_str().unwrap()]).await.unwrap();
    }

    /// The image that the class has found for machines like ours.
    async fn image(&self) -> String {
        let kind = GroupVersionKind::gvk("karpenter.k8s.aws", "v1", "EC2NodeClass");
        let classes: Api<DynamicObject> = Api::all_with(self.client(), &ApiResource::from_gvk(&kind));
        let of = |class: &DynamicObject| {
            let is_ours = |image: &&Value| image["requirements"].to_string().contains("\"amd64\"");
            let found = class.data["status"]["amis"].as_array()?.iter().find(is_ours)?;
            Some(found["id"].as_str()?.to_owned())
        };
        let is_ready = |class: &DynamicObject| of(class).is_some() && is_true(class, "Ready");
        of(&wait::until(classes, "default", SOON, "the class is ready", is_ready).await.unwrap()).unwrap()
    }
}

fn is_true(object: &DynamicObject, kind: &str) -> bool {
    let conditions = object.data["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == kind && one["status"] == "True")
}

fn class(subnets: &[String]) -> Value {
    let subnets: Vec<Value> = subnets.iter().map(|id| json!({ "id": id })).collect();
    let spec = json!({
        "subnetSelectorTerms": subnets,
        "securityGroupSelectorTerms": [{ "name": "default" }],
        "amiSelectorTerms": [{ "alias": "al2023@latest" }],
        "role": ROLE,
    });
    json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"}, "spec": spec})
}

fn pool() -> Value {
    let one = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let spec = json!({
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [
            one("node.kubernetes.io/instance-type", &["m5.large"]),
            one("topology.kubernetes.io/zone", &["us-east-1a", "us-east-1b"]),
            one("karpenter.sh/capacity-type", &["on-demand"]),
        ],
        "expireAfter": "Never",
    });
    let template = json!({"metadata": {"annotations": {"muster.dev/agent": "expected"}}, "spec": spec});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"},
        // What is there stays, drifted or not: its instances are none that the emulated EC2 knows.
        "spec": {"template": template, "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}},
    })
}
