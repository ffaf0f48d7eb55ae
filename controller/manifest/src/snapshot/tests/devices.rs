//! Devices of resource claims, as resources of the engine.

use muster_scheduling::labels::{HOSTNAME, INSTANCE_TYPE, ZONE};
use muster_scheduling::model::{InstanceType, Offering, Operator, Refusal, Requirement, Requirements};

use super::*;

const ON: DeviceSettings = DeviceSettings { allocates: true, nvidia: true, efa: true };

const POOL: &str = "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: general}, spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}}}}\n---\n";
const CLASSES: &str = "
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu.nvidia.com}, spec: {selectors: [{cel: {expression: \"device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'\"}}]}}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: efa}, spec: {selectors: [{cel: {expression: \"device.driver == 'dra.net' && device.attributes['dra.net'].pciDevice == 'Elastic Fabric Adapter (EFA)'\"}}]}}
---
";

fn labelled(key: &str, value: &str) -> Requirements {
    [(key, Requirement::new(Operator::In, [value]))].into_iter().collect()
}

fn types(names: &[&str]) -> Catalogue {
    let one = |name: &&str| InstanceType {
        name: (*name).into(),
        requirements: labelled(INSTANCE_TYPE, name),
        capacity: Resources::from_iter([(Resource::Cpu, 64_000), (Resource::Pods, 100)]),
        overhead: Resources::new(),
        offerings: vec![Offering {
            requirements: labelled(ZONE, "a"),
            price: Some(1.0),
            available: true,
            reservation_capacity: 0,
        }],
    };
    Catalogue::new(names.iter().map(one).collect())
}

fn claim(kind: &str, name: &str, requests: &str, more: &str) -> String {
    let spec = format!("devices: {{requests: [{requests}]{more}}}");
    match kind {
        "ResourceClaim" => format!(
            "{{apiVersion: resource.k8s.io/v1, kind: {kind}, metadata: {{name: {name}}}, spec: {{{spec}}}}}\n---\n"
        ),
        _ => format!(
            "{{apiVersion: resource.k8s.io/v1, kind: {kind}, metadata: {{name: {name}}}, spec: {{spec: {{{spec}}}}}}}\n---\n"
        ),
    }
}

fn template(requests: &str, more: &str) -> String {
    claim("ResourceClaimTemplate", "template", requests, more)
}

fn gpus(count: u32) -> String {
    format!("{{name: gpu, exactly: {{deviceClassName: gpu.nvidia.com, count: {count}}}}}")
}

fn user() -> String {
    pod("a", "resourceClaims: [{name: devices, resourceClaimTemplateName: template}]")
}

fn assembled(text: &[&str], names: &[&str]) -> Snapshot {
    let manifests = read_text("input", &[CLASSES, POOL, &text.concat()].concat()).unwrap();
    assert_eq!(manifests.warnings, [""; 0], "{text:?}");
    let settings = Settings { devices: ON, ..Settings::default() };
    assemble(&manifests, &settings, &|_| types(names)).unwrap()
}

/// Devices and types of the only pod, or why it is refused.
fn wanted(text: &[&str], names: &[&str]) -> Result<(String, Vec<String>), String> {
    told(&assembled(text, names), 0)
}

fn told(snapshot: &Snapshot, index: usize) -> Result<(String, Vec<String>), String> {
    let spec = snapshot.problem.spec_of(index);
    if let Some(Refusal::DynamicResources { why, .. }) = &spec.refusal {
        return Err(why.clone());
    }
    let devices = spec.requests.iter().filter(|(resource, _)| resource.is_of_claims());
    let types = spec.node_selector.get(INSTANCE_TYPE).into_iter().flat_map(|types| types.values());
    Ok((
        amounts(&devices.map(|(resource, amount)| (resource.clone(), amount)).collect()),
        types.map(ToString::to_string).collect(),
    ))
}

fn capacity(snapshot: &Snapshot, name: &str) -> String {
    let one = snapshot.problem.catalogues[0].iter().find(|one| &*one.name == name).unwrap();
    let devices = one.capacity.iter().filter(|(resource, _)| resource.is_of_claims());
    amounts(&devices.map(|(resource, amount)| (resource.clone(), amount)).collect())
}

fn found(devices: &str, types: &[&str]) -> Result<(String, Vec<String>), String> {
    Ok((devices.to_owned(), types.iter().map(ToString::to_string).collect()))
}

const GPU: &str = "devices.resource.k8s.io/gpu.nvidia.com";
const EFA: &str = "devices.resource.k8s.io/dra.net";
const GROUPS: &str = "groups.devices.resource.k8s.io";

#[test]
fn a_claim_takes_devices_of_the_types_that_have_them() {
    let all = ["m5.large", "g6.xlarge", "g6.12xlarge", "p5.48xlarge"];
    let text = [&*template(&gpus(2), ""), &user()];
    assert_eq!(wanted(&text, &all), found(&format!("{GPU}=2"), &["g6.12xlarge", "p5.48xlarge"]));
    let snapshot = assembled(&text, &all);
    assert_eq!(capacity(&snapshot, "g6.12xlarge"), format!("{GPU}=4"));
    assert_eq!(capacity(&snapshot, "m5.large"), "");

    let selected = "{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, selectors: [{cel: {expression: \"device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0\"}}]}}";
    assert_eq!(wanted(&[&template(selected, ""), &user()], &all), found(&format!("{GPU}=1"), &["p5.48xlarge"]));

    let every = "{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, allocationMode: All}}";
    assert_eq!(wanted(&[&template(every, ""), &user()], &all), found(&format!("{GPU}=1"), &["g6.xlarge"]));
}

#[test]
fn of_alternatives_the_first_one_is_taken_that_is_offered() {
    let request = "{name: gpu, firstAvailable: [{name: big, deviceClassName: gpu.nvidia.com, selectors: [{cel: {expression: \"device.attributes['gpu.nvidia.com'].architecture == 'Hopper'\"}}]}, {name: small, deviceClassName: gpu.nvidia.com, count: 2}]}";
    let template = template(request, "");
    let text = [&*template, &user()];
    assert_eq!(wanted(&text, &["g6.12xlarge", "p5.48xlarge"]), found(&format!("{GPU}=1"), &["p5.48xlarge"]));
    assert_eq!(wanted(&text, &["g6.12xlarge", "g6.xlarge"]), found(&format!("{GPU}=2"), &["g6.12xlarge"]));
    let elsewhere = pod(
        "a",
        "nodeSelector: {node.kubernetes.io/instance-type: g6.12xlarge}, resourceClaims: [{name: devices, resourceClaimTemplateName: template}]",
    );
    let found_there = wanted(&[&template, &elsewhere], &["g6.12xlarge", "p5.48xlarge"]);
    assert_eq!(found_there, found(&format!("{GPU}=2"), &["g6.12xlarge"]));
}

#[test]
fn devices_at_one_root_are_taken_as_a_group() {
    let requests = format!("{}, {{name: nic, exactly: {{deviceClassName: efa, count: 4}}}}", gpus(1));
    let same = ", constraints: [{requests: [gpu, nic], matchAttribute: resource.kubernetes.io/pcieRoot}]";
    let text = [&*template(&requests, same), &user()];
    let all = ["p4d.24xlarge", "p5.48xlarge"];
    assert_eq!(wanted(&text, &all), found(&format!("{EFA}=4 {GPU}=1 {GROUPS}=1"), &["p5.48xlarge"]));
    let snapshot = assembled(&text, &all);
    assert_eq!(capacity(&snapshot, "p5.48xlarge"), format!("{EFA}=32 {GPU}=8 {GROUPS}=8"));

    let five = requests.replace("count: 4", "count: 5");
    let why = wanted(&[&template(&five, same), &user()], &all).unwrap_err();
    assert!(why.contains("one value of `resource.kubernetes.io/pcieRoot`"), "{why}");
    // What is unknown, but the same on a node.
    let driver = ", constraints: [{matchAttribute: gpu.nvidia.com/driverVersion}]";
    assert_eq!(wanted(&[&template(&gpus(2), driver), &user()], &all), found(&format!("{GPU}=2"), &all));
}

#[test]
fn claims_of_shares_take_parts_of_a_device() {
    let class = "{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default, annotations: {karpenter.k8s.aws/nvidia-consumable-capacity: MODE}}, spec: {amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{id: subnet-12345678}], securityGroupSelectorTerms: [{id: sg-12345678}], role: nodes}}\n---\n";
    let shared = |mode: &str, request: &str| {
        let text = [&class.replace("MODE", mode), &template(request, ""), &user()];
        let snapshot = assembled(&text.map(|text| &**text), &["g6.12xlarge"]);
        (told(&snapshot, 0).map(|(devices, _)| devices), capacity(&snapshot, "g6.12xlarge"))
    };
    let one = Ok(format!("{GPU}=1"));
    assert_eq!(shared("\"4\"", &gpus(1)), (one.clone(), format!("{GPU}=16")));
    assert_eq!(shared("disabled", &gpus(1)), (one.clone(), format!("{GPU}=4")));
    // Of 22 GiB.
    let part = "{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, capacity: {requests: {memory: 10Gi}}}}";
    assert_eq!(shared("memory", part), (one.clone(), format!("{GPU}=8")));
    assert_eq!(shared("memory", &gpus(1)), (one.clone(), format!("{GPU}=4")));
    let whole = part.replace("10Gi", "30Gi");
    assert!(shared("memory", &whole).0.unwrap_err().contains("no instance type"));
}

#[test]
fn what_cannot_be_served_is_refused_with_the_claim_and_the_reason() {
    let why = wanted(&[&template(&gpus(1), ""), &user()], &["m5.large"]).unwrap_err();
    assert!(why.ends_with("no instance type of the NodePools is known to have devices"), "{why}");
    assert_eq!(wanted(&[&template("", ""), &user()], &["m5.large"]), found("", &[]));
    let all = ["g6.12xlarge"];
    let refused = |text: &[&str]| wanted(text, &all).unwrap_err();
    for (text, expected) in [
        (vec![user()], "resource claim `devices`: ResourceClaimTemplate `default/template` does not exist"),
        (
            vec![pod("a", "resourceClaims: [{name: x, resourceClaimName: none}]")],
            "resource claim `x`: ResourceClaim `default/none` does not exist",
        ),
        (
            vec![template(&gpus(5), ""), user()],
            "resource claim `devices` (ResourceClaimTemplate `default/template`): request `gpu` takes 5 devices of a node, and no instance type has more than 4",
        ),
        (
            vec![template("{name: x, exactly: {deviceClassName: none}}", ""), user()],
            "request `x`: DeviceClass `none` does not exist",
        ),
        (
            vec![
                template(
                    "{name: x, exactly: {deviceClassName: gpu.nvidia.com, selectors: [{cel: {expression: \"((\"}}]}}",
                    "",
                ),
                user(),
            ],
            "request `x`: selector `((` is not valid CEL",
        ),
        (
            vec![template("{name: x, exactly: {deviceClassName: efa, count: 1, adminAccess: true}}", ""), user()],
            "administrative access is not looked at",
        ),
        (
            vec![template(&gpus(1), ", constraints: [{distinctAttribute: a/b}]"), user()],
            "of constraints only `matchAttribute` is looked at",
        ),
    ] {
        let text: Vec<&str> = text.iter().map(String::as_str).collect();
        let why = refused(&text);
        assert!(why.contains(expected), "{why}");
    }
}

fn slice(node: &str, driver: &str, devices: &str) -> String {
    format!(
        "{{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: {node}-{driver}}}, spec: {{driver: {driver}, nodeName: {node}, pool: {{name: {node}, generation: 1, resourceSliceCount: 1}}, devices: [{devices}]}}}}\n---\n"
    )
}

fn gpu(name: &str) -> String {
    format!("{{name: {name}, attributes: {{type: {{string: gpu}}, uuid: {{string: uuid-{name}}}}}}}")
}

fn node(name: &str, kind: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{karpenter.sh/nodepool: general, node.kubernetes.io/instance-type: {kind}}}}}}}\n---\n"
    )
}

