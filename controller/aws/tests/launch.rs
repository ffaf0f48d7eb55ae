//! What a launch asks EC2 for, without EC2.

#![expect(clippy::unwrap_used, reason = "fixtures fail the test that asked for them")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Taint;
use muster_api::{Ec2NodeClass, NodeClassReference, labels};
use muster_aws::launch::{
    Addresses, Cluster, Controller, FleetAnswer, FleetError, Grounds, Had, Plan, PlanError, outcome, plan,
};
use muster_aws::{ClassSettings, Inventory};
use muster_cloud::{Alternative, CapacityType, CloudError, LaunchRequest, LaunchToken, Offering, Overlaid, Refusal};
use muster_link::LaunchKey;
use serde_json::{Value, json};

fn cluster() -> Cluster {
    Cluster {
        name: "shop".to_owned(),
        arn: None,
        region: "us-east-1".to_owned(),
        endpoint: "https://shop.eks.amazonaws.com".to_owned(),
        certificate_authority: "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t".to_owned(),
        kubernetes: "1.35".to_owned(),
        service_cidr: Some("10.100.0.0/16".to_owned()),
        dns: Some("10.100.0.10".to_owned()),
    }
}

/// A class that is resolved: two zones, one image for each architecture.
fn class(fields: &Value) -> Ec2NodeClass {
    let mut spec = json!({
        "subnetSelectorTerms": [{ "id": "subnet-a" }],
        "securityGroupSelectorTerms": [{ "id": "sg-1" }],
        "amiSelectorTerms": [{ "alias": "al2023@latest" }],
        "role": "nodes",
    });
    for (field, value) in fields.as_object().unwrap() {
        spec[field] = value.clone();
    }
    let arch = |value: &str| json!([{ "key": "kubernetes.io/arch", "operator": "In", "values": [value] }]);
    let status = json!({
        "subnets": [
            { "id": "subnet-a", "zone": "us-east-1a", "zoneID": "use1-az1" },
            { "id": "subnet-b", "zone": "us-east-1b", "zoneID": "use1-az2" },
        ],
        "securityGroups": [{ "id": "sg-2" }, { "id": "sg-1" }],
        "amis": [
            { "id": "ami-amd64", "requirements": arch("amd64") },
            { "id": "ami-arm64", "requirements": arch("arm64") },
        ],
        "instanceProfile": "shop_nodes",
        "capacityReservations": [
            { "id": "cr-1", "availabilityZone": "us-east-1a", "instanceMatchCriteria": "targeted",
              "instanceType": "m5.large", "ownerID": "123456789012" },
            { "id": "cr-2", "availabilityZone": "us-east-1a", "instanceMatchCriteria": "targeted",
              "instanceType": "p5.48xlarge", "ownerID": "123456789012", "reservationType": "capacity-block" },
        ],
    });
    let object = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": { "name": "default", "uid": "1" }, "spec": spec, "status": status,
    });
    serde_json::from_value(object).unwrap()
}

fn offering(pool: &str) -> Offering {
    let mut parts = pool.split('/').map(str::to_owned);
    Offering {
        instance_type: parts.next().unwrap(),
        zone: format!("us-east-1{}", parts.next().unwrap()),
        capacity_type: parts.next().map_or(CapacityType::OnDemand, |text| text.parse().unwrap()),
        reservation: parts.next(),
    }
}

fn request(pools: &[&str]) -> LaunchRequest {
    let alternative = |pool: &&str| Alternative { offering: offering(pool), price: 0.1 };
    LaunchRequest {
        token: LaunchToken { claim_uid: "uid".to_owned(), attempt: 1 },
        claim: "default-abc".to_owned(),
        pool: Some("default".to_owned()),
        class: NodeClassReference::default(),
        alternatives: pools.iter().map(alternative).collect(),
        keeps_choice: false,
        labels: BTreeMap::from([
            (labels::NODEPOOL.to_owned(), "default".to_owned()),
            (labels::ZONE.to_owned(), "us-east-1a".to_owned()),
        ]),
        taints: vec![Taint {
            key: "team".to_owned(),
            value: Some("web".to_owned()),
            effect: "NoSchedule".to_owned(),
            time_added: None,
        }],
        requests: BTreeMap::new(),
        has_network_devices: false,
        tags: BTreeMap::from([("karpenter.sh/nodeclaim".to_owned(), "default-abc".to_owned())]),
        overlaid: Overlaid::default(),
    }
}

