//! An EC2 of its own for each test, and Muster's cloud on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use muster_api::nodeclass::Ec2NodeClassStatus;
use muster_api::{Ec2NodeClass, NodeClassReference, labels};
use muster_aws::discovery::{Found, judge};
use muster_aws::launch::Cluster;
use muster_aws::live::{Connection, Ec2Cloud, Options};
use muster_aws::{AwsFeatureGates, Inventory};
use muster_cloud::{Alternative, CapacityType, Cloud, LaunchRequest, LaunchToken, Offering, Overlaid};
use muster_tests::ec2::{Ec2, REGION};
use muster_tests::world::Shared;
use serde_json::{Value, json};

/// The name that the controller's calls are recorded under.
pub(crate) const CONTROLLER: &str = "controller";

/// An EC2, an operator's clients of it, and a clock that is as far ahead of the machine's as the test says.
pub(crate) struct World {
    pub(crate) ec2: Ec2,
    pub(crate) client: aws_sdk_ec2::Client,
    pub(crate) cloud: Ec2Cloud,
    ahead: Arc<AtomicI64>,
    /// By zone.
    pub(crate) subnets: BTreeMap<String, String>,
}

pub(crate) fn cluster() -> Cluster {
    Cluster {
        name: "shop".to_owned(),
        arn: None,
        region: REGION.to_owned(),
        endpoint: "https://127.0.0.1:6443".to_owned(),
        certificate_authority: "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t".to_owned(),
        kubernetes: "1.35".to_owned(),
        service_cidr: Some("10.100.0.0/16".to_owned()),
        dns: Some("10.100.0.10".to_owned()),
    }
}

impl World {
    /// With the role `nodes`, and the class `default` of AL2023 on every subnet.
    pub(crate) async fn start() -> Self {
        let world = Self::bare().await;
        world.learn(&world.class(json!({}))).await;
        world
    }

    /// Without a class.
    pub(crate) async fn bare() -> Self {
        let ec2 = Shared::ec2().await.unwrap_or_else(|error| panic!("{error}"));
        let operator = ec2.sdk_config("operator");
        let client = aws_sdk_ec2::Client::new(&operator);
        let iam = aws_sdk_iam::Client::new(&operator);
        iam.create_role().role_name("nodes").assume_role_policy_document("{}").send().await.unwrap();
        let found = client.describe_subnets().send().await.unwrap();
        let of = |subnet: &aws_sdk_ec2::types::Subnet| {
            (subnet.availability_zone().unwrap().to_owned(), subnet.subnet_id().unwrap().to_owned())
        };
        let subnets = found.subnets().iter().map(of).collect();
        let ahead = Arc::new(AtomicI64::new(0));
        let cloud = start_cloud(&ec2, &ahead);
        let world = Self { ec2, client, cloud, ahead, subnets };
        // So long after the start that whatever EC2 does not know does not exist.
        world.advance(Duration::from_secs(120));
        world
    }

