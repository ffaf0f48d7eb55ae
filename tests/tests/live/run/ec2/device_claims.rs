//! Claims of devices on pools that begin at zero: kube-scheduler allocates what a driver for tests publishes.
//!
//! The driver publishes the devices of a Node once it has joined, as drivers on the node do. Claims of different kinds select
//! different products: kube-scheduler takes any node whose devices it knows, and may know those of another node first.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use muster_controller::ec2;
use muster_manifest::snapshot::DeviceSettings;
use muster_tests::ec2::Event;
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::controller::Controller;
use super::ground::{CLUSTER, CONTROLLER, Ground, SOON, launches, pool, requirements};

const GPU: &str = "gpu.nvidia.com";
const NETWORK: &str = "dra.net";
const PCIE_ROOT: &str = "resource.kubernetes.io/pcieRoot";
const ZONES: [&str; 6] = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d", "us-east-1e", "us-east-1f"];
/// Type that the table of devices does not have.
const NEW: &str = "g7.2xlarge";

/// Publishes devices of Nodes. It ends with the value.
struct Drivers {
    _follows: JoinSet<()>,
}

impl Drivers {
    /// Publishes GPUs, of which several claims share each if `shares` says so, and network devices.
    fn start(ground: &Ground, shares: Option<u32>) -> Self {
        let (client, mut events) = (ground.kube(), ground.ec2.events());
        let mut follows = JoinSet::new();
        follows.spawn(async move {
            while let Some(event) = events.next().await {
                let Event::Launched(instance) = event else { continue };
                let (name, client) = (instance.private_dns_name.clone(), client.clone());
                let nodes: Api<Node> = Api::all(client.clone());
                wait::until(nodes, &name, SOON, "the Node has joined", |_: &Node| true).await.unwrap();
                publish(&client, &name, GPU, &gpus(&instance.instance_type, shares)).await;
                publish(&client, &name, NETWORK, &adapters(&instance.instance_type)).await;
            }
        });
        Self { _follows: follows }
    }
}

async fn publish(client: &Client, node: &str, driver: &str, devices: &[Value]) {
    let kind = GroupVersionKind::gvk("resource.k8s.io", "v1", "ResourceSlice");
    let slices: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("{node}-{driver}")},
        "spec": {
            "driver": driver, "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        },
    });
    slices.create(&PostParams::default(), &serde_json::from_value(slice).unwrap()).await.unwrap();
}

fn gpus(instance_type: &str, shares: Option<u32>) -> Vec<Value> {
    let (count, product, architecture, memory) = match instance_type {
        "g6.xlarge" => (1, "NVIDIA L4", "Ada Lovelace", "23034Mi"),
        "g5.12xlarge" => (4, "NVIDIA A10G", "Ampere", "23028Mi"),
        "p5.48xlarge" => (8, "NVIDIA H100 80GB HBM3", "Hopper", "81559Mi"),
        NEW => (1, "NVIDIA RTX PRO 4500", "Blackwell", "32623Mi"),
        _ => return Vec::new(),
    };
    let gpu = |number: usize| {
        let mut device = json!({
            "name": format!("gpu-{number}"),
            "attributes": {
                "type": {"string": "gpu"}, "productName": {"string": product}, "architecture": {"string": architecture},
                "uuid": {"string": format!("GPU-{number}")}, "driverVersion": {"version": "580.65.6"},
                PCIE_ROOT: {"string": format!("pci{number:04x}")},
            },
            "capacity": {"memory": {"value": memory}},
        });
        if let Some(shares) = shares {
            device["allowMultipleAllocations"] = json!(true);
            let policy = json!({"default": "0", "validRange": {"min": "0"}});
            device["capacity"]["memory"]["requestPolicy"] = policy;
            let policy = json!({"default": "1", "validRange": {"min": "1", "step": "1"}});
            device["capacity"]["shares"] = json!({"value": shares.to_string(), "requestPolicy": policy});
        }
        device
    };
    (0..count).map(gpu).collect()
}

/// The network devices: those that are EFA, and the primary one, which no claim is about.
fn adapters(instance_type: &str) -> Vec<Value> {
    let count = match instance_type {
        "g5.12xlarge" => 1,
        "p5.48xlarge" => 32,
        _ => 0,
    };
    let primary = json!({
        "name": "ens5", "attributes": {"pciDevice": {"string": "Elastic Network Adapter (ENA)"}, "rdma": {"bool": false}},
    });
    let fabric = |number: usize| {
        json!({
            "name": format!("efa-{number}"),
            "attributes": {
                "pciDevice": {"string": "Elastic Fabric Adapter (EFA)"}, "rdma": {"bool": true},
                PCIE_ROOT: {"string": format!("pci{:04x}", number / 4)},
            },
        })
    };
    [primary].into_iter().chain((0..count).map(fabric)).collect()
}

fn expression(text: &str) -> Value {
    json!([{"cel": {"expression": text}}])
}

