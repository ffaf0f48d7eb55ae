//! An EC2 of its own for each test, and SDK clients for it.

use std::collections::BTreeMap;

use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::config::{BehaviorVersion, Credentials as Keys, Region, SharedHttpClient};
use aws_sdk_ec2::operation::create_fleet::CreateFleetOutput;
use aws_sdk_ec2::types::{
    DefaultTargetCapacityType, FleetLaunchTemplateConfigRequest, FleetLaunchTemplateOverridesRequest,
    FleetLaunchTemplateSpecificationRequest, FleetOnDemandAllocationStrategy, FleetType, InstanceType,
    OnDemandOptionsRequest, RequestLaunchTemplateData, ResourceType, SpotAllocationStrategy, SpotOptionsRequest, Tag,
    TagSpecification, TargetCapacitySpecificationRequest,
};
use muster_tests::ec2::{Credentials, Ec2, REGION};
use muster_tests::world::Shared;

/// A client of the service `$sdk` that signs as `$who`, retries as the SDK does by default, and speaks HTTP only.
macro_rules! client {
    ($sdk:ident, $ec2:expr, $who:expr) => {
        $crate::ec2::sdk::client!($sdk, $ec2, $who, retry: aws_sdk_ec2::config::retry::RetryConfig::standard())
    };
    ($sdk:ident, $ec2:expr, $who:expr, retry: $retry:expr) => {
        $sdk::Client::from_conf(
            $sdk::Config::builder()
                .behavior_version($crate::ec2::sdk::behavior())
                .region($crate::ec2::sdk::region())
                .endpoint_url($ec2.endpoint())
                .credentials_provider($crate::ec2::sdk::keys(&$who))
                .http_client($crate::ec2::sdk::http())
                .retry_config($retry)
                .build(),
        )
    };
}
pub(crate) use client;

pub(crate) fn behavior() -> BehaviorVersion {
    BehaviorVersion::latest()
}

pub(crate) fn region() -> Region {
    Region::new(REGION)
}

/// No TLS: such a client cannot reach AWS by mistake.
pub(crate) fn http() -> SharedHttpClient {
    aws_smithy_http_client::Builder::new().build_http()
}

pub(crate) fn keys(who: &Credentials) -> Keys {
    let Credentials { access_key_id, secret_access_key, session_token, .. } = who;
    Keys::new(access_key_id, secret_access_key, session_token.clone(), None, "muster-tests")
}

/// An EC2 with a launch template, and the controller's client.
pub(crate) struct Fixture {
    pub(crate) ec2: Ec2,
    pub(crate) client: aws_sdk_ec2::Client,
    /// The same identity, no retries.
    pub(crate) once: aws_sdk_ec2::Client,
    /// By zone: `us-east-1a` → `subnet-…`.
    pub(crate) subnets: BTreeMap<String, String>,
}

/// The template that [`Fixture::fleet`] launches from.
pub(crate) const TEMPLATE: &str = "nodes";

impl Fixture {
    pub(crate) async fn start() -> Self {
        let ec2 = Shared::ec2().await.unwrap_or_else(|error| panic!("{error}"));
        let controller = ec2.credentials("controller");
        let client = client!(aws_sdk_ec2, ec2, controller);
        let once = client!(aws_sdk_ec2, ec2, controller, retry: RetryConfig::disabled());
        let found = client.describe_subnets().send().await.unwrap();
        let of = |subnet: &aws_sdk_ec2::types::Subnet| {
            (subnet.availability_zone().unwrap().to_owned(), subnet.subnet_id().unwrap().to_owned())
        };
        let subnets = found.subnets().iter().map(of).collect();
        let fixture = Self { ec2, client, once, subnets };
        fixture.template(TEMPLATE, fixture.image("x86_64").await).await;
        fixture
    }

    /// The image that SSM recommends.
    pub(crate) async fn image(&self, architecture: &str) -> String {
        let ssm = client!(aws_sdk_ssm, self.ec2, self.ec2.credentials("controller"));
        let name = format!(
            "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/{architecture}/standard/recommended/image_id"
        );
        let answer = ssm.get_parameter().name(name).send().await.unwrap();
        answer.parameter().unwrap().value().unwrap().to_owned()
    }

    pub(crate) async fn template(&self, name: &str, image: String) {
        let data = RequestLaunchTemplateData::builder().image_id(image).user_data("aGVsbG8=").build();
        self.template_of(name, data).await;
    }

    pub(crate) async fn template_of(&self, name: &str, data: RequestLaunchTemplateData) {
        self.client
            .create_launch_template()
            .launch_template_name(name)
            .launch_template_data(data)
            .send()
            .await
            .unwrap();
    }

    pub(crate) fn subnet(&self, zone: &str) -> &str {
        &self.subnets[zone]
    }