    /// Another controller, which knows nothing of what the first one did.
    pub(crate) fn another_cloud(&self) -> Ec2Cloud {
        start_cloud(&self.ec2, &self.ahead)
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.ahead.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Timestamp {
        now(&self.ahead)
    }

    /// The class `default`: these fields over those that every test has.
    pub(crate) fn class(&self, fields: Value) -> Ec2NodeClass {
        let subnets: Vec<Value> = self.subnets.values().map(|id| json!({ "id": id })).collect();
        let mut spec = json!({
            "subnetSelectorTerms": subnets,
            "securityGroupSelectorTerms": [{ "name": "default" }],
            "amiSelectorTerms": [{ "alias": "al2023@latest" }],
            "role": "nodes",
        });
        for (field, value) in fields.as_object().unwrap() {
            match value {
                Value::Null => drop(spec.as_object_mut().unwrap().remove(field)),
                value => spec[field] = value.clone(),
            }
        }
        let metadata = json!({ "name": "default", "uid": "11111111-2222-3333-4444-555555555555", "generation": 1 });
        let object = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": metadata, "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    }

    /// What is found for the class, and the status that follows.
    pub(crate) async fn judged(&self, class: &Ec2NodeClass) -> (Found, Ec2NodeClassStatus) {
        let found = self.cloud.look_up(class).await;
        let status = judge(class, &cluster(), &found, AwsFeatureGates::default(), self.now());
        (found, status)
    }

    /// Looks everything up for the class, and lets the cloud launch with it.
    pub(crate) async fn learn(&self, class: &Ec2NodeClass) -> Ec2NodeClass {
        let class = self.learn_with(&self.cloud, class).await;
        let ready = class.status.as_ref().unwrap().conditions.iter().find(|one| one.type_ == "Ready").unwrap();
        assert_eq!(ready.status, "True", "{}", ready.message);
        class
    }

    pub(crate) async fn learn_with(&self, cloud: &Ec2Cloud, class: &Ec2NodeClass) -> Ec2NodeClass {
        let found = cloud.look_up(class).await;
        let status = judge(class, &cluster(), &found, AwsFeatureGates::default(), self.now());
        let class = Ec2NodeClass { status: Some(status), ..class.clone() };
        cloud.learn_class(class.clone(), found.group());
        class
    }

    /// Every fault from here on is the controller's.
    pub(crate) fn calls(&self, action: &str) -> muster_tests::ec2::Record {
        self.ec2.calls().by(CONTROLLER).of(action)
    }

    /// Launches one instance as the first of `pools` that can be had.
    pub(crate) async fn launch(&self, name: &str, pools: &[&str]) -> muster_cloud::Launched {
        self.cloud.launch(&request(name, 1, pools)).await.unwrap_or_else(|error| panic!("{error}"))
    }
}

fn start_cloud(ec2: &Ec2, ahead: &Arc<AtomicI64>) -> Ec2Cloud {
    let connection = Connection::new(&ec2.sdk_config(CONTROLLER)).unwrap();
    let inventory = Inventory::embedded(REGION).unwrap();
    let ahead = Arc::clone(ahead);
    Ec2Cloud::new(connection, cluster(), inventory, Options::default(), Arc::new(move || now(&ahead)))
}

fn now(ahead: &AtomicI64) -> Timestamp {
    let milliseconds = Timestamp::now().as_millisecond() + ahead.load(Ordering::Relaxed);
    Timestamp::from_millisecond(milliseconds).unwrap()
}

/// `m5.large/us-east-1a`, or with the capacity type behind that.
pub(crate) fn offering(pool: &str) -> Offering {
    let mut parts = pool.split('/');
    let mut next = || parts.next().map(str::to_owned);
    Offering {
        instance_type: next().unwrap(),
        zone: next().unwrap(),
        capacity_type: next().map_or(CapacityType::OnDemand, |text| text.parse().unwrap()),
        reservation: next(),
    }
}

/// What a NodeClaim of the pool `default` asks for.
pub(crate) fn request(name: &str, attempt: u32, pools: &[&str]) -> LaunchRequest {
    let alternative = |(index, pool): (usize, &&str)| Alternative {
        offering: offering(pool),
        price: 0.1 + f64::from(u32::try_from(index).unwrap()),
    };
    LaunchRequest {
        token: LaunchToken { claim_uid: format!("uid-{name}"), attempt },
        claim: name.to_owned(),
        pool: Some("default".to_owned()),
        class: NodeClassReference {
            group: labels::AWS_GROUP.to_owned(),
            kind: "EC2NodeClass".to_owned(),
            name: "default".to_owned(),
        },
        alternatives: pools.iter().enumerate().map(alternative).collect(),
        keeps_choice: false,
        labels: BTreeMap::from([(labels::NODEPOOL.to_owned(), "default".to_owned())]),
        taints: vec![Taint {
            key: "team".to_owned(),
            value: Some("web".to_owned()),
            effect: "NoSchedule".to_owned(),
            time_added: None,
        }],
        requests: BTreeMap::new(),
        has_network_devices: false,
        tags: BTreeMap::from([("karpenter.sh/nodeclaim".to_owned(), name.to_owned())]),
        overlaid: Overlaid::default(),
    }
}