fn product(name: &str) -> Value {
    expression(&format!("device.attributes['gpu.nvidia.com'].productName == '{name}'"))
}

/// A request for GPUs of a class, with these fields.
fn gpu(fields: Value) -> Value {
    let mut request = json!({"deviceClassName": GPU});
    fields.as_object().unwrap().iter().for_each(|(field, value)| request[field] = value.clone());
    request
}

fn template(name: &str, devices: Value) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"spec": {"devices": devices}},
    })
}

/// Pods `<name>-<number>` with a claim of the template or, if `claim` has its name, with that claim.
fn pods(name: &str, count: usize, claim: Option<&str>) -> Vec<Value> {
    let claims = match claim {
        Some(claim) => json!([{"name": "devices", "resourceClaimName": claim}]),
        None => json!([{"name": "devices", "resourceClaimTemplateName": name}]),
    };
    let pod = |number: usize| {
        let resources = json!({"requests": {"cpu": "100m"}, "claims": [{"name": "devices"}]});
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{name}-{number}"), "namespace": "default", "labels": {"app": "web", "of": name},
            },
            "spec": {
                "containers": [{"name": "main", "image": "none", "resources": resources}], "resourceClaims": claims,
            },
        })
    };
    (0..count).map(pod).collect()
}

impl Ground {
    /// With the classes of devices, and the pool `general` of these types.
    async fn with_devices(types: &[&str], annotations: Value) -> Self {
        let ground = Self::bare("run ec2 suite").await;
        let class = |name: &str, text: &str| {
            json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
                "spec": {"selectors": expression(text)},
            })
        };
        let mut node_class = ground.class(json!({}));
        node_class["metadata"]["annotations"] = annotations;
        let of_types = json!({"requirements": requirements(types, &ZONES, &["on-demand"])});
        let efa = "device.driver == 'dra.net' && device.attributes['dra.net'].pciDevice == \
                   'Elastic Fabric Adapter (EFA)'";
        ground
            .apply(&[
                class(GPU, "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"),
                class("efa.networking.k8s.aws", efa),
                node_class,
                pool(&of_types),
            ])
            .await;
        ground
    }

    async fn controller_for_devices(&self) -> Controller {
        let devices = DeviceSettings { allocates: true, nvidia: true, efa: true };
        let with = |mut options: muster_controller::run::Options| {
            options.snapshot.devices = devices;
            options
        };
        self.controller_as(ec2::Options::of(CLUSTER), with).await
    }

    /// Types of the nodes of running pods, by the name of the pods and the node.
    async fn homes(&self, pods: &[Pod]) -> BTreeMap<String, BTreeMap<String, (String, usize)>> {
        let mut homes: BTreeMap<String, BTreeMap<String, (String, usize)>> = BTreeMap::new();
        for pod in pods {
            let node = pod.spec.as_ref().unwrap().node_name.clone().unwrap();
            let found = self.nodes().get(&node).await.unwrap();
            let kind = found.labels()["node.kubernetes.io/instance-type"].clone();
            homes.entry(pod.labels()["of"].clone()).or_default().entry(node).or_insert((kind, 0)).1 += 1;
        }
        homes
    }

    /// Checks that as many nodes were launched as pods run on, and that each has some.
    fn none_was_bought_in_vain(&self, pods: &[Pod]) -> usize {
        let used: BTreeSet<&str> =
            pods.iter().filter_map(|pod| pod.spec.as_ref().unwrap().node_name.as_deref()).collect();
        let launched = launches(self);
        assert_eq!(launched, used.len(), "{}", self.ec2.calls().by(CONTROLLER).lines());
        launched
    }
}