#[test]
fn what_drivers_have_published_corrects_the_table() {
    let text = [
        &*node("n", "g6.12xlarge"),
        &slice("n", "gpu.nvidia.com", &format!("{}, {}", gpu("a"), gpu("b"))),
        &node("o", "x9.large"),
        &slice("o", "gpu.nvidia.com", &gpu("c")),
        &node("p", "g6.xlarge"),
        &template(&gpus(1), ""),
        &user(),
    ];
    let all = ["g6.12xlarge", "g6.xlarge", "x9.large"];
    let snapshot = assembled(&text, &all);
    assert_eq!(told(&snapshot, 0), found(&format!("{GPU}=1"), &all));
    assert_eq!(all.map(|name| capacity(&snapshot, name)), [2, 1, 1].map(|count| format!("{GPU}={count}")));
    let there = |index: usize| snapshot.problem.nodes[index].allocatable.get(&Resource::devices("gpu.nvidia.com"));
    // Nothing was published of the last one.
    assert_eq!([0, 1, 2].map(there), [2, 1, 0]);
    // Another node of the type has another one.
    let own = template(
        "{name: x, exactly: {deviceClassName: gpu.nvidia.com, selectors: [{cel: {expression: \"device.attributes['gpu.nvidia.com'].uuid == 'uuid-c'\"}}]}}",
        "",
    );
    let text = [text[2], text[3], &own, text[6]];
    assert!(wanted(&text, &["x9.large"]).unwrap_err().contains("no instance type"));
}

