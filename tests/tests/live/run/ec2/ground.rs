//! What the tests stand on: a cluster with the definitions, an EC2 that knows it, a class, a pool, and the controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use muster_aws::live::SdkConfig;
use muster_controller::edge::FIELD_MANAGER;
use muster_tests::cluster::Cluster;
use muster_tests::ec2::{Call, Ec2, Record};
use muster_tests::wait::{self, Selection};
use muster_tests::world::{PlaneLease, Shared, World};
use serde_json::{Value, json};

use super::machines::Machines;
use crate::run::ground::define;

/// Longest wait for a condition on a machine that builds on all cores.
pub(crate) const SOON: Duration = Duration::from_secs(120);
/// The name that the controller's calls are recorded under.
pub(crate) const CONTROLLER: &str = "controller";
/// The EKS cluster.
pub(crate) const CLUSTER: &str = "shop";

/// A cluster and an EC2. Machines and controllers end before another test gets the cluster.
pub(crate) struct Ground {
    pub(crate) ec2: Arc<Ec2>,
    pub(crate) machines: Machines,
    /// Ours, which no fault meets.
    pub(crate) client: aws_sdk_ec2::Client,
    /// By zone.
    pub(crate) subnets: BTreeMap<String, String>,
    /// By zone.
    pub(crate) zone_ids: BTreeMap<String, String>,
    pub(crate) world: World,
    pub(crate) lease: PlaneLease,
}

impl Ground {
    /// With the class `default` of AL2023 on every subnet, and the pool `general` of m5.large on demand, which takes one pod of `deploy`.
    pub(crate) async fn new(name: &str) -> Self {
        let ground = Self::bare(name).await;
        ground.furnish().await;
        ground
    }

    pub(crate) async fn furnish(&self) {
        self.apply(&[self.class(json!({})), pool(&json!({}))]).await;
    }

    /// Without class and pool.
    pub(crate) async fn bare(name: &str) -> Self {
        Self::on(name, PlaneLease::take(define).await.unwrap()).await
    }

