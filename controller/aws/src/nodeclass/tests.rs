//! What an EC2NodeClass says, and which of its words are refused.

use muster_api::nodeclass::Ec2NodeClass;
use muster_scheduling::model::Resource;
use serde_json::{Value, json};

use crate::class::{ClassSettings, InstanceStorePolicy, InterfaceType, Threshold};
use crate::family::AmiFamily;

fn class(spec: Value, status: Value, annotations: Value) -> Ec2NodeClass {
    let mut whole = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "default", "annotations": annotations},
        "spec": {"role": "node", "amiSelectorTerms": [{"alias": "al2023@latest"}],
                 "subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}]},
        "status": status,
    });
    for (key, value) in spec.as_object().unwrap() {
        whole["spec"][key] = value.clone();
    }
    serde_json::from_value(whole).unwrap()
}

fn settings(spec: Value) -> ClassSettings {
    ClassSettings::try_from(&class(spec, json!({}), json!({}))).unwrap()
}

#[test]
fn a_plain_class_is_the_default() {
    assert_eq!(settings(json!({})), ClassSettings::default());
}

#[test]
fn everything_that_shapes_a_node_is_read() {
    let settings = settings(json!({
        "amiSelectorTerms": [{"alias": "bottlerocket@latest"}],
        "kubelet": {"maxPods": 42, "podsPerCore": 3, "kubeReserved": {"cpu": "100m"}, "systemReserved": {"memory": "1Gi"},
                    "evictionHard": {"memory.available": "5%", "nodefs.available": "10Gi", "pid.available": "1%"}},
        "blockDeviceMappings": [{"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "100Gi"}}],
        "instanceStorePolicy": "RAID0",
        "networkInterfaces": [{"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"}],
        "connectionTracking": {"udpTimeout": 30},
        "cpuOptions": {"nestedVirtualization": "enabled"},
    }));
    assert_eq!(settings.ami_family, AmiFamily::Bottlerocket);
    assert_eq!((settings.kubelet.max_pods, settings.kubelet.pods_per_core), (Some(42), 3));
    assert_eq!(settings.kubelet.kube_reserved.get(&Resource::Cpu), 100);
    assert_eq!(settings.kubelet.system_reserved.get(&Resource::Memory), 1 << 30);
    assert_eq!(settings.kubelet.eviction_memory, Some(Threshold::Percent(5.0)));
    assert_eq!(settings.kubelet.eviction_storage, Some(Threshold::Amount(10 << 30)));
    assert_eq!(settings.block_devices[0].volume_size, Some(100 << 30));
    assert_eq!(settings.instance_store_policy, Some(InstanceStorePolicy::Raid0));
    assert_eq!(settings.network_interfaces[0].kind, InterfaceType::EfaOnly);
    assert!(settings.connection_tracking && settings.nested_virtualization);
}

#[test]
fn subnets_of_the_status_restrict_the_zones() {
    let status = json!({"subnets": [
        {"id": "subnet-1", "zone": "us-east-1b", "zoneID": "use1-az2"},
        {"id": "subnet-2", "zone": "us-east-1a"}, {"id": "subnet-3", "zone": "us-east-1b"}]});
    let settings = ClassSettings::try_from(&class(json!({}), status, json!({}))).unwrap();
    let zones: Vec<_> = settings.zones.unwrap().into_iter().collect();
    assert_eq!(zones, [("us-east-1a".into(), None), ("us-east-1b".into(), Some("use1-az2".into()))]);
}

#[test]
fn the_annotation_switches_prefix_delegation() {
    let with = |value| ClassSettings::try_from(&class(json!({}), json!({}), json!({super::PREFIX_DELEGATION: value})));
    assert!(with("true").unwrap().prefix_delegation);
    assert!(!with("false").unwrap().prefix_delegation);
    let error = with("yes").unwrap_err().to_string();
    assert_eq!(error, "`metadata.annotations[muster.dev/prefix-delegation]`: `yes` is neither `true` nor `false`");
}

#[test]
fn bad_values_are_named() {
    for (spec, expected) in [
        (
            json!({"kubelet": {"kubeReserved": {"cpu": "-1"}}}),
            "`spec.kubelet.kubeReserved.cpu`: `-1` must not be negative",
        ),
        (
            json!({"kubelet": {"evictionHard": {"memory.available": "101%"}}}),
            "`spec.kubelet.evictionHard[memory.available]`: `101%` is not a percentage from 0% to 100%",
        ),
        (json!({"kubelet": {"maxPods": -1}}), "`spec.kubelet.maxPods`: must not be negative"),
        (
            json!({"blockDeviceMappings": [{"ebs": {"volumeSize": "big"}}]}),
            "`spec.blockDeviceMappings[0].ebs.volumeSize`: `big` is not a quantity such as `940m`, `2` or `8Gi`",
        ),
    ] {
        let error = ClassSettings::try_from(&class(spec, json!({}), json!({}))).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