#[test]
fn pods_of_a_claim_go_together_and_take_its_devices_once() {
    let claimed = |name: &str| pod(name, "resourceClaims: [{name: devices, resourceClaimName: both}]");
    let text = [&*claim("ResourceClaim", "both", &gpus(1), ""), &claimed("a"), &claimed("b")];
    let snapshot = assembled(&text, &["g6.xlarge"]);
    assert_eq!(told(&snapshot, 0), found(&format!("{GPU}=1"), &["g6.xlarge"]));
    assert_eq!(told(&snapshot, 1), found("", &[]));
    for index in [0, 1] {
        let spec = snapshot.problem.spec_of(index);
        assert_eq!(spec.affinity.len(), 1);
        assert_eq!(&*spec.affinity[0].topology_key, HOSTNAME);
        assert!(spec.affinity[0].selector.matches(&spec.labels));
    }
}

#[test]
fn a_pod_goes_where_its_claim_was_allocated() {
    let allocated = claim("ResourceClaim", "own", &gpus(1), "").replace(
        "}}\n---\n",
        "}, status: {allocation: {devices: {results: [{request: gpu, driver: gpu.nvidia.com, pool: n, device: a}]}, nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n]}]}]}}}}\n---\n",
    );
    let user = pod("a", "resourceClaims: [{name: devices, resourceClaimName: own}]");
    let slices = slice("n", "gpu.nvidia.com", &format!("{}, {}", gpu("a"), gpu("b")));
    let snapshot = assembled(&[&node("n", "g6.12xlarge"), &slices, &allocated, &user], &["g6.12xlarge"]);
    assert_eq!(told(&snapshot, 0), found(&format!("{GPU}=1"), &[]));
    assert_eq!(snapshot.problem.spec_of(0).node_selector.single(HOSTNAME), Some("n"));
    let free = |snapshot: &Snapshot| snapshot.problem.nodes[0].allocatable.get(&Resource::devices("gpu.nvidia.com"));
    assert_eq!(free(&snapshot), 2);
    // Without the pod the devices are taken all the same.
    let other = [
        &*node("n", "g6.12xlarge"),
        &slices,
        &allocated,
        &template(&gpus(1), ""),
        &pod("b", "resourceClaims: [{name: devices, resourceClaimTemplateName: template}]"),
    ];
    assert_eq!(free(&assembled(&other, &["g6.12xlarge"])), 1);
    let why = wanted(&[&allocated, &user], &["g6.12xlarge"]).unwrap_err();
    assert!(why.contains("is allocated on node `n`, which is gone"), "{why}");
}