    /// Creates a ground without class and pool on this control plane.
    pub(crate) async fn on(name: &str, lease: PlaneLease) -> Self {
        let world = World::open(name).unwrap();
        let ec2 = Arc::new(Shared::ec2().await.unwrap_or_else(|error| panic!("{error}")));
        let config = ec2.sdk_config("operator");
        let client = aws_sdk_ec2::Client::new(&config);
        let found = client.describe_subnets().send().await.unwrap();
        let of = |subnet: &aws_sdk_ec2::types::Subnet| {
            (subnet.availability_zone().unwrap().to_owned(), subnet.subnet_id().unwrap().to_owned())
        };
        let subnets: BTreeMap<String, String> = found.subnets().iter().map(of).collect();
        let zone = |subnet: &aws_sdk_ec2::types::Subnet| {
            (subnet.availability_zone().unwrap().to_owned(), subnet.availability_zone_id().unwrap().to_owned())
        };
        let zone_ids = found.subnets().iter().map(zone).collect();
        know_cluster(&config, &subnets).await;
        let machines = Machines::start(&ec2, lease.cluster().client());
        Self { ec2, machines, client, subnets, zone_ids, world, lease }
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.lease.cluster()
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

    pub(crate) fn pools(&self) -> Api<DynamicObject> {
        self.of_kind("karpenter.sh", "NodePool")
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
        let events: Api<Event> = Api::all(self.kube());
        let is = |event: &Event| {
            event.reason.as_deref() == Some(reason)
                && event.involved_object.kind.as_deref() == Some(kind)
                && event.reporting_component.as_deref() == Some(FIELD_MANAGER)
                && event.message.as_deref().unwrap_or_default().contains(part)
        };
        let what = format!("there is an event {reason} about a {kind} that says `{part}`");
        let found = wait::until_all(events, Selection::all(), SOON, &what, |all| all.iter().any(is)).await;
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

    /// Has every claim launched so many minutes ago, as its status says.
    pub(crate) async fn launched_ago(&self, minutes: i64) {
        let ago = Timestamp::now() - SignedDuration::from_mins(minutes);
        for claim in self.claims().list(&ListParams::default()).await.unwrap().items {
            let mut status = claim.data["status"].clone();
            for one in status["conditions"].as_array_mut().unwrap() {
                if one["type"] == "Launched" {
                    one["lastTransitionTime"] = json!(ago.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
                }
            }
            let patch = Patch::Merge(json!({"status": {"conditions": status["conditions"]}}));
            self.claims().patch_status(&claim.name_any(), &PatchParams::default(), &patch).await.unwrap();
        }
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
        let is = |one: &DynamicObject| condition(one, "Ready").is_some_and(|found| found["status"] == "True");
        wait::until(self.pools(), "general", SOON, "the pool is ready", is).await.unwrap();
    }

    /// Deletes pods, claims, pool and class, and waits until nothing is left of them, here and in EC2.
    pub(crate) async fn clear(&self) {
        self.cluster().kubectl(&["delete", "deployment", "web", "--ignore-not-found"]).await.unwrap();
        // Or those that have to leave their nodes get new ones.
        let pods = Selection::labelled("app=web");
        wait::until_all(self.pods(), pods, SOON, "no pod is left", <[_]>::is_empty).await.unwrap();
        let left = wait::until_some("no NodeClaim is left", SOON, || async {
            // Again and again: the controller may hear that a node goes before it hears that its pods are gone, and makes a
            // claim for them.
            self.claims().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
            Ok(self.claims().list(&ListParams::default()).await?.items.is_empty().then_some(()))
        });
        left.await.unwrap();
        wait::until_all(self.nodes(), Selection::all(), SOON, "no Node is left", <[_]>::is_empty).await.unwrap();
        self.cluster().kubectl(&["delete", "nodepool,ec2nodeclass", "--all", "--wait=false"]).await.unwrap();
        wait::until_all(self.classes(), Selection::all(), SOON, "no class is left", <[_]>::is_empty).await.unwrap();
        self.nothing_is_left_in_ec2().await;
    }

    pub(crate) async fn nothing_is_left_in_ec2(&self) {
        assert_eq!(self.ec2.running(), [], "instances");
        let templates = self.client.describe_launch_templates().send().await.unwrap();
        assert_eq!(templates.launch_templates(), [], "launch templates");
        let iam = aws_sdk_iam::Client::new(&self.ec2.sdk_config("operator"));
        let profiles = iam.list_instance_profiles().send().await.unwrap();
        assert_eq!(profiles.instance_profiles(), [], "instance profiles");
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
    let created = create.resources_vpc_config(vpc.build()).kubernetes_network_config(network.build()).send().await;
    // An answer that comes too late is asked for again, and then the cluster of the first request is there.
    if let Err(error) = created {
        assert!(error.as_service_error().is_some_and(|it| it.is_resource_in_use_exception()), "{error:?}");
    }
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

/// The ID of the instance that a claim has launched.
pub(crate) fn instance_of(claim: &DynamicObject) -> String {
    claim.data["status"]["providerID"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()
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

/// Number of launches that the controller has asked for, those that it repeated once. A class is tried out by a call
/// that is refused.
pub(crate) fn launches(ground: &Ground) -> usize {
    let mut tokens = BTreeSet::new();
    let fleets = ground.ec2.calls().by(CONTROLLER).of("CreateFleet");
    let is_new = |call: &Call| call.error.is_none() && tokens.insert(call.parameter("ClientToken").map(str::to_owned));
    fleets.only(is_new).len()
}

/// Only calls that change something.
pub(crate) fn writes(calls: Record) -> Record {
    calls.only(|call| !reads(&call.action))
}

/// Whether an action of AWS, as `DescribeInstances`, changes nothing.
pub(crate) fn reads(action: &str) -> bool {
    ["Describe", "Get", "List"].iter().any(|verb| action.starts_with(verb))
}