    /// A fleet of `count` over pools `type/zone`.
    pub(crate) fn fleet(&self, pools: &[&str], count: i32) -> Fleet {
        let pools = pools.iter().map(|pool| {
            let (instance_type, zone) = pool.split_once('/').unwrap();
            (instance_type.to_owned(), self.subnet(zone).to_owned())
        });
        Fleet {
            client: self.client.clone(),
            pools: pools.collect(),
            count,
            spot: None,
            on_demand: FleetOnDemandAllocationStrategy::LowestPrice,
            template: TEMPLATE.to_owned(),
        }
    }

    /// One on-demand instance of a type in a zone.
    pub(crate) async fn launch(&self, pool: &str) -> String {
        let made = self.fleet(&[pool], 1).send().await;
        assert!(made.errors().is_empty(), "{:?}", made.errors());
        made.instances()[0].instance_ids()[0].clone()
    }

    /// What EC2 says of an instance.
    pub(crate) async fn describe(&self, id: &str) -> aws_sdk_ec2::types::Instance {
        let answer = self.client.describe_instances().instance_ids(id).send().await.unwrap();
        answer.reservations()[0].instances()[0].clone()
    }
}

/// What Karpenter sends.
#[derive(Clone)]
pub(crate) struct Fleet {
    pub(crate) client: aws_sdk_ec2::Client,
    pools: Vec<(String, String)>,
    count: i32,
    spot: Option<SpotAllocationStrategy>,
    on_demand: FleetOnDemandAllocationStrategy,
    template: String,
}

impl Fleet {
    pub(crate) fn spot(mut self, strategy: SpotAllocationStrategy) -> Self {
        self.spot = Some(strategy);
        self
    }

    pub(crate) fn prioritized(mut self) -> Self {
        self.on_demand = FleetOnDemandAllocationStrategy::Prioritized;
        self
    }

    pub(crate) fn template(mut self, name: &str) -> Self {
        self.template = name.to_owned();
        self
    }

    pub(crate) fn by(mut self, client: &aws_sdk_ec2::Client) -> Self {
        self.client = client.clone();
        self
    }

    pub(crate) fn request(&self) -> aws_sdk_ec2::operation::create_fleet::builders::CreateFleetFluentBuilder {
        let specification = FleetLaunchTemplateSpecificationRequest::builder()
            .launch_template_name(&self.template)
            .version("$Latest")
            .build();
        let overrides = self.pools.iter().enumerate().map(|(index, (instance_type, subnet))| {
            FleetLaunchTemplateOverridesRequest::builder()
                .instance_type(InstanceType::from(instance_type.as_str()))
                .subnet_id(subnet)
                .priority(f64::from(u32::try_from(index).unwrap()))
                .build()
        });
        let config = FleetLaunchTemplateConfigRequest::builder()
            .launch_template_specification(specification)
            .set_overrides(Some(overrides.collect()))
            .build();
        let default = match self.spot {
            Some(_) => DefaultTargetCapacityType::Spot,
            None => DefaultTargetCapacityType::OnDemand,
        };
        let target = TargetCapacitySpecificationRequest::builder()
            .total_target_capacity(self.count)
            .default_target_capacity_type(default)
            .build();
        let tags = TagSpecification::builder()
            .resource_type(ResourceType::Instance)
            .tags(Tag::builder().key("karpenter.sh/nodepool").value("default").build())
            .build();
        let spot =
            self.spot.clone().map(|strategy| SpotOptionsRequest::builder().allocation_strategy(strategy).build());
        let on_demand = OnDemandOptionsRequest::builder().allocation_strategy(self.on_demand.clone()).build();
        self.client
            .create_fleet()
            .r#type(FleetType::Instant)
            .launch_template_configs(config)
            .target_capacity_specification(target)
            .tag_specifications(tags)
            .set_spot_options(spot)
            .on_demand_options(on_demand)
    }

    pub(crate) async fn send(&self) -> CreateFleetOutput {
        self.request().send().await.unwrap()
    }
}

/// `m5.large us-east-1a ×2` for each pool that gave instances.
pub(crate) fn launched(made: &CreateFleetOutput) -> Vec<String> {
    let line = |set: &aws_sdk_ec2::types::CreateFleetInstance| {
        let overrides = set.launch_template_and_overrides().unwrap().overrides().unwrap();
        let zone = overrides.availability_zone().unwrap();
        format!("{} {zone} x{}", set.instance_type().unwrap(), set.instance_ids().len())
    };
    made.instances().iter().map(line).collect()
}

/// `m5.large us-east-1a: InsufficientInstanceCapacity` for each pool that refused.
pub(crate) fn refused(made: &CreateFleetOutput) -> Vec<String> {
    let line = |error: &aws_sdk_ec2::types::CreateFleetError| {
        let overrides = error.launch_template_and_overrides().unwrap().overrides().unwrap();
        let (instance_type, zone) = (overrides.instance_type().unwrap(), overrides.availability_zone().unwrap());
        format!("{instance_type} {zone}: {}", error.error_code().unwrap())
    };
    made.errors().iter().map(line).collect()
}