/// Types of the nodes of pods, sorted.
fn types(homes: &BTreeMap<String, (String, usize)>) -> Vec<&str> {
    let mut types: Vec<&str> = homes.values().map(|(kind, _)| kind.as_str()).collect();
    types.sort_unstable();
    types
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_with_claims_of_every_kind_run_where_their_devices_are() {
    let ground = Ground::with_devices(&["m5.large", "g6.xlarge", "g5.12xlarge", "p5.48xlarge"], json!({})).await;
    let _drivers = Drivers::start(&ground, None);
    let l4 = || product("NVIDIA L4");
    let exactly = |name: &str, request: Value| json!({"name": name, "exactly": request});
    let efa = json!({"deviceClassName": "efa.networking.k8s.aws", "count": 4});
    let named = |name: &str, mut request: Value| {
        request["name"] = json!(name);
        request
    };
    let first = json!([
        named("newest", gpu(json!({"selectors": product("NVIDIA RTX PRO 4500")}))),
        named("four", gpu(json!({"selectors": product("NVIDIA A10G"), "count": 4}))),
    ]);
    let shared = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "both", "namespace": "default"},
        "spec": {"devices": {"requests": [exactly("gpu", gpu(json!({"selectors": l4()})))]}},
    });
    let mut objects = vec![
        template("single", json!({"requests": [exactly("gpu", gpu(json!({"selectors": l4()})))]})),
        template("first", json!({"requests": [{"name": "gpu", "firstAvailable": first}]})),
        template(
            "paired",
            json!({
                "requests": [exactly("gpu", gpu(json!({}))), exactly("nic", efa)],
                "constraints": [{"requests": ["gpu", "nic"], "matchAttribute": PCIE_ROOT}],
            }),
        ),
        shared,
    ];
    for (name, count, claim) in
        [("single", 30, None), ("first", 3, None), ("paired", 12, None), ("both", 2, Some("both"))]
    {
        objects.extend(pods(name, count, claim));
    }
    // All of them are there in the first round: what is not launched yet has room for those that it was bought for.
    ground.apply(&objects).await;
    let _controller = ground.controller_for_devices().await;
    ground.pool_is_ready().await;
    let pods = ground.running(47, SOON * 3).await;

    assert_eq!(ground.none_was_bought_in_vain(&pods), 36);
    let homes = ground.homes(&pods).await;
    assert_eq!(types(&homes["single"]), ["g6.xlarge"; 30]);
    assert_eq!(types(&homes["first"]), ["g5.12xlarge"; 3]);
    assert_eq!(types(&homes["paired"]), ["p5.48xlarge"; 2]);
    assert_eq!(types(&homes["both"]), ["g6.xlarge"]);
    let claims = ground.claims().list(&kube::api::ListParams::default()).await.unwrap().items;
    let drivers = claims.iter().map(|claim| claim.annotations()["karpenter.sh/requested-dra-drivers"].as_str());
    assert!(drivers.filter(|drivers| *drivers == "dra.net,gpu.nvidia.com").count() >= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_share_a_device_as_the_class_says() {
    let shares = json!({"karpenter.k8s.aws/nvidia-consumable-capacity": "4"});
    let ground = Ground::with_devices(&["g6.xlarge"], shares).await;
    let _drivers = Drivers::start(&ground, Some(4));
    let _controller = ground.controller_for_devices().await;
    ground.pool_is_ready().await;
    let request = json!({"requests": [{"name": "gpu", "exactly": gpu(json!({}))}]});
    ground.apply(&[vec![template("part", request)], pods("part", 8, None)].concat()).await;
    let pods = ground.running(8, SOON * 2).await;
    // A GPU is on each node, and has four shares.
    assert_eq!(ground.none_was_bought_in_vain(&pods), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_that_never_publishes_is_named() {
    let ground = Ground::with_devices(&["g6.xlarge"], json!({})).await;
    let mut pool = pool(&json!({"requirements": requirements(&["g6.xlarge"], &ZONES, &["on-demand"])}));
    pool["metadata"]["annotations"] = json!({"muster.dev/initialization-timeout": "5s"});
    let _controller = ground.controller_for_devices().await;
    ground.pool_is_ready().await;
    let request = json!({"requests": [{"name": "gpu", "exactly": gpu(json!({}))}]});
    ground.apply(&[vec![template("single", request)], pods("single", 1, None)].concat()).await;
    let message = ground.of_claim("Initialized", "Unknown", "DRADriverPoolsNotPublished").await;
    assert!(message.starts_with("driver `gpu.nvidia.com` has not published the devices of the Node"), "{message}");
    // Nothing is bought beside it.
    assert_eq!(launches(&ground), 1);
    ground.apply(&[pool]).await;
    let message = ground.event("NodeClaim", "InitializationTimeout", "gpu.nvidia.com").await;
    assert!(message.contains("driver `gpu.nvidia.com` has not published"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_type_that_is_not_in_the_table_is_known_once_a_node_of_it_runs() {
    let ground = Ground::with_devices(&[NEW], json!({})).await;
    let _drivers = Drivers::start(&ground, None);
    let _controller = ground.controller_for_devices().await;
    ground.pool_is_ready().await;
    let request = |fields: Value| json!({"requests": [{"name": "gpu", "exactly": gpu(fields)}]});
    let by_name = template("named", request(json!({"selectors": product("NVIDIA RTX PRO 4500")})));
    ground.apply(&[vec![by_name], pods("named", 1, None)].concat()).await;
    let why = "no instance type of the NodePools is known to have a device for request `gpu`";
    let message = ground.event("Pod", "FailedScheduling", why).await;
    assert!(message.contains("resource claim `devices`"), "{message}");
    assert_eq!(ground.ec2.running(), []);

    // EC2 says that it has a GPU, and not which one.
    ground.apply(&[vec![template("any", request(json!({})))], pods("any", 1, None)].concat()).await;
    let pods = ground.running(2, SOON * 2).await;
    assert_eq!(ground.none_was_bought_in_vain(&pods), 2);
    let nodes = wait::until_all(ground.nodes(), Selection::all(), SOON, "there are two Nodes", |all| all.len() == 2);
    assert!(nodes.await.unwrap().iter().all(|node| node.labels()["node.kubernetes.io/instance-type"] == NEW));
}
