//! What the tests stand on: a cluster with the definitions, a class, and a pool; and replicas of `muster`.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use muster_tests::cluster::Cluster;
use muster_tests::replica::Replica;
use muster_tests::wait::{self, Selection};
use muster_tests::world::{PlaneLease, World};
use serde_json::{Value, json};

/// Longest wait for a condition on a machine that builds on all cores.
pub(crate) const SOON: Duration = Duration::from_secs(90);

/// A cluster with KWOK. Replicas end before another test gets it.
pub(crate) struct Ground {
    pub(crate) world: World,
    lease: PlaneLease,
}

impl Ground {
    pub(crate) async fn new(name: &str) -> Self {
        let world = World::open(name).unwrap();
        let lease = PlaneLease::take(define).await.unwrap();
        let ground = Self { world, lease };
        ground.furnish().await;
        ground
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.lease.cluster()
    }

    pub(crate) fn client(&self) -> Client {
        self.cluster().client()
    }

    pub(crate) fn claims(&self) -> Api<DynamicObject> {
        of_karpenter(self.client(), "NodeClaim")
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client())
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client(), "default")
    }

    /// A class, and a pool of on-demand types with fewer than 32 CPUs.
    async fn furnish(&self) {
        let class = json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
        });
        let cpus = json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["32"]});
        let pool = pool(&cpus, &json!({}), &json!({"consolidateAfter": "Never"}));
        self.apply(&[class, pool]).await;
    }

    /// The pool of Karpenter's comparison: what is not of use goes after half a minute, all of it at once if need be.
    pub(crate) async fn compared(&self) {
        self.compared_on(&json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["32"]})).await;
    }

    /// The same, of nodes with so many CPUs.
    pub(crate) async fn compared_on(&self, cpus: &Value) {
        let disruption = json!({"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]});
        self.apply(&[pool(cpus, &json!({}), &disruption)]).await;
    }

    /// The pool, of nodes with 4 CPUs and these labels, and what it says about disruption.
    pub(crate) async fn small_nodes(&self, labels: &Value, disruption: &Value) {
        let cpus = json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]});
        self.apply(&[pool(&cpus, labels, disruption)]).await;
    }

    pub(crate) async fn apply(&self, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
        std::fs::write(file.path(), list.to_string()).unwrap();
        self.cluster().kubectl(&["apply", "-f", file.path().to_str().unwrap()]).await.unwrap();
    }

    /// A Deployment `web`, of whose pods seventeen fit on the cheapest node for many.
    pub(crate) async fn deploy(&self, replicas: usize) {
        self.deploy_of(replicas, &json!({"cpu": "900m", "memory": "3100Mi"})).await;
    }

    /// The same, of pods of which two fit on a node with 4 CPUs.
    pub(crate) async fn deploy_pairs(&self, replicas: usize) {
        self.deploy_of(replicas, &json!({"cpu": "1800m", "memory": "100Mi"})).await;
    }

    /// The same, of pods that ask for so much.
    pub(crate) async fn deploy_of(&self, replicas: usize, requests: &Value) {
        let labels = json!({"app": "web"});
        let containers = json!([{"name": "main", "image": "none", "resources": {"requests": requests}}]);
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
        self.apply(&[json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
        })])
        .await;
    }

    pub(crate) async fn scale(&self, replicas: usize) {
        let deployments: Api<Deployment> = Api::namespaced(self.client(), "default");
        let patch = json!({"spec": {"replicas": replicas}});
        deployments.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Waits until so many pods run.
    pub(crate) async fn running(&self, count: usize, most: Duration) -> Vec<Pod> {
        let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        let all = Selection::labelled("app=web");
        let what = format!("{count} pods run");
        let found = wait::until_all(self.pods(), all, most, &what, |pods| pods.len() == count && pods.iter().all(runs));
        found.await.unwrap()
    }

    /// Waits until no pod is left, deletes every claim, and waits until nothing of them is left. A pod whose node goes before
    /// it does gets another one.
    pub(crate) async fn clear(&self, most: Duration) {
        let gone =
            wait::until_all(self.pods(), Selection::labelled("app=web"), most, "no pod is left", <[_]>::is_empty);
        gone.await.unwrap();
        self.claims().delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
        let gone = wait::until_all(self.claims(), Selection::all(), most, "no NodeClaim is left", <[_]>::is_empty);
        gone.await.unwrap();
        let gone = wait::until_all(self.nodes(), Selection::all(), most, "no Node is left", <[_]>::is_empty);
        gone.await.unwrap();
    }

    /// Starts a replica of `muster`.
    pub(crate) fn replica(&self, name: &str) -> Replica {
        self.replica_as(name, self.cluster().kubeconfig(), &[])
    }

    /// The same as somebody else, with these arguments.
    pub(crate) fn replica_as(&self, name: &str, kubeconfig: &Path, arguments: &[&str]) -> Replica {
        let program = Replica::program(name, kubeconfig).unwrap().args(arguments).flag("cloud", "kwok");
        Replica::start(self.world.spawner(), &program).unwrap()
    }
}

/// Makes the definitions of all kinds, and waits until they are in use.
pub(crate) async fn define(cluster: &Cluster) -> Result<(), muster_tests::Error> {
    let definitions = concat!(env!("CARGO_MANIFEST_DIR"), "/../controller/api/crds");
    cluster.kubectl(&["apply", "--server-side", "-f", definitions]).await?;
    let all: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let is_established = |definition: &CustomResourceDefinition| {
        let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|it| it.type_ == "Established" && it.status == "True")
    };
    let established = wait::until_all(all, Selection::all(), SOON, "all are established", |definitions| {
        definitions.iter().all(is_established)
    });
    established.await.map(drop)
}

/// The pool `general` of on-demand types.
fn pool(cpus: &Value, labels: &Value, disruption: &Value) -> Value {
    let requirements = json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}, cpus]);
    let reference = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let spec = json!({"nodeClassRef": reference, "requirements": requirements});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": spec}, "disruption": disruption},
    })
}

/// A kind of `karpenter.sh/v1`.
pub(crate) fn of_karpenter(client: Client, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("karpenter.sh", "v1", kind));
    Api::all_with(client, &resource)
}

/// USD per hour of all of them.
pub(crate) fn hourly_price(nodes: &[Node]) -> f64 {
    let labels = nodes.iter().filter_map(|node| node.metadata.labels.as_ref());
    labels.filter_map(|all| all.get("eks-node-viewer/instance-price")?.parse::<f64>().ok()).sum()
}

/// The status of a condition of an object.
pub(crate) fn condition<'o>(object: &'o DynamicObject, kind: &str) -> &'o str {
    let conditions = object.data["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|one| one["type"] == kind);
    found.and_then(|one| one["status"].as_str()).unwrap_or_default()
}

/// A number that the environment may set, for a test of the scale tier.
pub(crate) fn number(variable: &str, usual: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