fn planned_on(class: &Ec2NodeClass, request: &LaunchRequest, addresses: &Addresses) -> Result<Plan, PlanError> {
    planned_by(None, class, request, addresses)
}

fn planned_by(
    controller: Option<&Controller>,
    class: &Ec2NodeClass,
    request: &LaunchRequest,
    addresses: &Addresses,
) -> Result<Plan, PlanError> {
    planned_in(&BTreeSet::new(), controller, class, request, addresses)
}

/// While traffic is shifted away from these zones.
fn planned_in(
    shifted: &BTreeSet<Arc<str>>,
    controller: Option<&Controller>,
    class: &Ec2NodeClass,
    request: &LaunchRequest,
    addresses: &Addresses,
) -> Result<Plan, PlanError> {
    let settings = ClassSettings::try_from(class).unwrap();
    let inventory = Inventory::embedded("us-east-1").unwrap();
    let cluster = cluster();
    let (cluster, settings, inventory) = (&cluster, &settings, &inventory);
    plan(request, &Grounds { cluster, class, settings, inventory, addresses, shifted, controller })
}

fn planned(fields: &Value, pools: &[&str]) -> Plan {
    planned_on(&class(fields), &request(pools), &Addresses::default()).unwrap()
}

/// `29 pods: m5.large/us-east-1a@subnet-a, …` for each template.
fn shown(plan: &Plan) -> Vec<String> {
    let of = |one: &muster_aws::launch::PlannedTemplate| {
        let pools: Vec<String> =
            one.overrides.iter().map(|over| format!("{}@{}", over.offering, over.subnet)).collect();
        format!("{}: {}", one.template.image_id, pools.join(", "))
    };
    plan.templates.iter().map(of).collect()
}

#[test]
fn a_template_of_each_family_says_what_karpenters_says() {
    for (family, alias) in [
        ("AL2", "al2@latest"),
        ("AL2023", "al2023@latest"),
        ("Bottlerocket", "bottlerocket@latest"),
        ("Windows2022", "windows2022@latest"),
        ("Custom", ""),
    ] {
        let terms = if alias.is_empty() { json!([{ "id": "ami-1" }]) } else { json!([{ "alias": alias }]) };
        let fields = json!({ "amiFamily": family, "amiSelectorTerms": terms });
        let plan = planned(&fields, &["m5.large/a"]);
        insta::assert_json_snapshot!(format!("template_{family}"), plan.templates[0].template);
    }
}

#[test]
fn everything_that_a_class_may_say_is_in_the_template() {
    let fields = json!({
        "userData": "#!/bin/sh\necho hello\n",
        "tags": { "team": "web" },
        "associatePublicIPAddress": false,
        "ipPrefixCount": 2,
        "detailedMonitoring": true,
        "instanceStorePolicy": "RAID0",
        "context": "ctx",
        "metadataOptions": { "httpEndpoint": "enabled", "httpProtocolIPv6": "enabled",
                             "httpPutResponseHopLimit": 2, "httpTokens": "optional" },
        "connectionTracking": { "tcpEstablishedTimeout": 60 },
        "cpuOptions": { "nestedVirtualization": "disabled" },
        "kubelet": { "maxPods": 17, "evictionHard": { "memory.available": "5%" } },
        "blockDeviceMappings": [{ "deviceName": "/dev/xvda", "rootVolume": true, "ebs": {
            "volumeSize": "100G", "volumeType": "io2", "iops": 4000, "throughput": 125, "encrypted": true,
            "kmsKeyID": "key", "snapshotID": "snap-1", "deleteOnTermination": true, "volumeInitializationRate": 100 } }],
        "networkInterfaces": [
            { "networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface" },
            { "networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only" },
        ],
    });
    let plan = planned(&fields, &["p5.48xlarge/a/spot"]);
    assert_eq!((plan.context.as_deref(), plan.target), (Some("ctx"), "spot"));
    insta::assert_json_snapshot!(plan.templates[0].template);
}