#[test]
fn a_node_on_its_way_has_the_devices_that_it_was_launched_for() {
    let coming = |drivers: &str| {
        format!(
            "{{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {{name: c, labels: {{karpenter.sh/nodepool: general}}, annotations: {{karpenter.sh/requested-dra-drivers: \"{drivers}\"}}}}, spec: {{nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}, requirements: [{{key: node.kubernetes.io/instance-type, operator: In, values: [g6.12xlarge, g6.xlarge]}}], resources: {{requests: {{cpu: 1}}}}}}}}\n---\n"
        )
    };
    let there = |drivers: &str| {
        let text = [&*coming(drivers), &template(&gpus(1), ""), &user()];
        let snapshot = assembled(&text, &["g6.12xlarge", "g6.xlarge"]);
        snapshot.problem.nodes[0].allocatable.get(&Resource::devices("gpu.nvidia.com"))
    };
    assert_eq!([there("gpu.nvidia.com"), there("dra.net")], [1, 0]);
}

#[test]
fn a_node_that_has_joined_has_them_before_its_claim_says_so() {
    let claim = "{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: c, labels: {karpenter.sh/nodepool: general, node.kubernetes.io/instance-type: g6.xlarge}, annotations: {karpenter.sh/requested-dra-drivers: gpu.nvidia.com}}, spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}, status: {providerID: aws:///a/i-1}}\n---\n";
    let node = "{apiVersion: v1, kind: Node, metadata: {name: n}, spec: {providerID: aws:///a/i-1}}\n---\n";
    let snapshot = assembled(&[claim, node, &template(&gpus(1), ""), &user()], &["g6.xlarge"]);
    assert_eq!(snapshot.problem.nodes.len(), 1);
    assert_eq!(snapshot.problem.nodes[0].allocatable.get(&Resource::devices("gpu.nvidia.com")), 1);
}