#[test]
fn templates_follow_images_and_pod_limits_and_nothing_else() {
    let pools = ["m5.large/a", "m5.large/b", "c5.large/a", "m5.xlarge/b", "m7g.large/a"];
    let plan = planned(&json!({}), &pools);
    assert_eq!(
        shown(&plan),
        [
            "ami-amd64: m5.large/us-east-1a/on-demand@subnet-a, m5.large/us-east-1b/on-demand@subnet-b, \
             c5.large/us-east-1a/on-demand@subnet-a",
            "ami-amd64: m5.xlarge/us-east-1b/on-demand@subnet-b",
            "ami-arm64: m7g.large/us-east-1a/on-demand@subnet-a",
        ]
    );
    assert_eq!(plan.addresses, 29, "the least that one of them needs");
    let again = planned(&json!({}), &pools);
    assert_eq!(plan, again);
    let fixed = planned(&json!({ "kubelet": { "maxPods": 20 } }), &pools);
    assert_eq!(fixed.templates.len(), 2, "one limit for all leaves the images");
    let others = planned(&json!({ "tags": { "a": "b" } }), &pools);
    assert!(plan.templates.iter().zip(&others.templates).all(|(one, other)| one.name != other.name));
    assert!(plan.templates.iter().all(|one| one.name.starts_with("muster.dev/") && one.name.len() <= 128));
}

#[test]
fn a_secret_follows_from_the_template_and_the_key_that_there_is() {
    let (one, other) = (LaunchKey::new([1; 32]), LaunchKey::new([2; 32]));
    let with = |fields: Value, key: &LaunchKey, former_key: Option<&LaunchKey>| {
        let controller = Controller {
            address: "muster.example.com:9443".to_owned(),
            certificate_authority: "-----BEGIN CERTIFICATE-----".to_owned(),
            key: key.clone(),
            former_key: former_key.cloned(),
        };
        let (class, request) = (class(&fields), request(&["m5.large/a"]));
        let plan = planned_by(Some(&controller), &class, &request, &Addresses::default()).unwrap();
        let template = plan.templates.into_iter().next().unwrap();
        (template.name, template.told.unwrap())
    };
    let (name, told) = with(json!({}), &one, None);
    assert_eq!((&name, &told), (&with(json!({}), &one, None).0, &with(json!({}), &one, None).1), "found again");
    assert_ne!(with(json!({ "tags": { "a": "b" } }), &one, None).1.secret, told.secret);

    let (next_name, next) = with(json!({}), &other, Some(&one));
    assert!(next_name != name && next.secret != told.secret);
    assert_eq!(next.secrets(false).collect::<Vec<_>>(), [next.secret], "what it was launched with is known");
    assert_eq!(next.secrets(true).collect::<Vec<_>>(), [next.secret, told.secret], "it may be one of before");
    let (later_name, later) = with(json!({}), &other, None);
    assert_eq!((later_name, later.secret), (next_name, next.secret), "nothing changes when the former is forgotten");
}

#[test]
fn what_is_exotic_is_left_to_those_that_need_it() {
    let pools = ["m5.metal/a", "g4dn.xlarge/a", "m5.large/a"];
    assert_eq!(shown(&planned(&json!({}), &pools)), ["ami-amd64: m5.large/us-east-1a/on-demand@subnet-a"]);
    assert_eq!(planned(&json!({}), &pools[..2]).templates.len(), 2, "nothing else is left");
    let choice = LaunchRequest { keeps_choice: true, ..request(&pools) };
    let all = planned_on(&class(&json!({})), &choice, &Addresses::default()).unwrap();
    assert_eq!(all.templates.iter().map(|one| one.overrides.len()).sum::<usize>(), 3, "minValues counts them");
}

#[test]
fn reservations_are_named_and_one_market_at_a_time_is_asked() {
    let plan = planned(&json!({}), &["m5.large/a/reserved/cr-1", "p5.48xlarge/a/reserved/cr-2"]);
    assert_eq!((plan.target, plan.templates.len()), ("on-demand", 1));
    insta::assert_json_snapshot!(plan.templates[0].template.reservation, @r#"
    {
      "Only": {
        "id": "cr-1",
        "market": null
      }
    }
    "#);
    let block = planned(&json!({}), &["p5.48xlarge/a/reserved/cr-2"]);
    assert_eq!(block.target, "capacity-block");
    insta::assert_json_snapshot!(block.templates[0].template.reservation, @r#"
    {
      "Only": {
        "id": "cr-2",
        "market": "capacity-block"
      }
    }
    "#);
}

#[test]
fn adapters_that_pods_request_are_attached() {
    let wanting = LaunchRequest {
        requests: BTreeMap::from([("vpc.amazonaws.com/efa".to_owned(), "1".to_owned())]),
        ..request(&["p5.48xlarge/a"])
    };
    let plan = planned_on(&class(&json!({})), &wanting, &Addresses::default()).unwrap();
    let interfaces = &plan.templates[0].template.interfaces;
    assert_eq!(interfaces.len(), 32);
    assert!(interfaces.iter().all(|one| one.kind == "efa"));
    assert_eq!((interfaces[0].card, interfaces[0].device, interfaces[1].card, interfaces[1].device), (0, 0, 1, 1));
    assert_eq!(planned(&json!({}), &["p5.48xlarge/a"]).templates[0].template.interfaces.len(), 1);
    let claiming = LaunchRequest { has_network_devices: true, ..request(&["p5.48xlarge/a"]) };
    let plan = planned_on(&class(&json!({})), &claiming, &Addresses::default()).unwrap();
    assert_eq!(plan.templates[0].template.interfaces.len(), 32);
}

#[test]
fn what_cannot_be_asked_for_says_why() {
    let error = |class: &Ec2NodeClass, pools: &[&str]| {
        planned_on(class, &request(pools), &Addresses::default()).unwrap_err().to_string()
    };
    let resolved = class(&json!({}));
    let mut unresolved = resolved.clone();
    unresolved.status.as_mut().unwrap().subnets.clear();
    assert_eq!(error(&unresolved, &["m5.large/a"]), "EC2NodeClass `default` has no subnets yet");
    unresolved.status = None;
    assert_eq!(error(&unresolved, &["m5.large/a"]), "EC2NodeClass `default` has no status yet");
    assert_eq!(
        error(&resolved, &["m5.large/c"]),
        "none of the alternatives has a subnet in its zone and an image for its type"
    );
    let long = class(&json!({ "userData": format!("#!/bin/sh\n# {}\n", "x".repeat(16_384)) }));
    assert!(error(&long, &["m5.large/a"]).contains("EC2 takes 16384"));
    let broken = class(&json!({ "userData": "Content-Type: text/plain\n\nx" }));
    assert_eq!(error(&broken, &["m5.large/a"]), "the user data is MIME and not multipart");
}

#[test]
fn a_full_zone_is_left_out() {
    let mut addresses = Addresses::default();
    addresses.tell([("subnet-a".to_owned(), 0), ("subnet-b".to_owned(), 50)]);
    let plan = planned_on(&class(&json!({})), &request(&["m5.large/a", "m5.large/b"]), &addresses).unwrap();
    assert_eq!(shown(&plan), ["ami-amd64: m5.large/us-east-1b/on-demand@subnet-b"]);
    let only = planned_on(&class(&json!({})), &request(&["m5.large/a"]), &addresses).unwrap();
    assert_eq!(shown(&only), ["ami-amd64: m5.large/us-east-1a/on-demand@subnet-a"], "room elsewhere is of no use");
}

#[test]
fn a_zone_that_is_shifted_away_is_not_asked_for() {
    let class = class(&json!({}));
    let shifted = BTreeSet::from(["use1-az1".into()]);
    let planned = |pools: &[&str]| planned_in(&shifted, None, &class, &request(pools), &Addresses::default());
    let plan = planned(&["m5.large/a", "m5.large/b", "m5.xlarge/a"]).unwrap();
    assert_eq!(shown(&plan), ["ami-amd64: m5.large/us-east-1b/on-demand@subnet-b"]);
    // A reservation there would be chosen before what is left.
    let plan = planned(&["m5.large/a/reserved/cr-1", "m5.large/b"]).unwrap();
    assert_eq!(shown(&plan), ["ami-amd64: m5.large/us-east-1b/on-demand@subnet-b"]);
    let error = planned(&["m5.large/a", "m5.xlarge/a"]).unwrap_err();
    assert_eq!(error.to_string(), "traffic is shifted away from the zones of all alternatives");
    let error = CloudError::from(error);
    let refusals: Vec<_> = error.refused().iter().map(|one| &one.refusal).collect();
    assert_eq!(refusals, [&Refusal::ZonalShift, &Refusal::ZonalShift]);
    let addresses = Addresses::default();
    let elsewhere =
        planned_in(&BTreeSet::from(["use1-az9".into()]), None, &class, &request(&["m5.large/a"]), &addresses);
    assert_eq!(shown(&elsewhere.unwrap()), ["ami-amd64: m5.large/us-east-1a/on-demand@subnet-a"]);
}

#[test]
fn an_answer_without_a_subnet_has_that_of_the_override() {
    let plan = planned(&json!({}), &["m5.large/a", "m5.large/b"]);
    let subnet = |instance_type: &str, subnet: Option<&str>, zone: Option<&str>| {
        let had = Had {
            instance_id: "i-1".to_owned(),
            instance_type: instance_type.to_owned(),
            subnet: subnet.map(str::to_owned),
            zone: zone.map(str::to_owned),
            template: None,
        };
        FleetAnswer { had: Some(had), errors: Vec::new() }.subnet(&plan).map(str::to_owned)
    };
    assert_eq!(subnet("m5.large", None, Some("us-east-1b")).as_deref(), Some("subnet-b"));
    assert_eq!(subnet("m5.large", Some("subnet-c"), Some("us-east-1b")).as_deref(), Some("subnet-c"), "as it says");
    assert_eq!(subnet("c5.large", None, Some("us-east-1b")), None, "of an earlier request");
    assert_eq!(FleetAnswer::default().subnet(&plan), None);
}

#[test]
fn an_answer_is_an_instance_or_the_reason_why_there_is_none() {
    let plan = planned(&json!({}), &["m5.large/a", "m5.large/b"]);
    let error = |code: &str, zone: Option<&str>| FleetError {
        code: code.to_owned(),
        message: "words".to_owned(),
        instance_type: Some("m5.large".to_owned()),
        subnet: None,
        zone: zone.map(str::to_owned),
    };
    let had = Had {
        instance_id: "i-1".to_owned(),
        instance_type: "m5.large".to_owned(),
        subnet: Some("subnet-b".to_owned()),
        zone: None,
        template: None,
    };
    let of_a = error("InsufficientInstanceCapacity", Some("us-east-1a"));
    let answer = FleetAnswer { had: Some(had), errors: vec![of_a.clone(), of_a.clone()] };
    let (_, bought, template, refused) = outcome(&plan, &answer).unwrap();
    assert_eq!((bought, template.is_some()), (offering("m5.large/b"), true));
    assert_eq!(refused.len(), 1, "said twice, it is one");
    assert_eq!((&refused[0].offering, &refused[0].refusal), (&offering("m5.large/a"), &Refusal::Capacity));

    let failed = |errors: Vec<FleetError>| {
        let answer = FleetAnswer { had: None, errors };
        let failed = outcome(&plan, &answer).map(drop).unwrap_err();
        assert!(failed.is_outcome);
        failed.error
    };
    assert_eq!(failed(vec![of_a.clone()]).refused().len(), 1);
    // One that names no zone is about all of them.
    assert_eq!(failed(vec![error("VcpuLimitExceeded", None)]).refused().len(), 2);
    assert_eq!(failed(vec![error("AuthFailure.ServiceLinkedRoleCreationNotPermitted", Some("x"))]).refused().len(), 2);
    let mixed = failed(vec![of_a, error("InvalidAMIID.NotFound", None)]);
    assert_eq!(mixed.reason(), "AMINotFound", "what another offering would not mend is said first");
    assert!(matches!(failed(Vec::new()), CloudError::Transient { .. }));
}