fn selecting(expression: &str) -> String {
    format!(
        "{{name: gpu, exactly: {{deviceClassName: gpu.nvidia.com, selectors: [{{cel: {{expression: \"{expression}\"}}}}]}}}}"
    )
}

#[test]
fn selector_by_uuid_keeps_other_devices_counted() {
    let text = [
        &*node("n", "g6.12xlarge"),
        &slice("n", "gpu.nvidia.com", &format!("{}, {}", gpu("a"), gpu("b"))),
        &template(&gpus(1), ""),
        &user(),
        &claim("ResourceClaimTemplate", "one", &selecting("device.attributes['gpu.nvidia.com'].uuid == 'uuid-a'"), ""),
        &pod("b", "resourceClaims: [{name: devices, resourceClaimTemplateName: one}]"),
    ];
    let snapshot = assembled(&text, &["g6.12xlarge"]);
    assert_eq!(told(&snapshot, 0), found(&format!("{GPU}=1"), &["g6.12xlarge"]));
    assert!(told(&snapshot, 1).unwrap_err().contains("no instance type"));
    assert_eq!(snapshot.problem.nodes[0].allocatable.get(&Resource::devices("gpu.nvidia.com")), 2);
}

#[test]
fn namespace_over_its_share_of_selectors_is_refused_alone() {
    let mut text = vec![template(&gpus(1), ""), user()];
    // Each is evaluated for each kind of device.
    for number in 0..100 {
        let list = vec!["1"; 60].join(", ");
        let expression = format!("[{list}].all(x, x < 2 + {number})");
        text.push(claim("ResourceClaimTemplate", &format!("t{number}"), &selecting(&expression), ""));
        text.push(pod(
            &format!("p{number}"),
            &format!("resourceClaims: [{{name: devices, resourceClaimTemplateName: t{number}}}]"),
        ));
    }
    text.iter_mut().skip(2).for_each(|object| *object = object.replace("metadata: {", "metadata: {namespace: crowd, "));
    let text: Vec<&str> = text.iter().map(String::as_str).collect();
    let snapshot = assembled(&text, &["g6.xlarge"]);
    let found: Vec<_> = (0..snapshot.problem.pods.len()).map(|index| told(&snapshot, index)).collect();
    let served = found.iter().filter(|one| one.is_ok()).count();
    assert_eq!((found.len(), served), (101, 4), "{found:?}");
    let why = found.iter().find_map(|one| one.as_ref().err()).unwrap();
    assert!(
        why.ends_with("the requests of its namespace have more selectors than are evaluated for one namespace"),
        "{why}"
    );
    let own = snapshot.problem.pods.iter().position(|pod| &*pod.name == "default/a").unwrap();
    assert!(told(&snapshot, own).is_ok());
}

#[test]
fn without_the_option_pods_with_claims_are_refused() {
    let text = [CLASSES, POOL, &template(&gpus(1), ""), &user()].concat();
    let manifests = read_text("input", &text).unwrap();
    let snapshot = assemble(&manifests, &Settings::default(), &|_| types(&["g6.xlarge"])).unwrap();
    assert_eq!(told(&snapshot, 0), Err("resource claim `devices`".to_owned()));
    assert_eq!(capacity(&snapshot, "g6.xlarge"), "");
}
